/**
 * Who may make an attempt next. Pure. The attempts of a process are slots; a subscription takes one at a time, in turn,
 * up to a bound of its own, which is lower while it fails. All failing ones together never take more than a part of
 * the slots, so however many receivers hang, the others are served. Source: architecture, Webhooks.
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
}

interface Held {
  slots: number
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
    if (this.#taken >= this.#limits.inFlight) return null
    this.#failingTurn = !this.#failingTurn
    return this.#failingTurn
      ? (this.#takeFailing() ?? this.#from(this.#healthyLine))
      : (this.#from(this.#healthyLine) ?? this.#takeFailing())
  }

  /** Gives a slot back. */
  release(holder: H): void {
    const held = this.#of(holder)
    held.slots -= 1
    this.#taken -= 1
    if (held.failing) this.#takenFailing -= 1
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
      this.#taken += 1
      if (held.failing) this.#takenFailing += 1
      return holder
    }
    return null
  }

  #eligible(holder: H, held: Held): boolean {
    const bound = holder.failing ? this.#limits.inFlightEachFailing : this.#limits.inFlightEach
    return holder.hasWork && held.slots < bound
  }

  #recount(holder: H, held: Held): void {
    if (held.failing === holder.failing) return
    held.failing = holder.failing
    this.#takenFailing += holder.failing ? held.slots : -held.slots
  }

  #of(holder: H): Held {
    let held = this.#held.get(holder)
    if (held === undefined) {
      held = { slots: 0, failing: holder.failing, listed: false }
      this.#held.set(holder, held)
    }
    return held
  }

  #tidy(holder: H, held: Held): void {
    if (held.slots === 0 && !held.listed) this.#held.delete(holder)
  }
}
