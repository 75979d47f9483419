import { assert, describe, it } from '@effect/vitest'
import { Effect } from 'effect'
import { TestClock } from 'effect/testing'
import { ENDPOINTS, makeSimulation } from '../testing/simulation.ts'

describe('a webhook batch whose storage was reported as failed', () => {
  it.effect('is attempted without a restart or another event', () =>
    Effect.gen(function* () {
      const simulation = yield* makeSimulation()
      yield* simulation.start
      yield* TestClock.adjust('1 second')
      simulation.store.crashNextStore = true
      yield* simulation.emit(3)
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
})
