import { assert, describe, it } from '@effect/vitest'
import { httpStatusOf } from '@hub/contract'
import { Counters, MemoryCounters, memoryCounters } from '@hub/counters'
import { Effect, Fiber, Layer, Result } from 'effect'
import { TestClock } from 'effect/testing'
import { DEFAULT_SETTINGS } from '@hub/domain'
import type { Caller } from '../accounts/account.ts'
import { Accounts } from '../accounts/accounts.ts'
import { Access, type Credentials } from './access.ts'
import { networkFrom } from './client-address.ts'
import { ApiKeys } from './api-keys.ts'
import { makeLoginGate } from './login-gate.ts'

const caller: Caller = { account: 'acc_x', accountUuid: 'x', mode: 'test', key: 'key_x', scopes: null }

/** An `ApiKeys` that knows one key and records each look-up. */
const keysOf = (lookUps: Array<string>) =>
  Layer.succeed(ApiKeys)({
    known: () => Effect.succeed(null),
    identify: (authorization) =>
      Effect.sync(() => {
        lookUps.push(authorization)
        return authorization === 'Bearer good' ? caller : null
      }),
  })
const accounts = Layer.succeed(Accounts)({
  settings: () => Effect.succeed({ ...DEFAULT_SETTINGS, apiRps: 3 }),
  rememberSettings: () => Effect.void,
  template: () => Effect.succeed(null),
  spending: () => Effect.die('not used by these tests'),
})

const accessLayer = (lookUps: Array<string> = []) =>
  Access.layer([Result.getOrThrow(networkFrom('10.0.0.0/8'))]).pipe(
    Layer.provide(Layer.mergeAll(keysOf(lookUps), accounts)),
    Layer.provideMerge(memoryCounters()),
  )

const good: Credentials = {
  authorization: 'Bearer good',
  forwardedFor: undefined,
  socketAddress: '192.0.2.1',
}
const bad: Credentials = { ...good, authorization: 'Bearer bad' }

const login = (credentials: Credentials) =>
  Effect.flatMap(Access, (access) =>
    access.login(credentials).pipe(
      Effect.as('in'),
      Effect.catchTag('ApiError', (error) =>
        Effect.succeed(`${error.code} ${error.retryAfter ?? ''}`.trim()),
      ),
    ),
  )
/** Advances the clock, which the counters in memory use too. */
const advance = (ms: number) => TestClock.adjust(ms)

describe('a login', () => {
  // Rules: AUTH-8
  it.effect('is refused from the 22nd attempt on, before the key look-up, with any key', () => {
    const lookUps: Array<string> = []
    return Effect.gen(function* () {
      for (let i = 0; i < 21; i++) assert.strictEqual(yield* login(bad), 'invalid_api_key')
      const before = lookUps.length
      assert.strictEqual(yield* login(good), 'rate_limited 60')
      assert.strictEqual(yield* login(bad), 'rate_limited 60')
      assert.strictEqual(lookUps.length, before)
      // Another client, and the same client behind a trusted proxy.
      assert.strictEqual(yield* login({ ...good, socketAddress: '192.0.2.2' }), 'in')
      assert.strictEqual(
        yield* login({ ...good, socketAddress: '10.0.0.1', forwardedFor: '192.0.2.1' }),
        'rate_limited 60',
      )
    }).pipe(Effect.provide(accessLayer(lookUps)))
  })

  // Rules: AUTH-9, AUTH-10
  it.effect('is possible again a minute after the failures, whatever the attempts in between', () =>
    Effect.gen(function* () {
      for (let i = 0; i < 21; i++) yield* login(bad)
      for (let i = 0; i < 50; i++) assert.match(yield* login(bad), /^rate_limited/u)
      yield* advance(59_000)
      assert.strictEqual(yield* login(good), 'rate_limited 1')
      yield* advance(1_001)
      assert.strictEqual(yield* login(good), 'in')
      // The window is empty: the gate closes only after the same number of failures.
      for (let i = 0; i < 21; i++) assert.strictEqual(yield* login(bad), 'invalid_api_key')
      assert.match(yield* login(good), /^rate_limited/u)
    }).pipe(Effect.provide(accessLayer())),
  )

  // Rules: AUTH-8, AUTH-9
  it.effect('uses a sliding window: a failure older than a minute allows one more', () =>
    Effect.gen(function* () {
      yield* login(bad)
      yield* advance(30_000)
      for (let i = 0; i < 20; i++) yield* login(bad)
      assert.strictEqual(yield* login(good), 'rate_limited 30')
      yield* advance(30_001)
      assert.strictEqual(yield* login(good), 'in')
      assert.strictEqual(yield* login(bad), 'invalid_api_key')
      assert.match(yield* login(good), /^rate_limited/u)
    }).pipe(Effect.provide(accessLayer())),
  )

  // Rules: AUTH-11
  it.effect('without the header is refused, but not counted', () =>
    Effect.gen(function* () {
      for (let i = 0; i < 30; i++) {
        assert.strictEqual(yield* login({ ...good, authorization: undefined }), 'invalid_api_key')
      }
      assert.strictEqual(yield* login(good), 'in')
    }).pipe(Effect.provide(accessLayer())),
  )

  // Rules: AVL-17
  it.effect('is possible while Redis is unavailable', () =>
    Effect.gen(function* () {
      const memory = yield* MemoryCounters
      for (let i = 0; i < 21; i++) yield* login(bad)
      for (const state of ['refusing', 'hanging'] as const) {
        yield* memory.set(state)
        assert.strictEqual(yield* login(good), 'in')
        assert.strictEqual(yield* login(bad), 'invalid_api_key')
      }
      yield* memory.set('up')
      assert.match(yield* login(good), /^rate_limited/u)
    }).pipe(Effect.provide(accessLayer())),
  )

  it.effect('counts all clients with an unknown address together', () =>
    Effect.gen(function* () {
      const unknown = { ...bad, socketAddress: undefined }
      for (let i = 0; i < 21; i++) yield* login(unknown)
      assert.match(yield* login({ ...good, socketAddress: undefined }), /^rate_limited/u)
      assert.strictEqual(yield* login(good), 'in')
    }).pipe(Effect.provide(accessLayer())),
  )
})

