/**
 * Connections to PostgreSQL that are dead without a sign are found and replaced, and slow ones are
 * not. The faults are those of a network between the hub and PostgreSQL.
 */
import net from 'node:net'
import tls from 'node:tls'
import { assert, describe, it } from '@effect/vitest'
import {
  eventually,
  faultProxy,
  freshDatabase,
  makeCertificateAuthority,
  movableHost,
  SILENT_FAULTS,
} from '@hub/testkit'
import { Effect, Fiber, Redacted } from 'effect'
import { afterAll } from 'vitest'
import { makeSql, type SqlShape } from './index.ts'

const { drop, url } = await freshDatabase()
afterAll(drop)

const CONNECTIONS = 3
/**
 * The hub recovers within five seconds after new connections would work. The rest of this time is
 * for a busy machine: without the recovery, no time would be enough.
 */
const RECOVERY = { everyMs: 100 } as const

const open = (to: string, name = 'dead-test') => makeSql(Redacted.make(to), CONNECTIONS, name)

const succeeds = (sql: SqlShape) =>
  Effect.runPromise(
    sql
      .run((q) => q`SELECT 1`, { deadline: '1 second' })
      .pipe(
        Effect.as(true),
        Effect.orElseSucceed(() => false),
      ),
  )

/** As many statements at once as there are connections, several times. */
const allSucceed = async (sql: SqlShape) => {
  const results = await Promise.all(Array.from({ length: CONNECTIONS * 3 }, () => succeeds(sql)))
  return results.every(Boolean)
}

const backendPid = (sql: SqlShape) =>
  sql
    .run((q) => q<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`, { deadline: '20 seconds' })
    .pipe(Effect.map(([row]) => row!.pid))

describe('statements succeed again on new connections, after all connections were', () => {
  for (const [name, begin] of SILENT_FAULTS) {
    it.live(name, () =>
      Effect.gen(function* () {
        const proxy = yield* faultProxy(url)
        const sql = yield* open(proxy.url)
        yield* Effect.promise(() => eventually(() => allSucceed(sql), RECOVERY))
        assert.isTrue(yield* sql.answers)
        proxy.hold()
        begin(proxy)
        assert.isFalse(yield* Effect.promise(() => succeeds(sql)))
        // While new connections do not work either, the pool does not claim to work.
        assert.isFalse(yield* sql.answers)
        proxy.release()
        const releasedAt = performance.now()
        yield* Effect.promise(() => eventually(() => allSucceed(sql), RECOVERY))
        yield* Effect.logInfo(`recovered ${Math.round(performance.now() - releasedAt)} ms after: ${name}`)
        assert.isTrue(yield* sql.answers)
      }),
    )
  }

  it.live('terminated by PostgreSQL', () =>
    Effect.gen(function* () {
      const sql = yield* open(url, 'dead-test-terminated')
      const admin = yield* open(url, 'dead-test-admin')
      yield* Effect.promise(() => eventually(() => allSucceed(sql), RECOVERY))
      yield* admin.run(
        (q) =>
          q`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dead-test-terminated'`,
      )
      yield* Effect.promise(() => eventually(() => allSucceed(sql), RECOVERY))
    }),
  )

  it.live('left behind by a failover to another address of the same name', () =>
    Effect.gen(function* () {
      const host = yield* movableHost(url, 'postgresql.test')
      const sql = yield* open(host.url)
      yield* Effect.promise(() => eventually(() => allSucceed(sql), RECOVERY))
      assert.strictEqual(host.second.accepted(), 0)
      host.first.hold()
      host.first.drop('both')
      assert.isFalse(yield* Effect.promise(() => succeeds(sql)))
      host.move()
      yield* Effect.promise(() => eventually(() => allSucceed(sql), RECOVERY))
      assert.isAbove(host.second.accepted(), 0)
    }),
  )

  it.live('connected to a server that has become a standby', () =>
    Effect.gen(function* () {
      const sql = yield* makeSql(Redacted.make(url), 1, 'dead-test')
      // A standby answers a statement that writes in the same way.
      yield* sql.run((q) => q`SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY`)
      const write = sql.run((q) => q`CREATE TABLE IF NOT EXISTS public.dead_test ()`)
      assert.deepInclude(yield* Effect.flip(write), { detail: '25006' })
      yield* Effect.promise(() => eventually(() => Effect.runPromise(Effect.as(write, true)), RECOVERY))
    }),
  )

  it.live('silent, also over TLS', () =>
    Effect.gen(function* () {
      const terminator = yield* tlsTerminator(url)
      const proxy = yield* faultProxy(terminator)
      const sql = yield* open(`${proxy.url}?sslmode=require`)
      yield* Effect.promise(() => eventually(() => allSucceed(sql), RECOVERY))
      proxy.drop('to client')
      assert.isFalse(yield* Effect.promise(() => succeeds(sql)))
      yield* Effect.promise(() => eventually(() => allSucceed(sql), RECOVERY))
      // The certificate of the terminator is not trusted.
      const verifying = yield* open(`${proxy.url}?sslmode=verify-full`)
      assert.isFalse(yield* Effect.promise(() => succeeds(verifying)))
    }),
  )
})

