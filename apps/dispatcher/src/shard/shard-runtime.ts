/** Runs a `MessageShard`: decodes records into inputs, and executes the returned effects. */
import type { Fence, Shard, ShardHandle, Urgency } from '@hub/actor'
import { type Lifetimes, type LogFact, type MessageClass, reportDeadline, sandboxScenario } from '@hub/domain'
import {
  acceptedRecord,
  carriedFact,
  deadLetterRecord,
  decodeAcceptedHead,
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
import { type OpenSubmission, SANDBOX } from '@hub/operator'
import { Result } from 'effect'
import type { Metrics } from '../metrics.ts'
import type { MessageTraces } from '../tracing/message-traces.ts'
import type { Append, ReAppend, ShardEffect, ShardSettings } from './effects.ts'
import { InboundQueue } from './inbound-queue.ts'
import type { ShardInput } from './inputs.ts'
import type { Message, Preparation, PreparedSubmission } from './message.ts'
import type { ParkedReport } from './parked-reports.ts'
import { MessageShard } from './shard.ts'

/** What a shard needs of its process. */
interface ShardEnvironment extends Omit<ShardSettings, 'reportDeadline' | 'onReady'> {
  readonly topics: TopicNames
  readonly lifetimes: Lifetimes
  readonly metrics: Metrics
  readonly traces: MessageTraces
  readonly now: () => number
  /** Runs a change that does not come from the runtime, and starts the work that it allows. */
  readonly apply: (change: () => void) => void
  /** Decrypts the payload of a message. It may call `onPrepared` synchronously. */
  readonly prepare: (message: Message, onPrepared: (preparation: Preparation) => void) => void
  /** See `ShardSettings`. */
  readonly onReady: (shard: ShardRuntime, lane: number, operator: string, account: string) => void
  /** The claim of a message is acknowledged: submit it. */
  readonly enqueueClaimed: (shard: ShardRuntime, message: Message, submission: PreparedSubmission) => void
  readonly resume: (operator: string, open: ReadonlyArray<OpenSubmission>) => void
  readonly onLiveMessage: () => void
  /** A record cannot be decoded. `reason` is a code. */
  readonly onDeadLetter: (record: IncomingRecord, reason: string) => void
}

/** The runtime of one shard: the host calls it for records and time, the process for the rest. */
export interface ShardRuntime extends Shard {
  readonly handle: ShardHandle
  readonly messages: MessageShard
  /** Runs an input of the shard, and executes its effects. */
  readonly run: (input: ShardInput) => void
  /** Inbound messages that are not applied to the opt-outs yet. */
  readonly inbound: InboundQueue
  /** Dead-letters an inbound message that cannot be decrypted. Its offset is pinned until then. */
  readonly deadLetterInbound: (record: IncomingRecord) => void
  /** Starts the handover of a taken message: decrypts the payload, and appends the claim. */
  readonly start: (message: Message) => void
  readonly reportsToLookUp: (limit: number) => ReadonlyArray<ParkedReport>
}

type Damaged = Extract<ShardEffect, { readonly type: 'damaged' }>

/**
 * The recipient of a code waits for the acknowledgement of its claim. A delivery report is read again until
 * its outcome is appended.
 */
const urgencyOf = (fact: LogFact, messageClass: MessageClass): Urgency => {
  if (fact.type === 'HandoverStarted') return messageClass === 'otp' ? 'now' : 'soon'
  return fact.type === 'MessageDelivered' ? 'later' : 'soon'
}

/** What the sandbox does with a message; `null` for a live message. */
const scenarioOf = (operator: string | null, submission: PreparedSubmission | null) => {
  // A sandbox process that has ended sends no reports, and its messages have no operator ids.
  if (submission === null) return operator === SANDBOX ? 'silent' : null
  return submission.mode === 'test' ? sandboxScenario(submission.request.to) : null
}

export const makeShardRuntime = (handle: ShardHandle, environment: ShardEnvironment): ShardRuntime => {
  const { lifetimes, metrics, now, topics, traces } = environment
  const messages = new MessageShard({
    ...environment,
    onReady: (lane, operator, account) => environment.onReady(shard, lane, operator, account),
    reportDeadline: ({ class: messageClass, operator }, submission, sentAt) =>
      reportDeadline(lifetimes, {
        class: messageClass,
        sentAt,
        scenario: scenarioOf(operator, submission),
      }),
  })
  const { parkedReports, pinnedReports, queues } = messages

  const append = (effect: Append) => {
    const { fact, message } = effect
    metrics.factAppended(fact, message.state)
    const envelope = { partition: handle.shard, ...traces.of(fact) }
    handle.append(
      logRecord(topics, fact, message.key, envelope),
      (offset) => run({ type: 'appended', effect, offset }),
      urgencyOf(fact, message.state.class),
    )
  }

  const reAppend = (effect: ReAppend) => {
    const carried = effect.open.map(({ fact, message }) => ({
      ...fact,
      recipient: message.key,
      // The record has no room for a `tracestate`, so it ends here.
      traceparent: traces.of(fact)?.traceparent ?? null,
    }))
    const record = openMessagesCarriedRecord(topics, {
      type: 'OpenMessagesCarried',
      shard: handle.shard,
      at: effect.at,
      messages: carried,
    })
    handle.append(record, (offset) => run({ type: 'appended', effect, offset }))
  }

  const run = (input: ShardInput, at = now()): void => {
    for (const effect of messages.handle(input, at)) {
      if (effect.type === 'append') append(effect)
      else if (effect.type === 'reAppend') reAppend(effect)
      else if (effect.type === 'submit') environment.enqueueClaimed(shard, effect.message, effect.submission)
      else if (effect.type === 'resume') environment.resume(effect.operator, effect.open)
      else if (effect.type === 'damaged') deadLetterDamaged(effect)
      else metrics.specialCase(effect.what, effect.count)
    }
  }

  /** Dead-letters a record. `onWritten` unpins its offset. */
  const deadLetter = (record: IncomingRecord, reason: string, onWritten: () => void) => {
    environment.onDeadLetter(record, reason)
    metrics.deadLettered()
    handle.append(deadLetterRecord(record, reason), onWritten)
  }
  const deadLetterLane = (lane: number, record: IncomingRecord, reason: string) => {
    queues.pinUnreadable(lane, record.offset)
    deadLetter(record, reason, () => queues.unpin(lane, record.offset))
  }
  const deadLetterDamaged = ({ accepted, offset, recipient }: Damaged) => {
    const { id, occurredAt, topic, type, value } = acceptedRecord(topics, accepted)
    const source = { topic, partition: handle.shard, offset, traceparent: null, appendedAt: occurredAt }
    const record = { ...source, key: recipient, type, id, occurredAt, value }
    deadLetter(record, 'payload_damaged', () => {})
  }
  const deadLetterReport = (record: IncomingRecord, reason: string) => {
    pinnedReports.pin(record.offset)
    deadLetter(record, reason, () => pinnedReports.unpin(record.offset))
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
      traces.continued(message, fact)
      run({ type: 'fact', offset: record.offset, recipient: message.recipient, fact, fence })
    }
  }

  const shard: ShardRuntime = {
    handle,
    messages,
    run,
    inbound,
    deadLetterInbound: (record) => {
      inbound.done(record.offset)
      deadLetterReport(record, 'payload_unreadable')
    },
    onLog: (record, fence) => {
      if (messages.isOwn(record.offset)) return
      if (record.type === 'OpenMessagesCarried') return onReAppended(record, fence)
      if (!isFactType(record.type)) return
      const decoded = decodeFact(record)
      if (Result.isFailure(decoded)) return deadLetterFact(record, decoded.failure.reason)
      const fact = decoded.success
      if (fact.type === 'MessageAccepted') return
      traces.continued(record, fact)
      run({ type: 'fact', offset: record.offset, recipient: record.key, fact, fence })
    },
    onLane: (lane, record) => {
      const head = decodeAcceptedHead(record)
      if (Result.isFailure(head)) {
        // The shard may read the lane again, for accounts whose share was full.
        if (queues.cursor(lane).isNew(record.offset)) deadLetterLane(lane, record, head.failure.reason)
        return
      }
      const { messageId, mode } = head.success
      if (record.traceparent !== null) traces.accepted(record, messageId)
      if (mode === 'live') environment.onLiveMessage()
      const verdict = messages.judge(lane, record.offset, head.success)
      if (verdict === 'duplicate') metrics.specialCase('duplicate_dropped', 1)
      // Most records behind a backlog are skipped, and need no further decoding.
      if (verdict !== 'keep') return
      const { appendedAt, offset } = record
      const fact = decodeFact(record)
      if (Result.isFailure(fact)) deadLetterLane(lane, record, fact.failure.reason)
      else if (fact.success.type === 'MessageAccepted') {
        run({ type: 'accepted', lane, offset, appendedAt, accepted: fact.success })
      }
    },
    onReport: (record) => {
      if (record.type === 'InboundMessageReceived') return onInbound(record)
      // Only hub staff read answers.
      if (record.type === 'OperatorAnswerReceived') return
      const report = decodeDeliveryReportReceived(record)
      if (Result.isFailure(report)) return deadLetterReport(record, report.failure.reason)
      const { operator, operatorId, recipient, reference } = report.success
      const outcome = reportOutcome(report.success)
      const { appendedAt: receivedAt, offset } = record
      const known = { offset, operator, operatorId, reference, recipient, receivedAt, outcome }
      run({ type: 'report', report: known })
    },
    onOpened: ({ now: at, ...opened }) => run({ type: 'opened', ...opened }, at),
    onClosed: () => messages.closed(),
    onTick: (at) => run({ type: 'tick' }, at),
    onCommitted: (lanes, logPosition, at) => run({ type: 'committed', lanes, logPosition }, at),
    isFull: (lane) => messages.isFull(lane, now()),
    hasRoom: (lane) => messages.hasRoom(lane, now()),
    seekTarget: (lane, position) => queues.cursor(lane).seekTarget(position, now()),
    reportsFull: () => inbound.isFull || parkedReports.isFull,
    reportsHaveRoom: () => inbound.hasRoom && parkedReports.hasRoom,
    lowestPinned: () => {
      const lowest = messages.lowestPinned()
      if (inbound.lowest === null) return lowest
      return { ...lowest, reports: Math.min(lowest.reports ?? inbound.lowest, inbound.lowest) }
    },
    start: (message) =>
      environment.prepare(message, (preparation) => {
        if (!handle.isCurrent()) return
        const prepared = () => run({ type: 'prepared', message, preparation })
        // The claim only appends. What follows comes with its acknowledgement.
        if (preparation.type === 'prepared') prepared()
        else environment.apply(prepared)
      }),
    reportsToLookUp: (limit) => parkedReports.due(now(), limit),
  }
  return shard
}
