/**
 * The metrics of the dispatcher. Labels are bounded: classes, operators, shards and event names
 * only.
 */
import type { LogFact, MessageClass, MessageState, OptOutDecision } from '@hub/domain'
import type { SubmitOutcome } from '@hub/operator'
import { type ConsumerLag, memoizeLabels, memoizeLabel, makeLagGauge } from '@hub/telemetry'
import { type Context, Metric } from 'effect'
import type { ShardEvent } from './shard/effects.ts'

const openMessages = Metric.gauge('hub_dispatcher_open_messages', {
  description: 'Open messages in memory.',
})
const finishedMessages = Metric.gauge('hub_dispatcher_remembered_messages', {
  description: 'Final messages that are still remembered, so that a repeat is dropped.',
})
const buffered = Metric.gauge('hub_dispatcher_buffered_messages', {
  description: 'Messages whose payload is in memory until the handover, by class.',
})
const claims = Metric.gauge('hub_dispatcher_claims_in_flight', {
  description: 'Handovers in progress, by operator.',
})
const parked = Metric.gauge('hub_dispatcher_parked_reports', {
  description: 'Delivery reports that match no message in memory yet.',
})
const shardMemory = Metric.gauge('hub_dispatcher_shard_memory_bytes', {
  description: 'Approximate memory of a shard, by shard; 0 after another member has taken it over.',
})
const messagesInMemory = Metric.gauge('hub_dispatcher_messages_in_memory', {
  description: 'Messages in memory over all shards; the memory budget bounds them.',
})
const openShards = Metric.gauge('hub_dispatcher_open_shards', { description: 'Shards open in this process.' })
/** From a millisecond to a day. Longer waits mean that the operator is not available. */
const LATENCY_BUCKETS = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 3600, 86_400,
]
const latency = Metric.histogram('hub_dispatcher_handover_latency_seconds', {
  description: 'Time from acceptance until the operator has accepted the message, by class.',
  boundaries: LATENCY_BUCKETS,
})
const handovers = Metric.counter('hub_dispatcher_handovers_total', {
  description:
    'Answers of operators, by operator, class, outcome (accepted, refused, rejected, unknown, notWritten) and, for rejected messages, reason.',
  incremental: true,
})
const ends = Metric.counter('hub_dispatcher_final_total', {
  description: 'Messages that became final, by class, status and reason.',
  incremental: true,
})
const reportWait = Metric.histogram('hub_dispatcher_report_wait_seconds', {
  description: 'Time from the handover until the report that made a message final, by class.',
  // Seconds are usual. Hours mean that the phone was off. The hub waits a day at most.
  boundaries: [0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600, 14_400, 43_200, 86_400, 108_000],
})
const recoveries = Metric.counter('hub_dispatcher_recoveries_total', {
  description: 'Shards recovered from the log.',
  incremental: true,
})
const recoverySeconds = Metric.histogram('hub_dispatcher_recovery_seconds', {
  description: 'Time from the assignment of a shard until it was open.',
  boundaries: [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60],
})
const leaseStops = Metric.counter('hub_dispatcher_lease_stops_total', {
  description: 'Messages that were not written to the operator because the lease had expired.',
  incremental: true,
})
const shardEvents = Metric.counter('hub_dispatcher_happenings_total', {
  description: 'Unusual events, by name.',
  incremental: true,
})
const deadLetters = Metric.counter('hub_dispatcher_dead_letters_total', {
  description: 'Records that could not be decoded or decrypted.',
  incremental: true,
})
const unknownReportsTotal = Metric.counter('hub_dispatcher_reports_of_nobody_total', {
  description: 'Reports about messages that the hub has never had.',
  incremental: true,
})
const inboundMessages = Metric.counter('hub_dispatcher_inbound_messages_total', {
  description: 'Inbound messages, by the change that they made.',
  incremental: true,
})

export interface ShardGauges {
  readonly open: number
  readonly finished: number
  readonly parked: number
  readonly shards: number
  readonly inMemory: number
  /** Bytes, by shard. */
  readonly memory: ReadonlyMap<number, number>
  readonly buffered: Readonly<Record<MessageClass, number>>
  readonly claims: ReadonlyMap<string, number>
}

