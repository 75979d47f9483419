/**
 * A run of the dispatching pipeline: lanes → shards → operator → log and reports, with several
 * dispatcher processes that fail, and the checks of what they did.
 */
import { makeDispatcher } from '@hub/dispatcher'
import {
  DEFAULT_START_WORDS,
  DEFAULT_STOP_WORDS,
  type Lifetimes,
  type MessageAccepted,
  newId,
  optOutVocabulary,
  recipientHash,
} from '@hub/domain'
import { acceptedRecord, simulatedKafka, topicNames } from '@hub/kafka'
import { encodePayload } from '@hub/store'
import { Context, Effect, Redacted } from 'effect'
import { randomBytes } from 'node:crypto'
import { runMain } from '../world/main-fiber.ts'
import { ProcessFaults } from '../world/process-faults.ts'
import type { Plan, RunOptions, RunResult } from '../world/run.ts'
import { runScenario, type Simulation } from '../world/simulation.ts'
import { OperatorServer } from './operator-server.ts'
import { ReadModel } from './read-model.ts'
import { dispatcherStores, messageKey, sharedTexts } from './stores.ts'

const HASH_SECRET = 'a secret of the simulation, long enough for it'
const SECOND = 1000
/** Short, so that deadlines pass within a run. */
const LIFETIMES: Lifetimes = {
  beforeHandover: { otp: 20 * SECOND, service: 45 * SECOND },
  report: { otp: 15 * SECOND, service: 30 * SECOND },
  sandbox: 10 * SECOND,
}
/** Faults end after this time at the latest. */
const FAULTS_MS = 40 * SECOND
/**
 * All messages must be final this long after the faults: sessions, recovery, the longest lifetime,
 * the longest report deadline, and the time for a lookup.
 */
const QUIESCE_MS = 150 * SECOND
/** Nothing more may be recorded in this time after all messages are final. */
const IDLE_MS = 20 * SECOND
const SERVERS = ['kafka', 'postgres', 'redis', 'operator']

export const runDispatching = (plan: Plan, options: RunOptions = {}): RunResult =>
  runScenario({ servers: SERVERS, run }, plan, options)

const run = (simulation: Simulation): number => {
  const { broker, network, plan, violations, world } = simulation
  const random = simulation.random('workload')
  const projection = simulation.random('projection')
  const topics = topicNames()
  const accepted = new Map<string, MessageAccepted>()
  /** What a reader of lanes and log knows without any delay. */
  const truth = new ReadModel(broker, topics, (message, fact, before) => {
    world.note('log', () => `${message.id}: ${fact.type}, now ${message.state?.status ?? ''}`)
    if (before?.final === true && message.state !== null && message.state.status !== before.status) {
      if (before.reason !== 'dlr_timeout_local') {
        violations.add('a final status changes', `${message.id}: ${before.status} to ${message.state.status}`)
      }
    }
  })
  const projected = new ReadModel(broker, topics)
  const texts = sharedTexts()

  const operator = new OperatorServer(world, network, {
    onWrite: ({ reference }, by) => {
      truth.advance(Number.POSITIVE_INFINITY)
      const message = truth.messages.get(reference)
      if (message?.state === undefined || message.state === null) {
        return violations.add('a submit has no claim', `${reference} by ${by.name}`)
      }
      if (message.state.final) {
        violations.add('a final message is submitted', `${reference} (${message.state.status}) by ${by.name}`)
      } else if (!message.facts.some(({ type }) => type === 'HandoverStarted')) {
        violations.add('a submit has no claim', `${reference} by ${by.name}`)
      }
    },
    onTwice: ({ by: first, reference }, second) =>
      violations.add('a message is handed over twice', `${reference} by ${first} and by ${second}`),
  })

  // ---- the workload: acknowledged sends

  const accounts = Array.from({ length: random.between(1, 3) }, () =>
    newId('acc', world.now(), randomBytes(10)),
  )
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
    if (random.chance(0.15)) world.after(random.between(0, 3000), () => append(false))
    if (random.chance(0.1)) world.after(random.between(5000, 40_000), () => append(true))
  }
  for (let i = 0; i < count; i++) world.after(random.between(0, FAULTS_MS), accept)

  // ---- the processes

  const start = (number: number) => {
    const skew = random.chance(0.2) ? random.between(-3000, 3000) : 0
    const process = world.startProcess(`dispatcher-${number}`, skew)
    const services = simulatedKafka(broker, network.kafkaHost(process)).pipe(
      Context.merge(dispatcherStores(simulation, process, topics, projected, texts)),
      Context.merge(process.context),
    )
    const main = Effect.gen(function* () {
      const running = yield* makeDispatcher({
        prefix: '',
        topics,
        partitions: broker.partitions,
        live: { name: 'smpp', adapter: operator.adapterOf(process) },
        hashSecret: Redacted.make(HASH_SECRET),
        vocabulary: optOutVocabulary(DEFAULT_STOP_WORDS, DEFAULT_START_WORDS)!,
        lifetimes: LIFETIMES,
      })
      return yield* running.failure
    }).pipe(Effect.scoped, Effect.provideContext(services))
    runMain(process, main, {
      onStarted: (stop) => processes.onStop(process, stop),
      onFailed: (cause) => violations.add('a process fails', `${process.name}: ${cause}`),
    })
    return process
  }
  const processes = new ProcessFaults(simulation, 'dispatcher', start)

  // ---- the read model follows

  const project = () => {
    projected.advance(projection.between(1, 40))
    world.after(projection.between(20, 700), project)
  }
  project()

  // ---- the run

  const facts = () => [...truth.messages.values()].reduce((sum, { facts: all }) => sum + all.length, 0)
  const isDone = () => {
    truth.advance(Number.POSITIVE_INFINITY)
    if (accepted.size < count) return false
    return [...accepted.keys()].every((id) => truth.messages.get(id)?.state?.final === true)
  }
  world.runFor(FAULTS_MS)
  processes.end()
  if (!world.runUntilSometimes(isDone, QUIESCE_MS)) {
    for (const id of accepted.keys()) {
      const state = truth.messages.get(id)?.state
      if (state?.final !== true)
        violations.add('a message has no final status', `${id}: ${state?.stage ?? 'not in the lane'}`)
    }
  }
  // Repeated lane records and late reports may still come.
  world.runFor(45 * SECOND)
  truth.advance(Number.POSITIVE_INFINITY)
  const before = facts()
  world.runFor(IDLE_MS)
  truth.advance(Number.POSITIVE_INFINITY)
  if (facts() > before)
    violations.add('the hub is not idle', `${facts() - before} facts after all messages were final`)
  for (const { operatorIds, outcome, reference, stored } of operator.handedOver) {
    const status = truth.messages.get(reference)?.state?.status
    if (
      outcome === 'delivered' &&
      stored === operatorIds.length &&
      operator.reportsReference &&
      status !== 'delivered'
    ) {
      violations.add('a stored report is lost', `${reference} is ${status ?? 'unknown'}, not delivered`)
    }
  }
  return accepted.size
}
