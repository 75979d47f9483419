/**
 * Records to bytes and back: Avro in the Confluent wire format (a zero byte, the schema's id as a big-endian
 * 32-bit integer, the Avro binary). What cannot be read is told as a value, so that a reader can send it to the
 * dead-letter topic and go on.
 */
import { Data, Result } from 'effect'
import avro from 'avsc'
import type { MessageFact } from '@hub/domain'
import type {
  BatchSealed,
  DeliveryReportReceived,
  EventRecorded,
  HubRecord,
  InboundMessageReceived,
  OpenMessagesCarried,
  ShardOpened,
  SubscriptionChanged,
} from './records.ts'
import type { OutgoingRecord } from '../port.ts'
import { codecType, RECORD_NAMES, SCHEMAS, type RecordName } from '../schemas/schemas.ts'

/**
 * Why a record cannot be read. Reading it again gives the same answer: it belongs in the dead-letter topic. The
 * detail names schemas and fields, never a value.
 */
export class UndecodableRecord extends Data.TaggedError('UndecodableRecord')<{
  readonly reason:
    | 'not_wire_format'
    | 'unknown_schema'
    | 'truncated'
    | 'trailing_bytes'
    | 'malformed'
    | 'unknown_symbol'
    | 'unexpected_type'
  readonly detail: string
}> {}

/** Magic byte and schema id. */
const HEADER = 5

interface Encoder {
  readonly id: number
  readonly type: avro.Type
  /** Fields that avsc wants as a Buffer. */
  readonly bytes: ReadonlyArray<string>
}

interface Decoder {
  readonly name: RecordName
  readonly type: avro.Type
  /** From the version that wrote to the newest; undefined when they are the same. */
  readonly resolver: ReturnType<avro.Type['createResolver']> | undefined
  /** Fields whose enum has the symbol `unknown`: what a writer newer than this code meant. */
  readonly symbols: ReadonlyArray<string>
  /** The same of records in a list of the record. */
  readonly inLists: ReadonlyArray<{ readonly list: string; readonly symbols: ReadonlyArray<string> }>
}

const encoders = {} as Record<RecordName, Encoder>
const decoders = new Map<number, Decoder>()

const branches = (type: avro.Type): ReadonlyArray<avro.Type> =>
  type.typeName.startsWith('union') ? (type as avro.types.UnwrappedUnionType).types : [type]

type Fields = avro.types.RecordType['fields']

const symbolsOf = (fields: Fields): ReadonlyArray<string> =>
  fields
    .filter((f) =>
      branches(f.type).some(
        (b) => b.typeName === 'enum' && (b as avro.types.EnumType).symbols.includes('unknown'),
      ),
    )
    .map((f) => f.name)

const symbolsInLists = (fields: Fields): Decoder['inLists'] =>
  fields.flatMap(({ name: list, type }) => {
    const items = type.typeName === 'array' ? (type as avro.types.ArrayType).itemsType : null
    if (items?.typeName !== 'record') return []
    return [{ list, symbols: symbolsOf((items as avro.types.RecordType).fields) }]
  })

for (const name of RECORD_NAMES) {
  const versions = SCHEMAS.filter((schema) => schema.name === name)
  const latest = versions.at(-1)
  if (latest === undefined) throw new Error(`no schema for ${name}`)
  const type = codecType(latest.schema)
  const fields = (type as avro.types.RecordType).fields
  encoders[name] = {
    id: latest.id,
    type,
    bytes: fields.filter((f) => branches(f.type).some((b) => b.typeName === 'bytes')).map((f) => f.name),
  }
  const symbols = symbolsOf(fields)
  const inLists = symbolsInLists(fields)
  for (const { id, schema } of versions) {
    const resolver = id === latest.id ? undefined : type.createResolver(codecType(schema))
    decoders.set(id, { name, type, resolver, symbols, inLists })
  }
}

const asBuffer = (bytes: Uint8Array): Buffer =>
  Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)

/** Written into and copied from; grows to the largest record seen. */
let scratch = Buffer.allocUnsafe(4096)

/** Encodes any record of the hub under the newest version of its schema. A value of the wrong type is a defect. */
export const encodeRecord = (record: HubRecord): Uint8Array => {
  const { id, type, bytes } = encoders[record.type]
  let value: object = record
  if (bytes.length > 0) {
    const copy: Record<string, unknown> = { ...record }
    for (const field of bytes) {
      const content = copy[field]
      if (content instanceof Uint8Array) copy[field] = asBuffer(content)
    }
    value = copy
  }
  let end = type.encode(value, scratch, HEADER)
  if (end < 0) {
    // A negative answer says how many bytes were missing.
    scratch = Buffer.allocUnsafe(2 * (scratch.length - end))
    end = type.encode(value, scratch, HEADER)
  }
  scratch[0] = 0
  scratch.writeInt32BE(id, 1)
  return Uint8Array.prototype.slice.call(scratch, 0, end)
}

const undecodable = (reason: UndecodableRecord['reason'], detail: string) =>
  Result.fail(new UndecodableRecord({ reason, detail }))

