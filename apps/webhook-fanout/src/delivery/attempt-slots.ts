/**
 * Decides which subscription may make the next attempt. Pure. Source: docs/architecture.md, Webhooks;
 * docs/decisions/fairness.md.
 *
 * A process has a number of slots, one for each attempt in flight. Accounts take slots in turn, and
 * so do the subscriptions of an account, up to a bound for each, which is lower while a subscription
 * fails. All failing subscriptions together have only a part of the slots. Outcomes that are not
 * recorded yet have their own bounds: for a subscription, which limits what a crash repeats, and for
 * the process.
 *
 * A slot is free only when its attempt ends, and a hung receiver ends it at the deadline. So an
 * account takes no slot while it has as many as are free, and a subscription takes none while it has
 * as many as its account may still take. The receivers of one account never hold all slots.
 *
 * The bound of an account is a dynamic threshold. Source: A. K. Choudhury, E. L. Hahne, "Dynamic
 * Queue Length Thresholds for Shared-Memory Packet Switches", IEEE/ACM Transactions on Networking
 * 6(2), 1998.
 */

/** What a slot is taken for. */
interface SlotHolder {
  readonly account: string
  /** Its last attempt failed. */
  readonly failing: boolean
  /** A batch in its ready queue may be attempted now. */
  readonly hasWork: boolean
}

interface SlotLimits {
  readonly inFlight: number
  readonly inFlightFailing: number
  readonly inFlightEach: number
  readonly inFlightEachFailing: number
  /** Attempts that have begun and are not recorded, in the process. */
  readonly unrecorded: number
  /** The same for one healthy subscription. */
  readonly unrecordedEach: number
}

interface Usage<H extends SlotHolder> {
  slots: number
  unrecorded: number
  /** As of the last count. */
  failing: boolean
  /** Where it waits for a slot. */
  queue: WaitingHolders<H> | null
}

/** The slots of all subscriptions of an account. */
interface AccountUsage {
  readonly slots: number
  readonly failing: number
}

/** Holders that wait for a slot. Their accounts take turns. */
class WaitingHolders<H extends SlotHolder> {
  /** In the order of the turns. */
  readonly #accounts = new Map<string, Array<H>>()

  push(holder: H): void {
    const holders = this.#accounts.get(holder.account)
    if (holders === undefined) this.#accounts.set(holder.account, [holder])
    else holders.push(holder)
  }

  /** Removes the next holder that may take a slot. */
  shift(mayTake: (holder: H) => boolean): H | undefined {
    for (const [account, holders] of this.#accounts) {
      const index = holders.findIndex(mayTake)
      const [holder] = index < 0 ? [] : holders.splice(index, 1)
      if (holder === undefined) continue
      this.#accounts.delete(account)
      if (holders.length > 0) this.#accounts.set(account, holders)
      return holder
    }
    return undefined
  }

  /** Its account keeps its turn. */
  remove(holder: H): void {
    const holders = this.#accounts.get(holder.account)?.filter((each) => each !== holder) ?? []
    if (holders.length > 0) this.#accounts.set(holder.account, holders)
    else this.#accounts.delete(holder.account)
  }
}

export class AttemptSlots<H extends SlotHolder> {
  readonly #limits: SlotLimits
  readonly #usage = new Map<H, Usage<H>>()
  readonly #accounts = new Map<string, AccountUsage>()
  readonly #healthy = new WaitingHolders<H>()
  readonly #failing = new WaitingHolders<H>()
  #taken = 0
  #takenFailing = 0
  #unrecorded = 0
  /** The two queues alternate, so that neither waits until the other is empty. */
  #failingTurn = false

  constructor(limits: SlotLimits) {
    this.#limits = limits
  }

  get taken(): number {
    return this.#taken
  }

  /** Slots of failing subscriptions. */
  get takenFailing(): number {
    return this.#takenFailing
  }

  /** Attempts that have begun and are not recorded. */
  get unrecorded(): number {
    return this.#unrecorded
  }

  /** Call this when a holder gets work, or changes between failing and healthy. */
  enqueue(holder: H): void {
    const usage = this.#of(holder)
    this.#recount(holder, usage)
    const queue = this.#eligible(holder, usage) ? this.#queueFor(holder) : null
    if (usage.queue !== queue) {
      usage.queue?.remove(holder)
      queue?.push(holder)
      usage.queue = queue
    }
    this.#forgetUnused(holder, usage)
  }

