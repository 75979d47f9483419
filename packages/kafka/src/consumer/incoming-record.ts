/** Converts a message of kafkajs into a record of the port. */
import type { KafkaMessage } from 'kafkajs'
import { DEAD_LETTER_HEADERS } from '../dead-letters/dead-letter.ts'
import type { IncomingRecord } from '../port.ts'

type Headers = NonNullable<KafkaMessage['headers']>

const textOf = (value: Headers[string]): string | null => {
  const first = Array.isArray(value) ? value[0] : value
  return first === undefined ? null : first.toString()
}

/** Headers that have a field of their own in `IncomingRecord`. */
const FIELD_HEADERS: ReadonlySet<string> = new Set(['type', 'id', 'occurred_at', 'traceparent'])

const furtherHeaders = (headers: Headers): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) => {
      const written = FIELD_HEADERS.has(name) ? null : textOf(value)
      return written === null ? [] : [[name, written] as const]
    }),
  )

/** Records of other producers may lack headers. Readers reject the empty type. */
export const incomingRecord = (topic: string, partition: number, message: KafkaMessage): IncomingRecord => {
  const { headers } = message
  const appendedAt = Number(message.timestamp)
  const occurredAt = Number(textOf(headers?.['occurred_at']) ?? Number.NaN)
  const further = headers?.[DEAD_LETTER_HEADERS.reason] === undefined ? undefined : furtherHeaders(headers)
  return {
    topic,
    partition,
    offset: Number(message.offset),
    key: message.key?.toString() ?? '',
    type: textOf(headers?.['type']) ?? '',
    id: textOf(headers?.['id']) ?? '',
    occurredAt: Number.isSafeInteger(occurredAt) ? occurredAt : appendedAt,
    traceparent: textOf(headers?.['traceparent']),
    appendedAt,
    ...(further === undefined ? undefined : { headers: further }),
    value: message.value ?? new Uint8Array(),
  }
}
