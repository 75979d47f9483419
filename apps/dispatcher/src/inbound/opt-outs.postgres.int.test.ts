/** Opt-out words in PostgreSQL: order, repetition and concurrent processes. */
import { assert, describe, it } from '@effect/vitest'
import { CommandOptOuts, Sql } from '@hub/store'
import { freshDatabase } from '@hub/testkit'
import { ConfigProvider, Effect, Layer } from 'effect'
import { afterAll, beforeAll } from 'vitest'
import { OptOuts, type RecipientWord } from './opt-outs.port.ts'
import { optOutsPostgres } from './opt-outs.postgres.ts'

let database: Awaited<ReturnType<typeof freshDatabase>>
beforeAll(async () => {
  database = await freshDatabase()
})
afterAll(() => database.drop())

const layer = Layer.unwrap(
  Effect.sync(() =>
    optOutsPostgres.pipe(
      Layer.provideMerge(Sql.layer('opt-outs-int-test')),
      Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ HUB_DATABASE_URL: database.url }))),
    ),
  ),
)

const AT = Date.parse('2026-11-21T12:00:00.000Z')
const recipientOf = (n: number) => n.toString(16).padStart(64, '0')
const word = (n: number, what: 'stop' | 'start', position: number): RecipientWord => ({
  recipient: recipientOf(n),
  word: what,
  keyword: what,
  id: `record-${n}-${position}`,
  position,
  receivedAt: AT + position,
})

const optOut = (n: number) =>
  Effect.flatMap(Sql, (sql) =>
    sql.run(
      (q) => q<{ source: string; created_at: Date }[]>`
        SELECT source, created_at FROM command.opt_outs WHERE recipient = decode(${recipientOf(n)}, 'hex')`,
    ),
  ).pipe(Effect.map(([row]) => row ?? null))

const recordedByOperator = (n: number, at: number) =>
  Effect.flatMap(Sql, (sql) =>
    sql.run(
      (q) => q`
        INSERT INTO command.opt_outs (recipient, source, created_at)
        VALUES (decode(${recipientOf(n)}, 'hex'), 'operator', ${new Date(at)})`,
    ),
  )

describe('opt-outs by words of recipients', () => {
  it.live('are recorded and lifted in the order of the words, in one round and over several', () =>
    Effect.gen(function* () {
      const optOuts = yield* OptOuts
      assert.deepStrictEqual(yield* optOuts.apply([]), [])
      assert.deepStrictEqual(
        yield* optOuts.apply([
          word(1, 'stop', 3),
          word(2, 'start', 4),
          word(1, 'start', 5),
          word(1, 'stop', 6),
        ]),
        ['recorded', 'unchanged', 'lifted', 'recorded'],
      )
      assert.deepInclude(yield* optOut(1), { source: 'inbound', created_at: new Date(AT + 6) })
      assert.deepStrictEqual(yield* optOuts.apply([word(1, 'start', 7)]), ['lifted'])
      assert.isNull(yield* optOut(1))
    }).pipe(Effect.provide(layer)),
  )

  it.live('do not lift an opt-out that hub staff confirmed after the hub received the start word', () =>
    Effect.gen(function* () {
      const optOuts = yield* OptOuts
      const sql = yield* Sql
      yield* optOuts.apply([word(8, 'stop', 1)])
      const confirm = sql.run((q) => CommandOptOuts.insert(q, [recipientOf(8)], 'operator', 'sam'))
      assert.strictEqual(yield* confirm, 0)
      assert.deepStrictEqual(yield* optOuts.apply([word(8, 'start', 2)]), ['unchanged'])
      assert.strictEqual((yield* optOut(8))?.source, 'operator')
      // Only the first opt-out is a change.
      assert.lengthOf(yield* sql.run((q) => CommandOptOuts.readHistory(q, recipientOf(8), 10)), 1)
    }).pipe(Effect.provide(layer)),
  )

  it.live('leave a record of each change, which is never deleted', () =>
    Effect.gen(function* () {
      const optOuts = yield* OptOuts
      yield* optOuts.apply([word(7, 'stop', 1), word(7, 'stop', 2), word(7, 'start', 3), word(7, 'stop', 4)])
      yield* optOuts.apply([word(7, 'stop', 4), word(7, 'start', 5)])
      assert.isNull(yield* optOut(7))
      const sql = yield* Sql
      assert.deepStrictEqual(
        yield* sql.run((q) => CommandOptOuts.readHistory(q, recipientOf(7), 10)),
        (
          [
            ['opted_out', 'stop', 1],
            ['opted_in', 'start', 3],
            ['opted_out', 'stop', 4],
            ['opted_in', 'start', 5],
          ] as const
        ).map(([change, keyword, at]) => ({
          change,
          at: new Date(AT + at),
          source: 'inbound' as const,
          word: keyword,
          actor: null,
        })),
      )
    }).pipe(Effect.provide(layer)),
  )

  it.live('do not return when old words are read again', () =>
    Effect.gen(function* () {
      const optOuts = yield* OptOuts
      const words = [word(3, 'stop', 0), word(3, 'start', 1)]
      yield* optOuts.apply(words)
      assert.deepStrictEqual(yield* optOuts.apply([words[0]!]), ['repeated'])
      assert.deepStrictEqual(yield* optOuts.apply(words), ['repeated', 'repeated'])
      assert.isNull(yield* optOut(3))
    }).pipe(Effect.provide(layer)),
  )

  it.live('recorded by hub staff are lifted only by later words', () =>
    Effect.gen(function* () {
      const optOuts = yield* OptOuts
      yield* recordedByOperator(4, AT + 10)
      assert.deepStrictEqual(yield* optOuts.apply([word(4, 'start', 5)]), ['unchanged'])
      assert.deepStrictEqual(yield* optOuts.apply([word(4, 'start', 20), word(4, 'stop', 21)]), [
        'lifted',
        'recorded',
      ])
      assert.deepInclude(yield* optOut(4), { source: 'inbound' })
    }).pipe(Effect.provide(layer)),
  )

  it.live('follow the newest word when two processes apply the same words at once', () =>
    Effect.gen(function* () {
      const optOuts = yield* OptOuts
      const words = Array.from({ length: 9 }, (_, i) => word(5, i % 2 === 0 ? 'stop' : 'start', i))
      const others = Array.from({ length: 9 }, (_, i) => word(6, i % 2 === 0 ? 'start' : 'stop', i))
      const rounds = Array.from({ length: 6 }, (_, i) =>
        optOuts.apply(i % 2 === 0 ? [...words, ...others] : [...others, ...words]),
      )
      yield* Effect.all(rounds, { concurrency: 'unbounded' })
      assert.isNotNull(yield* optOut(5))
      assert.isNull(yield* optOut(6))
    }).pipe(Effect.provide(layer)),
  )
})
