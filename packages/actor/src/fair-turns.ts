/**
 * Whose turn it is: accounts share one resource in proportion to their weights. Pure.
 *
 * Start-time fair queueing. Source: P. Goyal, H. M. Vin, H. Cheng, "Start-time Fair Queuing",
 * SIGCOMM 1996. Each account has a start tag, and the lowest tag is next. A served item moves the
 * tag of its account up by its cost, so equal costs per time keep the tags together. While two
 * accounts always have work, their costs differ by at most one item of each (theorem 1).
 *
 * The work of an account may lie in several sources (shards), which then take turns. The resource is
 * never idle while a source has work of any account.
 */
import { TimerHeap } from './timer-heap.ts'

interface Turn<Source> {
  readonly account: string
  readonly source: Source
}

/** Finish tags of accounts without work are removed when there are so many more than with work. */
const FINISHED_ACCOUNTS = 100

export class FairTurns<Source> {
  /** The sources with work of each account, in the order of their turns. */
  readonly #sources = new Map<string, Array<Source>>()
  /** The start tags of the accounts with work. The lowest one is next. */
  readonly #starts = new TimerHeap<string>()
  /** Where the last service of an account ended, if that is after the virtual time. */
  readonly #finishes = new Map<string, number>()
  /** The virtual time: the start tag of the item that was taken last. */
  #now = 0

  /** A source has work of the account. A repetition changes nothing. */
  add(account: string, source: Source): void {
    const sources = this.#sources.get(account)
    if (sources !== undefined) {
      if (!sources.includes(source)) sources.push(source)
      return
    }
    this.#sources.set(account, [source])
    this.#starts.set(account, this.#startOf(account))
  }

  /** The turn that `next` would return. */
  peek(): Turn<Source> | null {
    const account = this.#starts.first()
    return account === undefined ? null : { account, source: this.#sources.get(account)![0]! }
  }

  /** The next turn, or `null` without any work. Call `served` or `emptied` with its result. */
  next(): Turn<Source> | null {
    const turn = this.peek()
    if (turn === null) return null
    this.#now = this.#starts.next()!
    const sources = this.#sources.get(turn.account)!
    sources.push(sources.shift()!)
    return turn
  }

  /**
   * An item of the account was taken. `cost` is the amount of the resource that it needs, divided by
   * the weight of the account. The account need not be the one of the turn.
   */
  served(account: string, cost: number): void {
    const finish = this.#startOf(account) + cost
    this.#finishes.set(account, finish)
    if (this.#sources.has(account)) this.#starts.set(account, finish)
    this.#forgetFinished()
  }

  /** The source has no work of the account at present. */
  emptied(account: string, source: Source): void {
    const sources = this.#sources.get(account)
    const at = sources?.indexOf(source) ?? -1
    if (sources === undefined || at < 0) return
    sources.splice(at, 1)
    if (sources.length > 0) return
    this.#sources.delete(account)
    this.#starts.clear(account)
    // Nobody waits, so nobody has had more than the others.
    if (this.#sources.size === 0) this.#finishes.clear()
  }

  /** An account with work starts where its last service ended, and a new one at the virtual time. */
  #startOf(account: string): number {
    return Math.max(this.#now, this.#finishes.get(account) ?? 0)
  }

  #forgetFinished(): void {
    if (this.#finishes.size <= 2 * this.#sources.size + FINISHED_ACCOUNTS) return
    for (const [account, finish] of this.#finishes) {
      if (finish <= this.#now && !this.#sources.has(account)) this.#finishes.delete(account)
    }
  }
}
