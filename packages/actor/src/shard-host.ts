/**
 * Shards on a consumer group: assignment, fence, recovery, back-pressure, marks and draining, around a
 * `Shard` that knows what the records mean.
 *
 * What it knows of the hub are the roles of the topics (lanes, the log, reports) and `ShardOpened`; nothing of
 * messages. A shard's state is a fold of its log partition:
 *
 * 1. *locating*: nothing of the shard is read; the committed marks are fetched;
 * 2. *reading*: the log from its low-water mark to the end as it was then;
 * 3. *fencing*: `ShardOpened` with an epoch above all seen is on its way to the log;
 * 4. *closing*: reading on to the own fence. If another member's fence of the same epoch came first, back to 3;
 * 5. *open*: lanes and reports are read from their marks, and the log goes on being read.
 *
 * A member that comes to others does the longest part, the reading, on standby, while the shards are still at work elsewhere, and then
 * takes them over: what it has read stays read, and step 1 is done again for the marks of that moment (docs/decisions/0025).
 */
import { randomUUID } from 'node:crypto'
import {
  type KafkaUnavailable,
  type ConsumerGroups,
  decodeShardOpened,
  type EventLog,
  type GroupControl,
  type GroupHandler,
  type IncomingRecord,
  type OutgoingRecord,
  type Position,
  shardOpenedRecord,
  type TopicNames,
  joinWithRetry,
} from '@hub/kafka'
import { Effect, FiberSet, Latch, Result, type Scope } from 'effect'
import { type Appender, makeAppender } from './appender.ts'
import { Fence, type Opening } from './fence.ts'
import { makeSupervisor } from './supervisor.ts'

/** How a shard begins its work. */
export interface Opened {
  readonly epoch: number
  readonly now: number
  /** For each lane, the offset its next record had when recovery began: below it may be records of recovered messages. */
  readonly laneEnds: ReadonlyArray<number>
  /** The next offset of the log to be read: whatever the shard's former owners have written is before it. */
  readonly logPosition: number
}

/** What of a shard's partitions is still needed: smallest offsets, `null` for nothing. */
export interface Needed {
  readonly lanes: ReadonlyArray<number | null>
  readonly log: number | null
  readonly reports: number | null
}

/** What the records mean. Everything here is synchronous and must not throw. */
export interface Shard {
  /** A record of the log, in order: first for recovery, and after `onOpened` for what others have written. */
  readonly onLog: (record: IncomingRecord, fence: Fence) => void
  readonly onLane: (lane: number, record: IncomingRecord) => void
  readonly onReport: (record: IncomingRecord) => void
  readonly onOpened: (opened: Opened) => void
  /** The shard is somebody else's; nothing it does counts any more. */
  readonly onClosed: () => void
  /** About ten times a second: what is due is done. */
  readonly onTick: (now: number) => void
  /** The lane must not be read on for now. */
  readonly isFull: (lane: number) => boolean
  /** There is room enough to read the lane on, once it was full. */
  readonly hasRoom: (lane: number) => boolean
  /** The same for the reports. */
  readonly reportsFull: () => boolean
  readonly reportsHaveRoom: () => boolean
  /**
   * Where the lane is to be read next, when that is not `position`, the next offset it would read; `null` to go on. Never below
   * what `needed` told. Absent: a lane is always read on.
   */
  readonly turn?: (lane: number, position: number) => number | null
  readonly needed: () => Needed
  /** Marks were committed; `logPosition` is how far the log has been read. */
  readonly onCommitted: (lanes: ReadonlyArray<number>, logPosition: number, now: number) => void
}

/** What a shard may do to the world. */
export interface ShardHandle {
  readonly shard: number
  /** False from the moment on at which the shard was taken away or closed. */
  readonly isCurrent: () => boolean
  /**
   * True while nobody else can own the shard: to be asked in the same tick as the act that must not happen
   * twice.
   */
  readonly mayAct: () => boolean
  /** Appends to the log or anywhere else; `onAppended` only while the shard is current. */
  readonly append: (record: OutgoingRecord, onAppended: (offset: number) => void) => void
}

/** For metrics. */
export interface HostObserver {
  readonly onRecovered: (recovery: {
    readonly shard: number
    readonly records: number
    readonly ms: number
  }) => void
}

