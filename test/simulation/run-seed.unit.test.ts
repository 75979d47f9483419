import { assert, describe, it } from '@effect/vitest'
import { runSeed } from './run-seed.ts'
import { planOf } from './world/run.ts'

describe('a run of the simulation', () => {
  it('is the same each time, whatever ran before it', () => {
    for (const seed of [1, 2, 3, 4, 13]) {
      const first = runSeed(planOf(seed))
      runSeed(planOf(seed + 4))
      const second = runSeed(planOf(seed), { keepTimeline: true })
      assert.strictEqual(second.digest, first.digest, `seed ${seed}`)
      assert.deepStrictEqual(second.faults, first.faults, `seed ${seed}`)
      assert.isAbove(second.timeline.length, 20, `seed ${seed}`)
    }
  })

  it('waits for the second request about a send that the first one has settled', () => {
    // A process stands still with this request in it.
    assert.deepStrictEqual(runSeed(planOf(2129)).violations, [])
  })

  it('has one outcome of a submit that arrives twice, also if the operator refuses it', () => {
    assert.deepStrictEqual(runSeed(planOf(6370)).violations, [])
  })

  it('has other tasks and faults with another seed', () => {
    const digests = [2, 4, 6, 8].map((seed) => runSeed(planOf(seed)).digest)
    assert.strictEqual(new Set(digests).size, digests.length)
  })
})
