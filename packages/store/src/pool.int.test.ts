/** When connections break, statements in progress fail, and do not affect later statements. */
import { assert, describe, it } from '@effect/vitest'
import { type FaultProxy, faultProxy, eventually, freshDatabase } from '@hub/testkit'
import { Deferred, Effect, Fiber, Redacted } from 'effect'
import { afterAll, vi } from 'vitest'
import { makeSql, type Queries, type SqlShape, type StorageError } from './index.ts'

const { drop, url } = await freshDatabase()
afterAll(drop)

/** One connection, so that a statement runs on the connection of the statement before. */
const oneConnection = (to: string, name = 'pool-test') => makeSql(Redacted.make(to), 1, name)

const answers = (sql: SqlShape) =>
  sql.run((q) => q<{ n: number }[]>`SELECT n FROM generate_series(1, 3) AS n`)

const WAYS = ['reset', 'end'] as const

/** Breaks the connection of a statement that sleeps in PostgreSQL. `name`: its application name. */
const breakUnder = Effect.fnUntraced(function* (
  proxy: FaultProxy,
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
      { everyMs: 10 },
    ),
  )
  proxy[how]()
  assert.strictEqual((yield* Fiber.join(broken))._tag, 'StorageUnavailable')
})

describe('a statement', () => {
  it.live('has all of its rows after a statement that failed between its rows', () =>
    Effect.gen(function* () {
      const sql = yield* oneConnection(url)
      yield* answers(sql)
      // The statements are sent together: the second is sent before the first fails at its fourth
      // row.
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
    it.live(`gets a new connection after the last one broke (${how}) during a result`, () =>
      Effect.gen(function* () {
        const proxy = yield* faultProxy(url)
        const name = `pool-test-answer-${how}`
        const sql = yield* oneConnection(proxy.url, name)
        // Some rows are sent before the statement sleeps.
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

describe('a connection that breaks', () => {
  for (const how of WAYS) {
    it.live(`fails only its callers if it breaks (${how}) while it is opened`, () =>
      Effect.gen(function* () {
        const proxy = yield* faultProxy(url)
        const sql = yield* oneConnection(proxy.url)
        proxy.breakAfterFirstPacket(how)
        // Whatever a new connection sends first, only the caller gets the error.
        for (let round = 0; round < 3; round++) {
          assert.strictEqual((yield* Effect.flip(answers(sql)))._tag, 'StorageUnavailable')
        }
      }),
    )
  }

  it.live('fails only its callers if PostgreSQL closes it while the driver queries the types of arrays', () =>
    Effect.gen(function* () {
      const watch = yield* oneConnection(url, 'pool-test-watch')
      const close = watch.run(
        (q) => q`
          SELECT pg_terminate_backend(pid) FROM pg_stat_activity
           WHERE datname = current_database() AND application_name = 'pool-test-types'
             AND query LIKE '%typarray%' AND wait_event_type = 'Lock'`,
      )
      // The statement is prepared now, because nothing can be prepared while the table is locked.
      assert.isEmpty(yield* close)
      const locking = yield* oneConnection(url, 'pool-test-lock')
      const locked = yield* Deferred.make<void>()
      const unlock = Promise.withResolvers<void>()
      const lock = yield* Effect.forkChild(
        locking.transaction(
          async (q) => {
            await q`LOCK TABLE pg_catalog.pg_type`
            Deferred.doneUnsafe(locked, Effect.void)
            await unlock.promise
          },
          { deadline: '1 minute' },
        ),
      )
      yield* Deferred.await(locked)
      const sql = yield* oneConnection(url, 'pool-test-types')
      const failed = yield* Effect.forkChild(Effect.flip(answers(sql)))
      yield* Effect.promise(() => eventually(async () => (await Effect.runPromise(close)).length > 0))
      assert.strictEqual((yield* Fiber.join(failed))._tag, 'StorageUnavailable')
      unlock.resolve()
      yield* Fiber.join(lock)
      assert.lengthOf(yield* answers(sql), 3)
    }),
  )

  it.live('lets other connections finish their work', () =>
    Effect.gen(function* () {
      const sql = yield* makeSql(Redacted.make(url), 2, 'pool-test')
      const begun = yield* Deferred.make<number>()
      const continued = Promise.withResolvers<void>()
      const pidOf = async (q: Queries) => (await q<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`)[0]!.pid
      const unharmed = yield* Effect.forkChild(
        sql.transaction(async (q) => {
          Deferred.doneUnsafe(begun, Effect.succeed(await pidOf(q)))
          await continued.promise
          return pidOf(q)
        }),
      )
      const pid = yield* Deferred.await(begun)
      const ended = yield* Effect.flip(sql.run((q) => q`SELECT pg_terminate_backend(pg_backend_pid())`))
      assert.strictEqual(ended._tag, 'StorageUnavailable')
      assert.lengthOf(yield* answers(sql), 3)
      continued.resolve()
      assert.strictEqual(yield* Fiber.join(unharmed), pid)
    }),
  )

  it.live('lets a transaction with a long deadline continue on another connection', () =>
    Effect.gen(function* () {
      const sql = yield* makeSql(Redacted.make(url), 2, 'pool-test')
      const begun = yield* Deferred.make<void>()
      const continued = Promise.withResolvers<void>()
      const long = yield* Effect.forkChild(
        sql.transaction(
          async (q) => {
            Deferred.doneUnsafe(begun, Effect.void)
            await continued.promise
            return q<{ n: number }[]>`SELECT 1 AS n`
          },
          { deadline: '1 minute' },
        ),
      )
      yield* Deferred.await(begun)
      yield* Effect.flip(sql.run((q) => q`SELECT pg_terminate_backend(pg_backend_pid())`))
      // The ten seconds for statements of a replaced pool are over at once.
      const { setTimeout: later } = globalThis
      const timers = vi
        .spyOn(globalThis, 'setTimeout')
        .mockImplementation(((body: () => void, ms: number, ...rest: []) =>
          later(body, ms === 10_000 ? 0 : ms, ...rest)) as typeof setTimeout)
      // The first statement may still use the connection that is about to close. The next one replaces
      // the pool, and the others come after the ten seconds.
      yield* Effect.retry(answers(sql), { times: 1 }).pipe(
        Effect.repeat({ times: 4 }),
        Effect.ensuring(Effect.sync(() => timers.mockRestore())),
      )
      continued.resolve()
      assert.deepStrictEqual([...(yield* Fiber.join(long))], [{ n: 1 }])
    }),
  )

  it.live('is replaced by a connection that reads and writes arrays', () =>
    Effect.gen(function* () {
      const proxy = yield* faultProxy(url)
      const sql = yield* oneConnection(proxy.url)
      const arrays = sql.run(
        (q) => q<{ all: ReadonlyArray<string> }[]>`SELECT ${['a', 'b']}::text[] || ARRAY['c'] AS all`,
      )
      assert.deepStrictEqual((yield* arrays)[0]?.all, ['a', 'b', 'c'])
      proxy.end()
      // The first statement may still use the connection that is about to close.
      const again = yield* Effect.retry(arrays, { times: 1 })
      assert.deepStrictEqual(again[0]?.all, ['a', 'b', 'c'])
    }),
  )
})

describe('a transaction whose connection breaks', () => {
  for (const how of WAYS) {
    it.live(`fails during a statement (${how}), and the next one gets a connection`, () =>
      Effect.gen(function* () {
        const proxy = yield* faultProxy(url)
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

    it.live(`fails between statements (${how}), whatever its body does then`, () =>
      Effect.gen(function* () {
        const proxy = yield* faultProxy(url)
        const sql = yield* oneConnection(proxy.url)
        for (const rest of ['sends a statement', 'ends', 'fails'] as const) {
          const begun = yield* Deferred.make<void>()
          const continued = Promise.withResolvers<void>()
          let refused: unknown = null
          const broken = yield* Effect.forkChild(
            Effect.flip(
              sql.transaction(async (q) => {
                await q`SELECT 1`
                Deferred.doneUnsafe(begun, Effect.void)
                await continued.promise
                if (rest === 'sends a statement') await q`SELECT 1`.catch((error) => (refused = error))
                if (rest === 'fails') throw new Error('The body failed.')
              }),
            ),
          )
          yield* Deferred.await(begun)
          proxy[how]()
          assert.strictEqual((yield* Fiber.join(broken))._tag, 'StorageUnavailable')
          // The rest of the body must not reach PostgreSQL, and must not end the process.
          continued.resolve()
          const [row] = yield* sql.transaction((q) => q<{ one: number }[]>`SELECT 1 AS one`)
          assert.strictEqual(row?.one, 1, rest)
          if (rest === 'sends a statement') assert.isNotNull(refused)
        }
      }),
    )
  }
})
