/** One run of the simulation. The seed selects the part of the hub that runs. */
import { runAccepting } from './accepting/scenario.ts'
import { runDispatching } from './dispatching/scenario.ts'
import { runPipeline } from './pipeline/scenario.ts'
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

const PIPELINE: Part = { apps: ['command-api', 'dispatcher', 'webhook-fanout'], run: runPipeline }

/**
 * Most runs are about one part of the hub: they cost less and have more faults where it matters. One
 * in eight joins them.
 */
const PARTS = [DISPATCHING, ACCEPTING, DISPATCHING, WEBHOOKS, PIPELINE, ACCEPTING, DISPATCHING, WEBHOOKS]

const partOf = (seed: number): Part => PARTS[seed % PARTS.length]!

export const runSeed = (plan: Plan, options: RunOptions = {}): RunResult =>
  partOf(plan.seed).run(plan, options)

/** Whether the run of a seed contains an app. */
export const runsApp = (seed: number, app: string): boolean => partOf(seed).apps.includes(app)
