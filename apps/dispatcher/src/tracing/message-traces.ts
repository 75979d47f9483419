/**
 * The traces of sampled messages, from the lane to the final fact. Hardly any message has one, so
 * they are kept apart. Record headers carry a trace, so a recovered shard continues it.
 *
 * Names and attributes: OpenTelemetry messaging spans (`process`), and `hub.` for our own.
 */
import type { LogFact, Mode } from '@hub/domain'
import type { IncomingRecord } from '@hub/kafka'
import type { SubmitOutcome } from '@hub/operator'
import {
  readTraceparent,
  type Span,
  type TraceHeaders,
  traceHeadersIn,
  traceHeadersOf,
  type TracingShape,
} from '@hub/telemetry'
import type { Message } from '../shard/message.ts'

/**
 * The maximum of traced messages, about 20 MB: minutes with a thousand samples per second. Beyond
 * it, the oldest trace ends.
 */
const MAX_TRACED = 50_000

/** Only a correction can follow these facts. */
const LAST: ReadonlySet<LogFact['type']> = new Set([
  'MessageDelivered',
  'MessageUndelivered',
  'MessageRejected',
  'MessageExpired',
  'MessageSeen',
])

/** The span of the lane record. It ends with the first answer of an operator. */
interface Processing {
  readonly span: Span
  readonly startedAt: number
  readonly topic: string
  readonly partition: number
  readonly offset: number
}

interface Traced {
  /** The parent of everything that this process causes. */
  readonly headers: TraceHeaders
  /** `null` after the span has ended, and if another process has read the lane. */
  processing: Processing | null
}

export class MessageTraces {
  readonly #tracing: TracingShape
  readonly #group: string
  readonly #traced = new Map<string, Traced>()

  constructor(tracing: TracingShape, group: string) {
    this.#tracing = tracing
    this.#group = group
  }

  /** A lane record was read. */
  accepted({ offset, partition, topic, traceparent, tracestate }: IncomingRecord, messageId: string): void {
    if (traceparent === null) return
    const span = this.#tracing.continueTrace(traceparent, tracestate)
    // A shard without room for the message reads the record again.
    if (span === null || this.#traced.has(messageId)) return
    const startedAt = this.#tracing.now()
    this.#add(messageId, {
      headers: traceHeadersOf(span),
      processing: { span, startedAt, topic, partition, offset },
    })
  }

  /** A log record was read. It continues the trace of another process. */
  continued(record: Pick<IncomingRecord, 'traceparent' | 'tracestate'>, fact: LogFact): void {
    if (!this.#tracing.isOn) return
    const headers = traceHeadersIn(record)
    if (headers === null) return
    if (LAST.has(fact.type)) this.#traced.delete(fact.messageId)
    else if (!this.#traced.has(fact.messageId) && readTraceparent(headers.traceparent)?.sampled === true) {
      this.#add(fact.messageId, { headers, processing: null })
    }
  }

  has(messageId: string): boolean {
    return this.#traced.size > 0 && this.#traced.has(messageId)
  }

  /** The headers for a fact to append. */
  of(fact: LogFact): TraceHeaders | undefined {
    if (this.#traced.size === 0) return undefined
    const traced = this.#traced.get(fact.messageId)
    if (traced !== undefined && LAST.has(fact.type)) this.#traced.delete(fact.messageId)
    return traced?.headers
  }

  now(): number {
    return this.#tracing.now()
  }

  /** Ends the span of a submit. The first one also ends the span of the lane record. */
  answered(
    { id, route, state }: Message,
    mode: Mode,
    outcome: SubmitOutcome['type'],
    startedAt: number,
  ): void {
    const traced = this.#traced.get(id)
    const parent =
      traced?.processing?.span ?? readTraceparent(traced?.headers.traceparent, traced?.headers.tracestate)
    if (traced === undefined || parent === null || parent === undefined) return
    const common = { 'hub.message_id': id, 'hub.class': state.class, 'hub.mode': mode }
    this.#tracing.record(this.#tracing.childOf(parent), {
      name: `hand over ${route}`,
      kind: 'client',
      startedAt,
      attributes: { ...common, 'hub.operator': route, 'hub.attempt': state.attempts, 'hub.outcome': outcome },
      error: outcome === 'accepted' ? null : outcome,
    })
    const { processing } = traced
    if (processing === null) return
    traced.processing = null
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

  #add(messageId: string, traced: Traced): void {
    this.#traced.set(messageId, traced)
    if (this.#traced.size <= MAX_TRACED) return
    const [oldest] = this.#traced.keys()
    if (oldest !== undefined) this.#traced.delete(oldest)
  }
}
