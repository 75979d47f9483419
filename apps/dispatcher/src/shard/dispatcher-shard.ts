/**
 * The driver of a `MessageShard`: decodes records into inputs, and executes the returned effects.
 */
import type { Fence, Shard, ShardHandle } from '@hub/actor'
import { DEFAULT_LIFETIMES, reportDeadline } from '@hub/domain'
import {
  carriedFact,
  deadLetterRecord,
  decodeDeliveryReportReceived,
  decodeFact,
  decodeInboundMessageReceived,
  decodeOpenMessagesCarried,
  type IncomingRecord,
  isFactType,
  logRecord,
  openMessagesCarriedRecord,
  reportOutcome,
  type TopicNames,
} from '@hub/kafka'
import { type OpenSubmission, SANDBOX, type SubmitOutcome } from '@hub/operator'
import { Result } from 'effect'
import { InboundQueue } from '../inbound/inbound-queue.ts'
import type { Metrics } from '../metrics.ts'
import type { MessageTraces } from '../tracing/message-traces.ts'
import type { Append, ReAppend, ShardEffects, ShardSettings } from './effects.ts'
import type { KnownMessage, Message, PreparedSubmission } from './message.ts'
import type { ParkedReport } from './parked-reports.ts'
import { MessageShard } from './shard.ts'

export type Preparation =
  | { readonly type: 'prepared'; readonly submission: PreparedSubmission }
  | { readonly type: 'retryLater'; readonly afterMs: number }
  | { readonly type: 'impossible' }

/** What a shard needs of its process. */
interface ShardEnvironment extends Omit<ShardSettings, 'reportDeadline'> {
  readonly topics: TopicNames
  readonly metrics: Metrics
  readonly traces: MessageTraces
  readonly now: () => number
  /** Runs a change that does not come from the runtime, and starts the work that it allows. */
  readonly apply: (change: () => void) => void
  /** Decrypts the payload of a message. It may call `onPrepared` synchronously. */
  readonly prepare: (message: Message, onPrepared: (result: Preparation) => void) => void
  readonly submit: (shard: DispatcherShard, message: Message, submission: PreparedSubmission) => void
  readonly resume: (operator: string, open: ReadonlyArray<OpenSubmission>) => void
  readonly onLiveMessage: () => void
  /** A record cannot be decoded. `reason` is a code. */
  readonly onDeadLetter: (record: IncomingRecord, reason: string) => void
}

export interface DispatcherShard extends Shard {
  readonly handle: ShardHandle
  readonly messages: MessageShard
  /** Inbound messages that are not applied to the opt-outs yet. */
  readonly inbound: InboundQueue
  /** Dead-letters an inbound message that cannot be decrypted. Its offset is pinned until then. */
  readonly deadLetterInbound: (record: IncomingRecord) => void
  /** Starts the handover of a taken message: decrypts the payload, and appends the claim. */
  readonly start: (message: Message) => void
  /** The operator's answer. `reportDeadline` matters for `accepted` only. */
  readonly submitAnswered: (message: Message, outcome: SubmitOutcome, reportDeadline: number) => void
  readonly reportsToLookUp: (limit: number) => ReadonlyArray<ParkedReport>
  /** The answers of the read model; see `MessageShard`. */
  readonly lookedUp: (message: Message, handedOver: boolean) => void
  readonly reportLookedUp: (parked: ParkedReport, known: KnownMessage | null) => void
}