describe('a dead connection', () => {
  for (const [name, begin] of SILENT_FAULTS) {
    it.live(`leaves no locks behind (${name})`, () =>
      Effect.gen(function* () {
        const proxy = yield* faultProxy(url)
        const sql = yield* open(proxy.url)
        const direct = yield* open(url, 'dead-test-direct')
        const lock = 4711 + SILENT_FAULTS.findIndex(([other]) => other === name)
        const locked = Promise.withResolvers<void>()
        const continued = Promise.withResolvers<void>()
        const transaction = yield* Effect.forkChild(
          sql
            .transaction(
              async (q) => {
                await q`SELECT pg_advisory_xact_lock(${lock})`
                locked.resolve()
                await continued.promise
                await q`SELECT 1`
              },
              { deadline: '30 seconds' },
            )
            .pipe(Effect.ignore),
        )
        yield* Effect.promise(() => locked.promise)
        begin(proxy)
        continued.resolve()
        // Less than the time limits of PostgreSQL for idle transactions.
        yield* Effect.promise(() =>
          eventually(
            async () => {
              const [row] = await Effect.runPromise(
                direct.run((q) => q<{ free: boolean }[]>`SELECT pg_try_advisory_lock(${lock}) AS free`),
              )
              return row!.free
            },
            { withinMs: 8000 },
          ),
        )
        yield* Fiber.join(transaction)
      }),
    )
  }
})

describe('a slow connection is not replaced', () => {
  it.live('while PostgreSQL executes a statement on it', () =>
    Effect.gen(function* () {
      const proxy = yield* faultProxy(url)
      const sql = yield* makeSql(Redacted.make(proxy.url), 1, 'dead-test')
      const before = yield* backendPid(sql)
      const missed = yield* Effect.flip(sql.run((q) => q`SELECT pg_sleep(4)`, { deadline: '1500 millis' }))
      assert.strictEqual(missed._tag, 'StorageUnavailable')
      assert.strictEqual(
        yield* sql
          .run((q) => q<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`, { deadline: '20 seconds' })
          .pipe(Effect.map(([row]) => row!.pid)),
        before,
      )
    }),
  )

  it.live('with 60 ms of delay in each direction, also during slow statements', () =>
    Effect.gen(function* () {
      const proxy = yield* faultProxy(url)
      const sql = yield* makeSql(Redacted.make(proxy.url), 1, 'dead-test')
      const before = yield* backendPid(sql)
      proxy.delay(60)
      for (let round = 0; round < 3; round++) {
        yield* sql.run((q) => q`SELECT pg_sleep(1.1), repeat('x', 100000) FROM generate_series(1, 2)`, {
          deadline: '20 seconds',
        })
        yield* sql.transaction((q) => q`SELECT 1`, { deadline: '20 seconds' })
      }
      assert.strictEqual(yield* backendPid(sql), before)
    }),
  )
})

/** A server that ends TLS in front of PostgreSQL, whose test server has no certificate. */
const tlsTerminator = (to: string) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        const { cert, key } = await (await makeCertificateAuthority()).issue(['127.0.0.1'])
        const target = new URL(to)
        const server = net.createServer((client) => {
          client.on('error', () => {})
          client.once('data', () => {
            client.write('S')
            const secured = new tls.TLSSocket(client, { isServer: true, cert, key })
            const upstream = net.connect(Number(target.port), target.hostname)
            secured.on('error', () => upstream.destroy())
            upstream.on('error', () => secured.destroy())
            secured.pipe(upstream).pipe(secured)
          })
        })
        await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
        return server
      }),
      (server) => Effect.sync(() => server.close()),
    ),
    (server) =>
      Object.assign(new URL(to), {
        hostname: '127.0.0.1',
        port: String((server.address() as net.AddressInfo).port),
      }).toString(),
  )
