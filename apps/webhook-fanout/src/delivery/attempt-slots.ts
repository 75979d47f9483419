/**
 * Decides which subscription may make the next attempt. Pure. Source: architecture, Webhooks.
 *
 * A process has a number of slots, one for each attempt in flight. Subscriptions take slots in
 * turn, up to a bound for each, which is lower while a subscription fails. All failing
 * subscriptions together have only a part of the slots, so hung receivers do not stop the others. A
 * slot is free when its attempt ends. Outcomes that are not recorded yet have their own bounds: for
 * a subscription, which limits what a crash repeats, and for the process.
 */

/** What a slot is taken for. */
export interface SlotHolder {
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

interface Usage {
  slots: number
  unrecorded: number
  /** As of the last count. */
  failing: boolean
  /** It waits in a queue for a slot. */
  queued: boolean
}

export class AttemptSlots<H extends SlotHolder> {
  readonly #limits: SlotLimits
  readonly #usage = new Map<H, Usage>()
  #healthyQueue: Array<H> = []
  #failingQueue: Array<H> = []
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
  enlist(holder: H): void {
    const usage = this.#of(holder)
    this.#recount(holder, usage)
    if (usage.queued || !this.#eligible(holder, usage)) {
      this.#forgetUnused(holder, usage)
      return
    }
    usage.queued = true
    ;(holder.failing ? this.#failingQueue : this.#healthyQueue).push(holder)
  }

  /** Takes a slot for the next holder; `null` if the limits do not allow any. */
  take(): H | null {
    if (this.#taken >= this.#limits.inFlight || this.#unrecorded >= this.#limits.unrecorded) return null
    this.#failingTurn = !this.#failingTurn
    return this.#failingTurn
      ? (this.#takeFailing() ?? this.#takeFrom(this.#healthyQueue))
      : (this.#takeFrom(this.#healthyQueue) ?? this.#takeFailing())
  }

  /** An attempt has ended: its slot is free, and its outcome is not recorded yet. */
  ended(holder: H): void {
    const usage = this.#of(holder)
    usage.slots -= 1
    this.#taken -= 1
    if (usage.failing) this.#takenFailing -= 1
    this.enlist(holder)
  }

  /** The outcome of an ended attempt is recorded. */
  recorded(holder: H): void {
    this.#of(holder).unrecorded -= 1
    this.#unrecorded -= 1
    this.enlist(holder)
  }

  #takeFailing(): H | null {
    return this.#takenFailing < this.#limits.inFlightFailing ? this.#takeFrom(this.#failingQueue) : null
  }

  #takeFrom(queue: Array<H>): H | null {
    for (let holder = queue.shift(); holder !== undefined; holder = queue.shift()) {
      const usage = this.#of(holder)
      usage.queued = false
      this.#recount(holder, usage)
      if (!this.#eligible(holder, usage)) {
        this.#forgetUnused(holder, usage)
        continue
      }
      if ((queue === this.#failingQueue) !== holder.failing) {
        this.enlist(holder)
        continue
      }
      usage.slots += 1
      usage.unrecorded += 1
      this.#taken += 1
      this.#unrecorded += 1
      if (usage.failing) this.#takenFailing += 1
      return holder
    }
    return null
  }

  #eligible(holder: H, usage: Usage): boolean {
    const { inFlightEach, inFlightEachFailing, unrecordedEach } = this.#limits
    if (!holder.hasWork) return false
    // The next attempt of a failing subscription depends on the outcomes of the last ones.
    return holder.failing
      ? usage.unrecorded < inFlightEachFailing
      : usage.slots < inFlightEach && usage.unrecorded < unrecordedEach
  }

  #recount(holder: H, usage: Usage): void {
    if (usage.failing === holder.failing) return
    usage.failing = holder.failing
    this.#takenFailing += holder.failing ? usage.slots : -usage.slots
  }

  #of(holder: H): Usage {
    let usage = this.#usage.get(holder)
    if (usage === undefined) {
      usage = { slots: 0, unrecorded: 0, failing: holder.failing, queued: false }
      this.#usage.set(holder, usage)
    }
    return usage
  }

  #forgetUnused(holder: H, usage: Usage): void {
    if (usage.slots === 0 && usage.unrecorded === 0 && !usage.queued) this.#usage.delete(holder)
  }
}
