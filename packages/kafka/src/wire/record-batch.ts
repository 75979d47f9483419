/**
 * Encodes and decodes record batches, version 2 (https://kafka.apache.org/documentation/#recordbatch).
 * kafkajs creates a buffer for each field of each record, and copies all of them several times.
 */
import zlib from 'node:zlib'
import { DEAD_LETTER_HEADERS } from '../dead-letters/dead-letter.ts'
import type { IncomingRecord, OutgoingRecord } from '../port.ts'
import { ByteReader, ByteWriter } from './bytes.ts'
import { crc32c } from './crc32c.ts'

/** From the length of a batch to its first record. */
const LENGTH_AT = 8
const CRC_AT = 17
const ATTRIBUTES_AT = 21
const HEADER_BYTES = 61
const MAGIC = 2
const COMPRESSION_MASK = 0x07
const LOG_APPEND_TIME = 0x08
const CONTROL = 0x20
/** Kafka's numbers of the codecs. */
const GZIP = 1
const ZSTD = 4
/**
 * Records of fewer bytes stay as they are. To compress and to decompress them costs producer, broker and
 * readers some ten microseconds each, and saves less the fewer records there are: of one record 8 %, of
 * three 32 %, of eight 49 %.
 */
const COMPRESSED_FROM_BYTES = 1000
/** The highest levels save 1 % more, and take twice the time. */
const ZSTD_OPTIONS = { params: { [zlib.constants.ZSTD_c_compressionLevel]: 1 } }
/** No idempotent producer (docs/decisions/kafka.md#producer-without-idempotence). */
const NO_PRODUCER = -1

const headersOf = (record: OutgoingRecord): Array<readonly [string, string]> => {
  const headers: Array<readonly [string, string]> = [
    ['type', record.type],
    ['id', record.id],
    ['occurred_at', String(record.occurredAt)],
  ]
  if (record.traceparent !== undefined) headers.push(['traceparent', record.traceparent])
  if (record.headers !== undefined) headers.push(...Object.entries(record.headers))
  return headers
}

/** Writes one batch with the records of one partition. `at`: their timestamp, ms since the epoch. */
export const writeRecordBatch = (
  writer: ByteWriter,
  records: ReadonlyArray<OutgoingRecord>,
  at: number,
): void => {
  const start = writer.at
  // The broker assigns the base offset and the leader epoch. Length and checksum follow below.
  writer.int64(0)
  writer.int32(0)
  writer.int32(-1)
  writer.int8(MAGIC)
  writer.int32(0)
  writer.int16(0)
  writer.int32(records.length - 1)
  writer.int64(at)
  writer.int64(at)
  writer.int64(NO_PRODUCER)
  writer.int16(NO_PRODUCER)
  writer.int32(NO_PRODUCER)
  writer.int32(records.length)
  const recordsAt = writer.at
  for (const [index, record] of records.entries()) writeRecord(writer, record, index)
  if (writer.at - recordsAt >= COMPRESSED_FROM_BYTES) {
    const compressed = zlib.zstdCompressSync(writer.written.subarray(recordsAt), ZSTD_OPTIONS)
    if (compressed.length < writer.at - recordsAt) {
      writer.replaceFrom(recordsAt, compressed)
      writer.setInt16(start + ATTRIBUTES_AT, ZSTD)
    }
  }
  writer.setInt32(start + LENGTH_AT, writer.at - start - LENGTH_AT - 4)
  writer.setInt32(start + CRC_AT, crc32c(writer.written, start + ATTRIBUTES_AT, writer.at))
}

const writeRecord = (writer: ByteWriter, record: OutgoingRecord, index: number): void => {
  const start = writer.at
  writer.int8(0)
  // All records have the timestamp of the batch.
  writer.varint(0)
  writer.varint(index)
  writer.varintText(record.key)
  writer.varintBytes(record.value)
  const headers = headersOf(record)
  writer.varint(headers.length)
  for (const [name, value] of headers) {
    writer.varintText(name)
    writer.varintText(value)
  }
  writer.insertVarint(start, writer.at - start)
}

