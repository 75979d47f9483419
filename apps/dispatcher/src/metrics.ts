/** The metrics of the dispatcher. Labels have few values: classes, operators, shards, events. */
import {
  EXPIRED_REASONS,
  type LogFact,
  MESSAGE_CLASSES,
  type MessageClass,
  type MessageState,
  OPT_OUT_CHANGES,
  type OptOutDecision,
  REJECTED_REASONS,
  UNDELIVERED_REASONS,
} from '@hub/domain'
import { HTTP, SANDBOX, SMPP, type SubmitOutcome } from '@hub/operator'
import { PAYLOAD_KEY_PROBLEMS, type PayloadKeyProblem } from '@hub/store'
import { counter, gauge, labelSets, makeLagGauge, memoizeLabels, withOldName } from '@hub/telemetry'
import { type Context, Metric } from 'effect'
import { SPECIAL_CASES, type SpecialCase } from './shard/effects.ts'
import type { MessageShard } from './shard/shard.ts'

const openMessages = gauge('hub_dispatcher_open_messages', 'Open messages in memory.')
const finishedMessages = gauge(
  'hub_dispatcher_remembered_messages',
  'Final messages that are still remembered, so that a repeat is dropped.',
)
const buffered = gauge(
  'hub_dispatcher_buffered_messages',
  'Messages whose payload is in memory until the handover, by class.',
)
const fairness = gauge(
  'hub_dispatcher_account_fairness',
  'How equally operators accepted messages of the accounts that waited for the whole last minute, by class and operator: the index of Jain of their parts divided by their weights. 1 is equal, also with fewer than two such accounts.',
)
const longestWait = gauge(
  'hub_dispatcher_longest_wait_seconds',
  'Time since the acceptance of the message in memory that has waited longest, by class and operator; 0 without any.',
)
const unusableKeys = gauge(
  'hub_dispatcher_unusable_payload_keys',
  'Payload keys that messages wait for and that this dispatcher cannot use, by reason: `unknown_master_key` (it lacks the master key), `damaged`, `not_found`.',
)
const claims = gauge('hub_dispatcher_claims_in_flight', 'Handovers in progress, by operator.')
const parked = gauge('hub_dispatcher_parked_reports', 'Delivery reports that match no message in memory yet.')
const shardMemory = gauge(
  'hub_dispatcher_shard_memory_bytes',
  'Approximate memory of a shard, by shard; 0 after another member has taken it over.',
)
const messagesInMemory = gauge(
  'hub_dispatcher_messages_in_memory',
  'Messages in memory over all shards; the memory budget bounds them.',
)
const openShards = gauge('hub_dispatcher_open_shards', 'Shards open in this process.')
const hubRate = gauge(
  'hub_dispatcher_hub_rate_parts',
  'Parts per second that the whole hub may submit to an operator at present, learned or configured; 0: no limit.',
)
const ownRate = gauge(
  'hub_dispatcher_own_rate_parts',
  'The part of `hub_dispatcher_hub_rate_parts` that this dispatcher gets for what waits at it; 0: no limit, or nothing waits.',
)
const configuredRate = gauge(
  'hub_dispatcher_configured_rate_parts',
  'The configured parts per second of an operator, for the whole hub; 0: none.',
)
const sharedRate = gauge(
  'hub_dispatcher_rate_shared',
  'Whether this dispatcher shares the rate of an operator with the others; 0: it cannot reach Redis, and keeps to the part of the rate that corresponds to its shards.',
)
/** From a millisecond to a day. Longer waits mean that the operator is not available. */
const LATENCY_BUCKETS = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 3600, 86_400,
]
const latency = Metric.histogram('hub_dispatcher_handover_latency_seconds', {
  description: 'Time from acceptance until the operator has accepted the message, by class.',
  boundaries: LATENCY_BUCKETS,
})
/** The labels of a submit that do not depend on its outcome. The port allows any name of an operator. */
const SUBMITTED: { readonly operator: ReadonlyArray<string>; readonly class: typeof MESSAGE_CLASSES } = {
  operator: [SANDBOX, SMPP, HTTP],
  class: MESSAGE_CLASSES,
}
const handovers = counter(
  'hub_dispatcher_handovers_total',
  'Answers of operators, by operator, class, outcome (accepted, refused, rejected, unknown, notWritten) and, for rejected messages, reason.',
  [
    ...labelSets({ ...SUBMITTED, outcome: ['accepted', 'refused', 'unknown', 'notWritten'], reason: [''] }),
    ...labelSets({ ...SUBMITTED, outcome: ['rejected'], reason: REJECTED_REASONS }),
  ],
)
const answeredParts = counter(
  'hub_dispatcher_answered_parts_total',
  'Parts that an operator answered, by operator and result: `passed`, or `throttled` because of the rate.',
  labelSets({ operator: SUBMITTED.operator, result: ['passed', 'throttled'] }),
)
const ends = counter(
  'hub_dispatcher_final_total',
  'Messages that became final, by class, status and reason.',
  MESSAGE_CLASSES.flatMap((messageClass) => [
    { class: messageClass, status: 'delivered', reason: '' },
    ...labelSets({ class: [messageClass], status: ['undelivered'], reason: UNDELIVERED_REASONS }),
    ...labelSets({ class: [messageClass], status: ['rejected'], reason: REJECTED_REASONS }),
    ...labelSets({ class: [messageClass], status: ['expired'], reason: EXPIRED_REASONS }),
  ]),
)
const reportWait = Metric.histogram('hub_dispatcher_report_wait_seconds', {
  description: 'Time from the handover until the report that made a message final, by class.',
  // Seconds are usual. Hours mean that the phone was off. The hub waits a day at most.
  boundaries: [0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600, 14_400, 43_200, 86_400, 108_000],
})
const recoveries = counter('hub_dispatcher_recoveries_total', 'Shards recovered from the log.')
const recoverySeconds = Metric.histogram('hub_dispatcher_recovery_seconds', {
  description: 'Time from the assignment of a shard until it was open.',
  boundaries: [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60],
})
const answersDropped = counter(
  'hub_dispatcher_answers_dropped_total',
  'Raw answers of operators that hub staff cannot read, because Kafka was unavailable for too long.',
)
const leaseStops = counter(
  'hub_dispatcher_lease_stops_total',
  'Messages that were not written to the operator because the lease had expired.',
)
const specialCases = withOldName(
  counter(
    'hub_dispatcher_special_cases_total',
    'Special cases of messages and reports, such as duplicates and unknown outcomes.',
    labelSets({ what: SPECIAL_CASES }),
  ),
  counter(
    'hub_dispatcher_happenings_total',
    'Old name of hub_dispatcher_special_cases_total, until version 0.5.0.',
    labelSets({ what: SPECIAL_CASES }),
  ),
)
const deadLetters = counter(
  'hub_dispatcher_dead_letters_total',
  'Records that could not be decoded or decrypted.',
)
const unknownReportsTotal = counter(
  'hub_dispatcher_reports_of_nobody_total',
  'Reports about messages that the hub has never had.',
)
const inboundMessages = counter(
  'hub_dispatcher_inbound_messages_total',
  'Inbound messages, by the change that they made.',
  labelSets({ change: [...OPT_OUT_CHANGES, 'other'] }),
)

