/**
 * Runs the shards of a consumer group member: assignment, back-pressure, low-water marks and
 * draining. The host knows the roles of the topics and the record `ShardOpened`; all other
 * records are the business of the app's `Shard`.
 */
import { makeSupervisor } from '@hub/flow'
import { randomUUID } from 'node:crypto'
import {
  type ConsumerGroups,
  type EventLog,
  type GroupControl,
  type GroupHandler,
  joinWithRetry,
  kafkaCrashPoint,
  type KafkaUnavailable,
  type TopicNames,
} from '@hub/kafka'
import { Effect, FiberSet, Latch, type Scope } from 'effect'
import { makeAppender } from './appender.ts'
import { ShardSlot, lanesOf } from './shard-slot.ts'
import { makeRecovery } from './recovery.ts'
import type { Shard, ShardHandle } from './shard.ts'

interface ShardHostOptions<S extends Shard> {
  readonly group: string
  readonly topics: TopicNames
  readonly memberFile?: string
  readonly makeShard: (handle: ShardHandle) => S
  /** Called after every change, with all records folded. The app starts new work here. */
  readonly onSettled: () => void
  /** False while messages wait for the end of others. Then no record is delayed. */
  readonly mayGather: () => boolean
  /** The number of actions to finish before the shards may move to another member. */
  readonly inFlight: () => number
  readonly onRecovered: (recovery: {
    readonly shard: number
    readonly records: number
    readonly ms: number
  }) => void
}

export interface ShardHost<S extends Shard> {
  /** The open shards, in ascending order. */
  readonly open: () => ReadonlyArray<S>
  /** Whether new work may start. False during a rebalance, without a lease, and at shutdown. */
  readonly mayStart: () => boolean
  /** Runs a change that does not come from the group (an answer, a lookup), and then settles. */
  readonly apply: (change: () => void) => void
  /** How long Kafka takes to acknowledge an append of the shards, ms. `now`: milliseconds since the epoch. */
  readonly appendDelayMs: (now: number) => number
  /** Whether the member has joined, its heartbeats are answered, and all its shards are open. */
  readonly isReady: Effect.Effect<boolean>
  /** The number of unread records in each partition of the shards. */
  readonly lag: Effect.Effect<
    ReadonlyArray<{ readonly topic: string; readonly partition: number; readonly records: number }>,
    KafkaUnavailable
  >
  /** Never succeeds. It dies when a loop of the host has died; the process must then end. */
  readonly failure: Effect.Effect<never>
}

/** Deadlines are seconds to hours away, so 0.1 s is exact enough. */
const TICK_MS = 100
/** The same while nothing was delivered since the last tick, and nothing is in flight. */
const QUIET_TICK_MS = 500
/** The low-water marks are this old at most: a restart reads that much again. */
const COMMIT_MS = 1000
/** Parts of the 2.5 s before a join: first for actions in flight, then for the last commit. */
const DRAIN_MS = 1800
const LAST_COMMIT_MS = 600
/**
 * A member on standby takes its shards over when it has read their logs, or after this time,
 * because a log may grow faster than it is read. 100,000 open messages take three seconds.
 */
const STANDBY_AT_MOST_MS = 10_000
/**
 * The owner repeats its fence after this many log records, because the low-water mark of the log is
 * always at a fence. A busy shard appends so many in a second.
 */
const FENCE_REPEAT_RECORDS = 500
/** A shard that moves is idle until the whole group has heard of it. */
const HEARTBEAT_MS = 200
/** The log of a shard is a few megabytes. Larger fetches would delay the lanes of other shards. */
const MAX_BYTES_PER_PARTITION = 1024 * 1024

const atMarksCommitted = kafkaCrashPoint('dispatcher.marks-committed')