/** The bytes of the records of a batch. */
const decompress = (codec: number, bytes: Buffer): Buffer => {
  if (codec === GZIP) return zlib.gunzipSync(bytes)
  if (codec === ZSTD) return zlib.zstdDecompressSync(bytes)
  throw new Error(`record batches with compression codec ${codec} are not supported`)
}

export interface ReadRecords {
  readonly records: ReadonlyArray<IncomingRecord>
  /** The offset behind the last complete batch; `null` without one. */
  readonly nextOffset: number | null
}

/**
 * Reads the records of a partition from offset `from` on. The last batch may be cut off, and is then
 * left out. The values share the memory of `bytes`.
 */
export const readRecordBatches = (
  bytes: Buffer,
  topic: string,
  partition: number,
  from: number,
): ReadRecords => {
  const records: Array<IncomingRecord> = []
  const reader = new ByteReader(bytes)
  let nextOffset: number | null = null
  while (bytes.length - reader.at >= HEADER_BYTES) {
    const start = reader.at
    const baseOffset = reader.int64()
    const end = start + 12 + reader.int32()
    if (end > bytes.length) break
    reader.skip(4)
    const magic = reader.int8()
    if (magic !== MAGIC) throw new Error(`record batches of version ${magic} are not supported`)
    reader.skip(4)
    const attributes = reader.int16()
    nextOffset = baseOffset + reader.int32() + 1
    const baseTime = reader.int64()
    const maxTime = reader.int64()
    reader.skip(14)
    const count = reader.int32()
    if ((attributes & CONTROL) === 0 && nextOffset > from) {
      const codec = attributes & COMPRESSION_MASK
      const inner = codec === 0 ? reader : new ByteReader(decompress(codec, bytes.subarray(reader.at, end)))
      const fixedTime = (attributes & LOG_APPEND_TIME) === 0 ? null : maxTime
      for (let i = 0; i < count; i++) {
        const record = readRecord(inner, topic, partition, baseOffset, baseTime, fixedTime)
        if (record.offset >= from) records.push(record)
      }
    }
    reader.at = end
  }
  return { records, nextOffset }
}

/** Records of other producers may lack headers. Readers reject the empty type. */
const readRecord = (
  reader: ByteReader,
  topic: string,
  partition: number,
  baseOffset: number,
  baseTime: number,
  fixedTime: number | null,
): IncomingRecord => {
  const end = reader.varint() + reader.at
  reader.skip(1)
  const timeDelta = reader.varint()
  const appendedAt = fixedTime ?? baseTime + timeDelta
  const offset = baseOffset + reader.varint()
  const keyLength = reader.varint()
  const key = keyLength <= 0 ? '' : reader.text(keyLength)
  const valueLength = reader.varint()
  const value = valueLength <= 0 ? new Uint8Array() : reader.slice(valueLength)
  let type = ''
  let id = ''
  let occurredAt = Number.NaN
  let traceparent: string | null = null
  let tracestate: string | undefined
  let further: Record<string, string> | undefined
  for (let left = reader.varint(); left > 0; left--) {
    const name = reader.text(reader.varint())
    const length = reader.varint()
    if (length < 0) continue
    const text = reader.text(length)
    if (name === 'type') type = text
    else if (name === 'id') id = text
    else if (name === 'occurred_at') occurredAt = Number(text)
    else if (name === 'traceparent') traceparent = text
    else if (name === 'tracestate') tracestate = text
    else (further ??= {})[name] = text
  }
  reader.at = end
  const isDeadLetter = further?.[DEAD_LETTER_HEADERS.reason] !== undefined
  return {
    topic,
    partition,
    offset,
    key,
    type,
    id,
    occurredAt: Number.isSafeInteger(occurredAt) ? occurredAt : appendedAt,
    traceparent,
    ...(tracestate === undefined ? undefined : { tracestate }),
    appendedAt,
    ...(isDeadLetter ? { headers: further! } : undefined),
    value,
  }
}