/** Decodes any record of the hub, whichever version of its schema wrote it. */
export const decodeRecord = (value: Uint8Array): Result.Result<HubRecord, UndecodableRecord> => {
  if (value.length < HEADER) return undecodable('truncated', `${value.length} bytes`)
  if (value[0] !== 0) return undecodable('not_wire_format', `first byte ${value[0]}`)
  const buffer = asBuffer(value)
  const id = buffer.readInt32BE(1)
  const decoder = decoders.get(id)
  if (decoder === undefined) return undecodable('unknown_schema', `id ${id}`)
  let read: { readonly value: Record<string, unknown>; readonly offset: number }
  try {
    read = decoder.type.decode(buffer, HEADER, decoder.resolver)
  } catch {
    // The message of avsc may repeat the content.
    return undecodable('malformed', decoder.name)
  }
  if (read.offset < 0) return undecodable('truncated', decoder.name)
  if (read.offset !== buffer.length) {
    return undecodable('trailing_bytes', `${decoder.name}, ${buffer.length - read.offset} bytes`)
  }
  for (const field of decoder.symbols) {
    if (read.value[field] === 'unknown') return undecodable('unknown_symbol', `${decoder.name}.${field}`)
  }
  for (const { list, symbols } of decoder.inLists) {
    for (const item of read.value[list] as ReadonlyArray<Record<string, unknown>>) {
      const field = symbols.find((symbol) => item[symbol] === 'unknown')
      if (field !== undefined) return undecodable('unknown_symbol', `${decoder.name}.${list}.${field}`)
    }
  }
  return Result.succeed({ type: decoder.name, ...read.value } as HubRecord)
}

/** Encodes a fact about a message. */
export const encodeFact: (fact: MessageFact) => Uint8Array = encodeRecord

const decodeAs =
  <A extends HubRecord>(names: ReadonlySet<string>, wanted: string) =>
  (record: { readonly value: Uint8Array }): Result.Result<A, UndecodableRecord> => {
    const decoded = decodeRecord(record.value)
    if (Result.isSuccess(decoded) && !names.has(decoded.success.type)) {
      return undecodable('unexpected_type', `${decoded.success.type} where ${wanted} was expected`)
    }
    return decoded as Result.Result<A, UndecodableRecord>
  }

const FACTS: ReadonlySet<string> = new Set<MessageFact['type']>([
  'MessageAccepted',
  'HandoverStarted',
  'HandoverRefused',
  'MessageSent',
  'MessageDelivered',
  'MessageUndelivered',
  'MessageRejected',
  'MessageExpired',
  'MessageSeen',
  'OpenMessageCarried',
])

/** Whether records of this type (header `type`) are facts of one message. */
export const isFactType = (type: string): type is MessageFact['type'] => FACTS.has(type)

/** Decodes a fact about a message; any other record is `unexpected_type`. */
export const decodeFact = decodeAs<MessageFact>(FACTS, 'a fact about a message')

export const encodeShardOpened: (record: ShardOpened) => Uint8Array = encodeRecord
export const decodeShardOpened = decodeAs<ShardOpened>(new Set(['ShardOpened']), 'ShardOpened')
export const decodeOpenMessagesCarried = decodeAs<OpenMessagesCarried>(
  new Set(['OpenMessagesCarried']),
  'OpenMessagesCarried',
)
export const encodeBatchSealed: (record: BatchSealed) => Uint8Array = encodeRecord
export const decodeBatchSealed = decodeAs<BatchSealed>(new Set(['BatchSealed']), 'BatchSealed')
export const encodeSubscriptionChanged: (record: SubscriptionChanged) => Uint8Array = encodeRecord
export const decodeSubscriptionChanged = decodeAs<SubscriptionChanged>(
  new Set(['SubscriptionChanged']),
  'SubscriptionChanged',
)
export const encodeEventRecorded: (record: EventRecorded) => Uint8Array = encodeRecord
export const decodeEventRecorded = decodeAs<EventRecorded>(new Set(['EventRecorded']), 'EventRecorded')
export const encodeDeliveryReportReceived: (record: DeliveryReportReceived) => Uint8Array = encodeRecord
export const decodeDeliveryReportReceived = decodeAs<DeliveryReportReceived>(
  new Set(['DeliveryReportReceived']),
  'DeliveryReportReceived',
)
export const encodeInboundMessageReceived: (record: InboundMessageReceived) => Uint8Array = encodeRecord
export const decodeInboundMessageReceived = decodeAs<InboundMessageReceived>(
  new Set(['InboundMessageReceived']),
  'InboundMessageReceived',
)

/**
 * Records on their way through an outbox row. Internal to the hub and short-lived, so it has no id: the first
 * byte is the version of the form.
 */
const OUTBOX_VERSION = 1
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

/** Packs records for one outbox row. */
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
  out[0] = OUTBOX_VERSION
  out.set(body, 1)
  return out
}

interface PackedRecord extends Omit<OutgoingRecord, 'partition' | 'traceparent' | 'headers'> {
  readonly partition: number | null
  readonly traceparent: string | null
  readonly headers: Readonly<Record<string, string>> | null
}

/** Unpacks an outbox row, in the order packed. */
export const decodeOutboxRow = (
  row: Uint8Array,
): Result.Result<ReadonlyArray<OutgoingRecord>, UndecodableRecord> => {
  if (row.length < 2) return undecodable('truncated', 'outbox row')
  if (row[0] !== OUTBOX_VERSION) return undecodable('not_wire_format', `outbox row of version ${row[0]}`)
  const buffer = asBuffer(row)
  let read: { readonly value: ReadonlyArray<PackedRecord>; readonly offset: number }
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
