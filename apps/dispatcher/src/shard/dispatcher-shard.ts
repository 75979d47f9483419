/** A `MessageShard` behind the runtime's `Shard`: records are decoded here, and facts encoded. */
import type { Fence, Shard, ShardHandle } from '@hub/actor'
import { DEFAULT_LIFETIMES, type LogFact, type Mode, reportDeadline } from '@hub/domain'
import {
  deadLetterRecord,
  decodeDeliveryReportReceived,
  decodeFact,
  decodeInboundMessageReceived,
  decodeOpenMessagesCarried,
  carriedFact,
  type IncomingRecord,
  isFactType,
  logRecord,
  openMessagesCarriedRecord,
  reportOutcome,
  type TopicNames,
} from '@hub/kafka'
import { type OpenSubmission, SANDBOX } from '@hub/operator'
import { Result } from 'effect'
import { InboundQueue } from '../inbound/waiting.ts'
import type { Metrics } from '../metrics.ts'
import { type Happening, MessageShard, type Population, type ShardLimits } from './message-shard.ts'
import type { MessageTraces } from '../traces.ts'
import type { Message } from './message.ts'

/** What a shard needs of the process around it. */
export interface ShardEnvironment {
  readonly topics: TopicNames
  readonly limits: ShardLimits
  readonly population: Population
  /** Every operator that `operatorFor` may name. */
  readonly routes: ReadonlyArray<string>
  readonly metrics: Metrics
  readonly traces: MessageTraces
  readonly now: () => number
  readonly operatorFor: (mode: Mode) => string
  readonly dedupes: (operator: string) => boolean
  readonly submit: (shard: DispatcherShard, message: Message) => void
  readonly resume: (operator: string, open: ReadonlyArray<OpenSubmission>) => void
  /** A record could not be read; the reason is a code. */
  readonly onDeadLetter: (record: IncomingRecord, reason: string) => void
}

export interface DispatcherShard extends Shard {
  readonly messages: MessageShard
  /** What recipients have written and has not been applied to their opt-outs yet. */
  readonly inbound: InboundQueue
  /** An inbound message cannot be opened: to the dead letters; its place is held until it is there. */
  readonly setInboundAside: (record: IncomingRecord) => void
  readonly handle: ShardHandle
}

