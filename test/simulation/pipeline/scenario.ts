/**
 * A run of the whole pipeline: clients → command-api → dispatcher → operator → read model and journal
 * → fan-out → receivers. All processes can fail. The projector is a stand-in.
 */
import { eventsOf, isFinal, type MessageFact, toTimestamp } from '@hub/domain'
import { owner } from '@hub/command-api'
import { topicNames } from '@hub/kafka'
import { startClients } from '../accepting/clients.ts'
import { startCommandApis } from '../accepting/command-apis.ts'
import { UNRECORDED } from '../accepting/scenario.ts'
import { FINAL_WITHIN_MS, HASH_SECRET, LIFETIMES, startDispatchers } from '../dispatching/dispatchers.ts'
import { InboundTables, sendWords } from '../dispatching/inbound.ts'
import { follow, type ProjectedMessage, ReadModel } from '../dispatching/read-model.ts'
import { deliveredWithinMs, MINUTES, startFanouts } from '../webhooks/fanouts.ts'
import type { Plan, RunOptions, RunResult } from '../world/run.ts'
import { runScenario, type Simulation } from '../world/simulation.ts'

const SERVERS = ['kafka', 'postgres', 'redis', 'operator', 'receiver']
const FAULTS_MS = 30_000
/** Clients repeat what they got no answer to, and the outbox empties. */
const ACCEPTED_WITHIN_MS = 90_000

export const runPipeline = (plan: Plan, options: RunOptions = {}): RunResult =>
  runScenario({ servers: SERVERS, expectedErrors: UNRECORDED, run }, plan, options)

const run = (simulation: Simulation): number => {
  const { broker, plan, violations, world } = simulation
  const random = simulation.random('workload')
  const fanouts = startFanouts(simulation, [owner.account])
  const commandApis = startCommandApis(simulation, LIFETIMES)

  // ---- the journal

  /** Changes of a message whose acceptance was not read yet. */
  const early = new Map<string, Array<MessageFact>>()
  const journal = ({ accepted, id }: ProjectedMessage, fact: MessageFact) => {
    if (accepted === null) return void early.set(id, [...(early.get(id) ?? []), fact])
    for (const event of eventsOf(accepted, fact)) {
      const createdAt = toTimestamp(fact.at)
      fanouts.emit({
        account: accepted.account,
        id: event.id,
        eventType: event.type,
        body: (sequence) => JSON.stringify({ ...event, sequence, created_at: createdAt }),
      })
    }
  }
  const projected = new ReadModel(broker, topicNames(), (message, fact, before) => {
    commandApis.ledger.projected.add(message.id)
    const isAcceptance = fact.type === 'MessageAccepted'
    const isChange = isAcceptance
      ? before?.accepted !== true
      : message.state?.status !== (before?.status ?? 'accepted') ||
        message.state.seen !== (before?.seen ?? false)
    if (!isChange) return
    journal(message, fact)
    if (!isAcceptance) return
    for (const one of early.get(message.id) ?? []) journal(message, one)
    early.delete(message.id)
  })
  follow(simulation, projected)

  // ---- the run

  const numbers = Array.from({ length: 3 }, (_, i) => `+7900123456${i}`)
  const clients = startClients(simulation, commandApis, {
    count: Math.min(random.between(3, 12), plan.size),
    numbers,
    hashSecret: HASH_SECRET,
    withinMs: FAULTS_MS,
  })
  const dispatchers = startDispatchers(simulation, projected, {
    inbound: new InboundTables(clients.setOptOut),
  })
  sendWords(simulation, dispatchers.operator, { numbers, withinMs: FAULTS_MS })
  world.runFor(FAULTS_MS)
  simulation.endFaults()
  if (!world.runUntilSometimes(clients.isDone, ACCEPTED_WITHIN_MS)) clients.checkProgress()
  const ids = clients.publishedIds()
  if (!world.runUntilSometimes(() => dispatchers.isFinal(ids), FINAL_WITHIN_MS))
    dispatchers.checkProgress(ids)
  dispatchers.check()
  if (!world.runUntilSometimes(fanouts.isDone, deliveredWithinMs(MINUTES))) fanouts.checkProgress()
  fanouts.check()
  clients.check()

  // ---- the checks from end to end

  const types = new Map<string, Array<string>>()
  for (const { body } of fanouts.events) {
    const { object, type } = JSON.parse(body) as { type: string; object: { id: string } }
    types.set(object.id, [...(types.get(object.id) ?? []), type])
  }
  for (const id of ids) {
    const own = types.get(id) ?? []
    if (own.filter((type) => type === 'message.accepted').length !== 1) {
      violations.add('a message has not exactly one event of its acceptance', `${id}: ${own.join(', ')}`)
    }
    const status = projected.messages.get(id)?.state?.status
    if (status === undefined || !isFinal(status) || own.every((type) => type !== `message.${status}`)) {
      violations.add(
        'the journal does not contain a final status',
        `${id} (${status ?? 'unknown'}): ${own.join(', ')}`,
      )
    }
  }
  return clients.sends.length
}
