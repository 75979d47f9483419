/**
 * The traces of messages that are sampled, beside the messages: hardly any message has one, and none shall take more memory for it.
 * A message is followed from its lane to its final fact; what is told of it, the log takes along in its headers, so that a
 * shard that is recovered elsewhere goes on with the same trace.
 *
 * Names and attributes: OpenTelemetry, messaging spans (`process`), and `hub.` for what is ours.
 */
import type { LogFact, MessageClass } from '@hub/domain'
import type { IncomingRecord } from '@hub/kafka'
import type { SubmitOutcome } from '@hub/operator'
import { readTraceparent, type Span, traceparentOf, type TracingShape } from '@hub/telemetry'

/**
 * Messages that are followed at once, about 20 MB: those of some minutes with a thousand sampled a second. Beyond them the
 * oldest is followed no further.
 */
const MOST = 50_000

/** Its lane record, which was read and whose span ends with the first answer of an operator. */
interface Processing {
  readonly span: Span
  readonly startedAt: number
  readonly topic: string
  readonly partition: number
  readonly offset: number
}

interface Followed {
  /** For all that follows from what this process does. */
  readonly traceparent: string
  /** `null` once it was told, and where another process has read the lane. */
  processing: Processing | null
}

/** An operator's answer, or that there was none. */
export interface Answered {
  readonly messageId: string
  readonly class: MessageClass
  readonly mode: 'live' | 'test'
  readonly operator: string
  readonly attempt: number
  readonly outcome: SubmitOutcome['type']
  readonly startedAt: number
}

export class MessageTraces {
  readonly #tracing: TracingShape
  readonly #group: string
  readonly #followed = new Map<string, Followed>()

  constructor(tracing: TracingShape, group: string) {
    this.#tracing = tracing
    this.#group = group
  }

  /** A record of a lane was read. */
  accepted({ offset, partition, topic, traceparent }: IncomingRecord, messageId: string): void {
    if (traceparent === null) return
    const span = this.#tracing.continueTrace(traceparent)
    // A shard that had no room reads it again.
    if (span === null || this.#followed.has(messageId)) return
    const startedAt = this.#tracing.now()
    this.#follow(messageId, {
      traceparent: traceparentOf(span),
      processing: { span, startedAt, topic, partition, offset },
    })
  }

  /** A record of the log was read: what another process began is gone on with. */
  continued(traceparent: string, fact: LogFact): void {
    if (!this.#tracing.isOn) return
    if (isLast(fact)) this.#followed.delete(fact.messageId)
    else if (!this.#followed.has(fact.messageId) && readTraceparent(traceparent)?.sampled === true) {
      this.#follow(fact.messageId, { traceparent, processing: null })
    }
  }

  /** Whether a message is followed: asked before anything is made for it. */
  has(messageId: string): boolean {
    return this.#followed.size > 0 && this.#followed.has(messageId)
  }

  /** The `traceparent` of a fact that is appended. */
  of(fact: LogFact): string | undefined {
    if (this.#followed.size === 0) return undefined
    const followed = this.#followed.get(fact.messageId)
    if (followed !== undefined && isLast(fact)) this.#followed.delete(fact.messageId)
    return followed?.traceparent
  }

  now(): number {
    return this.#tracing.now()
  }

  /** A hand-over has ended: its span, and with the first one that of the lane record. */
  answered({ attempt, class: messageClass, messageId, mode, operator, outcome, startedAt }: Answered): void {
    const followed = this.#followed.get(messageId)
    const parent = followed?.processing?.span ?? readTraceparent(followed?.traceparent)
    if (followed === undefined || parent === null || parent === undefined) return
    const common = { 'hub.message_id': messageId, 'hub.class': messageClass, 'hub.mode': mode }
    this.#tracing.record(this.#tracing.childOf(parent), {
      name: `hand over ${operator}`,
      kind: 'client',
      startedAt,
      attributes: { ...common, 'hub.operator': operator, 'hub.attempt': attempt, 'hub.outcome': outcome },
      error: outcome === 'accepted' ? null : outcome,
    })
    const { processing } = followed
    if (processing === null) return
    followed.processing = null
    const { offset, partition, span, topic } = processing
    this.#tracing.record(span, {
      name: `process ${topic}`,
      kind: 'consumer',
      startedAt: processing.startedAt,
      attributes: {
        ...common,
        'messaging.system': 'kafka',
        'messaging.operation.name': 'process',
        'messaging.operation.type': 'process',
        'messaging.destination.name': topic,
        'messaging.destination.partition.id': String(partition),
        'messaging.kafka.offset': offset,
        'messaging.consumer.group.name': this.#group,
      },
    })
  }

  #follow(messageId: string, followed: Followed): void {
    this.#followed.set(messageId, followed)
    if (this.#followed.size <= MOST) return
    const [oldest] = this.#followed.keys()
    if (oldest !== undefined) this.#followed.delete(oldest)
  }
}

/** Nothing but a correction follows it. */
const isLast = ({ type }: LogFact): boolean => {
  switch (type) {
    case 'MessageDelivered':
    case 'MessageUndelivered':
    case 'MessageRejected':
    case 'MessageExpired':
    case 'MessageSeen':
      return true
    case 'HandoverStarted':
    case 'HandoverRefused':
    case 'MessageSent':
    case 'OpenMessageCarried':
      return false
  }
}
