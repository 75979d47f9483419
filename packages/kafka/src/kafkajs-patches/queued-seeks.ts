/**
 * Uses internals, patches nothing: seeks of an earlier assignment are dropped.
 *
 * - kafkajs 2.2.4: a seek on a partition that is then lost stays queued until the partition
 *   returns.
 * - Why the hub needs more: the partition would continue at the position of an earlier assignment,
 *   not at the committed offset.
 * - Fails without the patch: `kafkajs-patches.unit.test.ts`, "has no queued seeks of an earlier
 *   assignment".
 * - Unnecessary when: kafkajs clears its queued seeks with each assignment.
 */
import type { InnerGroup } from './internals.ts'

/** Call it after a join, before the seeks of the new assignment. */
export const dropQueuedSeeks = (group: InnerGroup): void => group.seekOffset.clear()
