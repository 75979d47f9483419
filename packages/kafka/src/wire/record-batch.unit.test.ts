import { assert, describe, it } from '@effect/vitest'
import fc from 'fast-check'
import kafkajs from 'kafkajs'
import { randomBytes } from 'node:crypto'
import { createRequire } from 'node:module'
import zlib from 'node:zlib'
import type { OutgoingRecord } from '../port.ts'
import { ByteReader, ByteWriter } from './bytes.ts'
import { crc32c } from './crc32c.ts'
import { readRecordBatches, writeRecordBatch } from './record-batch.ts'

const require = createRequire(import.meta.url)
const load = (path: string): unknown => require(`kafkajs/src/protocol/${path}`)

// kafkajs lets its users add codecs.
kafkajs.CompressionCodecs[kafkajs.CompressionTypes.ZSTD] = () => ({
  compress: () => Promise.reject(new Error('the tests compress nothing with kafkajs')),
  decompress: (bytes: Buffer) => Promise.resolve(zlib.zstdDecompressSync(bytes)),
})

/** kafkajs' own encoding and decoding, to compare with. */
const kafkajsCrc = load('recordBatch/crc32C') as (bytes: Buffer) => number
const decodeMessages = load('requests/fetch/v4/decodeMessages') as (decoder: unknown) => Promise<
  ReadonlyArray<{
    readonly offset: string
    readonly timestamp: string
    readonly key: Buffer | null
    readonly value: Buffer | null
    readonly headers: Readonly<Record<string, Buffer>>
  }>
>
const Decoder = load('decoder') as new (bytes: Buffer) => unknown
const encodeRecord = load('recordBatch/record/v0') as (record: object) => unknown
const { RecordBatch } = load('recordBatch/v0') as {
  readonly RecordBatch: (batch: object) => Promise<{ readonly buffer: Buffer }>
}

const AT = 1_790_000_000_000

const text = fc.string({ unit: 'binary', maxLength: 80 })
const record: fc.Arbitrary<OutgoingRecord> = fc.record({
  topic: fc.constant('topic'),
  key: fc.string({ unit: 'grapheme', maxLength: 70 }),
  type: text,
  id: text,
  occurredAt: fc.nat(2 ** 40),
  value: fc.uint8Array({ minLength: 1, maxLength: 10_000 }),
})

const encode = (records: ReadonlyArray<OutgoingRecord>): Buffer => {
  const writer = new ByteWriter(16)
  writeRecordBatch(writer, records, AT)
  return writer.written
}

/** Moves a batch to an offset, as the broker does it. */
const atOffset = (batch: Buffer, offset: number): Buffer => {
  const moved = Buffer.from(batch)
  moved.writeBigInt64BE(BigInt(offset))
  return moved
}

type Content = Pick<OutgoingRecord, 'id' | 'key' | 'occurredAt' | 'type' | 'value'>

const comparable = ({ id, key, occurredAt, type, value }: Content) => ({
  key,
  type,
  id,
  occurredAt,
  value: Buffer.from(value).toString('hex'),
})

describe('crc32c', () => {
  it('has the check value of the standard', () => {
    assert.strictEqual(crc32c(Buffer.from('123456789'), 0, 9), 0xe3069283)
  })

  it('is that of kafkajs', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), fc.nat(10), (bytes, skipped) => {
        const from = Math.min(skipped, bytes.length)
        assert.strictEqual(
          crc32c(bytes, from, bytes.length),
          kafkajsCrc(Buffer.from(bytes.subarray(from))) >>> 0,
        )
      }),
    )
  })
})

describe('integers', () => {
  it('are read as they were written', () => {
    fc.assert(
      fc.property(fc.maxSafeInteger(), (value) => {
        const writer = new ByteWriter(1)
        writer.int64(value)
        writer.varint(Math.trunc(value / 2))
        const reader = new ByteReader(writer.written)
        assert.strictEqual(reader.int64(), value)
        assert.strictEqual(reader.varint() + 0, Math.trunc(value / 2) + 0)
      }),
    )
  })
})