describe('the request rate', () => {
  // Rules: LIM-1
  it.effect('follows the setting of the account, for each key', () =>
    Effect.gen(function* () {
      const access = yield* Access
      const verdicts = yield* Effect.forEach([1, 2, 3, 4], () => access.take(caller))
      assert.deepStrictEqual(
        verdicts.map((verdict) => [verdict?.allowed, verdict?.limit, verdict?.remaining]),
        [
          [true, 3, 2],
          [true, 3, 1],
          [true, 3, 0],
          [false, 3, 0],
        ],
      )
      assert.isTrue((yield* access.take({ ...caller, key: 'key_y' }))?.allowed)
    }).pipe(Effect.provide(accessLayer())),
  )
  // Rules: AVL-17
  it.effect('is not limited while Redis is unavailable', () =>
    Effect.gen(function* () {
      yield* (yield* MemoryCounters).set('refusing')
      assert.isNull(yield* (yield* Access).take(caller))
    }).pipe(Effect.provide(accessLayer())),
  )
})

describe('an attempt that waits for slow key look-ups', () => {
  // Rules: AUTH-15
  it.effect('gets 503 and not 429, because its key may be valid', () =>
    Effect.gen(function* () {
      const [here, elsewhere] = [yield* makeLoginGate, yield* makeLoginGate]
      const attempt = (gate: typeof here, lookUp: Effect.Effect<Caller>) =>
        gate.attempt('192.0.2.1', Effect.succeed(null), lookUp)
      // More than may wait in one process.
      yield* Effect.forEach(Array.from({ length: 600 }), () => Effect.forkChild(attempt(here, Effect.never)))
      yield* advance(1)
      const tooMany = yield* Effect.flip(attempt(here, Effect.succeed(caller)))
      const waiting = yield* Effect.forkChild(Effect.flip(attempt(elsewhere, Effect.succeed(caller))))
      yield* advance(2_100)
      for (const error of [tooMany, yield* Fiber.join(waiting)]) {
        assert.deepStrictEqual(
          [error.code, httpStatusOf(error), error.retryAfter],
          ['internal_error', 503, 2],
        )
      }
    }).pipe(Effect.provide(memoryCounters())),
  )
})

describe('the cache of the login gate', () => {
  /** Counters that count the checks. */
  const counting = (checks: { count: number }) =>
    Layer.effect(
      Counters,
      Effect.map(Counters, (counters) => ({
        ...counters,
        failedLogins: {
          ...counters.failedLogins,
          check: (address: string) =>
            Effect.suspend(() => {
              checks.count++
              return counters.failedLogins.check(address)
            }),
        },
      })),
    ).pipe(Layer.provideMerge(memoryCounters()))

  it.effect('asks once a second for an address without failures, and each time for one with failures', () => {
    const checks = { count: 0 }
    return Effect.gen(function* () {
      const gate = yield* makeLoginGate
      for (let i = 0; i < 10; i++) yield* gate.check('192.0.2.1')
      assert.strictEqual(checks.count, 1)
      yield* advance(1_001)
      yield* gate.check('192.0.2.1')
      assert.strictEqual(checks.count, 2)
      yield* gate.attempt('192.0.2.1', Effect.succeed(null), Effect.succeed(null))
      yield* gate.check('192.0.2.1')
      yield* gate.check('192.0.2.1')
      assert.strictEqual(checks.count, 4)
      yield* advance(60_001)
      for (let i = 0; i < 10; i++) yield* gate.check('192.0.2.1')
      assert.strictEqual(checks.count, 5)
    }).pipe(Effect.provide(counting(checks)))
  })

  it.effect('sees the failures of another process within a second', () =>
    Effect.gen(function* () {
      const [here, other] = [yield* makeLoginGate, yield* makeLoginGate]
      assert.isTrue((yield* here.check('192.0.2.1')).allowed)
      for (let i = 0; i < 21; i++)
        yield* other.attempt('192.0.2.1', Effect.succeed(null), Effect.succeed(null))
      yield* advance(1_001)
      assert.isFalse((yield* here.check('192.0.2.1')).allowed)
    }).pipe(Effect.provide(memoryCounters())),
  )
})
