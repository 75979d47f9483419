/** One run of the simulation. The seed selects the part of the hub that runs. */
import { runAccepting } from './accepting/scenario.ts'
import { runDispatching, runDispatchingForDays } from './dispatching/scenario.ts'
import { runPipeline } from './pipeline/scenario.ts'
import { runProjecting } from './projecting/scenario.ts'
import { runWebhooks, runWebhooksForHours } from './webhooks/scenario.ts'
import type { Plan, RunOptions, RunResult } from './world/run.ts'

interface Part {
  /** The folder names of the apps that it runs. */
  readonly apps: ReadonlyArray<string>
  readonly run: (plan: Plan, options: RunOptions) => RunResult
}

const ACCEPTING: Part = { apps: ['command-api'], run: runAccepting }
const DISPATCHING: Part = { apps: ['dispatcher'], run: runDispatching }
const DISPATCH_DAYS: Part = { apps: ['dispatcher'], run: runDispatchingForDays }
const PROJECTING: Part = { apps: ['projector'], run: runProjecting }
const WEBHOOKS: Part = { apps: ['webhook-fanout'], run: runWebhooks }
const WEBHOOK_HOURS: Part = { apps: ['webhook-fanout'], run: runWebhooksForHours }

const PIPELINE: Part = {
  apps: ['command-api', 'dispatcher', 'projector', 'webhook-fanout'],
  run: runPipeline,
}

/**
 * Most runs are about one part of the hub: they cost less and have more faults where it matters. One
 * in eight joins them. One in sixteen takes hours or days of virtual time, and costs much more.
 */
const FIVE = [DISPATCHING, ACCEPTING, DISPATCHING, WEBHOOKS, PIPELINE] as const
const EIGHT = [...FIVE, ACCEPTING, DISPATCHING, WEBHOOKS] as const
const SEVEN = [...FIVE, PROJECTING, PROJECTING] as const
const PARTS = [...EIGHT, ...SEVEN, DISPATCH_DAYS, ...EIGHT, ...SEVEN, WEBHOOK_HOURS]

const partOf = (seed: number): Part => PARTS[seed % PARTS.length]!

export const runSeed = (plan: Plan, options: RunOptions = {}): RunResult =>
  partOf(plan.seed).run(plan, options)

/** Whether the run of a seed contains an app. */
export const runsApp = (seed: number, app: string): boolean => partOf(seed).apps.includes(app)
