/**
 * A run of the dispatching pipeline: lanes → shards → operator → log and reports, with several
 * dispatcher processes that fail, and the checks of what they did.
 */
import { type MessageAccepted, newId, recipientHash } from '@hub/domain'
import { acceptedRecord, topicNames } from '@hub/kafka'
import { encodePayload } from '@hub/store'
import { randomBytes } from 'node:crypto'
import type { Plan, RunOptions, RunResult } from '../world/run.ts'
import { runScenario, type Simulation } from '../world/simulation.ts'
import { FINAL_WITHIN_MS, HASH_SECRET, LIFETIMES, startDispatchers } from './dispatchers.ts'
import { sendWords } from './inbound.ts'
import { follow, ReadModel } from './read-model.ts'
import { messageKey } from './stores.ts'

/** Faults end after this time at the latest. */
const FAULTS_MS = 40_000
/** An append whose answer was lost may take effect so much later. */
const REPEATED_WITHIN_MS = 12_000
const SERVERS = ['kafka', 'postgres', 'redis', 'operator']

export const runDispatching = (plan: Plan, options: RunOptions = {}): RunResult =>
  runScenario({ servers: SERVERS, run }, plan, options)

const run = (simulation: Simulation): number => {
  const { broker, plan, world } = simulation
  const random = simulation.random('workload')
  const topics = topicNames()
  const projected = new ReadModel(broker, topics)
  follow(simulation, projected)
  const dispatchers = startDispatchers(simulation, projected)

  // ---- the workload: acknowledged sends

  const accounts = Array.from({ length: random.between(1, 3) }, () =>
    newId('acc', world.now(), randomBytes(10)),
  )
  const accepted = new Map<string, MessageAccepted>()
  const numbers = Array.from({ length: random.between(1, 6) }, (_, i) => `+7900123456${i}`)
  const count = Math.min(random.between(3, 24), plan.size)
  const mode = 'live'
  const accept = () => {
    const now = world.now()
    const messageClass = random.pick(['otp', 'service'] as const)
    const to = random.pick(numbers)
    const messageId = newId('msg', now, randomBytes(10))
    const key = messageKey(messageClass, now)
    const fact: MessageAccepted = {
      type: 'MessageAccepted',
      messageId,
      at: now,
      account: random.pick(accounts),
      mode,
      class: messageClass,
      recipient: recipientHash(HASH_SECRET, to),
      template: 'code',
      sender: 'HUB',
      clientRef: null,
      batch: null,
      parts: random.pick([1, 1, 1, 2, 3]),
      price: { amount: '1.00', currency: 'RUB' },
      variables: [],
      expiresAt: now + LIFETIMES.beforeHandover[messageClass],
      sealingKey: key.id,
      sealed: key.encrypt(messageId, encodePayload({ to, text: 'Code 1234', variables: {} })),
      republished: false,
    }
    accepted.set(messageId, fact)
    const append = (republished: boolean) => {
      world.note('command-api', () => `appends ${messageId} (${messageClass})${republished ? ' again' : ''}`)
      broker.append([acceptedRecord(topics, { ...fact, republished })])
    }
    append(false)
    // The relay repeats an append that was not acknowledged; the reconciler publishes again.
    if (random.chance(0.2)) world.after(random.between(0, REPEATED_WITHIN_MS), () => append(false))
    if (random.chance(0.1)) world.after(random.between(5000, 40_000), () => append(true))
  }
  for (let i = 0; i < count; i++) world.after(random.between(0, FAULTS_MS), accept)

  sendWords(simulation, dispatchers.operator, { numbers, withinMs: FAULTS_MS })

  // ---- the run

  world.runFor(FAULTS_MS)
  simulation.endFaults()
  const isDone = () => accepted.size === count && dispatchers.isFinal(accepted.keys())
  if (!world.runUntilSometimes(isDone, FINAL_WITHIN_MS)) dispatchers.checkProgress(accepted.keys())
  dispatchers.check()
  return accepted.size
}
