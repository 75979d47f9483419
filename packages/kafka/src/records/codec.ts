/**
 * Encodes and decodes records: Avro in the Confluent wire format (a zero byte, the schema id as a
 * big-endian 32-bit integer, the Avro binary). A record that cannot be decoded is a value, not an
 * exception, so that a consumer can dead-letter it and continue.
 */
import { Data, Result } from 'effect'
import avro from 'avsc'
import type { MessageAccepted, MessageFact } from '@hub/domain'
import type { HubRecord } from './records.ts'
import { asBuffer, codecType } from '../schemas/avro-type.ts'
import { FACT_NAMES, RECORD_NAMES, SCHEMAS, type RecordName } from '../schemas/schemas.ts'

/**
 * A record that cannot be decoded. A retry gives the same result, so it belongs in the dead-letter
 * topic. `detail` names schemas and fields, never a value.
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

/** Bytes before the Avro binary: the magic byte and the schema id. */
export const HEADER_BYTES = 5

interface Encoder {
  readonly id: number
  readonly type: avro.Type
  /** Fields of type `bytes`, which avsc accepts only as a Buffer. */
  readonly bytes: ReadonlyArray<string>
}

interface Decoder {
  readonly name: RecordName
  readonly type: avro.Type
  /** From this version to the newest one; `undefined` for the newest one. */
  readonly resolver: ReturnType<avro.Type['createResolver']> | undefined
  /** Enum fields with the default `unknown`, which stands for the symbols of a newer writer. */
  readonly symbols: ReadonlyArray<string>
  /** The same fields of the records in a list. */
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
  if (latest === undefined) throw new Error(`The record ${name} has no schema in packages/kafka/schemas.`)
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

/** The encoder writes into this buffer and copies the result. It grows to the largest record. */
let scratch = Buffer.allocUnsafe(4096)

/** Encodes a record with the newest version of its schema. Throws for a value of the wrong type. */
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
  let end = type.encode(value, scratch, HEADER_BYTES)
  if (end < 0) {
    // A negative result is the number of missing bytes.
    scratch = Buffer.allocUnsafe(2 * (scratch.length - end))
    end = type.encode(value, scratch, HEADER_BYTES)
  }
  scratch[0] = 0
  scratch.writeInt32BE(id, 1)
  return Uint8Array.prototype.slice.call(scratch, 0, end)
}

/** For this package only. */
export const undecodable = (reason: UndecodableRecord['reason'], detail: string) =>
  Result.fail(new UndecodableRecord({ reason, detail }))

interface Read {
  readonly value: Record<string, unknown>
  /** The offset behind the value; negative if the buffer ends before. */
  readonly offset: number
}

/** Reads a value behind the wire format header; `null` if it is malformed. */
const readAvro = (type: avro.Type, buffer: Buffer, resolver?: Decoder['resolver']): Read | null => {
  try {
    return type.decode(buffer, HEADER_BYTES, resolver)
  } catch {
    // The message of avsc's error may contain the content.
    return null
  }
}

/** Decodes a record of any published schema version. */
export const decodeRecord = (value: Uint8Array): Result.Result<HubRecord, UndecodableRecord> => {
  if (value.length < HEADER_BYTES) return undecodable('truncated', `${value.length} bytes`)
  if (value[0] !== 0) return undecodable('not_wire_format', `first byte ${value[0]}`)
  const buffer = asBuffer(value)
  const id = buffer.readInt32BE(1)
  const decoder = decoders.get(id)
  if (decoder === undefined) return undecodable('unknown_schema', `id ${id}`)
  const read = readAvro(decoder.type, buffer, decoder.resolver)
  if (read === null) return undecodable('malformed', decoder.name)
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

const decodeAs =
  <A extends HubRecord>(names: ReadonlySet<string>, wanted: string) =>
  (record: { readonly value: Uint8Array }): Result.Result<A, UndecodableRecord> => {
    const decoded = decodeRecord(record.value)
    if (Result.isSuccess(decoded) && !names.has(decoded.success.type)) {
      return undecodable('unexpected_type', `${decoded.success.type} where ${wanted} was expected`)
    }
    return decoded as Result.Result<A, UndecodableRecord>
  }

const FACTS: ReadonlySet<string> = new Set(FACT_NAMES)

/** Whether the header `type` names a fact of a message. */
export const isFactType = (type: string): type is MessageFact['type'] => FACTS.has(type)

/** Decodes a fact of a message; any other record is `unexpected_type`. */
export const decodeFact = decodeAs<MessageFact>(FACTS, 'a fact of a message')

/** The first fields of `MessageAccepted`: all that decides whether a shard keeps the record. */
export type AcceptedHead = Pick<MessageAccepted, 'messageId' | 'account' | 'mode'>

const HEAD_FIELDS = ['message_id', 'at', 'account', 'mode']

/** The types of the first fields, by schema id. A later version may only append fields. */
const heads = new Map<number, avro.Type>()
for (const { id, name, schema } of SCHEMAS) {
  if (name !== 'MessageAccepted') continue
  const record = schema as { readonly fields: ReadonlyArray<{ readonly name: string }> }
  const fields = record.fields.slice(0, HEAD_FIELDS.length)
  if (fields.some((field, i) => field.name !== HEAD_FIELDS[i])) {
    throw new Error(`The schema ${id} of MessageAccepted must begin with ${HEAD_FIELDS.join(', ')}.`)
  }
  heads.set(id, codecType({ ...record, fields }))
}

/** Decodes the first fields of `MessageAccepted`; any other record is `unexpected_type`. */
export const decodeAcceptedHead = ({
  value,
}: {
  readonly value: Uint8Array
}): Result.Result<AcceptedHead, UndecodableRecord> => {
  const buffer = asBuffer(value)
  const type = value.length > HEADER_BYTES && value[0] === 0 ? heads.get(buffer.readInt32BE(1)) : undefined
  if (type === undefined) {
    const decoded = decodeRecord(value)
    if (Result.isFailure(decoded)) return Result.fail(decoded.failure)
    return undecodable('unexpected_type', `${decoded.success.type} where MessageAccepted was expected`)
  }
  const read = readAvro(type, buffer)
  if (read === null) return undecodable('malformed', 'MessageAccepted')
  if (read.offset < 0) return undecodable('truncated', 'MessageAccepted')
  const head = read.value as unknown as AcceptedHead
  // A newer writer may know further symbols.
  return (head.mode as string) === 'unknown'
    ? undecodable('unknown_symbol', 'MessageAccepted.mode')
    : Result.succeed(head)
}

const decodeOnly = <T extends HubRecord['type']>(type: T) =>
  decodeAs<Extract<HubRecord, { readonly type: T }>>(new Set([type]), type)

export const decodeShardOpened = decodeOnly('ShardOpened')
export const decodeOpenMessagesCarried = decodeOnly('OpenMessagesCarried')
export const decodeBatchSealed = decodeOnly('BatchSealed')
export const decodeSubscriptionChanged = decodeOnly('SubscriptionChanged')
export const decodeEventRecorded = decodeOnly('EventRecorded')
export const decodeDeliveryReportReceived = decodeOnly('DeliveryReportReceived')
export const decodeInboundMessageReceived = decodeOnly('InboundMessageReceived')
export const decodeOperatorAnswerReceived = decodeOnly('OperatorAnswerReceived')
export const decodeRecipientErased = decodeOnly('RecipientErased')
export const decodeDatabaseAccepted = decodeOnly('DatabaseAccepted')
export const decodeMessageOutcome = decodeOnly('MessageOutcome')
export const decodeSealingKeyCreated = decodeOnly('SealingKeyCreated')
