/** The state of one assigned shard in the runtime, its back-pressure and its low-water marks. */
import {
  type GroupControl,
  type IncomingRecord,
  type Position,
  shardOpenedRecord,
  type TopicNames,
} from '@hub/kafka'
import { Fence, type FenceOwner } from './fence.ts'
import type { Shard, ShardHandle } from './shard.ts'

/** The phases of recovery; see `recovery.ts`. `superseded`: a newer fence shows another owner. */
type Phase = 'locating' | 'reading' | 'fencing' | 'closing' | 'open' | 'superseded'

export interface HostedShard<S> {
  readonly number: number
  readonly shard: S
  readonly handle: ShardHandle
  readonly fence: Fence
  startedAt: number
  /** Another member owns the shard, and this one reads its log ahead. */
  standby: boolean
  current: boolean
  phase: Phase
  owner: FenceOwner
  /** The log offset of the shard's own fence. */
  fenceOffset: number
  /** A repetition of the own fence is not acknowledged yet. */
  repeatingFence: boolean
  /** The log offset at which recovery began to read. */
  logStart: number
  /** The end of the log when recovery began; infinite while it is unknown. */
  logEnd: number
  laneEnds: ReadonlyArray<number>
  recordsRead: number
  /** The next offset to read, by topic. */
  readonly positions: Map<string, number>
  readonly committed: Map<string, number>
  readonly pausedLanes: Set<number>
  reportsPaused: boolean
  /** The offset after the newest own record that Kafka has acknowledged. */
  ownLogEnd: number
  /** The log is paused until the next commit; see `pauseOwnLog`. */
  logPaused: boolean
}

export const makeHostedShard = <S>(
  number: number,
  options: {
    readonly standby: boolean
    readonly member: string
    readonly now: number
    readonly makeHandle: (hosted: () => HostedShard<S>) => ShardHandle
    readonly makeShard: (handle: ShardHandle) => S
  },
): HostedShard<S> => {
  const handle = options.makeHandle(() => hosted)
  const hosted: HostedShard<S> = {
    number,
    handle,
    shard: options.makeShard(handle),
    fence: new Fence(),
    startedAt: options.now,
    standby: options.standby,
    current: true,
    phase: 'locating',
    owner: { epoch: 0, member: options.member },
    fenceOffset: -1,
    repeatingFence: false,
    logStart: 0,
    logEnd: Number.POSITIVE_INFINITY,
    laneEnds: [],
    recordsRead: 0,
    positions: new Map(),
    committed: new Map(),
    pausedLanes: new Set(),
    reportsPaused: false,
    ownLogEnd: 0,
    logPaused: false,
  }
  return hosted
}

export const lanesOf = (topics: TopicNames): ReadonlyArray<string> => [
  topics.acceptedOtp,
  topics.acceptedService,
]

/** The next log offset that the shard reads. */
export const logPosition = (hosted: HostedShard<unknown>, topics: TopicNames): number =>
  hosted.positions.get(topics.messages) ?? 0

/** Appends the fence of the shard's owner to its log partition. */
export const appendFence = (
  hosted: HostedShard<unknown>,
  topics: TopicNames,
  now: number,
  onAppended: (offset: number) => void,
): void =>
  hosted.handle.append(
    shardOpenedRecord(topics, { type: 'ShardOpened', shard: hosted.number, ...hosted.owner, at: now }),
    onAppended,
  )

/** Passes records to the shard. Records below the position were read before. */
export const deliver = <S extends Shard>(
  { positions, shard }: HostedShard<S>,
  topic: string,
  lane: number,
  records: ReadonlyArray<IncomingRecord>,
): void => {
  const from = positions.get(topic) ?? 0
  for (const record of records) {
    if (record.offset < from) continue
    positions.set(topic, record.offset + 1)
    if (lane >= 0) shard.onLane(lane, record)
    else shard.onReport(record)
  }
}

/** Seeks, pauses and resumes lanes and reports of an open shard, as its memory allows. */
export const applyBackPressure = <S extends Shard>(
  hosted: HostedShard<S>,
  topics: TopicNames,
  control: GroupControl,
): void => {
  const { number, pausedLanes, positions, shard } = hosted
  for (const [lane, topic] of lanesOf(topics).entries()) {
    const target = shard.seekTarget?.(lane, positions.get(topic) ?? 0) ?? null
    if (target !== null) {
      positions.set(topic, target)
      control.seek({ topic, partition: number, offset: target })
    }
    if (pausedLanes.has(lane)) {
      if (!shard.hasRoom(lane)) continue
      pausedLanes.delete(lane)
      control.resume(topic, number)
    } else if (shard.isFull(lane)) {
      pausedLanes.add(lane)
      control.pause(topic, number)
    }
  }
  if (hosted.reportsPaused) {
    if (!shard.reportsHaveRoom()) return
    hosted.reportsPaused = false
    control.resume(topics.operatorReports, number)
  } else if (shard.reportsFull()) {
    hosted.reportsPaused = true
    control.pause(topics.operatorReports, number)
  }
}

/** Whether a topic of the shard must be paused. Before it is open, a shard reads only its log. */
export const isPaused = (hosted: HostedShard<unknown>, topics: TopicNames, topic: string): boolean => {
  if (topic === topics.messages) return false
  if (hosted.phase !== 'open') return true
  return topic === topics.operatorReports
    ? hosted.reportsPaused
    : hosted.pausedLanes.has(lanesOf(topics).indexOf(topic))
}

/**
 * Pauses the log of an open shard that has read all of its own facts. It folded them when Kafka
 * acknowledged them. To read each fact as it lands would double the fetches of a busy shard.
 */
export const pauseOwnLog = (
  hosted: HostedShard<unknown>,
  topics: TopicNames,
  control: GroupControl | null,
): void => {
  if (hosted.phase !== 'open' || hosted.logPaused || logPosition(hosted, topics) < hosted.ownLogEnd) return
  hosted.logPaused = true
  control?.pause(topics.messages, hosted.number)
}

export const resumeLog = (hosted: HostedShard<unknown>, topics: TopicNames, control: GroupControl): void => {
  if (!hosted.logPaused) return
  hosted.logPaused = false
  control.resume(topics.messages, hosted.number)
}

/** The low-water marks: the lowest pinned offsets, but never beyond the read positions. */
export const lowWaterMarks = <S extends Shard>(
  hosted: HostedShard<S>,
  topics: TopicNames,
): ReadonlyArray<Position> => {
  const lowest = hosted.shard.lowestPinned()
  const at = (topic: string, pinned: number | null): Position => {
    const position = hosted.positions.get(topic) ?? 0
    return {
      topic,
      partition: hosted.number,
      offset: pinned === null ? position : Math.min(pinned, position),
    }
  }
  // A reader must start at a fence. Before the first one, the mark stays at the first read offset.
  const log = at(topics.messages, lowest.log)
  const fence = hosted.fence.lastAtOrBefore(log.offset) ?? hosted.logStart
  return [
    ...lanesOf(topics).map((topic, lane) => at(topic, lowest.lanes[lane] ?? null)),
    { ...log, offset: fence },
    at(topics.operatorReports, lowest.reports),
  ]
}
