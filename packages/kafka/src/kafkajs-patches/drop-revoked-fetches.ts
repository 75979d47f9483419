/**
 * Patch of one consumer group: drops a batch if its partitions were revoked after its fetch began.
 *
 * - kafkajs 2.2.4: a fetch that began before a rebalance may return after it. kafkajs then delivers
 *   the batch, because the partition is assigned again.
 * - Why the hub needs more: another member may have owned the partition meanwhile, so the batch may
 *   repeat records.
 * - Fails without the patch: `kafkajs-patches.unit.test.ts`, "returns nothing for a fetch that
 *   began before a revocation".
 * - Unnecessary when: kafkajs discards the answers to fetches of an earlier generation.
 */
import type { InnerBatch, InnerGroup } from './internals.ts'

export interface FetchHooks {
  /** The number of revocations until now. */
  readonly revocations: () => number
  /** Called when a broker has answered a fetch. */
  readonly onAnswer: () => void
  /** Called for each batch that kafkajs gets, with the revocations before its fetch. */
  readonly onFetched: (batch: InnerBatch, revocations: number) => void
}

export const dropRevokedFetches = (
  group: InnerGroup,
  { onAnswer, onFetched, revocations }: FetchHooks,
): void => {
  const fetch = group.fetch.bind(group)
  group.fetch = async (nodeId) => {
    const revocationsBefore = revocations()
    const batches = await fetch(nodeId)
    onAnswer()
    if (revocationsBefore !== revocations()) return []
    for (const batch of batches) onFetched(batch, revocationsBefore)
    return batches
  }
}
