/**
 * Patch: a batch carries the revocation epoch in which its fetch began; batches of an earlier epoch
 * are dropped.
 *
 * - kafkajs 2.2.4: a fetch that began before a rebalance may return after it. kafkajs then delivers
 *   the batch, because the partition is assigned again.
 * - Not enough: another member may have owned the partition meanwhile, so the batch may repeat
 *   records.
 * - Fails without the patch: `kafkajs-patches.unit.test.ts`, "returns nothing for a fetch that
 *   began before a revocation".
 * - Unnecessary when: kafkajs discards the answers to fetches of an earlier generation.
 */
import type { InnerBatch, InnerGroup } from './internals.ts'

export interface FetchHooks {
  /** Rises with each revocation. */
  readonly epoch: () => number
  /** Called when a broker has answered a fetch. */
  readonly onAnswer: () => void
  /** Called for each batch that kafkajs gets, with the epoch of its fetch. */
  readonly onFetched: (batch: InnerBatch, epoch: number) => void
}

export const dropRevokedFetches = (group: InnerGroup, { epoch, onAnswer, onFetched }: FetchHooks): void => {
  const fetch = group.fetch.bind(group)
  group.fetch = async (nodeId) => {
    const requestedIn = epoch()
    const batches = await fetch(nodeId)
    onAnswer()
    if (requestedIn !== epoch()) return []
    for (const batch of batches) onFetched(batch, requestedIn)
    return batches
  }
}
