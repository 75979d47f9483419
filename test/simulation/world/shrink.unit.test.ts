import { assert, describe, it } from '@effect/vitest'
import { planOf, type Plan, type RunResult } from './run.ts'
import { shrink } from './shrink.ts'

/** A run with 40 faults and 20 messages. It fails with faults 7 and 23 and at least three messages. */
const run = (plan: Plan): RunResult => {
  const { faults, size } = plan
  const numbers = Array.from({ length: 40 }, (_, number) => number).filter(
    (number) => number < faults.limit && !faults.without.has(number),
  )
  const messages = Math.min(20, size)
  const fails = numbers.includes(7) && numbers.includes(23) && messages >= 3
  return {
    plan,
    violations: fails ? ['a message is lost: msg'] : numbers.includes(2) ? ['another: msg'] : [],
    faults: new Map(numbers.map((number) => [number, `fault ${number}`])),
    size: messages,
    tasks: 0,
    virtualMs: 0,
    digest: 0,
    timeline: [],
  }
}

describe('shrink', () => {
  it('finds the smallest run with the same violation', () => {
    const smallest = shrink(run(planOf(1)), run)
    assert.deepStrictEqual([...smallest.faults.keys()], [7, 23])
    assert.strictEqual(smallest.size, 3)
    assert.deepStrictEqual(smallest.violations, ['a message is lost: msg'])
  })
})
