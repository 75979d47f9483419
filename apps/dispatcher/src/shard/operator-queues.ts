/** The messages of a shard that wait for an operator, by lane, and the position in each lane. */
import { KeyedQueues, LaneCursor, PinnedOffsets } from '@hub/actor'
import { AccountShares, type Share } from './account-shares.ts'
import { BUFFER_BYTES, ENVELOPE_BYTES, LANES } from './limits.ts'
import type { Message } from './message.ts'

interface Lane {
  readonly pinned: PinnedOffsets
  readonly cursor: LaneCursor<Share>
  /** By operator. */
  readonly shares: Map<string, AccountShares>
  bytes: number
}

export class OperatorQueues extends KeyedQueues<Message> {
  readonly #limit: number
  readonly #lanes: ReadonlyArray<Lane>
  readonly #setAside = new Set<Message>()

  constructor(limit: number, onReady: (lane: number, operator: string, account: string) => void) {
    super(LANES, onReady)
    this.#limit = limit
    this.#lanes = Array.from({ length: LANES }, (_, lane) => ({
      pinned: new PinnedOffsets(),
      shares: new Map<string, AccountShares>(),
      cursor: new LaneCursor<Share>({
        isFull: (share) => this.#sharesOf(lane, share.operator).isFull(share),
        onSkip: (share) => this.#sharesOf(lane, share.operator).skipping(share),
        onCaughtUp: (share) => this.#sharesOf(lane, share.operator).caughtUp(share),
        left: ({ units, unitsWhenFull }) => (unitsWhenFull === 0 ? 0 : units / unitsWhenFull),
      }),
      bytes: 0,
    }))
  }

  /** Bytes of the payloads and their envelopes. */
  get payloadBytes(): number {
    return this.#lanes.reduce((sum, { bytes }) => sum + bytes, 0)
  }

  /** There are few operators, and they stay. */
  #sharesOf(lane: number, operator: string): AccountShares {
    const { shares } = this.#lanes[lane]!
    let found = shares.get(operator)
    if (found === undefined) {
      found = new AccountShares(operator, this.#limit)
      shares.set(operator, found)
    }
    return found
  }

  cursor(lane: number): LaneCursor<Share> {
    return this.#lanes[lane]!.cursor
  }

  /** The accounts of an operator queue. All of them wait, or have just had their last message taken. */
  shares(lane: number, operator: string): IterableIterator<Share> {
    return this.#sharesOf(lane, operator).values()
  }

  /** Whether the shard must keep a lane record now. Call it once for each read, in order. */
  accepts(lane: number, offset: number, operator: string, account: string): boolean {
    return this.cursor(lane).accepts(offset, this.#sharesOf(lane, operator).of(account))
  }

  /** The message to give up before the account adds one, if it is possible and necessary. */
  toGiveUp(lane: number, operator: string, account: string): Message | null {
    const shares = this.#sharesOf(lane, operator)
    return shares.victimOf(shares.of(account))?.newest(isOnlyInLane) ?? null
  }

  /** Removes a message that is only in its lane. The shard reads it again later. */
  giveUp(message: Message): void {
    const { account, lane, laneOffset, route } = message
    this.cursor(lane).giveUp(laneOffset, this.#sharesOf(lane, route).of(account))
    this.remove(message)
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
    const { lane: number, laneOffset, route } = message
    const lane = this.#lanes[number]!
    const bytes = bytesOf(message)
    lane.pinned.pin(laneOffset)
    lane.bytes += bytes
    this.#sharesOf(number, route).add(message, this.#unitsOf(bytes))
    super.push(message, blocked)
  }

  /**
   * Removes a message and its payload. A message in a handover stays, because the next message of
   * its recipient must wait for the operator's answer.
   */
  override remove(message: Message): void {
    if (this.#setAside.delete(message)) return this.unpin(message.lane, message.laneOffset)
    if (message.laneRecord === null || message.inHandover) return
    const { lane: number, laneOffset, route } = message
    const bytes = bytesOf(message)
    this.#lanes[number]!.bytes -= bytes
    this.#sharesOf(number, route).remove(message, this.#unitsOf(bytes))
    super.remove(message)
    message.laneRecord = null
    this.unpin(number, laneOffset)
  }

  /**
   * Removes a message that cannot be submitted, so that it stops no other message. Its lane offset stays
   * pinned until it is removed again, at its end.
   */
  setAside(message: Message): void {
    const { lane, laneOffset } = message
    this.remove(message)
    this.#lanes[lane]!.pinned.pin(laneOffset)
    this.#setAside.add(message)
  }

  /** A large message counts as several, so that the limit bounds the bytes too. */
  #unitsOf(bytes: number): number {
    return Math.ceil((bytes * this.#limit) / BUFFER_BYTES)
  }
}

const bytesOf = ({ laneRecord }: Message): number => ENVELOPE_BYTES + (laneRecord?.ciphertext.length ?? 0)

/** Whether the lane alone restores the message: it has no facts, reports or handover. */
const isOnlyInLane = ({
  inHandover,
  pendingAppends,
  recoveryOffset,
  state,
  waitingReports,
}: Message): boolean =>
  state.stage === 'queued' &&
  state.attempts === 0 &&
  !inHandover &&
  pendingAppends === 0 &&
  recoveryOffset < 0 &&
  waitingReports.length === 0
