/** How dispatchers share the rate, with and without the shared state. */
import { assert, describe, it } from '@effect/vitest'
import { MemorySharedTexts, memorySharedTexts, SharedTexts } from '@hub/counters'
import { Effect, Layer } from 'effect'
import type { Grant, GrantRequest } from './hub-rate.ts'
import { makeRateSharing } from './share-rate.ts'

const OPERATOR = 'smpp'

const request = (over: Partial<GrantRequest> = {}): Omit<GrantRequest, 'member'> => ({
  otp: 0,
  service: 1000,
  nextParts: 1,
  shards: 0.5,
  reaction: 0,
  passed: 0,
  newPassed: 0,
  newThrottled: 0,
  ...over,
})

/** Dispatchers with one clock, which the test moves together with the clock of the store. */
const dispatchers = (configured: number | null, ...members: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const shared = yield* SharedTexts
    const { advance, setUnreachable } = yield* MemorySharedTexts
    let now = 5_000_000
    return {
      members: members.map((member) =>
        makeRateSharing({ operator: OPERATOR, configured, member, shared, now: () => now }),
      ),
      pass: (ms: number) =>
        Effect.andThen(
          Effect.sync(() => {
            now += ms
          }),
          advance(ms),
        ),
      setUnreachable,
    }
  })

const test = (name: string, body: Effect.Effect<void, never, SharedTexts | MemorySharedTexts>) =>
  it.effect(name, () => body.pipe(Effect.provide(Layer.fresh(memorySharedTexts))))

describe('a shared rate', () => {
  test(
    'is one for all dispatchers, with and without the shared state',
    Effect.gen(function* () {
      const { members, pass, setUnreachable } = yield* dispatchers(100, 'a', 'b')
      const partsIn = (ms: number) =>
        Effect.gen(function* () {
          let parts = 0
          for (let at = 0; at < ms; at += 20) {
            for (const one of members) parts += (yield* one.request(request()))?.parts ?? 0
            yield* pass(20)
          }
          return parts
        })
      assert.approximately(yield* partsIn(10_000), 1000, 40)
      assert.isTrue(members.every(({ isShared }) => isShared()))
      yield* setUnreachable(true)
      // At first, nobody knows whether the others can reach it.
      assert.isNull(yield* members[0]!.request(request()))
      const alone = yield* partsIn(10_000)
      assert.isAtLeast(alone, 900)
      assert.isAtMost(alone, 1040)
      assert.isFalse(members.some(({ isShared }) => isShared()))
      yield* setUnreachable(false)
      assert.approximately(yield* partsIn(10_000), 1000, 40)
      assert.isTrue(members.every(({ isShared }) => isShared()))
    }),
  )

  test(
    'stays below the limit while only some dispatchers reach the shared state, for a short time',
    Effect.gen(function* () {
      const { members, pass, setUnreachable } = yield* dispatchers(100, 'a', 'b')
      const [a, b] = members
      for (let at = 0; at < 1000; at += 20) {
        yield* a!.request(request())
        yield* b!.request(request())
        yield* pass(20)
      }
      let parts = 0
      // `b` does not reach it for two seconds: its half is left to it.
      for (let at = 0; at < 2000; at += 20) {
        parts += (yield* a!.request(request()))?.parts ?? 0
        yield* setUnreachable(true)
        parts += (yield* b!.request(request()))?.parts ?? 0
        yield* setUnreachable(false)
        yield* pass(20)
      }
      assert.isAtMost(parts, 215)
    }),
  )

  test(
    'is not learned again after an outage, nor by a new dispatcher',
    Effect.gen(function* () {
      const { members, pass, setUnreachable } = yield* dispatchers(null, 'a', 'b')
      const [a, b] = members
      const rateOf = (grant: Grant | null) => grant?.rate ?? null
      assert.isNull(rateOf(yield* a!.request(request({ shards: 1 }))))
      yield* pass(1000)
      yield* a!.request(request({ shards: 1, passed: 200, newPassed: 200, newThrottled: 5 }))
      const learned = rateOf(yield* a!.request(request({ shards: 1, reaction: 1 })))
      assert.approximately(learned!, 194, 0.1)
      assert.strictEqual(rateOf(yield* b!.request(request())), learned)
      yield* setUnreachable(true)
      yield* pass(1000)
      assert.approximately(rateOf(yield* b!.request(request({ reaction: 1 })))!, learned! / 2, 0.1)
      yield* setUnreachable(false)
      yield* a!.request(request({ reaction: 1 }))
      assert.strictEqual(rateOf(yield* b!.request(request({ reaction: 1 }))), learned)
    }),
  )

  test(
    'begins anew with a text that this version cannot read',
    Effect.gen(function* () {
      const { members } = yield* dispatchers(50, 'a')
      const { change } = yield* SharedTexts
      yield* Effect.orDie(change(`rate:1:${OPERATOR}`, 1000, () => ({ text: '{"learned":1}', result: null })))
      const grant = yield* members[0]!.request(request({ shards: 1 }))
      assert.strictEqual(grant?.rate, 50)
    }),
  )
})
