/**
 * How much of an operator queue each account uses. Pure.
 *
 * The queue is one buffer for all accounts. An account that is behind (the shard has skipped records
 * of it) may use an equal part of what the others leave. A new account must find room at once, so it
 * takes the place of an account that has more than twice as much: buffer stealing. Source:
 * P. E. McKenney, "Stochastic Fairness Queueing", INFOCOM 1990.
 *
 * Weights do not matter here. A share must only never be empty while its account waits.
 */
import { TimerHeap } from '@hub/actor'
import type { Message } from './message.ts'

/** Shares are filled when they are nearly empty, so all together they are never full. */
const FILL_FACTOR = 1.5

/** A share gives up messages only to one that then has less than half as much. */
const STEAL_FACTOR = 2

/** What an account has in one operator queue. */
export class Share {
  readonly operator: string
  readonly account: string
  /** In the order of the lane. It may contain messages that were removed. */
  #messages: Array<Message> = []
  count = 0
  /** What the messages use of the buffer. */
  units = 0
  /** The same when the share was last full. */
  unitsWhenFull = 0
  /** The shard has skipped records of the account, and must read them again. */
  isBehind = false

  constructor(operator: string, account: string) {
    this.operator = operator
    this.account = account
  }

  add(message: Message): void {
    if (this.#messages.length > 2 * this.count + 16) this.#messages = this.#messages.filter(isWaiting)
    this.#messages.push(message)
    this.count++
  }

  /** The first message in the order of the lane that is not in a handover. */
  oldest(): Message | null {
    return this.#messages.find((message) => isWaiting(message) && !message.inHandover) ?? null
  }

  /** The last message in the order of the lane that meets the condition. */
  newest(condition: (message: Message) => boolean): Message | null {
    return this.#messages.findLast((message) => isWaiting(message) && condition(message)) ?? null
  }
}

/** A message without its lane record was removed from its queue. */
const isWaiting = ({ laneRecord }: Message): boolean => laneRecord !== null

export class AccountShares {
  readonly #operator: string
  readonly #limit: number
  readonly #shares = new Map<string, Share>()
  /** By units, the largest first. */
  readonly #largest = new TimerHeap<Share>()
  #units = 0
  #behind = 0
  /** The units of the accounts that are not behind. */
  #unitsInFront = 0

  /** `limit`: the units of all accounts together. */
  constructor(operator: string, limit: number) {
    this.#operator = operator
    this.#limit = limit
  }

  values(): IterableIterator<Share> {
    return this.#shares.values()
  }

  of(account: string): Share {
    let share = this.#shares.get(account)
    if (share === undefined) {
      share = new Share(this.#operator, account)
      this.#shares.set(account, share)
    }
    return share
  }

  /** Whether the account should add no message now, not even in place of another account's. */
  isFull(share: Share): boolean {
    const inFront = this.#unitsInFront - (share.isBehind ? 0 : share.units)
    const behind = this.#behind + (share.isBehind ? 0 : 1)
    const part = Math.max((FILL_FACTOR * (this.#limit - inFront)) / behind, this.#limit / this.#shares.size)
    if (share.units >= part) return true
    return this.#units >= this.#limit && this.victimOf(share) === null
  }

  /** The share that has to give up a message before `share` adds one, or `null`. */
  victimOf(share: Share): Share | null {
    if (this.#units < this.#limit) return null
    const units = this.#largest.next()
    if (units === null || -units <= STEAL_FACTOR * (share.units + 1)) return null
    const largest = this.#largest.takeDue(units)!
    this.#largest.set(largest, units)
    return largest
  }

  /** Adds a message, even to a full share. */
  add(message: Message, units: number): void {
    const share = this.of(message.account)
    share.add(message)
    this.#change(share, units)
  }

  /** Removes a message that was added with these units. */
  remove(message: Message, units: number): void {
    const share = this.of(message.account)
    share.count--
    this.#change(share, -units)
    this.#forgetUnused(share)
  }

  /** The shard begins to skip records of the account, or does so again. */
  skipping(share: Share): void {
    share.unitsWhenFull = share.units
    if (share.isBehind) return
    share.isBehind = true
    this.#behind++
    this.#unitsInFront -= share.units
  }

  /** The shard has read all records of the account. */
  caughtUp(share: Share): void {
    if (!share.isBehind) return
    share.isBehind = false
    this.#behind--
    this.#unitsInFront += share.units
    this.#forgetUnused(share)
  }

  #change(share: Share, units: number): void {
    share.units += units
    this.#units += units
    if (!share.isBehind) this.#unitsInFront += units
    if (share.count === 0) this.#largest.clear(share)
    else this.#largest.set(share, -share.units)
  }

  #forgetUnused(share: Share): void {
    if (share.count === 0 && !share.isBehind) this.#shares.delete(share.account)
  }
}
