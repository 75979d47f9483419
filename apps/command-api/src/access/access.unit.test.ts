import { assert, describe, it } from '@effect/vitest'
import { Counters, MemoryCounters, memoryCounters } from '@hub/counters'
import { Effect, Layer, Result } from 'effect'
import { TestClock } from 'effect/testing'
import { DEFAULT_SETTINGS } from '@hub/domain'
import type { Caller } from '../accounts/account.ts'
import { Accounts } from '../accounts/accounts.ts'
import { Access, type Credentials } from './access.ts'
import { networkFrom } from './client-address.ts'
import { ApiKeys } from './keys.ts'
import { makeLoginGate } from './login-gate.ts'

const caller: Caller = { account: 'acc_x', accountUuid: 'x', mode: 'test', key: 'key_x' }

/** One key, and a note of every time that a key was looked at. */
const keysOf = (looked: Array<string>) =>
  Layer.succeed(ApiKeys)({
    identify: (authorization) =>
      Effect.sync(() => {
        looked.push(authorization)
        return authorization === 'Bearer good' ? caller : null
      }),
  })
const accounts = Layer.succeed(Accounts)({
  settings: () => Effect.succeed({ ...DEFAULT_SETTINGS, apiRps: 3 }),
  template: () => Effect.succeed(null),
  spending: () => Effect.die('nobody asks'),
})

const accessLayer = (looked: Array<string> = []) =>
  Access.layer([Result.getOrThrow(networkFrom('10.0.0.0/8'))]).pipe(
    Layer.provide(Layer.mergeAll(keysOf(looked), accounts)),
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
/** Moves the clock, which here is the store's as well. */
const pass = (ms: number) => TestClock.adjust(ms)

describe('logging in', () => {
  it.effect('is refused from the 22nd attempt on, whatever the key, before the key is looked at', () => {
    const looked: Array<string> = []
    return Effect.gen(function* () {
      for (let i = 0; i < 21; i++) assert.strictEqual(yield* login(bad), 'invalid_api_key')
      const before = looked.length
      assert.strictEqual(yield* login(good), 'rate_limited 60')
      assert.strictEqual(yield* login(bad), 'rate_limited 60')
      assert.strictEqual(looked.length, before)
      // Somebody else, and the same behind a proxy that is believed.
      assert.strictEqual(yield* login({ ...good, socketAddress: '192.0.2.2' }), 'in')
      assert.strictEqual(
        yield* login({ ...good, socketAddress: '10.0.0.1', forwardedFor: '192.0.2.1' }),
        'rate_limited 60',
      )
    }).pipe(Effect.provide(accessLayer(looked)))
  })

  it.effect('is open again a minute after the failures, however often it was tried meanwhile', () =>
    Effect.gen(function* () {
      for (let i = 0; i < 21; i++) yield* login(bad)
      for (let i = 0; i < 50; i++) assert.match(yield* login(bad), /^rate_limited/u)
      yield* pass(59_000)
      assert.strictEqual(yield* login(good), 'rate_limited 1')
      yield* pass(1_001)
      assert.strictEqual(yield* login(good), 'in')
      // All of it has gone: it takes as many failures again.
      for (let i = 0; i < 21; i++) assert.strictEqual(yield* login(bad), 'invalid_api_key')
      assert.match(yield* login(good), /^rate_limited/u)
    }).pipe(Effect.provide(accessLayer())),
  )

  it.effect('slides: one failure that is a minute old makes room for one', () =>
    Effect.gen(function* () {
      yield* login(bad)
      yield* pass(30_000)
      for (let i = 0; i < 20; i++) yield* login(bad)
      assert.strictEqual(yield* login(good), 'rate_limited 30')
      yield* pass(30_001)
      assert.strictEqual(yield* login(good), 'in')
      assert.strictEqual(yield* login(bad), 'invalid_api_key')
      assert.match(yield* login(good), /^rate_limited/u)
    }).pipe(Effect.provide(accessLayer())),
  )

  it.effect('without the header is refused and not counted', () =>
    Effect.gen(function* () {
      for (let i = 0; i < 30; i++) {
        assert.strictEqual(yield* login({ ...good, authorization: undefined }), 'invalid_api_key')
      }
      assert.strictEqual(yield* login(good), 'in')
    }).pipe(Effect.provide(accessLayer())),
  )

  it.effect('is possible while the counters are away', () =>
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

  it.effect('counts those who cannot be told apart together', () =>
    Effect.gen(function* () {
      const gone = { ...bad, socketAddress: undefined }
      for (let i = 0; i < 21; i++) yield* login(gone)
      assert.match(yield* login({ ...good, socketAddress: undefined }), /^rate_limited/u)
      assert.strictEqual(yield* login(good), 'in')
    }).pipe(Effect.provide(accessLayer())),
  )
})

describe('the request rate', () => {
  it.effect('is that of the account, and told', () =>
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
  it.effect('is nobody’s while the counters are away', () =>
    Effect.gen(function* () {
      yield* (yield* MemoryCounters).set('refusing')
      assert.isNull(yield* (yield* Access).take(caller))
    }).pipe(Effect.provide(accessLayer())),
  )
})

describe('the gate as a process asks it', () => {
  /** Counts how often the store was asked. */
  const counting = (asked: { times: number }) =>
    Layer.effect(
      Counters,
      Effect.map(Counters, (counters) => ({
        ...counters,
        failedLogins: {
          ...counters.failedLogins,
          check: (address: string) =>
            Effect.suspend(() => {
              asked.times++
              return counters.failedLogins.check(address)
            }),
        },
      })),
    ).pipe(Layer.provideMerge(memoryCounters()))

  it.effect('asks once a second about an address without failures, and each time about one with', () => {
    const asked = { times: 0 }
    return Effect.gen(function* () {
      const gate = yield* makeLoginGate
      for (let i = 0; i < 10; i++) yield* gate.check('192.0.2.1')
      assert.strictEqual(asked.times, 1)
      yield* pass(1_001)
      yield* gate.check('192.0.2.1')
      assert.strictEqual(asked.times, 2)
      yield* gate.record('192.0.2.1')
      yield* gate.check('192.0.2.1')
      yield* gate.check('192.0.2.1')
      assert.strictEqual(asked.times, 4)
      yield* pass(60_001)
      for (let i = 0; i < 10; i++) yield* gate.check('192.0.2.1')
      assert.strictEqual(asked.times, 5)
    }).pipe(Effect.provide(counting(asked)))
  })

  it.effect('finds within a second what another process has counted', () =>
    Effect.gen(function* () {
      const [here, there] = [yield* makeLoginGate, yield* makeLoginGate]
      assert.isTrue((yield* here.check('192.0.2.1')).allowed)
      for (let i = 0; i < 21; i++) yield* there.record('192.0.2.1')
      yield* pass(1_001)
      assert.isFalse((yield* here.check('192.0.2.1')).allowed)
    }).pipe(Effect.provide(memoryCounters())),
  )
})
