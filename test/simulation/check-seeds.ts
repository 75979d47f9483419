/** Defines the test of a range of seeds. Two files share the seeds, so that they run on two cores. */
import { assert, it } from '@effect/vitest'
import { runSeed } from './run-seed.ts'
import { planOf } from './world/run.ts'

/**
 * No seed begins after this time, in which a quiet machine runs most seeds. On a busy machine fewer seeds run, and the
 * test says how many.
 */
const BUDGET_MS = 110_000
/** Fewer would prove little. */
const LEAST_SEEDS = 100

export const checkSeeds = (from: number, to: number): void =>
  it(`keeps its guarantees with the seeds ${from} to ${to}`, () => {
    const began = performance.now()
    const isInTime = () => performance.now() - began < BUDGET_MS
    let seed = from
    for (; seed <= to && (isInTime() || seed < from + LEAST_SEEDS); seed++) {
      assert.deepStrictEqual(runSeed(planOf(seed)).violations, [], `npm run simulate -- --seed ${seed}`)
    }
    const seconds = Math.round((performance.now() - began) / 1000)
    console.log(`simulation: seeds ${from} to ${seed - 1} of ${to} in ${seconds} s`)
  })
