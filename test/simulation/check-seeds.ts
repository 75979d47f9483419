/** Defines the tests of a range of seeds. Two files share the seeds, so that they run on two cores. */
import { assert, it } from '@effect/vitest'
import { runSeed } from './run-seed.ts'
import { planOf } from './world/run.ts'

const SEEDS_OF_A_TEST = 100

export const checkSeeds = (from: number, to: number): void => {
  for (let first = from; first <= to; first += SEEDS_OF_A_TEST) {
    const last = Math.min(to, first + SEEDS_OF_A_TEST - 1)
    it(`keeps its guarantees with the seeds ${first} to ${last}`, () => {
      for (let seed = first; seed <= last; seed++) {
        assert.deepStrictEqual(runSeed(planOf(seed)).violations, [], `npm run simulate -- --seed ${seed}`)
      }
    })
  }
}
