import { assert, describe, it } from '@effect/vitest'
import { Effect } from 'effect'
import { TestClock } from 'effect/testing'
import { ENDPOINTS, makeSimulation } from '../testing/simulation.ts'

/** Three events whose storage succeeds, and is reported as failed. */
const withLostReply = Effect.gen(function* () {
  const simulation = yield* makeSimulation()
  yield* simulation.start
  yield* TestClock.adjust('1 second')
  simulation.store.crashNextStore = true
  yield* simulation.emit(3)
  return simulation
})

describe('a webhook batch whose storage was reported as failed', () => {
  it.effect('is attempted without a restart or another event', () =>
    Effect.gen(function* () {
      const simulation = yield* withLostReply
      yield* TestClock.adjust('30 seconds')
      for (const endpoint of ENDPOINTS) {
        assert.lengthOf(
          simulation.received.filter((one) => one.endpoint === endpoint),
          1,
          endpoint,
        )
      }
    }),
  )

  it.effect('is attempted if more events came before it was stored again', () =>
    Effect.gen(function* () {
      const simulation = yield* withLostReply
      // The store fails, and is repeated with the events that have come by then.
      yield* TestClock.adjust(simulation.settings.batchWindowMs)
      assert.isFalse(simulation.store.crashNextStore)
      yield* simulation.emit(2)
      yield* TestClock.adjust('30 seconds')
      for (const endpoint of ENDPOINTS) {
        const events = simulation.received
          .filter((one) => one.endpoint === endpoint)
          .flatMap(({ body }) =>
            (JSON.parse(body) as ReadonlyArray<{ readonly id: string }>).map(({ id }) => id),
          )
        assert.lengthOf(new Set(events), 5, endpoint)
      }
    }),
  )
})
