/** How dispatchers share a rate through Redis. The clock of Redis is the test's, so no time passes. */
import { randomBytes } from 'node:crypto'
import { assert, describe, it } from '@effect/vitest'
import { makeRedisSharedTexts } from '@hub/counters'
import { testRedisUrl } from '@hub/testkit'
import { Effect, Redacted } from 'effect'
import type { Grant, GrantRequest } from './hub-rate.ts'
import { makeRateSharing } from './share-rate.ts'

const request = (over: Partial<GrantRequest> = {}): Omit<GrantRequest, 'member'> => ({
  otp: 0,
  service: 1000,
  nextParts: 1,
  shards: 0.25,
  reaction: 0,
  passed: 0,
  newPassed: 0,
  newThrottled: 0,
  ...over,
})

/** Four dispatchers, each with its own connection to Redis. */
const dispatchers = (configured: number | null) =>
  Effect.gen(function* () {
    let now = 1_700_000_000_000
    const prefix = `t${randomBytes(6).toString('hex')}:`
    const members = yield* Effect.forEach(['a', 'b', 'c', 'd'], (member) =>
      Effect.map(
        makeRedisSharedTexts({
          url: Redacted.make(testRedisUrl()),
          prefix,
          now: () => now,
          deadlineMs: 5000,
        }),
        (shared) => makeRateSharing({ operator: 'smpp', configured, member, shared, now: () => now }),
      ),
    )
    return {
      members,
      pass: (ms: number) => {
        now += ms
      },
      now: () => now,
    }
  })

describe('a rate shared through Redis', () => {
  it.live('is granted once, to dispatchers that ask at the same time', () =>
    Effect.gen(function* () {
      const { members, now, pass } = yield* dispatchers(100)
      const times: Array<number> = []
      const parts = members.map(() => 0)
      for (let round = 0; round < 100; round++) {
        const grants = yield* Effect.forEach(members, (one) => one.request(request()), {
          concurrency: 'unbounded',
        })
        for (const [i, grant] of grants.entries()) {
          if (grant === null) return assert.fail('Redis did not answer')
          parts[i]! += grant.parts
          for (let n = 0; n < grant.parts; n++) times.push(now() + grant.startsInMs + n * grant.everyMs)
        }
        pass(20)
      }
      assert.isTrue(members.every(({ isShared }) => isShared()))
      const ascending = times.toSorted((a, b) => a - b)
      for (const [i, at] of ascending.entries())
        if (i > 0) assert.isAtLeast(at - ascending[i - 1]!, 9.999, 'no two parts share a time')
      assert.isAtLeast(times.length, 190)
      assert.isAtLeast(Math.min(...parts), 20, 'everybody gets some')
    }).pipe(Effect.scoped),
  )

  it.live('is learned by all from the throttled answer of one', () =>
    Effect.gen(function* () {
      const { members, pass } = yield* dispatchers(null)
      const rateOf = (grant: Grant | null) => grant?.rate ?? null
      for (const one of members) assert.isNull(rateOf(yield* one.request(request())))
      pass(1000)
      const throttled = request({ passed: 200, newPassed: 200, newThrottled: 5 })
      yield* members[0]!.request(throttled)
      // Until all members have asked again, each leaves a part of the rate to the others.
      for (const one of members) yield* one.request(request())
      for (const one of members) assert.strictEqual(rateOf(yield* one.request(request())), 194)
    }).pipe(Effect.scoped),
  )
})
