import { assert, describe, it } from '@effect/vitest'
import { Effect, Exit } from 'effect'
import { afterEach, beforeEach, vi } from 'vitest'
import type { InnerConnection, InnerGroup } from '../kafkajs-patches/internals.ts'
import { ByteReader, ByteWriter } from '../wire/bytes.ts'
import { writeRecordBatch } from '../wire/record-batch.ts'
import type { FetchedBatch } from './fetched-batch.ts'
import { Fetcher } from './fetcher.ts'
import { PartitionReader } from './partition-reader.ts'

/** A fetch that the broker has not answered. */
interface OpenFetch {
  readonly connection: number
  readonly maxWaitMs: number
  readonly partitions: number
  /** Answers with one record at this offset, or with nothing. */
  readonly answer: (record?: { readonly offset: number; readonly highWatermark: number }) => void
}

/** An answer to a fetch of partition 0 of `topic`. */
const answerOf = (
  record: { readonly offset: number; readonly highWatermark: number } | undefined,
): Buffer => {
  const writer = new ByteWriter(64)
  writer.int32(0)
  writer.int16(0)
  writer.int32(0)
  if (record === undefined) {
    writer.int32(0)
    return writer.written
  }
  const batch = new ByteWriter(64)
  const value = Buffer.from('v')
  writeRecordBatch(batch, [{ topic: 'topic', key: 'k', type: 'T', id: 'i', occurredAt: 1, value }], 1)
  batch.written.writeBigInt64BE(BigInt(record.offset))
  writer.int32(1)
  writer.string('topic')
  writer.int32(1)
  writer.int32(0)
  writer.int16(0)
  writer.int64(record.highWatermark)
  writer.int64(record.highWatermark)
  writer.int64(0)
  writer.int32(-1)
  writer.int32(-1)
  writer.int32(batch.written.length)
  return Buffer.concat([writer.written, batch.written])
}

/** A member with partition 0 of one topic, and a broker that answers when the test says so. */
const setUp = (gatherMs = 0) => {
  const open: Array<OpenFetch> = []
  let isRebalancing = false
  const connectionOf = (connection: number) =>
    ({
      send: async ({ request, response }: Parameters<InnerConnection['send']>[0]) => {
        const { buffer } = await request.encode()
        const reader = new ByteReader(buffer, 4)
        const maxWaitMs = reader.int32()
        reader.skip(17)
        let partitions = 0
        for (let topics = reader.int32(); topics > 0; topics--) {
          reader.string()
          const count = reader.int32()
          partitions += count
          reader.skip(28 * count)
        }
        const payload = await new Promise<Buffer>((resolve) => {
          open.push({ connection, maxWaitMs, partitions, answer: (record) => resolve(answerOf(record)) })
        })
        return response.parse(await response.decode(payload))
      },
    }) as InnerConnection
  const group = {
    cluster: {
      brokerPool: { metadata: {} },
      refreshMetadataIfNecessary: () => Promise.resolve(),
      findTopicPartitionMetadata: () => [{ partitionId: 0, leader: 7 }],
      findBroker: () =>
        Promise.resolve({
          connectionPool: { getConnection: (number: number) => Promise.resolve(connectionOf(number)) },
        }),
    },
    offsetManager: { resolveOffsets: () => Promise.resolve(), nextOffset: () => '5' },
    checkForStaleAssignment: () => {},
    recoverFromFetch: (error: unknown) => Promise.reject(error),
  } as unknown as InnerGroup
  const reader = new PartitionReader({
    onBatch: () => Effect.void,
    run: () => Promise.resolve(Exit.void),
    onChange: () => fetcher.interrupt(),
    isRebalancing: () => isRebalancing,
    onReadAgain: () => {},
    log: () => {},
  })
  const fetcher: Fetcher = new Fetcher(group, reader, {
    maxBytesPerPartition: 1000,
    gatherMs: () => gatherMs,
  })
  reader.assign({ topic: [0] }, new Set(), performance.now())
  const fetch = () => group.fetch('7') as Promise<ReadonlyArray<FetchedBatch>>
  return {
    open,
    reader,
    fetch,
    rebalance: () => {
      isRebalancing = true
    },
    /** Waits until the broker has this many fetches. */
    until: (count: number) => vi.waitFor(() => assert.isAtLeast(open.length, count), { interval: 1 }),
  }
}

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

