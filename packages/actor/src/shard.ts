/**
 * What a shard of an app implements, and what it gets from the host. A shard is partition p of
 * every topic that is keyed by recipient hash.
 */
import type { IncomingRecord, OutgoingRecord } from '@hub/kafka'
import type { Fence } from './fence.ts'

export interface OpenedShard {
  readonly epoch: number
  readonly now: number
  /** The end of each lane when recovery began. Records of recovered messages are before it. */
  readonly laneEnds: ReadonlyArray<number>
  /** The next log offset to read. All facts of former owners are before it. */
  readonly logPosition: number
}

/** The lowest offset of each partition that recovery still needs; `null` for none. */
export interface LowestPinned {
  readonly lanes: ReadonlyArray<number | null>
  readonly log: number | null
  readonly reports: number | null
}

/** A shard of an app. All methods are synchronous and must not throw. */
export interface Shard {
  /** A log record, in order: for recovery before `onOpened`, later those of other members. */
  readonly onLog: (record: IncomingRecord, fence: Fence) => void
  readonly onLane: (lane: number, record: IncomingRecord) => void
  readonly onReport: (record: IncomingRecord) => void
  readonly onOpened: (opened: OpenedShard) => void
  /** Another member owns the shard. Nothing that this instance does has an effect any more. */
  readonly onClosed: () => void
  readonly onTick: (now: number) => void
  /** Whether the host must pause the lane. */
  readonly isFull: (lane: number) => boolean
  readonly hasRoom: (lane: number) => boolean
  /** The same for the topic of delivery reports. */
  readonly reportsFull: () => boolean
  readonly reportsHaveRoom: () => boolean
  /**
   * The offset to which the host must seek the lane, or `null` to read on from `position`. It is
   * never below the lane's low-water mark. Without this method the host always reads on.
   */
  readonly seekTarget?: (lane: number, position: number) => number | null
  readonly lowestPinned: () => LowestPinned
  /** The low-water marks were committed. `logPosition` is the next log offset to read. */
  readonly onCommitted: (lanes: ReadonlyArray<number>, logPosition: number, now: number) => void
}

/**
 * How soon a record must be appended. `now`: a client waits for what follows it. `soon`: a crash before the
 * append has a cost. `later`: the record can be made again from others.
 */
export type Urgency = 'now' | 'soon' | 'later'

/** What the host offers to a shard. */
export interface ShardHandle {
  readonly shard: number
  /** False as soon as the shard is closed or assigned to another member. */
  readonly isCurrent: () => boolean
  /**
   * Whether no other member can own the shard. Ask in the tick of an action that must be unique.
   */
  readonly hasLease: () => boolean
  /**
   * Appends a record to any topic. Default: `soon`. `onAppended` is called only while the shard is
   * current.
   */
  readonly append: (record: OutgoingRecord, onAppended: (offset: number) => void, urgency?: Urgency) => void
}
