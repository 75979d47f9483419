/**
 * A run of the webhook pipeline: event journal → `hub.webhooks.v1` → fan-out → receivers, with
 * several fan-out processes that fail, and the checks of what the receivers got.
 */
import { encodeId, eventId } from '@hub/domain'
import type { Plan, RunOptions, RunResult } from '../world/run.ts'
import { runScenario, type Simulation } from '../world/simulation.ts'
import { DELIVERED_WITHIN_MS, startFanouts } from './fanouts.ts'

const SERVERS = ['kafka', 'postgres', 'receiver']
const FAULTS_MS = 40_000

export const runWebhooks = (plan: Plan, options: RunOptions = {}): RunResult =>
  runScenario({ servers: SERVERS, run }, plan, options)

const run = (simulation: Simulation): number => {
  const { plan, world } = simulation
  const random = simulation.random('workload')
  const accounts = Array.from({ length: random.between(1, 2) }, (_, i) =>
    encodeId('acc', `00000001-0000-4000-8000-${String(i + 1).padStart(12, '0')}`),
  )
  const fanouts = startFanouts(simulation, accounts)
  const count = Math.min(random.between(3, 40), plan.size)
  for (let i = 0; i < count; i++) {
    world.after(random.between(0, FAULTS_MS), () => {
      const id = eventId(`event ${i}`)
      const body = (sequence: number) => JSON.stringify({ id, sequence })
      fanouts.emit({ account: random.pick(accounts), id, eventType: 'message.sent', body })
    })
  }

  world.runFor(FAULTS_MS)
  simulation.endFaults()
  if (
    !world.runUntilSometimes(() => fanouts.events.length === count && fanouts.isDone(), DELIVERED_WITHIN_MS)
  )
    fanouts.checkProgress()
  fanouts.check()
  return count
}