/** Joins the group and runs its shards until the scope closes. Then it drains them. */
export const makeShardHost = <S extends Shard>(
  options: ShardHostOptions<S>,
): Effect.Effect<ShardHost<S>, KafkaUnavailable, ConsumerGroups | EventLog | Scope.Scope> =>
  Effect.gen(function* () {
    const clock = yield* Effect.clockWith(Effect.succeed)
    const now = () => clock.currentTimeMillisUnsafe()
    const fork = yield* FiberSet.makeRuntime<never>()
    const { makeShard, topics } = options
    const lanes = lanesOf(topics)
    const allTopics = [...lanes, topics.messages, topics.operatorReports]
    const member = randomUUID()
    const shards = new Map<number, ShardSlot<S>>()
    const idle = Latch.makeUnsafe(true)
    let control: GroupControl | null = null
    let draining = true
    let stopping = false
    let isQuiet = false

    const openShards = () =>
      [...shards.values()].filter((slot) => slot.phase === 'open').sort((a, b) => a.number - b.number)
    let open: ReadonlyArray<S> = []
    const updateOpen = () => {
      open = openShards().map((slot) => slot.shard)
    }

    const settle = () => {
      for (const slot of shards.values()) {
        if (slot.phase === 'open' && control !== null) slot.applyBackPressure(control)
      }
      options.onSettled()
      if (options.inFlight() === 0) idle.openUnsafe()
      else idle.closeUnsafe()
    }

    const appender = yield* makeAppender({ onSettled: settle, mayGather: options.mayGather })

    const makeHandle = (slot: ShardSlot<S>): ShardHandle => ({
      shard: slot.number,
      isCurrent: () => slot.current,
      hasLease: () =>
        slot.current &&
        slot.phase === 'open' &&
        control !== null &&
        control.owns(slot.number) &&
        control.hasLease(),
      append: (record, onAppended, urgency = 'soon') =>
        appender.append(record, {
          urgency,
          isWanted: () => slot.current,
          onAppended: ({ offset, topic }) => {
            if (topic === topics.messages) slot.ownLogEnd = Math.max(slot.ownLogEnd, offset + 1)
            onAppended(offset)
          },
        }),
    })

    const close = (slot: ShardSlot<S>) => {
      slot.current = false
      shards.delete(slot.number)
      slot.shard.onClosed()
      updateOpen()
    }

    const recovery = makeRecovery<S>({
      topics,
      member,
      now,
      shards,
      control: () => control,
      onOpenChanged: updateOpen,
      onRecovered: ({ number, recordsRead, startedAt }) => {
        options.onRecovered({ shard: number, records: recordsRead, ms: now() - startedAt })
        settle()
      },
    })

    /**
     * Commits the low-water marks of the open shards, lanes and log in one request. A crash that
     * tears it apart does no harm: a shard keeps the final fact of a message pinned until
     * `onCommitted` has passed its lane offset, so a new log mark fits old lane marks. An old one
     * fits any.
     */
    const commit = Effect.gen(function* () {
      if (control === null) return
      const by = control
      const committing = openShards().map((slot) => {
        slot.resumeLog(by)
        const marks = slot.lowWaterMarks()
        return { slot, marks: marks.filter(({ topic, offset }) => slot.committed.get(topic) !== offset) }
      })
      const changed = committing.flatMap(({ marks }) => marks)
      if (changed.length > 0) yield* atMarksCommitted(by.commit(changed))
      for (const { slot, marks } of committing) {
        if (!slot.current) continue
        for (const { topic, offset } of marks) slot.committed.set(topic, offset)
        const position = slot.logPosition
        slot.shard.onCommitted(
          lanes.map((topic) => slot.committed.get(topic) ?? 0),
          position,
          now(),
        )
        const behind = position - (slot.fence.newestOffset ?? 0)
        if (!slot.repeatingFence && behind > FENCE_REPEAT_RECORDS) {
          slot.repeatingFence = true
          slot.appendFence(now(), () => {
            slot.repeatingFence = false
          })
        }
      }
    })

    const commitOnce = commit.pipe(
      Effect.catch((error) =>
        Effect.logWarning(
          'shard runtime: the low-water marks were not committed; trying again in a second',
          error,
        ),
      ),
    )

    /** Starts nothing new, waits for actions in flight, and commits. The time is bounded. */
    const drain = Effect.gen(function* () {
      draining = true
      settle()
      yield* idle.await.pipe(Effect.timeoutOrElse({ duration: DRAIN_MS, orElse: () => Effect.void }))
      yield* commitOnce.pipe(Effect.timeoutOrElse({ duration: LAST_COMMIT_MS, orElse: () => Effect.void }))
    })

    const handler: GroupHandler = {
      onAssigned: (assignment, by) => {
        control = by
        const standby = new Set(assignment.standby)
        for (const slot of shards.values()) {
          // No other member owned a retained shard meanwhile, so what it has read remains valid.
          const keep =
            assignment.retained.has(slot.number) && slot.phase !== 'locating' && slot.phase !== 'superseded'
          if (!keep) close(slot)
        }
        const fresh: Array<ShardSlot<S>> = []
        for (const number of [...assignment.shards, ...assignment.standby]) {
          const kept = shards.get(number)
          if (kept === undefined) {
            const slot = new ShardSlot(number, topics, now(), standby.has(number), makeHandle, makeShard)
            shards.set(number, slot)
            fresh.push(slot)
            for (const topic of allTopics) by.pause(topic, number)
            continue
          }
          for (const topic of allTopics) {
            by.seek({ topic, partition: number, offset: kept.position(topic) })
            if (kept.isPaused(topic)) by.pause(topic, number)
            else by.resume(topic, number)
          }
          kept.logPaused = false
          if (kept.standby && !standby.has(number)) {
            kept.standby = false
            kept.startedAt = now()
            kept.recordsRead = 0
            kept.logEnd = Number.POSITIVE_INFINITY
            fresh.push(kept)
          }
        }
        draining = stopping
        if (fresh.length > 0) fork(recovery.locate(fresh, by))
        settle()
      },
      onRevoking: drain,
      onBatch: (topic, partition, records) =>
        Effect.sync(() => {
          const slot = shards.get(partition)
          if (slot === undefined || slot.phase === 'locating') return
          if (topic === topics.messages) {
            recovery.onLogRecords(slot, records)
            slot.pauseOwnLog(control)
          } else if (slot.phase === 'open') slot.deliver(topic, lanes.indexOf(topic), records)
          else return
          isQuiet = false
          settle()
        }),
    }

    const { every, failure, supervise } = makeSupervisor()
    yield* Effect.forkScoped(supervise(appender.run))
    yield* every(
      () => (isQuiet ? QUIET_TICK_MS : TICK_MS),
      Effect.sync(() => {
        const at = now()
        isQuiet = options.inFlight() === 0 && [...shards.values()].every(({ phase }) => phase === 'open')
        for (const slot of shards.values()) {
          if (slot.phase === 'open') slot.shard.onTick(at)
          else if (slot.standby && at - slot.startedAt > STANDBY_AT_MOST_MS) control?.takeOver()
        }
        recovery.continue()
        settle()
      }),
    )
    yield* every(
      COMMIT_MS,
      // During a rebalance, `drain` commits the marks. Without a lease, another member may already
      // own the shards, and this commit could overwrite the marks of that member.
      Effect.suspend(() => (draining || control?.hasLease() !== true ? Effect.void : commitOnce)),
    )

    const joined = yield* joinWithRetry(
      {
        group: options.group,
        topics: allTopics,
        standbyTopic: topics.messages,
        heartbeatMs: HEARTBEAT_MS,
        maxBytesPerPartition: MAX_BYTES_PER_PARTITION,
        ...(options.memberFile === undefined ? {} : { memberFile: options.memberFile }),
      },
      handler,
    )
    // Finalizers run in reverse order, so this one runs before the member leaves the group.
    yield* Effect.addFinalizer(() =>
      Effect.suspend(() => {
        stopping = true
        return drain
      }),
    )

    const lagOf = (by: GroupControl, topic: string) =>
      Effect.map(by.ends(topic), (ends) =>
        [...ends].flatMap(([partition, end]) => {
          const slot = shards.get(partition)
          const position = slot?.positions.get(topic)
          return position === undefined || slot?.standby === true
            ? []
            : [{ topic, partition, records: Math.max(0, end - Math.max(0, position)) }]
        }),
      )

    return {
      open: () => open,
      mayStart: () => !draining && control !== null && control.hasLease(),
      apply: (change) => {
        change()
        settle()
      },
      appendDelayMs: appender.delayMs,
      isReady: Effect.map(
        joined.isHealthy,
        (healthy) => healthy && [...shards.values()].every((slot) => slot.phase === 'open'),
      ),
      lag: Effect.suspend(() => {
        const by = control
        if (by === null) return Effect.succeed([])
        return Effect.map(
          Effect.forEach(allTopics, (topic) => lagOf(by, topic), { concurrency: 'unbounded' }),
          (lags) => lags.flat(),
        )
      }),
      failure,
    }
  })