export type Metrics = ReturnType<typeof makeMetrics>

/** The rate at an operator. `null`: no limit. */
export interface GaugedRate {
  readonly operator: string
  readonly hub: number | null
  readonly own: number | null
  readonly configured: number | null
  readonly isShared: boolean
}

/** By lane. */
const CLASSES: ReadonlyArray<MessageClass> = ['otp', 'service']

interface GaugedShard {
  readonly handle: { readonly shard: number }
  readonly messages: MessageShard
}

/** The facts that make a message final, with their status. */
const FINAL_STATUS: Readonly<Partial<Record<LogFact['type'], string>>> = {
  MessageDelivered: 'delivered',
  MessageUndelivered: 'undelivered',
  MessageRejected: 'rejected',
  MessageExpired: 'expired',
}

/** The metrics, bound to the context of the process. An update is a plain function call. */
export const makeMetrics = (context: Context.Context<never>) => {
  const labelled = memoizeLabels()
  let gaugedShards: ReadonlyArray<number> = []
  return {
    gauges: (shards: ReadonlyArray<GaugedShard>, inMemory: number, operators: ReadonlyArray<string>) => {
      /** Sets a gauge to the sum over all shards. */
      const set = (gauge: Metric.Metric<number, unknown>, of: (messages: MessageShard) => number) =>
        gauge.updateUnsafe(
          shards.reduce((sum, { messages }) => sum + of(messages), 0),
          context,
        )
      set(openMessages, ({ openCount }) => openCount)
      set(finishedMessages, ({ finishedCount }) => finishedCount)
      set(parked, ({ parkedReports }) => parkedReports.size)
      openShards.updateUnsafe(shards.length, context)
      messagesInMemory.updateUnsafe(inMemory, context)
      const memory = new Map(shards.map(({ handle, messages }) => [handle.shard, messages.memoryBytes]))
      for (const shard of new Set([...gaugedShards, ...memory.keys()])) {
        labelled(shardMemory, { shard: String(shard) }).updateUnsafe(memory.get(shard) ?? 0, context)
      }
      gaugedShards = [...memory.keys()]
      for (const [lane, name] of CLASSES.entries()) {
        set(labelled(buffered, { class: name }), ({ queues }) => queues.count(lane))
      }
      for (const name of operators) {
        set(labelled(claims, { operator: name }), (messages) => messages.handovers.countAt(name))
      }
    },
    unusableKeys: (counts: ReadonlyMap<PayloadKeyProblem, number>) => {
      for (const reason of PAYLOAD_KEY_PROBLEMS) {
        labelled(unusableKeys, { reason }).updateUnsafe(counts.get(reason) ?? 0, context)
      }
    },
    accounts: (operator: string, lane: number, index: number, waitMs: number) => {
      const labels = { class: CLASSES[lane] ?? '', operator }
      labelled(fairness, labels).updateUnsafe(index, context)
      labelled(longestWait, labels).updateUnsafe(waitMs / 1000, context)
    },
    rates: (rates: ReadonlyArray<GaugedRate>) => {
      for (const { configured, hub, isShared, operator, own } of rates) {
        labelled(hubRate, { operator }).updateUnsafe(hub ?? 0, context)
        labelled(ownRate, { operator }).updateUnsafe(own ?? 0, context)
        labelled(configuredRate, { operator }).updateUnsafe(configured ?? 0, context)
        labelled(sharedRate, { operator }).updateUnsafe(isShared ? 1 : 0, context)
      }
    },
    acceptedByOperator: (messageClass: MessageClass, ms: number) =>
      labelled(latency, { class: messageClass }).updateUnsafe(ms / 1000, context),
    submitAnswered: (operator: string, messageClass: MessageClass, outcome: SubmitOutcome) => {
      const submitted = { operator, class: messageClass }
      if (outcome.type === 'rejected')
        handovers.add({ ...submitted, outcome: outcome.type, reason: outcome.reason })
      else handovers.add({ ...submitted, outcome: outcome.type, reason: '' })
    },
    /** The answer to a message of so many parts. A part may be throttled before it passes. */
    partsAnswered: (operator: string, parts: number, { throttledParts = 0, type }: SubmitOutcome) => {
      if (throttledParts > 0) answeredParts.add({ operator, result: 'throttled' }, throttledParts)
      if (type === 'accepted' || type === 'rejected') answeredParts.add({ operator, result: 'passed' }, parts)
    },
    factAppended: (fact: LogFact, state: MessageState) => {
      const status = FINAL_STATUS[fact.type]
      if (status === undefined) return
      const reason = 'reason' in fact ? fact.reason : ''
      ends.add({ class: state.class, status, reason })
      // An expiry is the hub's own decision and no report.
      if (state.sentAt === null || fact.type === 'MessageExpired') return
      labelled(reportWait, { class: state.class }).updateUnsafe(
        Math.max(0, fact.at - state.sentAt) / 1000,
        context,
      )
    },
    /** For all partitions at once; topics without the prefix of the deployment. */
    lag: makeLagGauge(context),
    recovered: (ms: number) => {
      recoveries.add()
      recoverySeconds.updateUnsafe(ms / 1000, context)
    },
    leaseStopped: (count: number) => leaseStops.add(count),
    specialCase: (what: SpecialCase, count: number) => specialCases.add({ what }, count),
    answersDropped: (count: number) => answersDropped.add(count),
    deadLettered: () => deadLetters.add(),
    unknownReports: (count: number) => unknownReportsTotal.add(count),
    /** `other`: the message contained no opt-out or opt-in word. */
    inbound: (change: OptOutDecision['change'] | 'other') => inboundMessages.add({ change }),
  }
}
