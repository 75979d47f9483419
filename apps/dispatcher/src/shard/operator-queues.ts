/** The messages of a shard that wait for an operator, by lane, and the position in each lane. */
import { KeyedQueues, LaneCursor, PinnedOffsets } from '@hub/actor'
import { BUFFER_BYTES, ENVELOPE_BYTES, LANES } from './limits.ts'
import type { Message } from './message.ts'

interface Lane {
  readonly pinned: PinnedOffsets
  readonly cursor: LaneCursor
  /** Payload bytes, by operator. */
  readonly bytes: Map<string, number>
}

export class OperatorQueues extends KeyedQueues<Message> {
  readonly #operators: ReadonlyArray<string>
  readonly #limit: number
  readonly #lanes: ReadonlyArray<Lane>

  constructor(operators: ReadonlyArray<string>, limit: number) {
    super(LANES)
    this.#operators = operators
    this.#limit = limit
    this.#lanes = Array.from({ length: LANES }, (_, lane) => ({
      pinned: new PinnedOffsets(),
      bytes: new Map<string, number>(),
      cursor: new LaneCursor({
        isFull: (operator) => this.#isQueueFull(lane, operator),
        hasRoom: (operator) => this.#hasQueueRoom(lane, operator),
      }),
    }))
  }

  get payloadBytes(): number {
    let sum = 0
    for (const { bytes } of this.#lanes) for (const size of bytes.values()) sum += size
    return sum
  }

  /** Whether the lane must pause because of its queues. */
  isFull(lane: number, now: number): boolean {
    return (
      this.#operators.every((operator) => this.#isQueueFull(lane, operator)) ||
      this.cursor(lane).isWaiting(now)
    )
  }

  /** Whether the queues allow to resume the lane. */
  hasRoom(lane: number, now: number): boolean {
    return (
      this.#operators.some((operator) => this.#hasQueueRoom(lane, operator)) &&
      !this.cursor(lane).isWaiting(now)
    )
  }

  #isQueueFull(lane: number, operator: string): boolean {
    return this.count(lane, operator) >= this.#limit || this.#bytesOf(lane, operator) >= BUFFER_BYTES
  }

  #hasQueueRoom(lane: number, operator: string): boolean {
    return this.count(lane, operator) <= this.#limit / 2 && this.#bytesOf(lane, operator) <= BUFFER_BYTES / 2
  }

  #bytesOf(lane: number, operator: string): number {
    return this.#lanes[lane]!.bytes.get(operator) ?? 0
  }

  cursor(lane: number): LaneCursor {
    return this.#lanes[lane]!.cursor
  }

  /** Pins an unreadable record until it is in the dead-letter topic. */
  pinUnreadable(lane: number, offset: number): void {
    this.cursor(lane).pass(offset)
    this.#lanes[lane]!.pinned.pin(offset)
  }

  unpin(lane: number, offset: number): void {
    this.#lanes[lane]!.pinned.unpin(offset)
  }

  /** The lowest pinned or skipped offset of each lane. */
  lowestPinned(): ReadonlyArray<number | null> {
    return this.#lanes.map(({ cursor, pinned }) => {
      const lowest = pinned.lowest()
      const skipped = cursor.lowestSkipped()
      return lowest === null ? skipped : skipped === null ? lowest : Math.min(lowest, skipped)
    })
  }

  /** Whether all records before these ends have been read, given the committed offsets. */
  areRead(committed: ReadonlyArray<number>, ends: ReadonlyArray<number>): boolean {
    return committed.every(
      (offset, lane) => Math.max(offset, this.cursor(lane).frontier) >= (ends[lane] ?? 0),
    )
  }

  /** Adds a message with its payload, and pins its lane offset. */
  override push(message: Message, blocked: boolean): void {
    this.#lanes[message.lane]!.pinned.pin(message.laneOffset)
    this.#weigh(message, 1)
    super.push(message, blocked)
  }

  /**
   * Removes a message and its payload. A message in a handover stays, because the next message of
   * its recipient must wait for the operator's answer.
   */
  override remove(message: Message): void {
    if (message.accepted === null || message.inHandover) return
    this.#weigh(message, -1)
    message.accepted = null
    super.remove(message)
    this.unpin(message.lane, message.laneOffset)
  }

  #weigh({ accepted, lane, route }: Message, sign: 1 | -1): void {
    const size = ENVELOPE_BYTES + (accepted?.sealed.length ?? 0)
    this.#lanes[lane]!.bytes.set(route, this.#bytesOf(lane, route) + sign * size)
  }
}
