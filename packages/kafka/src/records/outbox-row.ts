/**
 * The encoding of records in an outbox row. Rows are short-lived and only the hub reads them, so
 * the encoding has no schema id, but a version byte.
 */
import { Result } from 'effect'
import type { OutgoingRecord } from '../port.ts'
import { asBuffer, codecType } from '../schemas/avro-type.ts'
import { undecodable, type UndecodableRecord } from './codec.ts'

/** The first byte of a row. */
const FORMAT_VERSION = 1

const outboxType = codecType({
  type: 'array',
  items: {
    type: 'record',
    name: 'OutboxRecord',
    fields: [
      { name: 'topic', type: 'string' },
      { name: 'key', type: 'string' },
      { name: 'partition', type: ['null', 'int'], default: null },
      { name: 'type', type: 'string' },
      { name: 'id', type: 'string' },
      { name: 'occurredAt', type: 'long' },
      { name: 'traceparent', type: ['null', 'string'], default: null },
      { name: 'headers', type: ['null', { type: 'map', values: 'string' }], default: null },
      { name: 'value', type: 'bytes' },
    ],
  },
})

/** Encodes records into one outbox row. */
export const encodeOutboxRow = (records: ReadonlyArray<OutgoingRecord>): Uint8Array => {
  const body = outboxType.toBuffer(
    records.map((record) => ({
      ...record,
      partition: record.partition ?? null,
      traceparent: record.traceparent ?? null,
      headers: record.headers ?? null,
      value: asBuffer(record.value),
    })),
  )
  const out = new Uint8Array(body.length + 1)
  out[0] = FORMAT_VERSION
  out.set(body, 1)
  return out
}

interface OutboxRecord extends Omit<OutgoingRecord, 'partition' | 'traceparent' | 'headers'> {
  readonly partition: number | null
  readonly traceparent: string | null
  readonly headers: Readonly<Record<string, string>> | null
}

/** Decodes an outbox row, in the order of the records. */
export const decodeOutboxRow = (
  row: Uint8Array,
): Result.Result<ReadonlyArray<OutgoingRecord>, UndecodableRecord> => {
  if (row.length < 2) return undecodable('truncated', 'outbox row')
  if (row[0] !== FORMAT_VERSION) return undecodable('not_wire_format', `outbox row of version ${row[0]}`)
  const buffer = asBuffer(row)
  let read: { readonly value: ReadonlyArray<OutboxRecord>; readonly offset: number }
  try {
    read = outboxType.decode(buffer, 1)
  } catch {
    return undecodable('malformed', 'outbox row')
  }
  if (read.offset < 0) return undecodable('truncated', 'outbox row')
  if (read.offset !== buffer.length) return undecodable('trailing_bytes', 'outbox row')
  return Result.succeed(
    read.value.map(({ topic, key, partition, type, id, occurredAt, traceparent, headers, value }) => ({
      topic,
      key,
      type,
      id,
      occurredAt,
      value,
      ...(partition === null ? {} : { partition }),
      ...(traceparent === null ? {} : { traceparent }),
      ...(headers === null ? {} : { headers }),
    })),
  )
}
