/**
 * Uses internals, patches nothing: a process leaves the group on behalf of the member that it was
 * before its restart.
 *
 * - kafkajs 2.2.4: a consumer leaves only for itself, when it disconnects. It supports no static
 *   membership (`group.instance.id`).
 * - Why the hub needs more: a killed process cannot leave. Its partitions have no owner until the
 *   session ends.
 * - Fails without the patch: `kafkajs.int.test.ts`, "a restarted member > ends its previous session
 *   before it joins, so that the group does not wait".
 * - Unnecessary when: kafkajs supports static membership, or leaves for a given member id.
 */
import type { Kafka } from 'kafkajs'
import type { InnerCluster, InnerCoordinator } from './internals.ts'

/** After this time kafkajs loads the metadata again, ms. Without it, it does so for each request. */
const METADATA_MAX_AGE_MS = 300_000

/** Connections to the brokers, without a consumer that would join the group. */
export const createCluster = (kafka: Kafka): InnerCluster => {
  const name = Object.getOwnPropertySymbols(kafka).find(
    ({ description }) => description === 'private:Kafka:createCluster',
  )
  const create = (kafka as unknown as Record<symbol, (options: object) => InnerCluster>)[name!]!
  return create({ allowAutoTopicCreation: false, metadataMaxAge: METADATA_MAX_AGE_MS })
}

/** Rejects where the broker no longer knows the member, which is the usual case. */
export const leaveFor = async (
  coordinator: InnerCoordinator,
  groupId: string,
  memberId: string,
): Promise<void> => {
  await coordinator.leaveGroup({ groupId, memberId })
}
