/** One run of the simulation. The seed selects the part of the hub. */
import { runAccepting } from './accepting/scenario.ts'
import { runDispatching } from './dispatching/scenario.ts'
import { runWebhooks } from './webhooks/scenario.ts'
import type { Plan, RunOptions, RunResult } from './world/run.ts'

/** Half of the runs are about dispatching, and a quarter each about acceptance and webhooks. */
export const runSeed = (plan: Plan, options: RunOptions = {}): RunResult => {
  switch (plan.seed % 4) {
    case 1:
      return runAccepting(plan, options)
    case 3:
      return runWebhooks(plan, options)
    default:
      return runDispatching(plan, options)
  }
}
