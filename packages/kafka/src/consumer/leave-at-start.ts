/**
 * Ends the session of the previous process of an app before this process loads most of its code.
 * The group waits for the end of that session; loading takes a second on a busy machine
 * (docs/decisions/shards.md#standby). So this file and its imports take only the parts of `effect` that they
 * need: the whole package takes longer to load than everything else here.
 */
import { setTimeout as delay } from 'node:timers/promises'
import * as Config from 'effect/Config'
import * as Effect from 'effect/Effect'
import { kafkaConnectionConfig, makeKafka, type KafkaConnection } from '../connection/client.ts'
import type { InnerCoordinator } from '../kafkajs-patches/internals.ts'
import { createCluster, leaveFor } from '../kafkajs-patches/leave-group-for.ts'
import { readMember, removeMember } from './member-file.ts'

/**
 * The longest time of the whole step. Leaving takes some milliseconds. The other members then
 * rebalance within half a second, on a busy machine within some seconds.
 */
export const LEAVE_WITHIN_MS = 3000
const REQUEST_TIMEOUT_MS = 1000
const POLL_INTERVAL_MS = 50
/**
 * The time in which the other members recover their new shards on a busy machine. Kafka does not
 * tell when they have. A join within this time would stop all of them for half a second.
 */
const RECOVERY_MS = 1000
const REBALANCING_STATES: ReadonlySet<string> = new Set(['PreparingRebalance', 'CompletingRebalance'])

/** The group of an app, and the file that keeps its member id over restarts. */
export interface Membership {
  readonly group: string
  readonly memberFile: string
}

/**
 * Leaves the group on behalf of the process that wrote the member file, and removes the file. If
 * the group rebalances then, or already because that process left by itself, it waits until the
 * other members own the shards and have recovered them: loading code would take the processor from
 * them.
 *
 * Takes at most three seconds and never fails. `ConsumerGroups.join`, or the session timeout, does
 * what remains. It must end before the process joins the group.
 */
export const leavePreviousMember = (
  connection: KafkaConnection,
  membership: Membership,
): Effect.Effect<void> =>
  Effect.tryPromise((signal) => leaveAndAwaitRebalance(connection, membership, signal)).pipe(
    Effect.timeoutOption(LEAVE_WITHIN_MS),
    Effect.ignore,
  )

/** Reads the settings. It ignores invalid settings, because the app reports them later. */
export const leavePreviousMemberFromConfig = (
  clientId: string,
  membership: Config.Config<Membership>,
): Effect.Effect<void> =>
  Config.all({ connection: kafkaConnectionConfig(clientId), membership }).pipe(
    Effect.flatMap((settings) => leavePreviousMember(settings.connection, settings.membership)),
    Effect.ignore,
  )

const leaveAndAwaitRebalance = async (
  connection: KafkaConnection,
  { group, memberFile }: Membership,
  signal: AbortSignal,
): Promise<void> => {
  const { destroy, kafka } = makeKafka(connection, { requestTimeoutMs: REQUEST_TIMEOUT_MS }, () => {})
  const cluster = createCluster(kafka)
  try {
    await cluster.connect()
    // The coordinator is identified by its node id. Only the metadata contain its address.
    await cluster.refreshMetadata()
    const coordinator = await cluster.findGroupCoordinator({ groupId: group })
    let hasRebalanced = await leave(coordinator, group, memberFile)
    while (!signal.aborted) {
      const { groups } = await coordinator.describeGroups({ groupIds: [group] })
      if (!groups.some(({ state }) => REBALANCING_STATES.has(state))) {
        if (hasRebalanced && groups.some(({ members }) => members.length > 0)) await delay(RECOVERY_MS)
        return
      }
      hasRebalanced = true
      await delay(POLL_INTERVAL_MS)
    }
  } finally {
    destroy()
  }
}

/** Whether the group had the member of the file. */
const leave = async (coordinator: InnerCoordinator, group: string, memberFile: string): Promise<boolean> => {
  const saved = readMember(memberFile)
  if (saved?.group !== group) return false
  try {
    await leaveFor(coordinator, group, saved.memberId)
  } catch {
    return false
  }
  removeMember(memberFile)
  return true
}