export const makeDispatcherShard = (handle: ShardHandle, environment: ShardEnvironment): DispatcherShard => {
  const { metrics, topics, traces } = environment
  const messages = new MessageShard(
    {
      now: environment.now,
      append: (fact: LogFact, message, onAppended) => {
        metrics.told(fact, message.state)
        const traceparent = traces.of(fact)
        const { shard: partition } = handle
        const envelope = traceparent === undefined ? { partition } : { partition, traceparent }
        handle.append(logRecord(topics, fact, message.key, envelope), onAppended)
      },
      carry: (open, at, onAppended) => {
        const carried = open.map(({ fact, message }) => ({
          ...fact,
          recipient: message.key,
          traceparent: traces.of(fact) ?? null,
        }))
        const record = { type: 'OpenMessagesCarried' as const, shard: handle.shard, at, messages: carried }
        handle.append(openMessagesCarriedRecord(topics, record), onAppended)
      },
      submit: (message) => environment.submit(shard, message),
      resume: environment.resume,
      operatorFor: environment.operatorFor,
      routes: environment.routes,
      population: environment.population,
      dedupes: environment.dedupes,
      // The sandbox has lost with its process what it would have reported, and knows no ids to tell it by.
      reportDeadline: ({ class: messageClass, operator }, sentAt) =>
        reportDeadline(DEFAULT_LIFETIMES, {
          class: messageClass,
          sentAt,
          scenario: operator === SANDBOX ? 'silent' : null,
        }),
      happened: (what: Happening, count = 1) => metrics.happened(what, count),
    },
    environment.limits,
  )

  /** Out of the way, with the reason; its place is held until that has been written. */
  const deadLetter = (record: IncomingRecord, reason: string, written: () => void) => {
    environment.onDeadLetter(record, reason)
    metrics.deadLettered()
    handle.append(deadLetterRecord(record, reason), written)
  }

  const inbound = new InboundQueue()
  const onInbound = (record: IncomingRecord) => {
    const message = decodeInboundMessageReceived(record)
    if (Result.isSuccess(message)) {
      inbound.add({ record, message: message.success })
      return
    }
    messages.holdReport(record.offset)
    deadLetter(record, message.failure.reason, () => messages.releaseReport(record.offset))
  }

  const onCarried = (record: IncomingRecord, fence: Fence) => {
    const carried = decodeOpenMessagesCarried(record)
    if (Result.isFailure(carried)) return deadLetter(record, carried.failure.reason, () => {})
    for (const message of carried.success.messages) {
      const fact = carriedFact(carried.success, message)
      if (message.traceparent !== null) traces.continued(message.traceparent, fact)
      messages.onFact(record.offset, message.recipient, fact, fence)
    }
  }

  const shard: DispatcherShard = {
    messages,
    inbound,
    handle,
    setInboundAside: (record) => {
      messages.holdReport(record.offset)
      inbound.done(record.offset)
      deadLetter(record, 'payload_unreadable', () => messages.releaseReport(record.offset))
    },
    onLog: (record, fence) => {
      if (messages.isOwn(record.offset)) return
      if (record.type === 'OpenMessagesCarried') return onCarried(record, fence)
      if (!isFactType(record.type)) return
      const fact = decodeFact(record)
      // Whoever wrote it has its copy; nothing here waits for it.
      if (Result.isFailure(fact)) deadLetter(record, fact.failure.reason, () => {})
      else if (fact.success.type !== 'MessageAccepted') {
        if (record.traceparent !== null) traces.continued(record.traceparent, fact.success)
        messages.onFact(record.offset, record.key, fact.success, fence)
      }
    },
    onLane: (lane, record) => {
      const fact = decodeFact(record)
      if (Result.isSuccess(fact) && fact.success.type === 'MessageAccepted') {
        if (record.traceparent !== null) traces.accepted(record, fact.success.messageId)
        messages.onAccepted(lane, record.offset, record.appendedAt, fact.success)
        return
      }
      // A lane is read again for those who had no room.
      if (!messages.isNew(lane, record.offset)) return
      messages.holdLane(lane, record.offset)
      deadLetter(record, Result.isFailure(fact) ? fact.failure.reason : 'unexpected_type', () =>
        messages.releaseLane(lane, record.offset),
      )
    },
    onReport: (record) => {
      if (record.type === 'InboundMessageReceived') return onInbound(record)
      const report = decodeDeliveryReportReceived(record)
      if (Result.isFailure(report)) {
        messages.holdReport(record.offset)
        deadLetter(record, report.failure.reason, () => messages.releaseReport(record.offset))
        return
      }
      messages.onReport({
        offset: record.offset,
        operator: report.success.operator,
        operatorId: report.success.operatorId,
        reference: report.success.reference,
        recipient: report.success.recipient,
        outcome: reportOutcome(report.success),
      })
    },
    onOpened: (opened) => messages.opened(opened),
    onClosed: () => messages.closed(),
    onTick: (now) => messages.tick(now),
    isFull: (lane) => messages.isFull(lane),
    hasRoom: (lane) => messages.hasRoom(lane),
    seekTarget: (lane, position) => messages.turn(lane, position),
    reportsFull: () => inbound.isFull || messages.reportsFull,
    reportsHaveRoom: () => inbound.hasRoom && messages.reportsHaveRoom,
    lowestPinned: () => {
      const needed = messages.needed()
      const lowest = inbound.lowest
      if (lowest === null) return needed
      return { ...needed, reports: needed.reports === null ? lowest : Math.min(needed.reports, lowest) }
    },
    onCommitted: (lanes, logPosition, now) => messages.committed(lanes, logPosition, now),
  }
  return shard
}
