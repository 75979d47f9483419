/** Exports of lists in memory: their columns, their pages, and their end. */
import type { Sql } from '@hub/store'
import { Duration, Effect, Exit, Schema, Stream } from 'effect'
import { assert, describe, it } from 'vitest'
import type { Actor } from './actor.ts'
import { EXPORT_LIMITS, exportColumns, type ExportLimits, exportList } from './export.ts'
import { refused } from './failures.ts'
import { addedField } from './fields.ts'
import { listOf, pageFields } from './pages.ts'
import { defineUseCase } from './use-case.ts'

const VIEWER: Actor = { id: 'https://id.example|vera', name: 'vera', roles: ['viewer'], via: 'api' }

const Row = Schema.Struct({
  id: Schema.String,
  object: Schema.Literal('row'),
  inner: Schema.NullOr(Schema.Struct({ count: Schema.Int, object: Schema.Literal('inner') })),
  tags: Schema.Array(Schema.String),
  facts: Schema.NullOr(Schema.Record(Schema.String, Schema.Json)),
  steps: Schema.Array(Schema.Struct({ at: Schema.Int })),
  added: addedField(Schema.NullOr(Schema.Boolean), null),
})

const rowOf = (id: string): typeof Row.Type => ({
  id,
  object: 'row',
  inner: null,
  tags: [],
  facts: null,
  steps: [],
  added: null,
})

/** A list of `rows` rows, which counts its reads, and cannot read beyond `readable` rows. */
const listIn = (rows: ReadonlyArray<typeof Row.Type>, readable = Number.POSITIVE_INFINITY) => {
  const reads: Array<number> = []
  const useCase = defineUseCase({
    name: 'rows list',
    permission: 'hub.read',
    input: Schema.Struct({ filter: Schema.NullOr(Schema.String), ...pageFields }),
    output: Schema.Struct({ ...listOf(Row).fields, month: Schema.String }),
    audit: null,
    run: ({ cursor, filter, limit }) => {
      const from = Number(cursor ?? 0)
      reads.push(from)
      if (filter !== null) return Effect.fail(refused('filter_invalid', 'There is no such filter.', 'filter'))
      if (from >= readable) return Effect.fail(refused('unreadable', 'The page cannot be read.'))
      const next = from + limit
      return Effect.succeed({
        object: 'list' as const,
        month: '2026-11',
        data: rows.slice(from, next),
        next_cursor: next < rows.length ? String(next) : null,
      })
    },
  })
  return { useCase, reads }
}

const ANY = { filter: null, limit: 1, cursor: 'of no page' }

type Export = ReturnType<typeof exportList<typeof ANY, never, never, never>>

/** A use case that is not recorded needs no database. */
const withoutDatabase = <A, E>(effect: Effect.Effect<A, E, Sql>): Effect.Effect<A, E> =>
  effect as Effect.Effect<A, E>

const textOf = (made: Export) => withoutDatabase(Effect.flatMap(made, Stream.mkString))

const linesOf = async (
  useCase: ReturnType<typeof listIn>['useCase'],
  limits: Partial<ExportLimits> = {},
): Promise<ReadonlyArray<string>> => {
  const made = exportList(VIEWER, { useCase }, ANY, { ...EXPORT_LIMITS, ...limits })
  const text = await Effect.runPromise(textOf(made as unknown as Export))
  assert.isTrue(text.endsWith('\n'))
  return text.slice(0, -1).split('\n')
}

const idsIn = (lines: ReadonlyArray<string>) => lines.slice(1).map((line) => line.split(',')[0])

describe('the columns of an export', () => {
  it('are the fields of a row, also of structs in it, without the names of types', () => {
    assert.deepStrictEqual(
      exportColumns(listIn([]).useCase.output).map(({ name }) => name),
      ['id', 'inner_count', 'tags', 'facts', 'steps', 'added'],
    )
  })

  it('need a list of structs', () => {
    assert.throws(() => exportColumns(Schema.Struct({ data: Schema.Array(Schema.String) })))
    assert.throws(() => exportColumns(Schema.Struct({ object: Schema.String })))
  })

  it('are a line of headings, also without rows', async () => {
    assert.deepStrictEqual(await linesOf(listIn([]).useCase), ['id,inner_count,tags,facts,steps,added'])
  })
})

