/** A pool whose connections break: of what was under way nothing is believed, and nothing of it is left in what comes next. */
import { assert, describe, it } from '@effect/vitest'
import { type BlockableProxy, blockableProxy, eventually, freshDatabase } from '@hub/testkit'
import { Deferred, Effect, Fiber, Redacted } from 'effect'
import { afterAll } from 'vitest'
import { makeSql, type Queries, type SqlShape, type StorageError } from './index.ts'

const { drop, url } = await freshDatabase()
afterAll(drop)

/** One connection, so that a statement meets what the last one has left. */
const oneConnection = (to: string, name = 'pool-test') => makeSql(Redacted.make(to), 1, name)

const answers = (sql: SqlShape) =>
  sql.run((q) => q<{ n: number }[]>`SELECT n FROM generate_series(1, 3) AS n`)

const WAYS = ['reset', 'end'] as const

/** Breaks the connection of a statement or transaction that sleeps in PostgreSQL. `name` is its application name. */
const breakUnder = Effect.fnUntraced(function* (
  proxy: BlockableProxy,
  how: (typeof WAYS)[number],
  name: string,
  sleeping: Effect.Effect<unknown, StorageError>,
) {
  const watch = yield* makeSql(Redacted.make(url), 1, 'pool-test-watch')
  const broken = yield* Effect.forkChild(Effect.flip(sleeping))
  yield* Effect.promise(() =>
    eventually(
      async () => {
        const [row] = await Effect.runPromise(
          watch.run(
            (q) => q<{ asleep: number }[]>`
              SELECT count(*)::integer AS asleep FROM pg_stat_activity
               WHERE datname = current_database() AND application_name = ${name} AND wait_event = 'PgSleep'`,
          ),
        )
        return row?.asleep === 1
      },
      { withinMs: 10_000, everyMs: 10 },
    ),
  )
  proxy[how]()
  assert.strictEqual((yield* Fiber.join(broken))._tag, 'StorageUnavailable')
})

describe('a statement', () => {
  it.live('has all of its rows, from the first, behind one that failed among its own', () =>
    Effect.gen(function* () {
      const sql = yield* oneConnection(url)
      yield* answers(sql)
      // Sent together: the second is on its way before the first has failed, at its fourth row.
      const [failed, rows, one] = yield* sql.run((q) =>
        Promise.all([
          q`SELECT 1 / (4 - n) AS row FROM generate_series(1, 10) AS n`.catch(
            (error: { code: string }) => error.code,
          ),
          q<{ n: number }[]>`SELECT n FROM generate_series(1, 3) AS n`,
          q<{ one: number }[]>`SELECT 1 AS one`,
        ]),
      )
      assert.strictEqual(failed, '22012')
      assert.deepStrictEqual([...rows], [{ n: 1 }, { n: 2 }, { n: 3 }])
      assert.deepStrictEqual([...one], [{ one: 1 }])
    }),
  )

  for (const how of WAYS) {
    it.live(
      `is answered on a new connection after the last one broke (${how}) in the middle of an answer`,
      () =>
        Effect.gen(function* () {
          const proxy = yield* blockableProxy(url)
          const name = `pool-test-answer-${how}`
          const sql = yield* oneConnection(proxy.url, name)
          // Rows are on their way by the time at which it sleeps.
          const rows = sql.run(
            (q) =>
              q`SELECT repeat('x', 1000), pg_sleep(CASE n WHEN 100 THEN 60 ELSE 0 END) FROM generate_series(1, 100) AS n`,
            { deadline: '20 seconds' },
          )
          yield* breakUnder(proxy, how, name, rows)
          assert.deepStrictEqual([...(yield* answers(sql))], [{ n: 1 }, { n: 2 }, { n: 3 }])
        }),
    )
  }
})

