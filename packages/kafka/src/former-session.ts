/**
 * Ends the session of a member's former life while most of the process is not loaded yet. Its group waits for that and for nothing else:
 * on a busy machine loading the rest takes a second, and its shards would be nobody's all the while (docs/decisions/0025). So this module
 * and what it imports take the parts of effect by their own paths: the whole package takes longer to load than everything else here.
 */
import { setTimeout as delay } from 'node:timers/promises'
import * as Config from 'effect/Config'
import * as Effect from 'effect/Effect'
import { kafkaConnectionConfig, kafkaWith, type KafkaConnection } from './client.ts'
import { innerCluster } from './inner-group.ts'
import { readMember, removeMember, type SavedMember } from './member-file.ts'

/** Leaving takes some milliseconds; the others take half a second until they have shared out what was left. */
const WITHIN_MS = 2000
const REQUEST_TIMEOUT_MS = 1000
const ASK_EVERY_MS = 50
/** States of a group that has something still to share out. */
const REBALANCING: ReadonlySet<string> = new Set(['PreparingRebalance', 'CompletingRebalance'])

/**
 * Leaves the group for the process that has written the member file, removes the file, and waits until the others have its shards: what is
 * loaded next would take the processor from them, and joining would interrupt them. Takes two seconds at most and never fails: what is not
 * done here is done by `ConsumerGroups.join`, or by the broker when the session is over. To be ended before the group is joined.
 */
export const leaveForFormer = (connection: KafkaConnection, memberFile: string): Effect.Effect<void> => {
  const saved = readMember(memberFile)
  if (saved === undefined) return Effect.void
  return Effect.tryPromise((signal) => leave(connection, saved, memberFile, signal)).pipe(
    Effect.timeoutOption(WITHIN_MS),
    Effect.ignore,
  )
}

/** `leaveForFormer` by the settings. What is wrong with them is said by the app when it checks them. */
export const endFormerSession = (clientId: string, memberFile: Config.Config<string>): Effect.Effect<void> =>
  Config.all({ connection: kafkaConnectionConfig(clientId), file: memberFile }).pipe(
    Effect.flatMap(({ connection, file }) => leaveForFormer(connection, file)),
    Effect.ignore,
  )

const leave = async (
  connection: KafkaConnection,
  { group: groupId, memberId }: SavedMember,
  file: string,
  signal: AbortSignal,
): Promise<void> => {
  const { destroy, kafka } = kafkaWith(connection, { requestTimeoutMs: REQUEST_TIMEOUT_MS }, () => {})
  const cluster = innerCluster(kafka)
  try {
    await cluster.connect()
    // The coordinator is named by its number; only the metadata say where that is.
    await cluster.refreshMetadata()
    const coordinator = await cluster.findGroupCoordinator({ groupId })
    await coordinator.leaveGroup({ groupId, memberId })
    removeMember(file)
    while (!signal.aborted) {
      const { groups } = await coordinator.describeGroups({ groupIds: [groupId] })
      if (!groups.some(({ state }) => REBALANCING.has(state))) return
      await delay(ASK_EVERY_MS)
    }
  } finally {
    destroy()
  }
}
