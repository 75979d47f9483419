/**
 * Who may make an attempt next. Pure. The attempts of a process are slots; a subscription takes one at a time, in turn,
 * up to a bound of its own, which is lower while it fails. All failing ones together never take more than a part of
 * the slots, so however many receivers hang, the others are served. Source: architecture, Webhooks.
 *
 * A slot is free again when its attempt has ended. What has not been recorded by then has bounds of its own; what is noted counts as recorded here. One is
 * for what PostgreSQL has not even been given, which is what a crash of this process repeats; the other fills up while PostgreSQL is slow.
 */

/** What a slot is taken for. */
export interface SlotHolder {
  /** Its last attempt failed. */
  readonly failing: boolean
  /** Something is lined up, and may be attempted now. */
  readonly hasWork: boolean
}

export interface SlotLimits {
  readonly inFlight: number
  readonly inFlightFailing: number
  readonly inFlightEach: number
  readonly inFlightEachFailing: number
  /** Attempts that have begun and are not recorded, in all. */
  readonly unrecorded: number
  /** The same for one subscription that does not fail: what a crash of this process delivers again. */
  readonly unrecordedEach: number
}

interface Held {
  slots: number
  unrecorded: number
  /** As it was counted last. */
  failing: boolean
  /** Stands in a line. */
  listed: boolean
}

export class Slots<H extends SlotHolder> {
  readonly #limits: SlotLimits
  readonly #held = new Map<H, Held>()
  #healthyLine: Array<H> = []
  #failingLine: Array<H> = []
  #taken = 0
  #takenFailing = 0
  #unrecorded = 0
  /** The two lines take turns, so that neither waits for the other to be empty. */
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

  /** To be called whenever a holder has got work or has turned from failing to healthy or back. */
  enlist(holder: H): void {
    const held = this.#of(holder)
    this.#recount(holder, held)
    if (held.listed || !this.#eligible(holder, held)) {
      this.#tidy(holder, held)
      return
    }
    held.listed = true
    ;(holder.failing ? this.#failingLine : this.#healthyLine).push(holder)
  }

  /** Takes a slot for whoever is next, or `null`: nobody may, or all slots are taken. */
  take(): H | null {
    if (this.#taken >= this.#limits.inFlight || this.#unrecorded >= this.#limits.unrecorded) return null
    this.#failingTurn = !this.#failingTurn
    return this.#failingTurn
      ? (this.#takeFailing() ?? this.#from(this.#healthyLine))
      : (this.#from(this.#healthyLine) ?? this.#takeFailing())
  }

  /** The attempt has ended: its slot is free, and its outcome is still to be recorded. */
  ended(holder: H): void {
    const held = this.#of(holder)
    held.slots -= 1
    this.#taken -= 1
    if (held.failing) this.#takenFailing -= 1
    this.enlist(holder)
  }

  /** The outcome of an attempt that had ended is recorded. */
  recorded(holder: H): void {
    const held = this.#of(holder)
    held.unrecorded -= 1
    this.#unrecorded -= 1
    this.enlist(holder)
  }

  #takeFailing(): H | null {
    return this.#takenFailing < this.#limits.inFlightFailing ? this.#from(this.#failingLine) : null
  }

  #from(line: Array<H>): H | null {
    for (let holder = line.shift(); holder !== undefined; holder = line.shift()) {
      const held = this.#of(holder)
      held.listed = false
      this.#recount(holder, held)
      if (!this.#eligible(holder, held)) {
        this.#tidy(holder, held)
        continue
      }
      if ((line === this.#failingLine) !== holder.failing) {
        this.enlist(holder)
        continue
      }
      held.slots += 1
      held.unrecorded += 1
      this.#taken += 1
      this.#unrecorded += 1
      if (held.failing) this.#takenFailing += 1
      return holder
    }
    return null
  }

  #eligible(holder: H, held: Held): boolean {
    const { inFlightEach, inFlightEachFailing, unrecordedEach } = this.#limits
    if (!holder.hasWork) return false
    // One that fails is not tried further before it is known how the last tries stand.
    return holder.failing
      ? held.unrecorded < inFlightEachFailing
      : held.slots < inFlightEach && held.unrecorded < unrecordedEach
  }

  #recount(holder: H, held: Held): void {
    if (held.failing === holder.failing) return
    held.failing = holder.failing
    this.#takenFailing += holder.failing ? held.slots : -held.slots
  }

  #of(holder: H): Held {
    let held = this.#held.get(holder)
    if (held === undefined) {
      held = { slots: 0, unrecorded: 0, failing: holder.failing, listed: false }
      this.#held.set(holder, held)
    }
    return held
  }

  #tidy(holder: H, held: Held): void {
    if (held.slots === 0 && held.unrecorded === 0 && !held.listed) this.#held.delete(holder)
  }
}
