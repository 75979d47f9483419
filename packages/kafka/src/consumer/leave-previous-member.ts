/**
 * Ends the session of a member's former life while most of the process is not loaded yet. Its group waits for that and for nothing else:
 * on a busy machine loading the rest takes a second, and its shards would be nobody's all the while (docs/decisions/0025). So this module
 * and what it imports take the parts of effect by their own paths: the whole package takes longer to load than everything else here.
 */
import { setTimeout as delay } from 'node:timers/promises'
import * as Config from 'effect/Config'
import * as Effect from 'effect/Effect'
import { kafkaConnectionConfig, kafkaWith, type KafkaConnection } from '../connection/client.ts'
import { innerCluster, type InnerCoordinator } from '../kafkajs-patches/inner-group.ts'
import { readMember, removeMember } from './member-file.ts'

/** Leaving takes some milliseconds, and the others take half a second until they have shared out what was left. */
const WITHIN_MS = 3000
const REQUEST_TIMEOUT_MS = 1000
const ASK_EVERY_MS = 50
/**
 * So long the others take to read themselves into what they were given, on a busy machine; nothing tells when they have. To join sooner
 * stops everybody for half a second just then.
 */
const READ_IN_MS = 1000
/** States of a group that is about to share out its shards. */
const SHARING_OUT: ReadonlySet<string> = new Set(['PreparingRebalance', 'CompletingRebalance'])

/** A membership that outlives its process. */
export interface Membership {
  readonly group: string
  readonly memberFile: string
}

/**
 * Leaves the group for the process that has written the member file, and removes the file. Where the group is sharing out then, or was
 * already because that process has left by itself, it waits until the others have its shards and have read themselves in: what is loaded next would
 * take the processor from them, and joining would interrupt them. Takes three seconds at most and never fails: what is not done here is done by
 * `ConsumerGroups.join`, or by the broker when the session is over. To be ended before the group is joined.
 */
export const leavePreviousMember = (
  connection: KafkaConnection,
  membership: Membership,
): Effect.Effect<void> =>
  Effect.tryPromise((signal) => makeWay(connection, membership, signal)).pipe(
    Effect.timeoutOption(WITHIN_MS),
    Effect.ignore,
  )

/** `leavePreviousMember` by the settings. What is wrong with them is said by the app when it checks them. */
export const leavePreviousMemberFromConfig = (
  clientId: string,
  membership: Config.Config<Membership>,
): Effect.Effect<void> =>
  Config.all({ connection: kafkaConnectionConfig(clientId), membership }).pipe(
    Effect.flatMap((settings) => leavePreviousMember(settings.connection, settings.membership)),
    Effect.ignore,
  )

const makeWay = async (
  connection: KafkaConnection,
  { group, memberFile }: Membership,
  signal: AbortSignal,
): Promise<void> => {
  const { destroy, kafka } = kafkaWith(connection, { requestTimeoutMs: REQUEST_TIMEOUT_MS }, () => {})
  const cluster = innerCluster(kafka)
  try {
    await cluster.connect()
    // The coordinator is named by its number; only the metadata say where that is.
    await cluster.refreshMetadata()
    const coordinator = await cluster.findGroupCoordinator({ groupId: group })
    let changes = await leave(coordinator, group, memberFile)
    while (!signal.aborted) {
      const { groups } = await coordinator.describeGroups({ groupIds: [group] })
      if (!groups.some(({ state }) => SHARING_OUT.has(state))) {
        if (changes && groups.some(({ members }) => members.length > 0)) await delay(READ_IN_MS)
        return
      }
      changes = true
      await delay(ASK_EVERY_MS)
    }
  } finally {
    destroy()
  }
}

/** Whether there was somebody to leave for. */
const leave = async (coordinator: InnerCoordinator, group: string, memberFile: string): Promise<boolean> => {
  const saved = readMember(memberFile)
  if (saved?.group !== group) return false
  try {
    await coordinator.leaveGroup({ groupId: group, memberId: saved.memberId })
  } catch {
    // Usually the broker has forgotten it already, which it answers with an error.
    return false
  }
  removeMember(memberFile)
  return true
}
