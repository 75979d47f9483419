import { assert, describe, it } from '@effect/vitest'
import { runSeed } from './run-seed.ts'
import { planOf } from './world/run.ts'

/** The first seeds of each run of the tests. `npm run simulate` runs more. */
const SEEDS = 60

describe('the simulated hub', () => {
  it('keeps its guarantees under faults', () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const { violations } = runSeed(planOf(seed))
      assert.deepStrictEqual(violations, [], `npm run simulate -- --seed ${seed}`)
    }
  })

  it('does the same in each run of a seed', () => {
    for (const seed of [3, 4]) {
      const first = runSeed(planOf(seed))
      runSeed(planOf(seed + 1))
      const second = runSeed(planOf(seed), { keepTimeline: true })
      assert.strictEqual(second.digest, first.digest)
      assert.deepStrictEqual(second.faults, first.faults)
    }
  })
})
