/**
 * Patch of one consumer group: the times at which SyncGroup and the current heartbeat were sent.
 *
 * - kafkajs 2.2.4: the events GROUP_JOIN and HEARTBEAT are emitted when the answer arrives. The
 *   events do not contain the time at which the request was sent. A failed heartbeat has no event
 *   at all.
 * - Why the hub needs more: the broker starts the session when the request arrives, before the
 *   answer. A lease that starts at the answer can outlast the session, and two members then own a
 *   partition.
 * - Fails without the patch: `kafkajs-patches.unit.test.ts`, "has the send times of SyncGroup and
 *   of heartbeats, not the times of their answers" and "reports a failed heartbeat".
 * - Unnecessary when: the events contain the send time, and a failed heartbeat emits an event.
 */
import type { InnerGroup } from './internals.ts'

export interface SendTimes {
  /** Call it before each JoinGroup. */
  readonly joinStarted: () => void
  /** When SyncGroup was sent, by the monotonic clock. The broker starts the session no earlier. */
  readonly syncGroup: () => number
  /** When the current heartbeat was requested. The broker counts the session from a later time. */
  readonly heartbeat: () => number
}

/** Tracks the send times of a group, and calls `onHeartbeatError` for each failed heartbeat. */
export const trackSendTimes = (group: InnerGroup, onHeartbeatError: (error: unknown) => void): SendTimes => {
  let isJoining = false
  let syncSentAt = Number.NEGATIVE_INFINITY
  let heartbeatSentAt = Number.NEGATIVE_INFINITY
  let heartbeatsInProgress = 0
  const heartbeat = group.heartbeat.bind(group)
  group.heartbeat = async (options) => {
    // kafkajs answers concurrent callers with one request, which the first caller sent.
    if (heartbeatsInProgress++ === 0) heartbeatSentAt = performance.now()
    try {
      await heartbeat(options)
    } catch (error) {
      onHeartbeatError(error)
      throw error
    } finally {
      heartbeatsInProgress--
    }
  }
  // kafkajs calls it for the first time after JoinGroup just before SyncGroup.
  const generate = group.generatePartitionsPerSubscribedTopic.bind(group)
  group.generatePartitionsPerSubscribedTopic = () => {
    if (isJoining) {
      isJoining = false
      syncSentAt = performance.now()
    }
    return generate()
  }
  return {
    joinStarted: () => {
      isJoining = true
    },
    syncGroup: () => syncSentAt,
    heartbeat: () => heartbeatSentAt,
  }
}
