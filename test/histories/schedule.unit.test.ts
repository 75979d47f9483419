import { describe, expect, it } from 'vitest'
import { FAULT_NAMES, planFaults } from './schedule.ts'

const plain = (seed: number, seconds: number) =>
  planFaults(seed, seconds, FAULT_NAMES).map(({ at, lasts, name }) => ({ at, lasts, name }))

describe('the plan of faults', () => {
  it('is the same for the same seed, and another one for another seed', () => {
    expect(plain(1, 300)).toEqual(plain(1, 300))
    expect(plain(1, 300)).not.toEqual(plain(2, 300))
  })

  it('has one fault at a time, and ends before the load', () => {
    for (let seed = 0; seed < 50; seed++) {
      const faults = plain(seed, 300)
      expect(faults.length).toBeGreaterThan(6)
      faults.forEach(({ at, lasts }, i) => {
        // Ten seconds belong to the fault before.
        expect(at).toBeGreaterThan(i === 0 ? 0 : faults[i - 1]!.at + faults[i - 1]!.lasts + 10)
        expect(at + lasts).toBeLessThan(300)
      })
    }
  })

  it('uses each fault before one comes again, and fails over once', () => {
    const names = plain(3, 3000).map(({ name }) => name)
    expect(new Set(names.slice(0, FAULT_NAMES.length)).size).toBe(FAULT_NAMES.length)
    expect(names.filter((name) => name === 'postgres-failover')).toHaveLength(1)
  })

  it('has no faults if none are given', () => {
    expect(planFaults(1, 300, [])).toEqual([])
  })
})