  /** Takes a slot for the next holder; `null` if the limits do not allow any. */
  take(): H | null {
    if (this.#taken >= this.#limits.inFlight || this.#unrecorded >= this.#limits.unrecorded) return null
    this.#failingTurn = !this.#failingTurn
    return this.#failingTurn
      ? (this.#takeFailing() ?? this.#takeHealthy())
      : (this.#takeHealthy() ?? this.#takeFailing())
  }

  /** An attempt has ended: its slot is free, and its outcome is not recorded yet. */
  ended(holder: H): void {
    const usage = this.#of(holder)
    usage.slots -= 1
    this.#taken -= 1
    if (usage.failing) this.#takenFailing -= 1
    this.#count(holder.account, -1, usage.failing ? -1 : 0)
    this.enqueue(holder)
  }

  /** The outcome of an ended attempt is recorded. */
  recorded(holder: H): void {
    this.#of(holder).unrecorded -= 1
    this.#unrecorded -= 1
    this.enqueue(holder)
  }

  #takeHealthy(): H | null {
    return this.#takeFrom(this.#healthy, (holder) => this.#leavesFree(holder))
  }

  #takeFailing(): H | null {
    const { inFlightFailing } = this.#limits
    return this.#takeFrom(this.#failing, (holder) => {
      const failingOfAccount = this.#usedBy(holder.account).failing
      const free = inFlightFailing - this.#takenFailing - failingOfAccount
      return this.#of(holder).slots < free && this.#leavesFree(holder)
    })
  }

  /** Whether the holder has fewer slots than its account may still take. */
  #leavesFree(holder: H): boolean {
    const free = this.#limits.inFlight - this.#taken - this.#usedBy(holder.account).slots
    return this.#of(holder).slots < free
  }

  #takeFrom(waiting: WaitingHolders<H>, mayTake: (holder: H) => boolean): H | null {
    for (let holder = waiting.shift(mayTake); holder !== undefined; holder = waiting.shift(mayTake)) {
      const usage = this.#of(holder)
      usage.queue = null
      this.#recount(holder, usage)
      if (!this.#eligible(holder, usage) || waiting !== this.#queueFor(holder)) {
        this.enqueue(holder)
        continue
      }
      usage.slots += 1
      usage.unrecorded += 1
      this.#taken += 1
      this.#unrecorded += 1
      if (usage.failing) this.#takenFailing += 1
      this.#count(holder.account, 1, usage.failing ? 1 : 0)
      return holder
    }
    return null
  }

  #queueFor({ failing }: H): WaitingHolders<H> {
    return failing ? this.#failing : this.#healthy
  }

  #eligible(holder: H, usage: Usage<H>): boolean {
    const { inFlightEach, inFlightEachFailing, unrecordedEach } = this.#limits
    if (!holder.hasWork) return false
    // The next attempt of a failing subscription depends on the outcomes of the last ones.
    return holder.failing
      ? usage.unrecorded < inFlightEachFailing
      : usage.slots < inFlightEach && usage.unrecorded < unrecordedEach
  }

  #recount(holder: H, usage: Usage<H>): void {
    if (usage.failing === holder.failing) return
    usage.failing = holder.failing
    const failing = holder.failing ? usage.slots : -usage.slots
    this.#takenFailing += failing
    this.#count(holder.account, 0, failing)
  }

  #usedBy(account: string): AccountUsage {
    return this.#accounts.get(account) ?? { slots: 0, failing: 0 }
  }

  #count(account: string, slots: number, failing: number): void {
    if (slots === 0 && failing === 0) return
    const used = this.#usedBy(account)
    const next = { slots: used.slots + slots, failing: used.failing + failing }
    if (next.slots === 0) this.#accounts.delete(account)
    else this.#accounts.set(account, next)
  }

  #of(holder: H): Usage<H> {
    let usage = this.#usage.get(holder)
    if (usage === undefined) {
      usage = { slots: 0, unrecorded: 0, failing: holder.failing, queue: null }
      this.#usage.set(holder, usage)
    }
    return usage
  }

  #forgetUnused(holder: H, usage: Usage<H>): void {
    if (usage.slots === 0 && usage.unrecorded === 0 && usage.queue === null) this.#usage.delete(holder)
  }
}
