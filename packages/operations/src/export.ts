/**
 * Exports: a list with its filters as CSV. A page is read when the reader wants it, so an export needs the memory of
 * one page, and ends with its reader. The columns follow from the schema of a row, so each list has the same form.
 */
import type { Sql, StorageError } from '@hub/store'
import { csvLine } from '@hub/text'
import { Clock, type Config, Duration, Effect, Option, Schema, SchemaAST, Stream } from 'effect'
import type { Actor } from './actor.ts'
import type { Forbidden, LookupLimitReached, OperationRefused } from './failures.ts'
import { MAX_PAGE, pageFields } from './pages.ts'
import { perform } from './perform.ts'
import type { UseCase } from './use-case.ts'

/** A column: its heading, and where its value is in a row. */
interface Column {
  readonly name: string
  readonly path: ReadonlyArray<string>
}

/** The fields of a struct, also of one that may be `null`; `null`: it is no struct with known fields. */
const fieldsOf = (ast: SchemaAST.AST): SchemaAST.Objects['propertySignatures'] | null => {
  if (SchemaAST.isUnion(ast)) {
    const [only, ...others] = ast.types.filter((type) => !SchemaAST.isNull(type))
    return only === undefined || others.length > 0 ? null : fieldsOf(only)
  }
  return SchemaAST.isObjects(ast) && ast.indexSignatures.length === 0 ? ast.propertySignatures : null
}

/** `object` names the type of a value, and is the same in each row. */
const TYPE_NAME = 'object'

const columnsOfFields = (
  fields: SchemaAST.Objects['propertySignatures'],
  path: ReadonlyArray<string>,
): ReadonlyArray<Column> =>
  fields.flatMap(({ name, type }) => {
    if (name === TYPE_NAME) return []
    const at = [...path, String(name)]
    const inner = fieldsOf(type)
    return inner === null ? [{ name: at.join('_'), path: at }] : columnsOfFields(inner, at)
  })

/**
 * The columns of the rows of a list. A struct in a row has a column for each of its fields, such as
 * `backlog_batches`. Throws if the output is no list of structs.
 */
export const exportColumns = (output: Schema.Top): ReadonlyArray<Column> => {
  const data = fieldsOf(Schema.toType(output).ast)?.find(({ name }) => name === 'data')?.type
  const row = data !== undefined && SchemaAST.isArrays(data) ? data.rest[0] : undefined
  const fields = row === undefined ? null : fieldsOf(row)
  if (fields === null) throw new Error('an export needs a list of structs')
  return columnsOfFields(fields, [])
}

const valueAt = (value: unknown, path: ReadonlyArray<string>): unknown =>
  path.reduce<unknown>(
    (inner, name) => (typeof inner === 'object' && inner !== null ? Reflect.get(inner, name) : null),
    value,
  )

/** Several texts stand in one cell with spaces between them. What is no text or number is JSON. */
const cellOf = (value: unknown): string | number | boolean | null => {
  if (value === undefined || value === null) return null
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value
  if (Array.isArray(value) && value.every((one) => typeof one === 'string')) return value.join(' ')
  return JSON.stringify(value)
}

/** How much one export has. */
export interface ExportLimits {
  readonly rows: number
  /** Also with a filter that few rows pass. */
  readonly duration: Duration.Duration
  /** Rows of one read: what is in memory. */
  readonly pageRows: number
}

/** A spreadsheet opens 100,000 rows in seconds. They are some ten megabytes. */
export const EXPORT_LIMITS: ExportLimits = {
  rows: 100_000,
  duration: Duration.minutes(10),
  pageRows: MAX_PAGE,
}

/** The last line of an export that its limit ends. A file without it is complete. */
const endSentence = (after: string): string =>
  `This file ends here, after ${after}, and the list goes on. Choose narrower filters, such as a shorter time, and download the list again.`

/** What an export reads of the output of a list. */
interface Listed {
  readonly data: ReadonlyArray<unknown>
  readonly next_cursor?: string | null
}

type ReadFailure<E> =
  | E
  | OperationRefused
  | Forbidden
  | LookupLimitReached
  | StorageError
  | Config.ConfigError

export interface ExportedList<Input, Output extends Listed, E, R> {
  readonly useCase: UseCase<Input, Output, E, R>
  /** Fields of the answer itself that begin each row, such as the month of a report. */
  readonly leading?: ReadonlyArray<string>
}

/** The parameters of pages, which an export decides itself. */
export const PAGE_PARAMETERS: ReadonlyArray<string> = Object.keys(pageFields)

/**
 * Reads the first page of a list, as the actor may, and returns its text with all that follow: a line of headings,
 * and a line for each row. It fails before the first line as the list fails. The stream fails if a later page
 * cannot be read: then the text is not complete. `input`: of the list, with any page.
 */
export const exportList = <Input extends object, Output extends Listed, E, R>(
  actor: Actor,
  { leading = [], useCase }: ExportedList<Input, Output, E, R>,
  input: Input,
  limits: ExportLimits = EXPORT_LIMITS,
): Effect.Effect<Stream.Stream<string, ReadFailure<E>, R | Sql>, ReadFailure<E>, R | Sql> =>
  Effect.gen(function* () {
    const columns = [
      ...leading.map((name) => ({ name, path: null })),
      ...exportColumns(useCase.output as Schema.Top),
    ]
    const takes = (name: string): boolean => name in (Reflect.get(useCase.input, 'fields') ?? {})
    const pageRows = Math.min(limits.pageRows, limits.rows)
    const readPage = (cursor: string | null): Effect.Effect<Output, ReadFailure<E>, R | Sql> =>
      perform(actor, useCase, {
        ...input,
        ...(takes('limit') ? { limit: pageRows } : {}),
        ...(takes('cursor') ? { cursor } : {}),
      })
    const startedAt = yield* Clock.currentTimeMillis
    const first = yield* readPage(null)
    const line = (output: Output, row: unknown): string =>
      csvLine(
        columns.map(({ name, path }) =>
          cellOf(path === null ? Reflect.get(output, name) : valueAt(row, path)),
        ),
      )

    interface Next {
      readonly read: ReturnType<typeof readPage>
      readonly written: number
    }
    const step = ({ read, written }: Next) =>
      Effect.gen(function* () {
        const output = yield* read
        const rows = output.data.slice(0, limits.rows - written)
        const lines = rows.map((row) => line(output, row))
        const all = written + rows.length
        const cursor = output.next_cursor ?? null
        const end = (after: string | null): readonly [ReadonlyArray<string>, Option.Option<Next>] => [
          [...lines, ...(after === null ? [] : [csvLine([endSentence(after)])])],
          Option.none(),
        ]
        // A list without pages that is full may have more.
        const hasMore =
          cursor !== null ||
          rows.length < output.data.length ||
          (!takes('cursor') && takes('limit') && output.data.length >= pageRows)
        if (!hasMore) return end(null)
        if (cursor === null || all >= limits.rows) return end(`${all} rows`)
        const elapsed = (yield* Clock.currentTimeMillis) - startedAt
        if (elapsed >= Duration.toMillis(limits.duration)) {
          return end(`${Duration.toMinutes(limits.duration)} minutes and ${all} rows`)
        }
        return [lines, Option.some<Next>({ read: readPage(cursor), written: all })] as const
      })

    return Stream.concat(
      Stream.make(csvLine(columns.map(({ name }) => name))),
      Stream.paginate<Next, string, ReadFailure<E>, R | Sql>(
        { read: Effect.succeed(first), written: 0 },
        step,
      ),
    ).pipe(Stream.mapArray((lines) => [lines.map((text) => `${text}\n`).join('')]))
  })
