import { assert, describe, it } from '@effect/vitest'
import { Effect, Logger } from 'effect'
import { TestClock } from 'effect/testing'
import { StorageUnavailable } from '../sql.ts'
import { keepToken } from './transit-token.ts'

const denied = new StorageUnavailable({ reason: 'failed', detail: 'TRANSIT_DENIED' })

/** Runs `keepToken` on a token with a lifetime. Returns the seconds at which it was renewed, and the warnings. */
const kept = Effect.fnUntraced(function* (
  forSeconds: number,
  token: {
    ttl: number | null
    readonly isRenewable: boolean
    /** The seconds that a renewal gives at this second; `null`: it is refused. */
    readonly renewedTo: (seconds: number) => number | null
  },
) {
  const renewedAt: Array<number> = []
  const warnings: Array<string> = []
  let seconds = 0
  const createdForSeconds = token.ttl
  const state = () => ({ ttlSeconds: token.ttl, isRenewable: token.isRenewable, createdForSeconds })
  yield* Effect.forkScoped(
    Effect.provide(
      keepToken({
        lookUpToken: Effect.sync(state),
        renewToken: Effect.suspend(() => {
          const ttl = token.renewedTo(seconds)
          if (ttl === null) return Effect.fail(denied)
          renewedAt.push(seconds)
          token.ttl = ttl
          return Effect.succeed(state())
        }),
        encrypt: () => Effect.die('not used'),
        decrypt: () => Effect.die('not used'),
        rewrap: () => Effect.die('not used'),
      }),
      Logger.layer([Logger.make(({ message }) => void warnings.push(String(message)))]),
    ),
  )
  for (; seconds < forSeconds; seconds += 10) {
    if (token.ttl !== null) token.ttl -= 10
    yield* TestClock.adjust('10 seconds')
  }
  return { renewedAt, warnings, ttl: token.ttl }
})

describe('a token', () => {
  it.effect('is renewed soon, and then when half of its time is over', () =>
    Effect.gen(function* () {
      const { renewedAt, ttl, warnings } = yield* kept(600, {
        ttl: 100,
        isRenewable: true,
        renewedTo: () => 200,
      })
      assert.deepStrictEqual(renewedAt, [20, 120, 220, 320, 420, 520])
      assert.isAbove(ttl ?? 0, 0)
      assert.deepStrictEqual(warnings, [])
    }).pipe(Effect.scoped),
  )

  it.effect('that never ends is left', () =>
    Effect.gen(function* () {
      const { renewedAt, warnings } = yield* kept(600, {
        ttl: null,
        isRenewable: false,
        renewedTo: () => 1,
      })
      assert.deepStrictEqual([renewedAt, warnings], [[], []])
    }).pipe(Effect.scoped),
  )

  it.effect('that comes to the end of its longest lifetime causes one warning before', () =>
    Effect.gen(function* () {
      const { ttl, warnings } = yield* kept(1800, {
        ttl: 1000,
        isRenewable: true,
        renewedTo: (seconds) => Math.min(1000, 2000 - seconds),
      })
      assert.isAbove(ttl ?? 0, 100)
      assert.lengthOf(warnings, 1)
      assert.match(warnings[0]!, /cannot be renewed; replace it/u)
    }).pipe(Effect.scoped),
  )

  it.effect('that cannot be renewed causes one warning', () =>
    Effect.gen(function* () {
      const { renewedAt, warnings } = yield* kept(600, {
        ttl: 1000,
        isRenewable: false,
        renewedTo: () => 1000,
      })
      assert.deepStrictEqual(renewedAt, [])
      assert.lengthOf(warnings, 1)
      assert.match(warnings[0]!, /cannot be renewed; replace it/u)
    }).pipe(Effect.scoped),
  )

  it.effect('is renewed after failures, with one warning', () =>
    Effect.gen(function* () {
      let failures = 3
      const { renewedAt, warnings } = yield* kept(200, {
        ttl: 1000,
        isRenewable: true,
        renewedTo: () => (failures-- > 0 ? null : 1000),
      })
      assert.deepStrictEqual(renewedAt, [110])
      assert.lengthOf(warnings, 1)
      assert.match(warnings[0]!, /cannot be renewed now/u)
    }).pipe(Effect.scoped),
  )
})
