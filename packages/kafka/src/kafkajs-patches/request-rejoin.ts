/**
 * Patch of one consumer group: a member can make its group rebalance.
 *
 * - kafkajs 2.2.4: a consumer joins again only when the broker answers a request with
 *   REBALANCE_IN_PROGRESS. It has no method like Java's `enforceRebalance`.
 * - Why the hub needs more: a standby member must get its partitions when it has read them ahead.
 * - Fails without the patch: `kafkajs.int.test.ts`, "kafkajs: groups > put a new member on standby,
 *   where it reads one topic ahead until it takes over".
 * - Unnecessary when: kafkajs offers a rejoin on request.
 */
import type { InnerGroup } from './internals.ts'

/** The broker's answer to a heartbeat while the group rebalances. */
export const REBALANCE_IN_PROGRESS = 'REBALANCE_IN_PROGRESS'

/**
 * Fails heartbeats with `REBALANCE_IN_PROGRESS` while `isRequested`, so that kafkajs joins again.
 * The broker receives different user data in that JoinGroup, and starts a rebalance of all members.
 */
export const rejoinOnRequest = (group: InnerGroup, isRequested: () => boolean): void => {
  const heartbeat = group.heartbeat.bind(group)
  group.heartbeat = async (options) => {
    if (isRequested()) throw Object.assign(new Error('Rejoin requested'), { type: REBALANCE_IN_PROGRESS })
    await heartbeat(options)
  }
}
