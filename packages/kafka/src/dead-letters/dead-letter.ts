/** Dead letters, as pure functions: their headers, and conversion from and to the record. */
import { Result } from 'effect'
import type { IncomingRecord, OutgoingRecord, Position } from '../port.ts'
import { decodeRecord, type UndecodableRecord } from '../records/codec.ts'
import { schemaName } from '../schemas/avro-type.ts'
import { deadLetterTopic } from '../topics/catalogue.ts'

/** The headers of a dead letter, in addition to those of its source record. */
export const DEAD_LETTER_HEADERS = {
  reason: 'dead_letter_reason',
  topic: 'source_topic',
  partition: 'source_partition',
  offset: 'source_offset',
} as const

export interface DeadLetter {
  /** The record of the dead-letter topic, with the key, type, id and value of the source record. */
  readonly record: IncomingRecord
  /** A code, such as `unknown_schema`; `null` where the header is absent. */
  readonly reason: string | null
  /** `null` if headers are absent, or name a topic with another dead-letter topic. */
  readonly source: Position | null
}

/**
 * The dead letter of a record: the same bytes, in the same partition of the dead-letter topic.
 * `reason` is a code (`UndecodableRecord.reason`, the tag of an error), never a text with content.
 */
export const deadLetterRecord = (record: IncomingRecord, reason: string): OutgoingRecord => ({
  topic: deadLetterTopic(record.topic),
  partition: record.partition,
  ...contentOf(record),
  headers: {
    ...furtherHeadersOf(record),
    [DEAD_LETTER_HEADERS.reason]: reason,
    [DEAD_LETTER_HEADERS.topic]: record.topic,
    [DEAD_LETTER_HEADERS.partition]: String(record.partition),
    [DEAD_LETTER_HEADERS.offset]: String(record.offset),
  },
})

const wholeNumber = (text: string | undefined): number | null =>
  text !== undefined && /^\d{1,15}$/u.test(text) ? Number(text) : null

/** Reads the headers of a record of a dead-letter topic. */
export const deadLetterOf = (record: IncomingRecord): DeadLetter => {
  const { [DEAD_LETTER_HEADERS.reason]: reason, [DEAD_LETTER_HEADERS.topic]: topic } = record.headers ?? {}
  const partition = wholeNumber(record.headers?.[DEAD_LETTER_HEADERS.partition])
  const offset = wholeNumber(record.headers?.[DEAD_LETTER_HEADERS.offset])
  const isSource =
    topic !== undefined && partition !== null && offset !== null && deadLetterTopic(topic) === record.topic
  return { record, reason: reason ?? null, source: isSource ? { topic, partition, offset } : null }
}

/**
 * The source record, for its own partition; `null` where the source is unknown. It has the same id,
 * so a consumer that has applied it meanwhile drops it.
 */
export const recordToRetry = ({ record, source }: DeadLetter): OutgoingRecord | null =>
  source === null
    ? null
    : {
        topic: source.topic,
        partition: source.partition,
        ...contentOf(record),
        ...(record.tracestate === undefined ? {} : { headers: furtherHeadersOf(record) }),
      }

/** The headers of a record that have no field in {@link OutgoingRecord}. */
const furtherHeadersOf = ({ tracestate }: IncomingRecord): Readonly<Record<string, string>> =>
  tracestate === undefined ? {} : { tracestate }

const contentOf = ({ id, key, occurredAt, traceparent, type, value }: IncomingRecord) => ({
  key,
  type,
  id,
  occurredAt,
  value,
  ...(traceparent === null ? {} : { traceparent }),
})

/** A decoded record for display, with the names of its schema. Of encrypted bytes it contains only the length. */
type DisplayRecord = Readonly<Record<string, unknown>>

/** The decoded content of a dead letter. Bytes that cannot be decoded are never displayed. */
export const displayContent = ({ record }: DeadLetter): Result.Result<DisplayRecord, UndecodableRecord> =>
  Result.map(decodeRecord(record.value), (decoded) =>
    Object.fromEntries(
      Object.entries(decoded).map(([name, value]) => [
        schemaName(name),
        value instanceof Uint8Array ? { sealed_bytes: value.length } : (value as unknown),
      ]),
    ),
  )
