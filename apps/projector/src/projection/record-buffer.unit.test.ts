import { assert, describe, it } from '@effect/vitest'
import fc from 'fast-check'
import { incomingRecord } from '../testing/incoming-record.ts'
import {
  bisect,
  type PartitionRecords,
  RecordBuffer,
  type TransactionBatch,
  recordCount,
} from './record-buffer.ts'

const records = (topic: string, partition: number, from: number, count: number) =>
  Array.from({ length: count }, (_, i) => incomingRecord({ topic, partition, offset: from + i }))

const bufferOf = (...partitions: ReadonlyArray<number>) => {
  const buffer = new RecordBuffer()
  for (const partition of partitions) {
    buffer.addPartition('p.lane', { topic: 'lane', partition, position: 10, epoch: 1, fence: 0 }, 10)
  }
  return buffer
}
const offsetsOf = (batch: TransactionBatch) =>
  batch.map(({ owned, records, to }) => [owned.partition, records.map(({ offset }) => offset), to] as const)

describe('RecordBuffer', () => {
  it('drops repeated records, refuses records after a gap, and ignores partitions that are not owned', () => {
    const buffer = bufferOf(0)
    assert.strictEqual(buffer.ingest('p.lane', 0, records('p.lane', 0, 8, 4)), 'buffered')
    assert.strictEqual(buffer.ingest('p.lane', 0, records('p.lane', 0, 11, 2)), 'buffered')
    assert.strictEqual(buffer.ingest('p.lane', 0, records('p.lane', 0, 15, 2)), 'gap')
    assert.strictEqual(buffer.ingest('p.lane', 1, records('p.lane', 1, 10, 2)), 'not_owned')
    assert.strictEqual(buffer.size, 3)
    assert.deepStrictEqual(offsetsOf(buffer.takeBatch(100)), [[0, [10, 11, 12], 13]])
  })

  it('fills a batch in the order of appends, over all partitions', () => {
    const buffer = bufferOf(0, 1, 2)
    const at = (partition: number, times: ReadonlyArray<number>) =>
      buffer.ingest(
        'p.lane',
        partition,
        times.map((time, i) =>
          incomingRecord({ topic: 'p.lane', partition, offset: 10 + i, appendedAt: time }),
        ),
      )
    at(0, [1, 4, 7, 8])
    at(1, [2, 3, 9])
    // The clock of one producer is ahead.
    at(2, [50, 5])
    const offsets = (batch: TransactionBatch) =>
      Object.fromEntries(
        batch.map(({ owned, records }) => [owned.partition, records.map(({ offset }) => offset)]),
      )
    assert.deepStrictEqual(offsets(buffer.takeBatch(4)), { 0: [10, 11], 1: [10, 11] })
    assert.deepStrictEqual(offsets(buffer.takeBatch(3)), { 0: [12, 13], 1: [12] })
    assert.deepStrictEqual(offsets(buffer.takeBatch(100, ({ partition }) => (partition === 2 ? 11 : 0))), {
      2: [10],
    })
    assert.deepStrictEqual(offsets(buffer.takeBatch(100)), { 2: [11] })
  })

  it('returns every record once and in order, in batches within the limit', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(2), fc.integer({ min: 1, max: 9 })), { maxLength: 20 }),
        fc.integer({ min: 1, max: 12 }),
        (fetches, limit) => {
          const buffer = bufferOf(0, 1, 2)
          const ends = [10, 10, 10]
          for (const [partition, count] of fetches) {
            buffer.ingest('p.lane', partition, records('p.lane', partition, ends[partition] ?? 0, count))
            ends[partition] = (ends[partition] ?? 0) + count
          }
          const next = [10, 10, 10]
          for (let batch = buffer.takeBatch(limit); batch.length > 0; batch = buffer.takeBatch(limit)) {
            assert.isAtMost(recordCount(batch), limit)
            for (const { owned, records, to } of batch) {
              assert.deepStrictEqual(
                records.map(({ offset }) => offset),
                records.map((_, i) => (next[owned.partition] ?? 0) + i),
              )
              next[owned.partition] = to
            }
          }
          assert.deepStrictEqual(next, ends)
          assert.strictEqual(buffer.size, 0)
        },
      ),
    )
  })

  it('forgets all partitions after clear', () => {
    const buffer = bufferOf(0)
    buffer.ingest('p.lane', 0, records('p.lane', 0, 10, 3))
    const [owned] = buffer.partitions
    assert.isDefined(owned)
    assert.isTrue(buffer.owns(owned))
    buffer.clear()
    assert.isFalse(buffer.owns(owned))
    assert.deepStrictEqual(buffer.takeBatch(10), [])
    assert.strictEqual(buffer.size, 0)
  })
})

describe('bisect', () => {
  it('keeps every record and the order of each partition, and ends at single records', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 3 }), (sizes) => {
        const buffer = bufferOf(...sizes.keys())
        for (const [partition, size] of sizes.entries()) {
          buffer.ingest('p.lane', partition, records('p.lane', partition, 10, size))
        }
        const leaves = (batch: TransactionBatch): ReadonlyArray<PartitionRecords> => {
          if (recordCount(batch) === 1) {
            assert.strictEqual(batch.length, 1)
            return batch
          }
          const [first, second] = bisect(batch)
          assert.isAbove(recordCount(first), 0)
          assert.isAbove(recordCount(second), 0)
          return [...leaves(first), ...leaves(second)]
        }
        const next = sizes.map(() => 10)
        for (const { owned, records, to } of leaves(buffer.takeBatch(100))) {
          assert.strictEqual(records[0]?.offset, next[owned.partition])
          next[owned.partition] = to
        }
        assert.deepStrictEqual(
          next,
          sizes.map((size) => 10 + size),
        )
      }),
    )
  })
})
