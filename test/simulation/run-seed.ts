/** One run of the simulation. The seed selects the part of the hub. */
import { runDispatching } from './dispatching/scenario.ts'
import { runWebhooks } from './webhooks/scenario.ts'
import type { Plan, RunOptions, RunResult } from './world/run.ts'

/** Every third run is about webhooks, the others about dispatching. */
export const runSeed = (plan: Plan, options: RunOptions = {}): RunResult =>
  plan.seed % 3 === 0 ? runWebhooks(plan, options) : runDispatching(plan, options)