describe('a connection that breaks while it is made', () => {
  it.live('fails who waits for it, and nothing else', () =>
    Effect.gen(function* () {
      const proxy = yield* blockableProxy(url)
      const sql = yield* oneConnection(proxy.url)
      yield* answers(sql)
      proxy.endAfterFirstPacket()
      proxy.reset()
      // Whatever the first thing is that a new connection asks for: nobody but the caller hears of its failure.
      for (let round = 0; round < 3; round++) {
        assert.strictEqual((yield* Effect.flip(answers(sql)))._tag, 'StorageUnavailable')
      }
    }),
  )

  it.live('leaves the others to end what they are at', () =>
    Effect.gen(function* () {
      const sql = yield* makeSql(Redacted.make(url), 2, 'pool-test')
      const begun = yield* Deferred.make<number>()
      const told = Promise.withResolvers<void>()
      const pidOf = async (q: Queries) => (await q<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`)[0]!.pid
      const unharmed = yield* Effect.forkChild(
        sql.transaction(async (q) => {
          Deferred.doneUnsafe(begun, Effect.succeed(await pidOf(q)))
          await told.promise
          return pidOf(q)
        }),
      )
      const pid = yield* Deferred.await(begun)
      const ended = yield* Effect.flip(sql.run((q) => q`SELECT pg_terminate_backend(pg_backend_pid())`))
      assert.strictEqual(ended._tag, 'StorageUnavailable')
      assert.lengthOf(yield* answers(sql), 3)
      told.resolve()
      assert.strictEqual(yield* Fiber.join(unharmed), pid)
    }),
  )

  it.live('has arrays read and written by whoever comes after it', () =>
    Effect.gen(function* () {
      const proxy = yield* blockableProxy(url)
      const sql = yield* oneConnection(proxy.url)
      const arrays = sql.run(
        (q) => q<{ all: ReadonlyArray<string> }[]>`SELECT ${['a', 'b']}::text[] || ARRAY['c'] AS all`,
      )
      assert.deepStrictEqual((yield* arrays)[0]?.all, ['a', 'b', 'c'])
      proxy.end()
      // The first may still go to the connection that is about to end.
      const again = yield* Effect.retry(arrays, { times: 1 })
      assert.deepStrictEqual(again[0]?.all, ['a', 'b', 'c'])
    }),
  )
})

describe('a transaction whose connection breaks', () => {
  for (const how of WAYS) {
    it.live(`(${how}) under a statement fails, and the next one finds a connection`, () =>
      Effect.gen(function* () {
        const proxy = yield* blockableProxy(url)
        const name = `pool-test-transaction-${how}`
        const sql = yield* oneConnection(proxy.url, name)
        yield* breakUnder(
          proxy,
          how,
          name,
          sql.transaction((q) => q`SELECT pg_sleep(60)`, { deadline: '20 seconds' }),
        )
        const [row] = yield* sql.transaction((q) => q<{ one: number }[]>`SELECT 1 AS one`)
        assert.strictEqual(row?.one, 1)
      }),
    )

    it.live(`(${how}) while it waits for something else fails, whatever it does then`, () =>
      Effect.gen(function* () {
        const proxy = yield* blockableProxy(url)
        const sql = yield* oneConnection(proxy.url)
        for (const rest of ['asks again', 'ends', 'fails'] as const) {
          const begun = yield* Deferred.make<void>()
          const told = Promise.withResolvers<void>()
          let refused: unknown = null
          const broken = yield* Effect.forkChild(
            Effect.flip(
              sql.transaction(async (q) => {
                await q`SELECT 1`
                Deferred.doneUnsafe(begun, Effect.void)
                await told.promise
                if (rest === 'asks again') await q`SELECT 1`.catch((error) => (refused = error))
                if (rest === 'fails') throw new Error('as it is')
              }),
            ),
          )
          yield* Deferred.await(begun)
          proxy[how]()
          assert.strictEqual((yield* Fiber.join(broken))._tag, 'StorageUnavailable')
          // What the body does now goes nowhere: not to PostgreSQL, and not to an end of the process.
          told.resolve()
          const [row] = yield* sql.transaction((q) => q<{ one: number }[]>`SELECT 1 AS one`)
          assert.strictEqual(row?.one, 1, rest)
          if (rest === 'asks again') assert.isNotNull(refused)
        }
      }),
    )
  }
})
