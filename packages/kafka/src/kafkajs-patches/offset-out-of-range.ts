/**
 * Patch of one consumer group: a position outside of the log is replaced by the first offset of the
 * log, without a commit.
 *
 * - kafkajs 2.2.4: it resets the partition to the default offset, and commits that offset for the
 *   group.
 * - Why the hub needs more: the commit moves the low-water mark, which the hub sets only for
 *   applied records. The consumer would also not learn its new position.
 * - Fails without the patch: `kafkajs.int.test.ts`, "a position that retention has deleted >
 *   becomes the first offset of the log".
 * - Unnecessary when: the application can decide on the position, as with Java's
 *   `auto.offset.reset=none`.
 */
import type { Position } from '../port.ts'
import type { InnerGroup } from './internals.ts'

/** Calls `onOutOfRange` with the first offset of the log. */
export const handleOffsetOutOfRange = (group: InnerGroup, onOutOfRange: (first: Position) => void): void => {
  group.recoverFromOffsetOutOfRange = async ({ topic, partition }) => {
    const [found] = await group.cluster.fetchTopicsOffset([
      { topic, fromBeginning: true, partitions: [{ partition }] },
    ])
    const low = found?.partitions.find((one) => one.partition === partition)
    const offset = Number(low?.offset ?? Number.NaN)
    if (Number.isSafeInteger(offset)) onOutOfRange({ topic, partition, offset })
  }
}
