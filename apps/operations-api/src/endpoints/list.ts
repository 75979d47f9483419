/** Lists over HTTP: one definition makes the pages as JSON and the export as CSV. */
import { toTimestamp } from '@hub/domain'
import {
  EXPORT_LIMITS,
  type ExportedList,
  exportList,
  PAGE_PARAMETERS,
  requireRole,
  rolesOf,
} from '@hub/operations'
import { Clock, Duration, Effect, Schema, Stream } from 'effect'
import { fieldsOf, makeInputDecoder } from '../http/input.ts'
import type { OperationServices } from '../layers.ts'
import { type Endpoint, endpoint, refusalsOf, type UseCaseEndpoint } from './endpoint.ts'

type ListEndpoint<Input, Output extends { readonly data: ReadonlyArray<unknown> }, E, R> = UseCaseEndpoint<
  Input,
  Output,
  E,
  R
> &
  Omit<ExportedList<Input, Output, E, R>, 'useCase'> & {
    /** The description of an earlier version says that its export may be JSON. It never was, but the contract only grows. */
    readonly exportsJson?: true
  }

const CSV_TYPE = 'text/csv; charset=utf-8'
/** The answer of an export. It is no JSON. */
export const CsvText = Schema.String
const CSV_ABOUT =
  'A line of headings, and a line for each row. More columns may follow: find them by their headings.'

const { duration, rows } = EXPORT_LIMITS
const EXPORT_ABOUT =
  'All pages of the list with these filters, while the reader reads them. No cell begins a formula of a spreadsheet. ' +
  `After ${rows.toLocaleString('en-GB')} rows or ${Duration.toMinutes(duration)} minutes the file ends with a sentence that says so. ` +
  'A connection that is closed before the end of the answer means: the file is not complete.'

/** `messages.list` becomes `messages.export`, and `usage.charges` becomes `usage.export_charges`. */
const exportName = (operation: string): string =>
  operation.replace(/\.(?:list(?=_|$))?_?(?<rest>\w*)$/u, (_, rest: string) =>
    rest === '' ? '.export' : `.export_${rest}`,
  )

/** Defines the export of a list: the same filters and roles, all pages, as CSV. */
const exportOf = <Input extends object, Output extends { readonly data: ReadonlyArray<unknown> }, E>(
  is: ListEndpoint<Input, Output, E, OperationServices>,
): Endpoint => {
  const { leading, useCase } = is
  const path = `${is.path}.csv` as const
  const fields = fieldsOf(useCase.input as Schema.Codec<unknown, unknown>)
  const input = Schema.Struct(
    Object.fromEntries(Object.entries(fields).filter(([name]) => !PAGE_PARAMETERS.includes(name))),
  ) as Schema.Codec<unknown, unknown>
  const defaults = is.defaults ?? {}
  const decode = makeInputDecoder(input, path, false, defaults)
  return {
    operation: exportName(is.operation),
    method: 'GET',
    path,
    summary: `${is.summary} as CSV`,
    description: EXPORT_ABOUT,
    roles: rolesOf(useCase),
    input,
    output: (is.exportsJson === true ? useCase.output : CsvText) as Schema.Codec<unknown, unknown>,
    defaults,
    refusals: Object.fromEntries(
      Object.entries(refusalsOf(is)).filter(
        ([, { param }]) => param === undefined || !PAGE_PARAMETERS.includes(param),
      ),
    ),
    codes: useCase.counts === undefined ? [] : ['lookup_limit_reached'],
    media: [CSV_TYPE, CSV_ABOUT],
    performs: null,
    handle: Effect.fnUntraced(function* ({ actor }, request) {
      yield* requireRole(actor, useCase)
      const decoded = (yield* decode(request)) as Input
      const list = { useCase, ...(leading === undefined ? {} : { leading }) }
      const text = yield* exportList(actor, list, decoded)
      const services = yield* Effect.context<OperationServices>()
      const today = toTimestamp(yield* Clock.currentTimeMillis).slice(0, 'YYYY-MM-DD'.length)
      const month: unknown = Reflect.get(decoded, 'month')
      const name = `${is.path.slice('/v1/'.length).replaceAll('/', '-')}-${typeof month === 'string' ? month : today}`
      return {
        contentType: CSV_TYPE,
        headers: { 'content-disposition': `attachment; filename="${name}.csv"` },
        body: text.pipe(Stream.encodeText, Stream.provideContext(services)),
      }
    }),
  }
}

/** Defines a list, and its export. */
export const list = <
  Input extends object,
  Output extends { readonly data: ReadonlyArray<unknown> },
  E,
  R extends OperationServices,
>(
  is: ListEndpoint<Input, Output, E, R>,
): readonly [Endpoint, Endpoint] => [endpoint(is), exportOf(is)]
