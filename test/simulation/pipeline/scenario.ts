/**
 * A run of the whole pipeline: clients → command-api → dispatcher → operator → projector → fan-out →
 * receivers. All processes can fail.
 */
import { owner } from '@hub/command-api/testing'
import { isFinal } from '@hub/domain'
import type { JournalKey } from '@hub/projector'
import { startClients } from '../accepting/clients.ts'
import { startCommandApis } from '../accepting/command-apis.ts'
import { UNRECORDED } from '../accepting/scenario.ts'
import { FINAL_WITHIN_MS, HASH_SECRET, LIFETIMES, startDispatchers } from '../dispatching/dispatchers.ts'
import { InboundTables, sendWords } from '../dispatching/inbound.ts'
import { APPLIED_WITHIN_MS, startProjectors } from '../projecting/projectors.ts'
import { deliveredWithinMs, MINUTES, startFanouts } from '../webhooks/fanouts.ts'
import type { Plan, RunOptions, RunResult } from '../world/run.ts'
import { checkIdle } from '../world/idle.ts'
import { runScenario, type Simulation } from '../world/simulation.ts'

const SERVERS = ['kafka', 'postgres', 'redis', 'operator', 'receiver']
const FAULTS_MS = 30_000
/** Clients repeat what they got no answer to, and the outbox empties. */
const ACCEPTED_WITHIN_MS = 90_000
const JOURNAL: JournalKey = { account: owner.account, mode: owner.mode }

export const runPipeline = (plan: Plan, options: RunOptions = {}): RunResult =>
  runScenario({ servers: SERVERS, expectedErrors: UNRECORDED, run }, plan, options)

const run = (simulation: Simulation): number => {
  const { plan, violations, world } = simulation
  const random = simulation.random('workload')
  // It has a subscription from the beginning, so that all events are published.
  const fanouts = startFanouts(simulation, [owner.account])
  const commandApis = startCommandApis(simulation, LIFETIMES)
  const projectors = startProjectors(simulation, {
    journals: [JOURNAL],
    subscribed: [JOURNAL],
    onMessage: ({ messageId, subject }) => {
      if (subject !== null) commandApis.ledger.projected.add(messageId)
    },
    onRecorded: (events) => {
      for (const { account, body, createdAt, id, mode, sequence, type } of events) {
        fanouts.record({
          type: 'EventRecorded',
          event: id,
          account,
          mode,
          sequence,
          eventType: type,
          createdAt,
          body,
        })
      }
    },
  })
  const { store } = projectors

  const numbers = Array.from({ length: 3 }, (_, i) => `+7900123456${i}`)
  const clients = startClients(simulation, commandApis, {
    count: Math.min(random.between(3, 12), plan.size),
    numbers,
    hashSecret: HASH_SECRET,
    withinMs: FAULTS_MS,
    optOutByStaff: (recipient) => inbound.optOut(recipient, world.now()),
  })
  const inbound = new InboundTables(clients.setOptOut)
  const dispatchers = startDispatchers(simulation, projectors.lookedUp, { inbound })
  sendWords(simulation, dispatchers.operator, { numbers, withinMs: FAULTS_MS })
  world.runFor(FAULTS_MS)
  simulation.endFaults()
  if (!world.runUntilSometimes(clients.isDone, ACCEPTED_WITHIN_MS)) clients.checkProgress()
  const ids = clients.publishedIds()
  if (!world.runUntilSometimes(() => dispatchers.isFinal(ids), FINAL_WITHIN_MS))
    dispatchers.checkProgress(ids)
  dispatchers.settle()
  if (!world.runUntilSometimes(projectors.isDone, APPLIED_WITHIN_MS)) projectors.checkProgress()
  if (!world.runUntilSometimes(fanouts.isDone, deliveredWithinMs(MINUTES))) fanouts.checkProgress()
  checkIdle(simulation, [dispatchers.activity, projectors.activity, fanouts.activity])
  dispatchers.check()
  projectors.check()
  fanouts.check()
  clients.check()

  // ---- the check from end to end

  const types = new Map<string, Array<string>>()
  for (const { body } of store.events(JOURNAL)) {
    const { data, type } = JSON.parse(body) as { type: string; data: { object: { id: string } } }
    types.set(data.object.id, [...(types.get(data.object.id) ?? []), type])
  }
  for (const id of ids) {
    const own = types.get(id) ?? []
    if (own.filter((type) => type === 'message.accepted').length !== 1) {
      violations.add('a message has not exactly one event of its acceptance', `${id}: ${own.join(', ')}`)
    }
    const status = store.tables.messages.get(id)?.status
    if (status === undefined || !isFinal(status) || own.every((type) => type !== `message.${status}`)) {
      violations.add(
        'the journal does not contain a final status',
        `${id} (${status ?? 'unknown'}): ${own.join(', ')}`,
      )
    }
  }
  return clients.sends.length
}
