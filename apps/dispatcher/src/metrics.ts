/** The metrics of the dispatcher. Labels have few values: classes, operators, shards, events. */
import type { LogFact, MessageClass, MessageState, OptOutDecision } from '@hub/domain'
import type { SubmitOutcome } from '@hub/operator'
import { memoizeLabels, memoizeLabel, makeLagGauge } from '@hub/telemetry'
import { type Context, Metric } from 'effect'
import { SHARD_EVENTS, type ShardEvent } from './shard/effects.ts'
import type { MessageShard } from './shard/shard.ts'

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

export type Metrics = ReturnType<typeof makeMetrics>

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
  const labelled = memoizeLabel()
  const bound = memoizeLabels()
  // A counter that starts with its first event would show no increase for it.
  for (const event of SHARD_EVENTS) labelled(shardEvents, 'what', event).updateUnsafe(0, context)
  for (const counter of [recoveries, leaseStops, deadLetters, unknownReportsTotal])
    counter.updateUnsafe(0, context)
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
      set(parked, ({ reports }) => reports.parked.size)
      openShards.updateUnsafe(shards.length, context)
      messagesInMemory.updateUnsafe(inMemory, context)
      const memory = new Map(shards.map(({ handle, messages }) => [handle.shard, messages.memoryBytes]))
      for (const shard of new Set([...gaugedShards, ...memory.keys()])) {
        labelled(shardMemory, 'shard', String(shard)).updateUnsafe(memory.get(shard) ?? 0, context)
      }
      gaugedShards = [...memory.keys()]
      for (const [lane, name] of ['otp', 'service'].entries()) {
        set(labelled(buffered, 'class', name), ({ queues }) => queues.count(lane))
      }
      for (const name of operators) {
        set(labelled(claims, 'operator', name), (messages) => messages.handovers.countAt(name))
      }
    },
    handedOver: (messageClass: MessageClass, ms: number) =>
      labelled(latency, 'class', messageClass).updateUnsafe(ms / 1000, context),
    submitAnswered: (operator: string, messageClass: MessageClass, outcome: SubmitOutcome) =>
      bound(handovers, {
        operator,
        class: messageClass,
        outcome: outcome.type,
        reason: outcome.type === 'rejected' ? outcome.reason : '',
      }).updateUnsafe(1, context),
    factAppended: (fact: LogFact, state: MessageState) => {
      const status = FINAL_STATUS[fact.type]
      if (status === undefined) return
      const reason = 'reason' in fact ? fact.reason : ''
      bound(ends, { class: state.class, status, reason }).updateUnsafe(1, context)
      // An expiry is the hub's own decision and no report.
      if (state.sentAt === null || fact.type === 'MessageExpired') return
      labelled(reportWait, 'class', state.class).updateUnsafe(
        Math.max(0, fact.at - state.sentAt) / 1000,
        context,
      )
    },
    /** For all partitions at once; topics without the prefix of the deployment. */
    lag: makeLagGauge(context),
    recovered: (ms: number) => {
      recoveries.updateUnsafe(1, context)
      recoverySeconds.updateUnsafe(ms / 1000, context)
    },
    leaseStopped: (count: number) => leaseStops.updateUnsafe(count, context),
    shardEvent: (event: ShardEvent, count: number) =>
      labelled(shardEvents, 'what', event).updateUnsafe(count, context),
    deadLettered: () => deadLetters.updateUnsafe(1, context),
    unknownReports: (count: number) => unknownReportsTotal.updateUnsafe(count, context),
    /** `other`: the message contained no opt-out or opt-in word. */
    inbound: (change: OptOutDecision['change'] | 'other') =>
      labelled(inboundMessages, 'change', change).updateUnsafe(1, context),
  }
}
