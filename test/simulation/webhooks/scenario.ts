/**
 * A run of the webhook pipeline: event journal → `hub.webhooks.v1` → fan-out → receivers, with
 * several fan-out processes that fail, and the checks of what the receivers got. It takes minutes, or
 * hours, in which subscriptions are disabled and enabled.
 */
import { encodeId, eventId } from '@hub/domain'
import type { Plan, RunOptions, RunResult } from '../world/run.ts'
import { checkIdle } from '../world/idle.ts'
import { runScenario, type Simulation } from '../world/simulation.ts'
import { deliveredWithinMs, HOURS, MINUTES, type Pace, SHORT_WINDOWS, startFanouts } from './fanouts.ts'

const SERVERS = ['kafka', 'postgres', 'receiver']
const FAULTS_MS = 40_000
const FAULTS_OF_HOURS_MS = 5 * 3_600_000

export const runWebhooks = (plan: Plan, options: RunOptions = {}): RunResult =>
  runScenario(
    {
      servers: SERVERS,
      run: (simulation) => {
        const pace = simulation.random('pace').chance(0.25) ? SHORT_WINDOWS : MINUTES
        return run(simulation, pace, FAULTS_MS)
      },
    },
    plan,
    options,
  )

export const runWebhooksForHours = (plan: Plan, options: RunOptions = {}): RunResult =>
  runScenario(
    { servers: SERVERS, run: (simulation) => run(simulation, HOURS, FAULTS_OF_HOURS_MS) },
    plan,
    options,
  )

const run = (simulation: Simulation, pace: Pace, faultsMs: number): number => {
  const { plan, world } = simulation
  const random = simulation.random('workload')
  const accounts = Array.from({ length: random.between(1, 2) }, (_, i) =>
    encodeId('acc', `00000001-0000-4000-8000-${String(i + 1).padStart(12, '0')}`),
  )
  const fanouts = startFanouts(simulation, accounts, pace)
  const count = Math.min(random.between(3, 40), plan.size)
  for (let i = 0; i < count; i++) {
    world.after(random.between(0, faultsMs), () => {
      fanouts.emit(random.pick(accounts), eventId(`event ${i}`))
    })
  }

  world.runFor(faultsMs)
  simulation.endFaults()
  const isDone = () => fanouts.events.length === count && fanouts.isDone()
  if (!world.runUntilSometimes(isDone, deliveredWithinMs(pace))) fanouts.checkProgress()
  checkIdle(simulation, [fanouts.activity])
  fanouts.check()
  return count
}