export interface Metrics {
  readonly gauges: (now: ShardGauges) => void
  readonly handedOver: (messageClass: MessageClass, ms: number) => void
  readonly submitAnswered: (operator: string, messageClass: MessageClass, outcome: SubmitOutcome) => void
  /** A fact is appended about a message in this state. */
  readonly factAppended: (fact: LogFact, state: MessageState | null) => void
  /** For all partitions at once; topics without the prefix of the deployment. */
  readonly lag: (now: ReadonlyArray<ConsumerLag>) => void
  readonly recovered: (ms: number) => void
  readonly leaseStopped: (count: number) => void
  readonly shardEvent: (event: ShardEvent, count: number) => void
  readonly deadLettered: () => void
  readonly unknownReports: (count: number) => void
  /** `other`: the message contained no opt-out or opt-in word. */
  readonly inbound: (change: OptOutDecision['change'] | 'other') => void
}

const SHARD_EVENTS: ReadonlyArray<ShardEvent> = [
  'duplicate_dropped',
  'known_dropped',
  'void_claim',
  'outcome_unknown',
  'assumed_sent',
  'report_duplicate',
  'report_unmatched',
  'report_impossible',
  'report_matched_by_recipient',
  'record_lost',
  'carried',
]

/** The status that a fact gives a message, if it makes the message final; otherwise `null`. */
const statusOf = ({ type }: LogFact) => {
  switch (type) {
    case 'MessageDelivered':
      return 'delivered'
    case 'MessageUndelivered':
      return 'undelivered'
    case 'MessageRejected':
      return 'rejected'
    case 'MessageExpired':
      return 'expired'
    default:
      return null
  }
}

/** The metrics, bound to the context of the process. An update is a plain function call. */
export const makeMetrics = (context: Context.Context<never>): Metrics => {
  const labelled = memoizeLabel()
  const bound = memoizeLabels()
  // A counter that starts with its first event would show no increase for it.
  for (const event of SHARD_EVENTS) labelled(shardEvents, 'what', event).updateUnsafe(0, context)
  for (const counter of [recoveries, leaseStops, deadLetters, unknownReportsTotal])
    counter.updateUnsafe(0, context)
  /** The shards of the last memory gauges. */
  let gaugedShards: ReadonlySet<number> = new Set()
  return {
    gauges: (now) => {
      openMessages.updateUnsafe(now.open, context)
      finishedMessages.updateUnsafe(now.finished, context)
      parked.updateUnsafe(now.parked, context)
      openShards.updateUnsafe(now.shards, context)
      messagesInMemory.updateUnsafe(now.inMemory, context)
      for (const shard of gaugedShards) {
        if (!now.memory.has(shard)) labelled(shardMemory, 'shard', String(shard)).updateUnsafe(0, context)
      }
      for (const [shard, bytes] of now.memory) {
        labelled(shardMemory, 'shard', String(shard)).updateUnsafe(bytes, context)
      }
      gaugedShards = new Set(now.memory.keys())
      for (const [name, count] of Object.entries(now.buffered)) {
        labelled(buffered, 'class', name).updateUnsafe(count, context)
      }
      for (const [operator, count] of now.claims) {
        labelled(claims, 'operator', operator).updateUnsafe(count, context)
      }
    },
    handedOver: (messageClass, ms) =>
      labelled(latency, 'class', messageClass).updateUnsafe(ms / 1000, context),
    submitAnswered: (operator, messageClass, outcome) =>
      bound(handovers, {
        operator,
        class: messageClass,
        outcome: outcome.type,
        reason: outcome.type === 'rejected' ? outcome.reason : '',
      }).updateUnsafe(1, context),
    factAppended: (fact, state) => {
      const status = statusOf(fact)
      if (status === null || state === null) return
      const reason = 'reason' in fact ? fact.reason : ''
      bound(ends, { class: state.class, status, reason }).updateUnsafe(1, context)
      // An expiry is the hub's own decision and no report.
      if (state.sentAt === null || fact.type === 'MessageExpired') return
      labelled(reportWait, 'class', state.class).updateUnsafe(
        Math.max(0, fact.at - state.sentAt) / 1000,
        context,
      )
    },
    lag: makeLagGauge(context),
    recovered: (ms) => {
      recoveries.updateUnsafe(1, context)
      recoverySeconds.updateUnsafe(ms / 1000, context)
    },
    leaseStopped: (count) => leaseStops.updateUnsafe(count, context),
    shardEvent: (event, count) => labelled(shardEvents, 'what', event).updateUnsafe(count, context),
    deadLettered: () => deadLetters.updateUnsafe(1, context),
    unknownReports: (count) => unknownReportsTotal.updateUnsafe(count, context),
    inbound: (change) => labelled(inboundMessages, 'change', change).updateUnsafe(1, context),
  }
}