export interface ShardHostOptions<S extends Shard> {
  readonly group: string
  readonly topics: TopicNames
  readonly memberFile?: string
  readonly makeShard: (handle: ShardHandle) => S
  /** Called after every change, when all of its records have been folded: the moment to hand over. */
  readonly onSettled: () => void
  /** Acts under way that should be finished before the shards may go to somebody else. */
  readonly inFlight: () => number
  readonly observer: HostObserver
}

export interface ShardHost<S extends Shard> {
  /** The shards that are open, in order of their numbers. */
  readonly open: () => ReadonlyArray<S>
  /** False while the group is about to change hands, and when stopping: nothing new is to be begun. */
  readonly mayBegin: () => boolean
  /** Runs a change that comes from elsewhere than the group (an answer, a lookup), and settles. */
  readonly act: (change: () => void) => void
  /** Joined, heartbeats answered, and every owned shard open. */
  readonly isReady: Effect.Effect<boolean>
  /** How many records each partition of the shards has that were not read yet. */
  readonly lag: Effect.Effect<
    ReadonlyArray<{ readonly topic: string; readonly partition: number; readonly records: number }>,
    KafkaUnavailable
  >
  /** Never succeeds; dies when a part of the runtime has died, which the process should not survive. */
  readonly failure: Effect.Effect<never>
}

/** Deadlines are seconds to hours away, so a tenth of a second is exact, and no timer is armed for each message. */
const TICK_MS = 100
/** Marks trail by this much: what a restart reads twice. */
const COMMIT_MS = 1000
/** Of the adapter's 2.5 s before a join: what is in flight gets the larger part, the last commit the rest. */
const DRAIN_MS = 1800
const LAST_COMMIT_MS = 600
/**
 * A member on standby takes its shards over when it has read what was there when it came, or after so long: a log that is written faster
 * than it is read would keep it there for good. Recovery from 100,000 open messages takes three seconds.
 */
const STANDBY_AT_MOST_MS = 10_000
/** Between tries to learn where a shard stands. */
const LOCATE_PAUSE_MS = 200
/**
 * The fence is written again once so many records lie behind it, so that the log's mark, which is always at a fence, can
 * move on: what a restart reads in vain. A busy shard writes so many in a second; one fence more for each costs nothing.
 */
const FENCE_CARRY_RECORDS = 500

/** A shard that changes hands is at rest until all of its group have heard of it. */
const HEARTBEAT_MS = 200
/** The log of a shard is a few megabytes, of which each fetch waits for its turn on a busy machine. More at a time would hold up the others' lanes. */
const MAX_BYTES_PER_PARTITION = 1024 * 1024

type Phase = 'locating' | 'reading' | 'fencing' | 'closing' | 'open' | 'superseded'

interface Hosted<S> {
  readonly number: number
  readonly shard: S
  readonly handle: ShardHandle
  readonly fence: Fence
  startedAt: number
  /** Somebody else owns the shard; its log is read ahead. */
  standby: boolean
  current: boolean
  phase: Phase
  opening: Opening
  /** Offset of the own fence in the log. */
  fenceOffset: number
  carryingFence: boolean
  /** Where reading the log began. */
  logStart: number
  /** End of the log when recovery began; infinite until that is known. */
  logEnd: number
  laneEnds: ReadonlyArray<number>
  recordsRead: number
  /** Next offset to read, by topic. */
  readonly positions: Map<string, number>
  readonly committed: Map<string, number>
  readonly pausedLanes: Set<number>
  reportsPaused: boolean
  /** Offset behind the newest record of its own that the log has acknowledged. */
  ownLogEnd: number
  /** The log is not being read just now; see `rest`. */
  resting: boolean
}