export const makeDispatcherShard = (handle: ShardHandle, environment: ShardEnvironment): DispatcherShard => {
  const { metrics, now, topics, traces } = environment
  const messages = new MessageShard({
    ...environment,
    // A sandbox process that has ended sends no reports, and its messages have no operator ids.
    reportDeadline: ({ class: messageClass, operator }, sentAt) =>
      reportDeadline(DEFAULT_LIFETIMES, {
        class: messageClass,
        sentAt,
        scenario: operator === SANDBOX ? 'silent' : null,
      }),
  })
  const { queues, recovery, reports } = messages

  const append = (effect: Append) => {
    const { fact, message } = effect
    metrics.factAppended(fact, message.state)
    const traceparent = traces.of(fact)
    const partition = handle.shard
    const envelope = traceparent === undefined ? { partition } : { partition, traceparent }
    handle.append(logRecord(topics, fact, message.key, envelope), (offset) =>
      execute(messages.onAppended(effect, offset, now())),
    )
  }

  const reAppend = (effect: ReAppend) => {
    const carried = effect.open.map(({ fact, message }) => ({
      ...fact,
      recipient: message.key,
      traceparent: traces.of(fact) ?? null,
    }))
    const record = openMessagesCarriedRecord(topics, {
      type: 'OpenMessagesCarried',
      shard: handle.shard,
      at: effect.at,
      messages: carried,
    })
    handle.append(record, (offset) => execute(messages.onAppended(effect, offset, now())))
  }

  const execute = (effects: ShardEffects): void => {
    for (const effect of effects) {
      if (effect.type === 'append') append(effect)
      else if (effect.type === 'reAppend') reAppend(effect)
      else if (effect.type === 'submit') environment.submit(shard, effect.message, effect.submission)
      else if (effect.type === 'resume') environment.resume(effect.operator, effect.open)
      else metrics.shardEvent(effect.event, effect.count)
    }
  }

  /** Dead-letters a record. `onWritten` unpins its offset. */
  const deadLetter = (record: IncomingRecord, reason: string, onWritten: () => void) => {
    environment.onDeadLetter(record, reason)
    metrics.deadLettered()
    handle.append(deadLetterRecord(record, reason), onWritten)
  }
  const deadLetterReport = (record: IncomingRecord, reason: string) => {
    recovery.reports.pin(record.offset)
    deadLetter(record, reason, () => recovery.reports.unpin(record.offset))
  }
  /** A log record needs no pin: its writer has the content, and nothing here waits for it. */
  const deadLetterFact = (record: IncomingRecord, reason: string) => deadLetter(record, reason, () => {})

  const inbound = new InboundQueue()
  const onInbound = (record: IncomingRecord) => {
    const message = decodeInboundMessageReceived(record)
    if (Result.isSuccess(message)) inbound.add({ record, message: message.success })
    else deadLetterReport(record, message.failure.reason)
  }

  const onReAppended = (record: IncomingRecord, fence: Fence) => {
    const decoded = decodeOpenMessagesCarried(record)
    if (Result.isFailure(decoded)) return deadLetterFact(record, decoded.failure.reason)
    for (const message of decoded.success.messages) {
      const fact = carriedFact(decoded.success, message)
      if (message.traceparent !== null) traces.continued(message.traceparent, fact)
      execute(messages.onFact(record.offset, message.recipient, fact, fence, now()))
    }
  }

  const shard: DispatcherShard = {
    handle,
    messages,
    inbound,
    deadLetterInbound: (record) => {
      inbound.done(record.offset)
      deadLetterReport(record, 'payload_unreadable')
    },
    onLog: (record, fence) => {
      if (messages.isOwn(record.offset)) return
      if (record.type === 'OpenMessagesCarried') return onReAppended(record, fence)
      if (!isFactType(record.type)) return
      const fact = decodeFact(record)
      if (Result.isFailure(fact)) deadLetterFact(record, fact.failure.reason)
      else if (fact.success.type !== 'MessageAccepted') {
        if (record.traceparent !== null) traces.continued(record.traceparent, fact.success)
        execute(messages.onFact(record.offset, record.key, fact.success, fence, now()))
      }
    },
    onLane: (lane, record) => {
      const fact = decodeFact(record)
      if (Result.isSuccess(fact) && fact.success.type === 'MessageAccepted') {
        if (record.traceparent !== null) traces.accepted(record, fact.success.messageId)
        if (fact.success.mode === 'live') environment.onLiveMessage()
        execute(messages.onAccepted(lane, record.offset, record.appendedAt, fact.success, now()))
        return
      }
      // The shard may read the lane again, for operators whose queue was full.
      if (!queues.cursor(lane).isNew(record.offset)) return
      queues.pinUnreadable(lane, record.offset)
      deadLetter(record, Result.isFailure(fact) ? fact.failure.reason : 'unexpected_type', () =>
        queues.unpin(lane, record.offset),
      )
    },
    onReport: (record) => {
      if (record.type === 'InboundMessageReceived') return onInbound(record)
      const report = decodeDeliveryReportReceived(record)
      if (Result.isFailure(report)) return deadLetterReport(record, report.failure.reason)
      const { operator, operatorId, recipient, reference } = report.success
      const outcome = reportOutcome(report.success)
      const { offset } = record
      execute(messages.onReport({ offset, operator, operatorId, reference, recipient, outcome }, now()))
    },
    onOpened: (opened) => execute(messages.opened(opened)),
    onClosed: () => messages.closed(),
    onTick: (at) => execute(messages.tick(at)),
    onCommitted: (lanes, logPosition, at) => execute(messages.committed(lanes, logPosition, at)),
    isFull: (lane) => messages.isFull(lane, now()),
    hasRoom: (lane) => messages.hasRoom(lane, now()),
    seekTarget: (lane, position) => queues.cursor(lane).seekTarget(position, now()),
    reportsFull: () => inbound.isFull || reports.parked.isFull,
    reportsHaveRoom: () => inbound.hasRoom && reports.parked.hasRoom,
    lowestPinned: () => {
      const lowest = messages.lowestPinned()
      if (inbound.lowest === null) return lowest
      return { ...lowest, reports: Math.min(lowest.reports ?? inbound.lowest, inbound.lowest) }
    },
    start: (message) =>
      environment.prepare(message, (result) => {
        if (!handle.isCurrent()) return
        // The claim only appends. What follows comes with its acknowledgement.
        if (result.type === 'prepared') return execute(messages.claim(message, result.submission, now()))
        environment.apply(() => {
          if (result.type === 'impossible') execute(messages.discard(message, now()))
          else execute(messages.postpone(message, now() + result.afterMs, now()))
        })
      }),
    submitAnswered: (message, outcome, deadline) =>
      execute(messages.submitAnswered(message, outcome, deadline, now())),
    reportsToLookUp: (limit) => reports.parked.due(now(), limit),
    lookedUp: (message, handedOver) => execute(messages.lookedUp(message, handedOver, now())),
    reportLookedUp: (parked, known) => execute(messages.reportLookedUp(parked, known, now())),
  }
  return shard
}
