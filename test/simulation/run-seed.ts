/** One run of the simulation. The seed selects the part of the hub. */
import { runAccepting } from './accepting/scenario.ts'
import { runDispatching } from './dispatching/scenario.ts'
import { runWebhooks } from './webhooks/scenario.ts'
import type { Plan, RunOptions, RunResult } from './world/run.ts'

interface Part {
  /** The folder names of the apps that it runs. */
  readonly apps: ReadonlyArray<string>
  readonly run: (plan: Plan, options: RunOptions) => RunResult
}

const ACCEPTING: Part = { apps: ['command-api'], run: runAccepting }
const DISPATCHING: Part = { apps: ['dispatcher'], run: runDispatching }
const WEBHOOKS: Part = { apps: ['webhook-fanout'], run: runWebhooks }

/** Half of the runs are about dispatching, and a quarter each about acceptance and webhooks. */
const PARTS = [DISPATCHING, ACCEPTING, DISPATCHING, WEBHOOKS]

const partOf = (seed: number): Part => PARTS[seed % PARTS.length]!

export const runSeed = (plan: Plan, options: RunOptions = {}): RunResult =>
  partOf(plan.seed).run(plan, options)

/** Whether the run of a seed contains an app. */
export const runsApp = (seed: number, app: string): boolean => partOf(seed).apps.includes(app)
