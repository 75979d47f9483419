/**
 * The dispatcher processes with their operator, and the checks of what they did: at each write to the
 * operator, at each fact, and after all messages are final.
 */
import { type DispatcherOptions, makeDispatcher } from '@hub/dispatcher'
import type { LookedUpModel } from '@hub/dispatcher/testing'
import {
  billedPrice,
  DEFAULT_START_WORDS,
  DEFAULT_STOP_WORDS,
  type Lifetimes,
  type MessageFact,
  type MessageState,
  minorUnits,
  optOutVocabulary,
} from '@hub/domain'
import { decodeFact, decodeShardOpened, type IncomingRecord, topicNames } from '@hub/kafka'
import { type SchemaVersion, simulatedKafka } from '@hub/kafka/testing'
import type { Submission } from '@hub/operator'
import { Context, Effect, Redacted, Result } from 'effect'
import type { Activity } from '../world/idle.ts'
import { runMain } from '../world/main-fiber.ts'
import { ProcessFaults } from '../world/process-faults.ts'
import type { Simulation } from '../world/simulation.ts'
import { checkWords, InboundTables } from './inbound.ts'
import { OperatorServer } from './operator-server.ts'
import { ReadModel } from './read-model.ts'
import { dispatcherStores, sharedTexts } from './stores.ts'

const SECOND = 1000
const GROUP = 'hub.dispatcher'
export const HASH_SECRET = 'a secret of the simulation, long enough for it'
/** Short, so that deadlines pass within a run. */
export const LIFETIMES: Lifetimes = {
  beforeSubmit: { otp: 20 * SECOND, service: 45 * SECOND },
  report: { otp: 15 * SECOND, service: 30 * SECOND },
}
/**
 * All messages must be final this long after the faults: sessions, recovery, the longest lifetime,
 * the longest report deadline, and the time for a lookup.
 */
export const FINAL_WITHIN_MS = 150 * SECOND
/** How late some reports come. The hub forgets a message 13 s after its end. */
const LATE_REPORTS_MS = [30 * SECOND, 60 * SECOND] as const
/** Repeated reports may come this long after the last one. */
const REPEATED_MS = 10 * SECOND
/** The hub tolerates this much (`CLOCK_SKEW_MS` in the dispatcher). */
const MAX_SKEW_MS = 3000
/** A report that nobody knows is dropped within 30 s, and all processes may have restarted. */
const MARKS_WITHIN_MS = 60 * SECOND
/** Small enough that a shard skips records, reads them again and re-appends messages. */
const SMALL_LIMITS: NonNullable<DispatcherOptions['limits']> = {
  buffer: 4,
  open: 1000,
  finished: 1000,
  reAppendBehind: 5,
}

const nameOfStatus = ({ reason, status }: Pick<MessageState, 'reason' | 'status'>): string =>
  reason === null ? status : `${status} ${reason}`

/** The reason of a report. A message that is rejected at its submit has another one. */
const REJECTED_BY_REPORT = 'spam_filter_sender'
/** The final statuses that a report causes, and the outcome that it has. */
const REPORTED: Readonly<Record<string, string>> = {
  delivered: 'delivered',
  'undelivered recipient_unreachable': 'undelivered',
  [`rejected ${REJECTED_BY_REPORT}`]: 'rejected',
  'expired dlr_timeout': 'expired',
}
/** Source: MSG-24 to MSG-26. */
const ALLOWED: Readonly<Record<string, ReadonlyArray<string>>> = {
  accepted: [
    'sent',
    ...Object.keys(REPORTED),
    'rejected spam_filter_content',
    'expired ttl_expired_before_submit',
  ],
  sent: [...Object.keys(REPORTED), 'rejected spam_filter_content', 'expired dlr_timeout_local'],
  'expired dlr_timeout_local': ['delivered', 'undelivered recipient_unreachable'],
}

/** Whether a process got a claim of another one, and could not know whether that one had submitted. */
const isAssumedByNextOwner = (facts: ReadonlyArray<MessageFact>): boolean => {
  let claimed = 0
  return facts.some((fact) => {
    if (fact.type === 'HandoverStarted') claimed = fact.epoch
    return fact.type === 'MessageSent' && (fact.epoch ?? 0) > claimed
  })
}