/** Joins the group and runs its shards until the scope closes: then what is in flight is finished and marks are committed. */
export const makeShardHost = <S extends Shard>(
  options: ShardHostOptions<S>,
): Effect.Effect<ShardHost<S>, KafkaUnavailable, ConsumerGroups | EventLog | Scope.Scope> =>
  Effect.gen(function* () {
    const clock = yield* Effect.clockWith(Effect.succeed)
    const now = () => clock.currentTimeMillisUnsafe()
    const fork = yield* FiberSet.makeRuntime<never>()
    const { topics } = options
    const lanes = [topics.acceptedOtp, topics.acceptedService]
    const all = [...lanes, topics.messages, topics.operatorReports]
    const member = randomUUID()
    const shards = new Map<number, Hosted<S>>()
    const idle = Latch.makeUnsafe(true)
    let control: GroupControl | null = null
    let draining = true
    let stopping = false

    const openShards = () =>
      [...shards.values()].filter((hosted) => hosted.phase === 'open').sort((a, b) => a.number - b.number)
    let open: ReadonlyArray<S> = []
    const listOpen = () => {
      open = openShards().map((hosted) => hosted.shard)
    }

    const settle = () => {
      for (const hosted of shards.values()) {
        if (hosted.phase !== 'open' || control === null) continue
        for (const [lane, topic] of lanes.entries()) {
          const next = hosted.shard.turn?.(lane, hosted.positions.get(topic) ?? 0) ?? null
          if (next !== null) {
            hosted.positions.set(topic, next)
            control.seek({ topic, partition: hosted.number, offset: next })
          }
          if (hosted.pausedLanes.has(lane)) {
            if (!hosted.shard.hasRoom(lane)) continue
            hosted.pausedLanes.delete(lane)
            control.resume(topic, hosted.number)
          } else if (hosted.shard.isFull(lane)) {
            hosted.pausedLanes.add(lane)
            control.pause(topic, hosted.number)
          }
        }
        if (hosted.reportsPaused) {
          if (!hosted.shard.reportsHaveRoom()) continue
          hosted.reportsPaused = false
          control.resume(topics.operatorReports, hosted.number)
        } else if (hosted.shard.reportsFull()) {
          hosted.reportsPaused = true
          control.pause(topics.operatorReports, hosted.number)
        }
      }
      options.onSettled()
      if (options.inFlight() === 0) idle.openUnsafe()
      else idle.closeUnsafe()
    }

    const appender: Appender = yield* makeAppender(settle)

    const makeHosted = (number: number, standby: boolean): Hosted<S> => {
      const handle: ShardHandle = {
        shard: number,
        isCurrent: () => hosted.current,
        mayAct: () =>
          hosted.current &&
          hosted.phase === 'open' &&
          control !== null &&
          control.owns(number) &&
          control.hasLease(),
        append: (record, onAppended) =>
          appender.append(record, {
            isWanted: () => hosted.current,
            onAppended: (at) => {
              if (at.topic === topics.messages) hosted.ownLogEnd = Math.max(hosted.ownLogEnd, at.offset + 1)
              onAppended(at.offset)
            },
          }),
      }
      const hosted: Hosted<S> = {
        number,
        handle,
        shard: options.makeShard(handle),
        fence: new Fence(),
        startedAt: now(),
        standby,
        current: true,
        phase: 'locating',
        opening: { epoch: 0, member },
        fenceOffset: -1,
        carryingFence: false,
        logStart: 0,
        logEnd: Number.POSITIVE_INFINITY,
        laneEnds: [],
        recordsRead: 0,
        positions: new Map(),
        committed: new Map(),
        pausedLanes: new Set(),
        reportsPaused: false,
        ownLogEnd: 0,
        resting: false,
      }
      return hosted
    }

    const close = (hosted: Hosted<S>) => {
      hosted.current = false
      shards.delete(hosted.number)
      hosted.shard.onClosed()
      listOpen()
    }

    const writeFence = (hosted: Hosted<S>, onAppended: (offset: number) => void) => {
      const { epoch, member: by } = hosted.opening
      hosted.handle.append(
        shardOpenedRecord(topics, {
          type: 'ShardOpened',
          shard: hosted.number,
          epoch,
          member: by,
          at: now(),
        }),
        onAppended,
      )
    }

    const logPosition = (hosted: Hosted<S>) => hosted.positions.get(topics.messages) ?? 0

    /** Asks for the shards on standby once all of them have been read ahead. */
    const takeOver = () => {
      const ahead = [...shards.values()].filter(({ standby }) => standby)
      if (ahead.every((hosted) => logPosition(hosted) >= hosted.logEnd)) control?.takeOver()
    }

    /** Moves recovery on as far as what has been read allows. */
    const advance = (hosted: Hosted<S>) => {
      if (hosted.standby) return takeOver()
      if (hosted.phase === 'reading' && logPosition(hosted) >= hosted.logEnd) {
        hosted.phase = 'fencing'
        hosted.opening = { epoch: hosted.fence.epoch + 1, member }
        writeFence(hosted, (offset) => {
          hosted.fenceOffset = offset
          hosted.phase = 'closing'
          advance(hosted)
        })
      }
      if (hosted.phase !== 'closing' || logPosition(hosted) <= hosted.fenceOffset) return
      if (!hosted.fence.isHeldBy(hosted.opening)) {
        hosted.logEnd = logPosition(hosted)
        hosted.phase = 'reading'
        advance(hosted)
        return
      }
      hosted.phase = 'open'
      listOpen()
      hosted.shard.onOpened({
        epoch: hosted.opening.epoch,
        now: now(),
        laneEnds: hosted.laneEnds,
        logPosition: logPosition(hosted),
      })
      for (const topic of [...lanes, topics.operatorReports]) {
        control?.seek({ topic, partition: hosted.number, offset: hosted.positions.get(topic) ?? 0 })
        control?.resume(topic, hosted.number)
      }
      options.observer.onRecovered({
        shard: hosted.number,
        records: hosted.recordsRead,
        ms: now() - hosted.startedAt,
      })
      settle()
    }

    /** Where these shards stand, asked until it is known or they are gone. */
    const locate = Effect.fnUntraced(function* (fresh: ReadonlyArray<Hosted<S>>, by: GroupControl) {
      for (;;) {
        const wanted = fresh.filter((hosted) => hosted.current)
        if (wanted.length === 0) return
        const standing = yield* by
          .offsets(wanted.map((hosted) => hosted.number))
          .pipe(
            Effect.catch((error) =>
              Effect.logWarning('the marks of new shards could not be read; trying again', error).pipe(
                Effect.andThen(Effect.sleep(LOCATE_PAUSE_MS)),
                Effect.as(null),
              ),
            ),
          )
        if (standing === null) continue
        for (const hosted of wanted) {
          // The group may have changed hands meanwhile.
          if (!hosted.current || control !== by) continue
          const ends = new Map<string, number>()
          for (const { topic, partition, committed, low, high } of standing) {
            if (partition !== hosted.number) continue
            ends.set(topic, high)
            hosted.committed.set(topic, committed)
            // What was read of the log on standby stays read.
            if (topic === topics.messages && hosted.phase === 'reading') continue
            // A mark that has expired means the beginning; one beyond the end cannot be right either.
            hosted.positions.set(topic, committed < low ? low : Math.min(committed, high))
          }
          hosted.logEnd = ends.get(topics.messages) ?? 0
          hosted.laneEnds = lanes.map((topic) => ends.get(topic) ?? 0)
          if (hosted.phase === 'locating') {
            hosted.logStart = logPosition(hosted)
            hosted.phase = 'reading'
            by.seek({ topic: topics.messages, partition: hosted.number, offset: logPosition(hosted) })
            by.resume(topics.messages, hosted.number)
          }
          advance(hosted)
        }
        return
      }
    })

    const onLogRecord = (hosted: Hosted<S>, record: IncomingRecord) => {
      if (record.type === 'ShardOpened') {
        const opening = decodeShardOpened(record)
        if (Result.isFailure(opening)) return
        hosted.fence.observe(record.offset, opening.success)
        if (hosted.phase === 'open' && hosted.fence.epoch > hosted.opening.epoch) {
          // Somebody else has opened the shard: this member has lost it and will hear of it.
          hosted.phase = 'superseded'
          listOpen()
        }
        return
      }
      hosted.shard.onLog(record, hosted.fence)
    }

    /**
     * An open shard has folded its own facts when they were acknowledged; it reads the log on only to move its mark and to hear of
     * others. Reading each fact as it lands would double the fetches of a busy shard, so once it has caught up with itself it rests
     * until the next commit.
     */
    const rest = (hosted: Hosted<S>) => {
      if (hosted.phase !== 'open' || hosted.resting || logPosition(hosted) < hosted.ownLogEnd) return
      hosted.resting = true
      control?.pause(topics.messages, hosted.number)
    }
    const wake = (hosted: Hosted<S>) => {
      if (!hosted.resting) return
      hosted.resting = false
      control?.resume(topics.messages, hosted.number)
    }

    /** The marks of a shard: what is needed, and never beyond what has been read. */
    const marksOf = (hosted: Hosted<S>): ReadonlyArray<Position> => {
      const needed = hosted.shard.needed()
      const at = (topic: string, lowest: number | null): Position => {
        const position = hosted.positions.get(topic) ?? 0
        return {
          topic,
          partition: hosted.number,
          offset: lowest === null ? position : Math.min(lowest, position),
        }
      }
      // Reading begins at a fence (see `Fence`); before there was one, where this shard's own reading began.
      const log = at(topics.messages, needed.log)
      const fenced = hosted.fence.before(log.offset) ?? hosted.logStart
      return [
        ...lanes.map((topic, lane) => at(topic, needed.lanes[lane] ?? null)),
        { ...log, offset: fenced },
        at(topics.operatorReports, needed.reports),
      ]
    }

    /**
     * Commits the marks of the open shards. Lanes and log go in one request, and were they torn apart by a crash it would
     * not matter: a shard computes the log's mark against the lane marks committed *before* (a finished message is
     * held in the log until `onCommitted` has passed its lane offset), so a new log mark fits the old lane marks;
     * and old log marks are lower, so they fit any lane marks.
     */
    const commit = Effect.gen(function* () {
      if (control === null) return
      const by = control
      const open = openShards()
      for (const hosted of open) wake(hosted)
      const changed = open.map((hosted) => ({
        hosted,
        positions: marksOf(hosted).filter(({ topic, offset }) => hosted.committed.get(topic) !== offset),
      }))
      const positions = changed.flatMap((change) => change.positions)
      if (positions.length > 0) yield* by.commit(positions)
      for (const change of changed) {
        const { hosted } = change
        if (!hosted.current) continue
        for (const { topic, offset } of change.positions) hosted.committed.set(topic, offset)
        hosted.shard.onCommitted(
          lanes.map((topic) => hosted.committed.get(topic) ?? 0),
          logPosition(hosted),
          now(),
        )
        const behind = logPosition(hosted) - (hosted.fence.newest ?? 0)
        if (!hosted.carryingFence && behind > FENCE_CARRY_RECORDS) {
          hosted.carryingFence = true
          writeFence(hosted, () => {
            hosted.carryingFence = false
          })
        }
      }
    })

    const commitOnce = commit.pipe(
      Effect.catch((error) => Effect.logWarning('marks were not committed', error)),
    )

    /** Begins nothing new, waits for what is in flight, and commits. Bounded. */
    const drain = Effect.gen(function* () {
      draining = true
      settle()
      yield* idle.await.pipe(Effect.timeoutOrElse({ duration: DRAIN_MS, orElse: () => Effect.void }))
      yield* commitOnce.pipe(Effect.timeoutOrElse({ duration: LAST_COMMIT_MS, orElse: () => Effect.void }))
    })

    /** A shard that is not open reads its log only. */
    const isPaused = (hosted: Hosted<S>, topic: string): boolean => {
      if (topic === topics.messages) return false
      if (hosted.phase !== 'open') return true
      return topic === topics.operatorReports
        ? hosted.reportsPaused
        : hosted.pausedLanes.has(lanes.indexOf(topic))
    }

    const handler: GroupHandler = {
      onAssigned: (assignment, by) => {
        control = by
        const standby = new Set(assignment.standby)
        for (const hosted of shards.values()) {
          // Nobody else had a kept shard meanwhile, or it is read ahead: what has been read of its log stays read, recovered or not.
          const keep =
            assignment.retained.has(hosted.number) &&
            hosted.phase !== 'locating' &&
            hosted.phase !== 'superseded'
          if (!keep) close(hosted)
        }
        const fresh: Array<Hosted<S>> = []
        for (const number of [...assignment.shards, ...assignment.standby]) {
          const kept = shards.get(number)
          if (kept === undefined) {
            const hosted = makeHosted(number, standby.has(number))
            shards.set(number, hosted)
            fresh.push(hosted)
            for (const topic of all) by.pause(topic, number)
            continue
          }
          for (const topic of all) {
            by.seek({ topic, partition: number, offset: kept.positions.get(topic) ?? 0 })
            if (isPaused(kept, topic)) by.pause(topic, number)
            else by.resume(topic, number)
          }
          kept.resting = false
          if (kept.standby && !standby.has(number)) {
            kept.standby = false
            kept.startedAt = now()
            kept.recordsRead = 0
            kept.logEnd = Number.POSITIVE_INFINITY
            fresh.push(kept)
          }
        }
        draining = stopping
        if (fresh.length > 0) fork(locate(fresh, by))
        settle()
      },
      onRevoking: drain,
      onBatch: (topic, partition, records) =>
        Effect.sync(() => {
          const hosted = shards.get(partition)
          if (hosted === undefined || hosted.phase === 'locating') return
          const isLog = topic === topics.messages
          if (!isLog && hosted.phase !== 'open') return
          const lane = lanes.indexOf(topic)
          const from = hosted.positions.get(topic) ?? 0
          for (const record of records) {
            if (record.offset < from) continue
            hosted.positions.set(topic, record.offset + 1)
            if (isLog) {
              hosted.recordsRead++
              onLogRecord(hosted, record)
            } else if (lane >= 0) hosted.shard.onLane(lane, record)
            else hosted.shard.onReport(record)
          }
          if (isLog) {
            advance(hosted)
            rest(hosted)
          }
          settle()
        }),
    }

    const { failure, supervise } = makeSupervisor()
    const forever = (effect: Effect.Effect<unknown>) => Effect.forkScoped(supervise(effect))

    yield* forever(appender.run)
    yield* forever(
      Effect.forever(
        Effect.andThen(
          Effect.sleep(TICK_MS),
          Effect.sync(() => {
            const at = now()
            for (const hosted of shards.values()) {
              if (hosted.phase === 'open') hosted.shard.onTick(at)
              else if (hosted.standby && at - hosted.startedAt > STANDBY_AT_MOST_MS) control?.takeOver()
            }
            settle()
          }),
        ),
      ),
    )
    yield* forever(
      Effect.forever(
        Effect.andThen(
          Effect.sleep(COMMIT_MS),
          // Nothing is committed while the group changes hands (draining does that), or when it may have done so
          // unnoticed: the broker would take the marks of a member that has lost its shards.
          Effect.suspend(() => (draining || control?.hasLease() !== true ? Effect.void : commitOnce)),
        ),
      ),
    )

    const joined = yield* joinWithRetry(
      {
        group: options.group,
        topics: all,
        standbyTopic: topics.messages,
        heartbeatMs: HEARTBEAT_MS,
        maxBytesPerPartition: MAX_BYTES_PER_PARTITION,
        ...(options.memberFile === undefined ? {} : { memberFile: options.memberFile }),
      },
      handler,
    )
    // Finalizers run last in, first out: this one before the group is left.
    yield* Effect.addFinalizer(() =>
      Effect.suspend(() => {
        stopping = true
        return drain
      }),
    )

    return {
      open: () => open,
      mayBegin: () => !draining && control !== null && control.hasLease(),
      act: (change) => {
        change()
        settle()
      },
      isReady: Effect.map(
        joined.isHealthy,
        (healthy) => healthy && [...shards.values()].every((hosted) => hosted.phase === 'open'),
      ),
      lag: Effect.suspend(() => {
        const by = control
        if (by === null) return Effect.succeed([])
        return Effect.map(
          Effect.forEach([...lanes, topics.messages, topics.operatorReports], (topic) =>
            Effect.map(by.offsetRanges(topic), (bounds) =>
              bounds.flatMap(({ high, partition }) => {
                const hosted = shards.get(partition)
                const position = hosted?.positions.get(topic)
                return position === undefined || hosted?.standby === true
                  ? []
                  : [{ topic, partition, records: Math.max(0, high - Math.max(0, position)) }]
              }),
            ),
          ),
          (all) => all.flat(),
        )
      }),
      failure,
    }
  })