describe('a record batch', () => {
  it('is read by kafkajs as it was written', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(record, { minLength: 1, maxLength: 4 }), async (records) => {
        const batch = encode(records)
        const framed = Buffer.concat([Buffer.alloc(4), batch])
        framed.writeInt32BE(batch.length)
        const read = await decodeMessages(new Decoder(framed))
        assert.deepStrictEqual(
          read.map(({ headers, key, value }) => ({
            key: String(key),
            type: String(headers['type']),
            id: String(headers['id']),
            occurredAt: Number(String(headers['occurred_at'])),
            value: value!.toString('hex'),
          })),
          records.map(comparable),
        )
        assert.isTrue(read.every(({ timestamp }) => timestamp === String(AT)))
      }),
    )
  })

  it('is read as it was written', () => {
    fc.assert(
      fc.property(fc.array(record, { minLength: 1, maxLength: 4 }), fc.nat(2 ** 40), (records, offset) => {
        const read = readRecordBatches(atOffset(encode(records), offset), 'topic', 3, 0)
        assert.strictEqual(read.nextOffset, offset + records.length)
        assert.deepStrictEqual(read.records.map(comparable), records.map(comparable))
        for (const [index, one] of read.records.entries()) {
          assert.strictEqual(one.offset, offset + index)
          assert.strictEqual(one.partition, 3)
          assert.strictEqual(one.appendedAt, AT)
        }
      }),
    )
  })

  it('is compressed with zstd where this makes it smaller', () => {
    const hexadecimal = (length: number) => randomBytes(length / 2).toString('hex')
    const delivered = (): OutgoingRecord => ({
      topic: 'topic',
      key: hexadecimal(64),
      type: 'MessageDelivered',
      id: hexadecimal(32),
      occurredAt: AT,
      value: Buffer.from(hexadecimal(40)),
    })
    const codecOf = (batch: Buffer) => batch.readInt16BE(21)
    const many = Array.from({ length: 8 }, delivered)
    const batch = encode(many)
    assert.strictEqual(codecOf(batch), 4)
    const bytes = many.reduce((sum, { id, key, value }) => sum + id.length + key.length + value.length, 0)
    assert.isBelow(batch.length, bytes)
    assert.deepStrictEqual(
      readRecordBatches(batch, 'topic', 0, 0).records.map(comparable),
      many.map(comparable),
    )
    // Few bytes, and bytes that are encrypted.
    assert.strictEqual(codecOf(encode([delivered()])), 0)
    assert.strictEqual(codecOf(encode([{ ...delivered(), value: randomBytes(5000) }])), 0)
  })

  it('begins at the requested offset, and ends before a batch that is cut off', () => {
    const one = (id: string): OutgoingRecord => ({
      topic: 'topic',
      key: 'k',
      type: 'T',
      id,
      occurredAt: 1,
      value: Buffer.from('v'),
    })
    const bytes = Buffer.concat([
      atOffset(encode([one('0'), one('1')]), 10),
      atOffset(encode([one('2'), one('3')]), 12),
      atOffset(encode([one('4')]), 14).subarray(0, 70),
    ])
    const read = readRecordBatches(bytes, 'topic', 0, 11)
    assert.deepStrictEqual(
      read.records.map(({ id, offset }) => [id, offset]),
      [
        ['1', 11],
        ['2', 12],
        ['3', 13],
      ],
    )
    assert.strictEqual(read.nextOffset, 14)
    assert.deepStrictEqual(readRecordBatches(bytes.subarray(0, 20), 'topic', 0, 0), {
      records: [],
      nextOffset: null,
    })
  })

  /** A batch of kafkajs, with these attributes. */
  const foreign = async (attributes: number, change: (records: Buffer) => Buffer = (same) => same) => {
    const records = [
      encodeRecord({
        offsetDelta: 0,
        timestampDelta: 0,
        key: 'k',
        value: Buffer.from('v'),
        headers: { id: 'a' },
      }),
      encodeRecord({ offsetDelta: 1, timestampDelta: 5, key: null, value: null, headers: {} }),
    ]
    const { buffer } = await RecordBatch({
      records,
      firstTimestamp: AT,
      maxTimestamp: AT + 9,
      lastOffsetDelta: 1,
    })
    const batch = Buffer.concat([buffer.subarray(0, 61), change(buffer.subarray(61))])
    batch.writeInt32BE(batch.length - 12, 8)
    batch.writeInt16BE(attributes, 21)
    return batch
  }

  it('of another producer is read with empty fields', async () => {
    const { records } = readRecordBatches(await foreign(0), 'topic', 0, 0)
    assert.deepStrictEqual(
      records.map(({ appendedAt, id, key, occurredAt, type, value }) => ({
        appendedAt,
        id,
        key,
        occurredAt,
        type,
        value: value.length,
      })),
      [
        { appendedAt: AT, id: 'a', key: 'k', occurredAt: AT, type: '', value: 1 },
        { appendedAt: AT + 5, id: '', key: '', occurredAt: AT + 5, type: '', value: 0 },
      ],
    )
  })

  it('is read when it is compressed with gzip or zstd, and refused with another codec', async () => {
    for (const [codec, compress] of [
      [1, zlib.gzipSync],
      [4, zlib.zstdCompressSync],
    ] as const) {
      const { records } = readRecordBatches(await foreign(codec, (bytes) => compress(bytes)), 'topic', 0, 0)
      assert.deepStrictEqual(
        records.map(({ key }) => key),
        ['k', ''],
      )
    }
    const snappy = await foreign(2)
    assert.throws(() => readRecordBatches(snappy, 'topic', 0, 0), /codec 2/)
  })

  it('has the time of the broker where the topic says so', async () => {
    const { records } = readRecordBatches(await foreign(0x08), 'topic', 0, 0)
    assert.deepStrictEqual(
      records.map(({ appendedAt }) => appendedAt),
      [AT + 9, AT + 9],
    )
  })

  it('of control records only moves the position', async () => {
    assert.deepStrictEqual(readRecordBatches(await foreign(0x20), 'topic', 0, 0), {
      records: [],
      nextOffset: 2,
    })
  })
})
