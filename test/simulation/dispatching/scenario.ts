/**
 * A run of the dispatching pipeline: lanes → shards → operator → log and reports, with several
 * dispatcher processes that fail, and the checks of what they did.
 */
import { DEFAULT_LIFETIMES, type Lifetimes, type MessageAccepted, newId, recipientHash } from '@hub/domain'
import { acceptedRecord, topicNames } from '@hub/kafka'
import { encodePayload } from '@hub/store'
import { randomBytes } from 'node:crypto'
import type { Plan, RunOptions, RunResult } from '../world/run.ts'
import { checkIdle } from '../world/idle.ts'
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

const MINUTE = 60_000
const HOUR = 60 * MINUTE

export const runDispatching = (plan: Plan, options: RunOptions = {}): RunResult =>
  runScenario({ servers: SERVERS, run }, plan, options)

/** With the lifetimes of production, and without dispatchers for minutes, hours or days. */
export const runDispatchingForDays = (plan: Plan, options: RunOptions = {}): RunResult =>
  runScenario({ servers: SERVERS, run: runForDays }, plan, options)

const run = (simulation: Simulation): number => {
  const { accept, dispatchers, hasAppended, numbers, random, world } = startDispatching(simulation, LIFETIMES)
  const { plan } = simulation
  const count = Math.min(random.between(3, 24), plan.size)
  const accepted = new Set<string>()
  for (let i = 0; i < count; i++) world.after(random.between(0, FAULTS_MS), () => accepted.add(accept()))
  sendWords(simulation, dispatchers.operator, { numbers, withinMs: FAULTS_MS })

  world.runFor(FAULTS_MS)
  simulation.endFaults()
  const isDone = () => accepted.size === count && hasAppended() && dispatchers.isFinal(accepted)
  if (!world.runUntilSometimes(isDone, FINAL_WITHIN_MS)) dispatchers.checkProgress(accepted)
  dispatchers.settle()
  checkIdle(simulation, [dispatchers.activity])
  dispatchers.check()
  return accepted.size
}

const runForDays = (simulation: Simulation): number => {
  const { accept, dispatchers, numbers, random, world } = startDispatching(simulation, DEFAULT_LIFETIMES, [
    // A third of the late reports come after the longest report deadline.
    24 * HOUR,
    30 * HOUR,
  ])
  const { plan } = simulation
  const accepted = new Set<string>()
  const acceptSome = (withinMs: number) => {
    const count = Math.min(random.between(2, 12), plan.size)
    for (let i = 0; i < count; i++) world.after(random.between(0, withinMs), () => accepted.add(accept()))
  }
  acceptSome(FAULTS_MS)
  sendWords(simulation, dispatchers.operator, { numbers, withinMs: FAULTS_MS })
  world.runFor(FAULTS_MS)

  // An outage. Messages are accepted meanwhile, and their payload keys may be destroyed.
  const outageMs = random.pick([5 * MINUTE, 50 * MINUTE, 5 * HOUR, 25 * HOUR, 60 * HOUR])
  dispatchers.processes.stopFor(outageMs)
  acceptSome(outageMs)
  world.runFor(outageMs)
  acceptSome(FAULTS_MS)
  world.runFor(FAULTS_MS)
  simulation.endFaults()
  // What is open now waits for its report, or for its deadline.
  world.runFor(FINAL_WITHIN_MS)

  dispatchers.processes.stopFor(DEFAULT_LIFETIMES.report.service)
  world.runFor(DEFAULT_LIFETIMES.report.service)
  if (!world.runUntilSometimes(() => dispatchers.isFinal(accepted), FINAL_WITHIN_MS))
    dispatchers.checkProgress(accepted)
  dispatchers.processes.stopFor(6 * HOUR)
  world.runFor(6 * HOUR)
  dispatchers.settle(MINUTE)
  checkIdle(simulation, [dispatchers.activity])
  dispatchers.check()
  return accepted.size
}

const startDispatching = (
  simulation: Simulation,
  lifetimes: Lifetimes,
  lateReportsMs?: readonly [number, number],
) => {
  const { broker, world } = simulation
  const random = simulation.random('workload')
  const topics = topicNames()
  const projected = new ReadModel(broker, topics)
  follow(simulation, projected)
  const dispatchers = startDispatchers(simulation, projected, {
    lifetimes,
    ...(lateReportsMs === undefined ? {} : { lateReportsMs }),
  })

  // ---- the workload: acknowledged sends

  const accounts = Array.from({ length: random.between(1, 3) }, () =>
    newId('acc', world.now(), randomBytes(10)),
  )
  const numbers = Array.from({ length: random.between(1, 6) }, (_, i) => `+7900123456${i}`)
  const mode = 'live'
  const repeated = random.pick([0.2, 0.6])
  let appends = 0
  /** Returns the id of the message. */
  const accept = (): string => {
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
      expiresAt: now + lifetimes.beforeSubmit[messageClass],
      payloadKey: key.id,
      ciphertext: key.encrypt(messageId, encodePayload({ to, text: 'Code 1234', variables: {} })),
      republished: false,
    }
    const append = (republished: boolean) => {
      world.note('command-api', () => `appends ${messageId} (${messageClass})${republished ? ' again' : ''}`)
      broker.append([acceptedRecord(topics, { ...fact, republished })])
    }
    const appendLater = (ms: number, republished: boolean) => {
      appends++
      world.after(ms, () => {
        appends--
        append(republished)
      })
    }
    append(false)
    // The relay repeats an append that was not acknowledged; the reconciler publishes again.
    if (random.chance(repeated)) appendLater(random.between(0, REPEATED_WITHIN_MS), false)
    if (random.chance(0.1)) appendLater(random.between(5000, 40_000), true)
    return messageId
  }
  return { accept, dispatchers, hasAppended: () => appends === 0, numbers, random, world }
}