describe('a row of an export', () => {
  it('has texts that begin no formula, lists with spaces, and JSON', async () => {
    const row = {
      ...rowOf('=1+1'),
      inner: { count: -7, object: 'inner' as const },
      tags: ['a', 'b'],
      facts: { n: 1 },
      steps: [{ at: 1 }],
      added: true,
    }
    const [, line] = await linesOf(listIn([row]).useCase)
    assert.strictEqual(line, `'=1+1,-7,a b,"{""n"":1}","[{""at"":1}]",true`)
  })

  it('begins with the leading fields of the answer', async () => {
    const made = exportList(VIEWER, { useCase: listIn([rowOf('a')]).useCase, leading: ['month'] }, ANY)
    const text = await Effect.runPromise(textOf(made as unknown as Export))
    assert.deepStrictEqual(text.split('\n'), [
      'month,id,inner_count,tags,facts,steps,added',
      '2026-11,a,,,,,',
      '',
    ])
  })
})

describe('an export', () => {
  const rows = ['a', 'b', 'c', 'd', 'e', 'f', 'g'].map(rowOf)

  it('has all pages in the order of the list, and no sentence at its end', async () => {
    const { reads, useCase } = listIn(rows)
    const lines = await linesOf(useCase, { pageRows: 3 })
    assert.deepStrictEqual(idsIn(lines), ['a', 'b', 'c', 'd', 'e', 'f', 'g'])
    assert.deepStrictEqual(reads, [0, 3, 6])
  })

  it('reads a page only when its reader wants it', async () => {
    const { reads, useCase } = listIn(rows)
    const made = exportList(VIEWER, { useCase }, ANY, { ...EXPORT_LIMITS, pageRows: 2 })
    const begin = (texts: number) =>
      withoutDatabase(Effect.flatMap(made, (text) => Stream.mkString(Stream.take(text, texts))))
    // The headings and the first page.
    assert.lengthOf((await Effect.runPromise(begin(2))).split('\n'), 4)
    assert.deepStrictEqual(reads, [0])
    await Effect.runPromise(begin(3))
    assert.deepStrictEqual(reads, [0, 0, 2])
  })

  it('ends at the limit of rows with a sentence, unless that was the last row', async () => {
    const cut = await linesOf(listIn(rows).useCase, { pageRows: 3, rows: 5 })
    assert.deepStrictEqual(idsIn(cut.slice(0, -1)), ['a', 'b', 'c', 'd', 'e'])
    assert.match(cut.at(-1) ?? '', /^"This file ends here, after 5 rows, and the list goes on\. .*"$/u)
    assert.lengthOf(await linesOf(listIn(rows).useCase, { pageRows: 3, rows: 7 }), 8)
  })

  it('ends after its time with a sentence', async () => {
    const cut = await linesOf(listIn(rows).useCase, { pageRows: 3, duration: Duration.zero })
    assert.deepStrictEqual(idsIn(cut.slice(0, -1)), ['a', 'b', 'c'])
    assert.match(cut.at(-1) ?? '', /and 3 rows, and the list goes on/u)
  })

  it('of a list without pages says that there may be more', async () => {
    const useCase = defineUseCase({
      name: 'rows newest',
      permission: 'hub.read',
      input: Schema.Struct({ limit: pageFields.limit }),
      output: Schema.Struct({ data: Schema.Array(Row) }),
      audit: null,
      run: ({ limit }) => Effect.succeed({ data: rows.slice(0, limit) }),
    })
    const lines = async (pageRows: number) => {
      const made = exportList(VIEWER, { useCase }, { limit: 1 }, { ...EXPORT_LIMITS, pageRows })
      return (await Effect.runPromise(textOf(made as unknown as Export))).split('\n')
    }
    assert.match((await lines(5)).at(-2) ?? '', /after 5 rows/u)
    assert.strictEqual((await lines(8)).at(-2), 'g,,,,,')
  })

  it('fails as the list does before its first line, and later if a page cannot be read', async () => {
    const wrong = exportList(VIEWER, { useCase: listIn(rows).useCase }, { ...ANY, filter: 'x' })
    assert.isTrue(Exit.isFailure(await Effect.runPromiseExit(withoutDatabase(wrong))))
    const { useCase } = listIn(rows, 3)
    const text = await Effect.runPromise(
      withoutDatabase(exportList(VIEWER, { useCase }, ANY, { ...EXPORT_LIMITS, pageRows: 3 })),
    )
    assert.isTrue(Exit.isFailure(await Effect.runPromiseExit(withoutDatabase(Stream.mkString(text)))))
  })
})