export const startDispatchers = (
  simulation: Simulation,
  projected: LookedUpModel,
  {
    inbound = new InboundTables(),
    lateReportsMs = LATE_REPORTS_MS,
    lifetimes = LIFETIMES,
  }: {
    readonly inbound?: InboundTables
    readonly lateReportsMs?: readonly [number, number]
    readonly lifetimes?: Lifetimes
  } = {},
) => {
  const { broker, faults, network, violations, world } = simulation
  const random = simulation.random('dispatchers')
  const topics = topicNames()
  const stores = { tables: inbound, texts: sharedTexts() }
  /** What a reader of lanes and log knows without any delay. */
  const truth = new ReadModel(broker, topics, (message, fact, before) => {
    world.note('log', () => `${message.id}: ${fact.type}, now ${message.state?.status ?? ''}`)
    if (fact.type === 'MessageSent' && (before?.attempts ?? 0) === 0) {
      violations.add('a message counts as sent without a valid claim', message.id)
    }
    if (fact.type === 'MessageDelivered') {
      const ids = message.state?.operatorIds ?? []
      const submitted = operator.submitted.filter(({ reference }) => reference === message.id)
      const knowsIds =
        ids.length > 1 && submitted.some(({ operatorIds }) => ids.every((id) => operatorIds.includes(id)))
      // The report came before the repeated answer, which has the ids of all parts.
      const awaitsIds = operator.dedupes && before?.sentAt === fact.at && before.operatorIds.length === 0
      const needsAllParts = knowsIds || awaitsIds || (operator.takesParts && !isMistaken(message.id))
      if (
        needsAllParts &&
        !submitted.some(({ isSeen, parts, reported }) => isSeen || reported.size === parts)
      )
        violations.add('a message is delivered before the reports of all its parts', message.id)
    }
    if (before !== null && message.state !== null) {
      const [from, to] = [before, message.state].map(nameOfStatus)
      if (from !== to && !ALLOWED[from!]?.includes(to!))
        violations.add(
          'a status changes in a way that the contract excludes',
          `${message.id}: ${from} to ${to}`,
        )
    }
    if (before?.final === true && message.state !== null && message.state.status !== before.status) {
      if (before.reason !== 'dlr_timeout_local') {
        violations.add('a final status changes', `${message.id}: ${before.status} to ${message.state.status}`)
      }
    }
  })
  /** The messages in the order of their first submit. */
  const inOrder = new Set<string>()
  /** Of the claim of each submit. */
  const epochs = new Map<Submission, number>()
  const readAll = () => truth.advance(Number.POSITIVE_INFINITY)

  const operator = new OperatorServer(
    world,
    network,
    {
      onWrite: (submission, by) => {
        readAll()
        const { recipient, reference } = submission
        const { accepted = null, facts = [], state = null } = truth.messages.get(reference) ?? {}
        if (by.wallClock() > (accepted?.expiresAt ?? 0))
          violations.add('a message is submitted after its time to live', `${reference} by ${by.name}`)
        // A process that lost its shard and got it again may wait for the answer of an earlier claim.
        const epoch = facts.findLast((fact) => fact.type === 'HandoverStarted')?.epoch ?? 0
        const other = [...operator.unansweredOf(by)].find(
          (one) => one.recipient === recipient && epochs.get(one) === epoch,
        )
        if (other !== undefined)
          violations.add(
            'two messages to a recipient are submitted at once',
            `${reference} and ${other.reference}`,
          )
        epochs.set(submission, epoch)
        inOrder.add(reference)
        if (state?.final === true) {
          violations.add('a final message is submitted', `${reference} (${state.status}) by ${by.name}`)
        } else if (state?.stage !== 'claimed') {
          violations.add('a submit has no claim', `${reference} (${state?.stage ?? 'unknown'}) by ${by.name}`)
        }
      },
      onTwice: ({ by: first, reference }, second) =>
        violations.add('a message is handed over twice', `${reference} by ${first} and by ${second}`),
    },
    lateReportsMs,
  )

  /** The versions of the record schemas in the processes so far. */
  const versions = new Set<SchemaVersion>()
  const limits = simulation.random('limits').chance(0.4) ? { limits: SMALL_LIMITS } : {}
  /** In some runs all clocks are wrong. */
  const skews = random.pick([null, null, null, [-MAX_SKEW_MS], [-MAX_SKEW_MS, MAX_SKEW_MS]])
  const skewOf = () => {
    if (skews !== null) return random.pick(skews)
    return random.chance(0.2) ? random.between(-MAX_SKEW_MS, MAX_SKEW_MS) : 0
  }
  const start = (number: number) => {
    const skew = skewOf()
    const process = world.startProcess(`dispatcher-${number}`, skew)
    versions.add(process.schemaVersion)
    const services = simulatedKafka(broker, network.kafkaHost(process)).pipe(
      Context.merge(dispatcherStores(simulation, process, projected, stores)),
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
        lifetimes,
        ...limits,
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

  const messages = () => {
    readAll()
    return [...truth.messages.values()]
  }

  /**
   * Whether a report of another message may be matched to this one. Without our reference and the
   * operator's id, the hub matches a report by its recipient. It cannot know that a report is late, or
   * that it is about one more part.
   */
  const isMistaken = (id: string): boolean => {
    const recipientOf = (message: string) => truth.messages.get(message)?.accepted?.recipient
    return operator.submitted.some((other) => {
      const known = truth.messages.get(other.reference)?.state?.operatorIds ?? []
      return (
        !operator.reportsReference &&
        other.reference !== id &&
        recipientOf(other.reference) === recipientOf(id) &&
        known.length < other.parts &&
        (other.isLate || other.parts > 1)
      )
    })
  }

  /** The messages of an account to a recipient are submitted in the order of their lane. */
  const checkOrder = () => {
    const places = new Map<string, number>()
    for (const topic of [topics.acceptedOtp, topics.acceptedService]) {
      for (const record of broker.topic(topic).flat()) {
        const id = Result.getOrThrow(decodeFact(record)).messageId
        if (!places.has(id)) places.set(id, record.offset)
      }
    }
    const last = new Map<string, number>()
    for (const id of inOrder) {
      const { account, class: lane, recipient } = truth.messages.get(id)!.accepted!
      const key = `${account} ${recipient} ${lane}`
      const place = places.get(id)!
      if (place < (last.get(key) ?? -1))
        violations.add('a message overtakes another one of its recipient', id)
      last.set(key, place)
    }
  }

  /** The offset of the newest fence. A late append of an earlier owner is none. */
  const newestFence = (records: ReadonlyArray<IncomingRecord>): number => {
    const fences = records.flatMap((record) => {
      if (record.type !== 'ShardOpened') return []
      const { epoch } = Result.getOrElse(decodeShardOpened(record), () => ({ epoch: -1 }))
      return [{ epoch, offset: record.offset }]
    })
    const highest = Math.max(...fences.map(({ epoch }) => epoch))
    return fences.findLast(({ epoch }) => epoch === highest)?.offset ?? -1
  }

  /** The log is read from a fence on, and everything else from its end. */
  const marksBehind = (): ReadonlyArray<string> =>
    [topics.acceptedOtp, topics.acceptedService, topics.messages, topics.operatorReports].flatMap((topic) =>
      broker.topic(topic).flatMap((records, partition) => {
        const least = topic === topics.messages ? newestFence(records) : records.length
        const mark = broker.committed(GROUP, topic, partition)
        return mark < least ? [`${topic}/${partition}: ${mark}, not ${least}`] : []
      }),
    )

  const checkOutcomes = () => {
    for (const { isLate, outcome, parts, reference, stored } of operator.submitted) {
      const state = truth.messages.get(reference)?.state
      const status = state?.status ?? 'unknown'
      if (state?.reason === 'ttl_expired_before_submit') {
        violations.add('a message counts as never submitted that the operator accepted', reference)
      }
      const reported = REPORTED[state == null ? '' : nameOfStatus(state)]
      if (reported !== undefined && outcome !== reported && !isMistaken(reference)) {
        violations.add(`a message is ${status} without a report`, `${reference}: ${outcome ?? 'no report'}`)
      }
      if (state?.seen === true && status !== 'delivered')
        violations.add('a message that was seen is not delivered', `${reference} is ${status}`)
      if (
        outcome === 'delivered' &&
        stored === parts &&
        // The hub may forget late reports of parts before it reads the last one. In an upgrade, a process
        // with old schemas waits at newer records, so that the hub reads reports late.
        !((isLate || versions.size > 1) && parts > 1) &&
        // Without our reference, a report can be matched only by an id that the hub knows.
        (operator.reportsReference || (state?.operatorIds.length ?? 0) > 0) &&
        status !== 'delivered'
      ) {
        violations.add('a stored report is lost', `${reference} is ${status}, not delivered`)
      }
    }
    const accepted = new Set(operator.submitted.map(({ reference }) => reference))
    for (const { id, state } of truth.messages.values()) {
      if (state !== null && nameOfStatus(state) in REPORTED && !accepted.has(id) && !isMistaken(id)) {
        violations.add(`a message is ${state.status} that the operator never accepted`, id)
      }
    }
  }

  /**
   * The hub charges the messages that the operator has accepted and not rejected in a report, and those with
   * an unknown outcome: the answer of the operator was lost. It charges no others. Source: LIM-15.
   */
  const checkCharges = () => {
    const accepted = new Set(operator.submitted.map(({ reference }) => reference))
    for (const { accepted: acceptance, facts, id, state } of truth.messages.values()) {
      if (acceptance === null || state?.final !== true) continue
      const isCharged = minorUnits(billedPrice(acceptance.price, state.status, state.reason)) > 0n
      if (accepted.has(id) && !isCharged && state.reason !== REJECTED_BY_REPORT) {
        violations.add('a message is not charged that the operator accepted', `${id}: ${state.reason ?? ''}`)
      }
      if (!accepted.has(id) && isCharged && state.operatorIds.length > 0 && !isMistaken(id)) {
        violations.add('a message is charged that the operator never accepted', id)
      }
      // A process that ended may have had a claim, and the next one does not know whether it submitted.
      const isUnknown =
        operator.hasUnknown(id) ||
        (processes.interruptions > 0 && state.sentAt !== null) ||
        isAssumedByNextOwner(facts)
      if (!accepted.has(id) && isCharged && !isUnknown) {
        violations.add('a message is charged although its outcome is known', id)
      }
    }
  }

  return {
    operator,
    processes,
    isFinal: (ids: Iterable<string>) => {
      readAll()
      return [...ids].every((id) => truth.messages.get(id)?.state?.final === true)
    },
    /** Call it when not all messages became final in time. */
    checkProgress: (ids: Iterable<string>) => {
      readAll()
      for (const id of ids) {
        const state = truth.messages.get(id)?.state
        if (state?.final !== true)
          violations.add('a message has no final status', `${id}: ${state?.stage ?? 'not in the lane'}`)
      }
    },
    /**
     * Runs the world until the operator has nothing more to send, and its reports are applied or dropped.
     * `lateMs`: the last reports come within it.
     */
    settle: (lateMs = lateReportsMs[1]) => {
      // A commit that Kafka executes late puts an earlier mark in place of the last one. It reads some records again.
      const isLate = [...faults.occurred.values()].some((fault) => fault.startsWith('late: kafka commit'))
      const isSettled = () => operator.isQuiet && (isLate || marksBehind().length === 0)
      if (!world.runUntilSometimes(isSettled, lateMs + REPEATED_MS + MARKS_WITHIN_MS)) {
        if (!operator.isQuiet) violations.add('a report is never stored', '')
        violations.add('a low-water mark stays behind', marksBehind().join(', '))
      }
    },
    activity: {
      violation: 'the hub is not idle',
      what: 'facts after all messages were final',
      count: () => messages().reduce((sum, { facts }) => sum + facts.length, 0),
    } satisfies Activity,
    check: () => {
      checkOrder()
      checkOutcomes()
      checkCharges()
      checkWords(simulation, operator, inbound, HASH_SECRET)
    },
  }
}
