/** Finds a smaller run with the same violation: fewer faults, then a smaller workload. */
import { nameOf } from './checks.ts'
import type { Plan, RunResult } from './run.ts'

const MAX_RUNS = 300

export const shrink = (failed: RunResult, run: (plan: Plan) => RunResult): RunResult => {
  const names = new Set(failed.violations.map(nameOf))
  let best = failed
  let runs = 0
  /** Keeps the run of a plan if it still violates the same guarantee. */
  const attempt = (plan: Plan): boolean => {
    if (runs >= MAX_RUNS) return false
    runs++
    const result = run(plan)
    if (!result.violations.some((violation) => names.has(nameOf(violation)))) return false
    best = result
    return true
  }

  // All faults from a number on are left out.
  let low = 0
  let high = Math.max(-1, ...failed.faults.keys()) + 1
  while (low < high) {
    const middle = (low + high) >> 1
    if (attempt({ ...best.plan, faults: { ...best.plan.faults, limit: middle } })) high = middle
    else low = middle + 1
  }
  // Then groups of faults, and at last single ones.
  for (let size = 16; size >= 1; size = size >> 1) {
    const numbers = [...best.faults.keys()]
    for (let i = 0; i < numbers.length; i += size) {
      const without = new Set([...best.plan.faults.without, ...numbers.slice(i, i + size)])
      attempt({ ...best.plan, faults: { ...best.plan.faults, without } })
    }
  }
  for (let size = 1; size < best.size; size++) {
    if (attempt({ ...best.plan, size })) break
  }
  return best
}
