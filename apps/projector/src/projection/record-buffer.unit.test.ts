import { assert, describe, it } from '@effect/vitest'
import type { IncomingRecord } from '@hub/kafka'
import fc from 'fast-check'
import { bisect, type Chunk, Intake, type Poll, sizeOf } from './record-buffer.ts'

const recordAt = (topic: string, partition: number, offset: number, appendedAt = 0): IncomingRecord => ({
  topic,
  partition,
  offset,
  key: '',
  type: '',
  id: '',
  occurredAt: 0,
  traceparent: null,
  appendedAt,
  value: new Uint8Array(),
})
const records = (topic: string, partition: number, from: number, count: number) =>
  Array.from({ length: count }, (_, i) => recordAt(topic, partition, from + i))

const opened = (...partitions: ReadonlyArray<number>) => {
  const intake = new Intake()
  for (const partition of partitions) {
    intake.open('p.lane', { topic: 'lane', partition, position: 10, epoch: 1, fence: 0 }, 10)
  }
  return intake
}
const offsetsOf = (poll: Poll) =>
  poll.map(({ claim, records, to }) => [claim.partition, records.map(({ offset }) => offset), to] as const)

describe('the intake', () => {
  it('drops what it has, refuses what does not continue, and ignores what is not claimed', () => {
    const intake = opened(0)
    assert.strictEqual(intake.add('p.lane', 0, records('p.lane', 0, 8, 4)), 'taken')
    assert.strictEqual(intake.add('p.lane', 0, records('p.lane', 0, 11, 2)), 'taken')
    assert.strictEqual(intake.add('p.lane', 0, records('p.lane', 0, 15, 2)), 'gap')
    assert.strictEqual(intake.add('p.lane', 1, records('p.lane', 1, 10, 2)), 'not_claimed')
    assert.strictEqual(intake.waiting, 3)
    assert.deepStrictEqual(offsetsOf(intake.take(100)), [[0, [10, 11, 12], 13]])
  })

  it('fills a poll with what was appended first, whichever partition has it', () => {
    const intake = opened(0, 1, 2)
    const at = (partition: number, moments: ReadonlyArray<number>) =>
      intake.add(
        'p.lane',
        partition,
        moments.map((moment, i) => recordAt('p.lane', partition, 10 + i, moment)),
      )
    at(0, [1, 4, 7, 8])
    at(1, [2, 3, 9])
    // One clock is ahead.
    at(2, [50, 5])
    const offsets = (poll: Poll) =>
      Object.fromEntries(
        poll.map(({ claim, records }) => [claim.partition, records.map(({ offset }) => offset)]),
      )
    assert.deepStrictEqual(offsets(intake.take(4)), { 0: [10, 11], 1: [10, 11] })
    assert.deepStrictEqual(offsets(intake.take(3)), { 0: [12, 13], 1: [12] })
    assert.deepStrictEqual(offsets(intake.take(100, ({ partition }) => (partition === 2 ? 11 : 0))), {
      2: [10],
    })
    assert.deepStrictEqual(offsets(intake.take(100)), { 2: [11] })
  })

  it('gives out every record once and in order, in polls within the limit', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(2), fc.integer({ min: 1, max: 9 })), { maxLength: 20 }),
        fc.integer({ min: 1, max: 12 }),
        (batches, limit) => {
          const intake = opened(0, 1, 2)
          const ends = [10, 10, 10]
          for (const [partition, count] of batches) {
            intake.add('p.lane', partition, records('p.lane', partition, ends[partition] ?? 0, count))
            ends[partition] = (ends[partition] ?? 0) + count
          }
          const next = [10, 10, 10]
          for (let poll = intake.take(limit); poll.length > 0; poll = intake.take(limit)) {
            assert.isAtMost(sizeOf(poll), limit)
            for (const { claim, records, to } of poll) {
              assert.deepStrictEqual(
                records.map(({ offset }) => offset),
                records.map((_, i) => (next[claim.partition] ?? 0) + i),
              )
              next[claim.partition] = to
            }
          }
          assert.deepStrictEqual(next, ends)
          assert.strictEqual(intake.waiting, 0)
        },
      ),
    )
  })

  it('forgets all claims when they end', () => {
    const intake = opened(0)
    intake.add('p.lane', 0, records('p.lane', 0, 10, 3))
    const [claim] = intake.claims
    assert.isDefined(claim)
    assert.isTrue(intake.holds(claim))
    intake.clear()
    assert.isFalse(intake.holds(claim))
    assert.deepStrictEqual(intake.take(10), [])
    assert.strictEqual(intake.waiting, 0)
  })
})

describe('halving a poll', () => {
  it('loses no record, keeps the order of each partition, and ends at single records', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 3 }), (sizes) => {
        const intake = opened(...sizes.keys())
        for (const [partition, size] of sizes.entries()) {
          intake.add('p.lane', partition, records('p.lane', partition, 10, size))
        }
        const leaves = (poll: Poll): ReadonlyArray<Chunk> => {
          if (sizeOf(poll) === 1) {
            assert.strictEqual(poll.length, 1)
            return poll
          }
          const [first, second] = bisect(poll)
          assert.isAbove(sizeOf(first), 0)
          assert.isAbove(sizeOf(second), 0)
          return [...leaves(first), ...leaves(second)]
        }
        const next = sizes.map(() => 10)
        for (const { claim, records, to } of leaves(intake.take(100))) {
          assert.strictEqual(records[0]?.offset, next[claim.partition])
          next[claim.partition] = to
        }
        assert.deepStrictEqual(
          next,
          sizes.map((size) => 10 + size),
        )
      }),
    )
  })
})