describe('a fetch', () => {
  it('begins at the committed offset, and waits long for a first record', async () => {
    const { fetch, open, until } = setUp()
    const fetched = fetch()
    await until(1)
    assert.strictEqual(open[0]!.maxWaitMs, 2000)
    assert.strictEqual(open[0]!.partitions, 1)
    open[0]!.answer({ offset: 5, highWatermark: 6 })
    const [batch] = await fetched
    assert.deepStrictEqual([batch!.from, batch!.next, batch!.records.length], [5, 6, 1])
  })

  it('ends at a seek, and the next one does not wait for the first answer', async () => {
    const { fetch, open, reader, until } = setUp()
    const first = fetch()
    await until(1)
    reader.seek({ topic: 'topic', partition: 0, offset: 2 })
    assert.deepStrictEqual([...(await first)], [])
    const second = fetch()
    await until(2)
    assert.notStrictEqual(open[1]!.connection, open[0]!.connection)
    assert.isBelow(open[1]!.maxWaitMs, 100)
    open[1]!.answer({ offset: 2, highWatermark: 3 })
    assert.strictEqual((await second)[0]!.from, 2)
    // From its answer on, the first connection is used again.
    open[0]!.answer()
    await vi.advanceTimersByTimeAsync(1)
    void fetch()
    await until(3)
    assert.strictEqual(open[2]!.connection, open[0]!.connection)
  })

  it('ends when a partition is resumed, and contains it the next time', async () => {
    const { fetch, open, reader, until } = setUp()
    void fetch()
    await until(1)
    open[0]!.answer()
    reader.setPaused('topic', 0, true)
    const paused = fetch()
    await vi.advanceTimersByTimeAsync(10)
    assert.strictEqual(open.length, 1)
    reader.setPaused('topic', 0, false)
    assert.deepStrictEqual([...(await paused)], [])
    void fetch()
    await until(2)
    assert.strictEqual(open[1]!.partitions, 1)
  })

  it('returns nothing if its partitions were revoked meanwhile', async () => {
    const { fetch, open, reader, until } = setUp()
    const revoked = fetch()
    await until(1)
    open[0]!.answer({ offset: 5, highWatermark: 6 })
    reader.dropFetched()
    assert.deepStrictEqual([...(await revoked)], [])
  })

  it('is not sent while the group rebalances', async () => {
    const { fetch, open, rebalance } = setUp()
    rebalance()
    const fetched = fetch()
    await vi.advanceTimersByTimeAsync(20)
    assert.deepStrictEqual([...(await fetched)], [])
    assert.strictEqual(open.length, 0)
  })

  it('follows records after the time to gather, unless more records wait', async () => {
    const { fetch, open, until } = setUp(100)
    for (const highWatermark of [100, 6]) {
      void fetch()
      await until(open.length + 1)
      open.at(-1)!.answer({ offset: 5, highWatermark })
      await vi.advanceTimersByTimeAsync(1)
    }
    assert.strictEqual(open.length, 2)
    void fetch()
    await vi.advanceTimersByTimeAsync(90)
    assert.strictEqual(open.length, 2)
    await vi.advanceTimersByTimeAsync(20)
    assert.strictEqual(open.length, 3)
  })
})

describe('the end of a log', () => {
  it('is known from an answered fetch for some time', async () => {
    const { fetch, open, reader, until } = setUp()
    assert.isUndefined(reader.knownEnds('topic', 1000))
    const fetched = fetch()
    await until(1)
    open[0]!.answer({ offset: 5, highWatermark: 8 })
    await fetched
    await vi.advanceTimersByTimeAsync(900)
    assert.deepStrictEqual([...(reader.knownEnds('topic', 1000) ?? [])], [[0, 8]])
    await vi.advanceTimersByTimeAsync(200)
    assert.isUndefined(reader.knownEnds('topic', 1000))
  })

  it('is not known of a partition that was assigned again', async () => {
    const { fetch, open, reader, until } = setUp()
    const fetched = fetch()
    await until(1)
    open[0]!.answer({ offset: 5, highWatermark: 6 })
    await fetched
    reader.assign({ topic: [0] }, new Set(), performance.now())
    assert.isUndefined(reader.knownEnds('topic', 1000))
  })
})
