/** The place of one assigned shard in the host: its positions, back-pressure and low-water marks. */
import {
  type GroupControl,
  type IncomingRecord,
  type Position,
  shardOpenedRecord,
  type TopicNames,
} from '@hub/kafka'
import { Fence, type FenceOwner } from './fence.ts'
import type { Shard, ShardHandle } from './shard.ts'

export const lanesOf = (topics: TopicNames): ReadonlyArray<string> => [
  topics.acceptedOtp,
  topics.acceptedService,
]

export class ShardSlot<S extends Shard> {
  readonly number: number
  readonly shard: S
  readonly fence = new Fence()
  readonly #topics: TopicNames
  readonly #handle: ShardHandle
  startedAt: number
  /** Another member owns the shard, and this one reads its log ahead. */
  standby: boolean
  current = true
  /** See `recovery.ts`. `superseded`: a newer fence shows another owner. */
  phase: 'locating' | 'reading' | 'fencing' | 'closing' | 'open' | 'superseded' = 'locating'
  owner: FenceOwner = { epoch: 0, member: '' }
  fenceOffset = -1
  /** A repetition of the own fence is not acknowledged yet. */
  repeatingFence = false
  /** The log offset at which recovery began to read. */
  logStart = 0
  /** The end of the log when recovery began; infinite while it is unknown. */
  logEnd = Number.POSITIVE_INFINITY
  laneEnds: ReadonlyArray<number> = []
  recordsRead = 0
  /** The next offset to read, by topic. */
  readonly positions = new Map<string, number>()
  readonly committed = new Map<string, number>()
  readonly #pausedLanes = new Set<number>()
  #reportsPaused = false
  /** The offset after the newest own record that Kafka has acknowledged. */
  ownLogEnd = 0
  /** The log is paused until the next commit; see `pauseOwnLog`. */
  logPaused = false

  constructor(
    number: number,
    topics: TopicNames,
    startedAt: number,
    standby: boolean,
    makeHandle: (slot: ShardSlot<S>) => ShardHandle,
    makeShard: (handle: ShardHandle) => S,
  ) {
    this.number = number
    this.#topics = topics
    this.startedAt = startedAt
    this.standby = standby
    this.#handle = makeHandle(this)
    this.shard = makeShard(this.#handle)
  }

  position(topic: string): number {
    return this.positions.get(topic) ?? 0
  }

  get logPosition(): number {
    return this.position(this.#topics.messages)
  }

  appendFence(now: number, onAppended: (offset: number) => void): void {
    this.#handle.append(
      shardOpenedRecord(this.#topics, { type: 'ShardOpened', shard: this.number, ...this.owner, at: now }),
      onAppended,
      // The shard opens behind it.
      'now',
    )
  }

  /** Passes records to the shard. Records below the position were read before. */
  deliver(topic: string, lane: number, records: ReadonlyArray<IncomingRecord>): void {
    const from = this.position(topic)
    for (const record of records) {
      if (record.offset < from) continue
      this.positions.set(topic, record.offset + 1)
      if (lane >= 0) this.shard.onLane(lane, record)
      else this.shard.onReport(record)
    }
  }

  /** Seeks, pauses and resumes lanes and reports of an open shard, as its memory allows. */
  applyBackPressure(control: GroupControl): void {
    const { number, shard } = this
    for (const [lane, topic] of lanesOf(this.#topics).entries()) {
      const target = shard.seekTarget?.(lane, this.position(topic)) ?? null
      if (target !== null) {
        this.positions.set(topic, target)
        control.seek({ topic, partition: number, offset: target })
      }
      if (this.#pausedLanes.has(lane)) {
        if (!shard.hasRoom(lane)) continue
        this.#pausedLanes.delete(lane)
        control.resume(topic, number)
      } else if (shard.isFull(lane)) {
        this.#pausedLanes.add(lane)
        control.pause(topic, number)
      }
    }
    if (this.#reportsPaused) {
      if (!shard.reportsHaveRoom()) return
      this.#reportsPaused = false
      control.resume(this.#topics.operatorReports, number)
    } else if (shard.reportsFull()) {
      this.#reportsPaused = true
      control.pause(this.#topics.operatorReports, number)
    }
  }

  /** Whether a topic of the shard must be paused. Before it is open, a shard reads only its log. */
  isPaused(topic: string): boolean {
    if (topic === this.#topics.messages) return false
    if (this.phase !== 'open') return true
    return topic === this.#topics.operatorReports
      ? this.#reportsPaused
      : this.#pausedLanes.has(lanesOf(this.#topics).indexOf(topic))
  }

  /**
   * Pauses the log of an open shard that has read all of its own facts. It folded them when Kafka
   * acknowledged them. To read each fact as it lands would double the fetches of a busy shard.
   */
  pauseOwnLog(control: GroupControl | null): void {
    if (this.phase !== 'open' || this.logPaused || this.logPosition < this.ownLogEnd) return
    this.logPaused = true
    control?.pause(this.#topics.messages, this.number)
  }

  resumeLog(control: GroupControl): void {
    if (!this.logPaused) return
    this.logPaused = false
    control.resume(this.#topics.messages, this.number)
  }

  /** The low-water marks: the lowest pinned offsets, but never beyond the read positions. */
  lowWaterMarks(): ReadonlyArray<Position> {
    const { lanes, log, reports } = this.shard.lowestPinned()
    const mark = (topic: string, pinned: number | null): Position => {
      const position = this.position(topic)
      const offset = pinned === null ? position : Math.min(pinned, position)
      return { topic, partition: this.number, offset }
    }
    const logMark = mark(this.#topics.messages, log)
    // A reader must start at a fence. Before the first one, the mark stays at the first read offset.
    const fence = this.fence.lastAtOrBefore(logMark.offset) ?? this.logStart
    return [
      ...lanesOf(this.#topics).map((topic, lane) => mark(topic, lanes[lane] ?? null)),
      { ...logMark, offset: fence },
      mark(this.#topics.operatorReports, reports),
    ]
  }
}
