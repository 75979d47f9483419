/**
 * Flow control for one operator: decides how many messages the handover loop may take for it now.
 * The loop creates one instance per operator. The class has no timer, and reads no clock.
 */
import type { Capabilities, SubmitOutcome } from '@hub/operator'

/** After an idle time, the operator may get this many seconds of its rate at once. */
const BURST_SECONDS = 1
/** The share of window and burst for `otp` only, so that a code finds room during a campaign. */
const RESERVED = 0.1
/**
 * The longest pause before the next message for an operator that refuses everything, and so the
 * longest wait of a code after the operator is back. Each refusal costs two facts in the log.
 */
const LONGEST_PAUSE_MS = 1000

const OTP = 0

export class Pace {
  readonly #window: number
  readonly #rate: number | null
  /** The maximum messages in progress: the window, or less while the operator refuses. */
  #allowance: number
  #notBefore = 0
  /** The parts that the rate allows now (token bucket). */
  #tokens: number
  #refilledAt: number

  constructor({ maxPartsPerSecond, window }: Capabilities, now: number) {
    this.#window = window
    this.#allowance = window
    this.#rate = maxPartsPerSecond ?? null
    this.#tokens = (this.#rate ?? 0) * BURST_SECONDS
    this.#refilledAt = now
  }

  /** How many messages of a lane may be taken now, with this many in progress. */
  room(lane: number, inProgress: number, now: number): number {
    if (now < this.#notBefore) return 0
    const reserved = lane === OTP || this.#allowance < 2 ? 0 : Math.max(1, this.#allowance * RESERVED)
    return this.mayTake(lane, now) ? Math.max(0, Math.floor(this.#allowance - reserved) - inProgress) : 0
  }

  /** Whether the rate allows a message. Its parts may overdraw the rate; the next message waits. */
  mayTake(lane: number, now: number): boolean {
    if (this.#rate === null) return true
    const burst = this.#rate * BURST_SECONDS
    this.#tokens = Math.min(burst, this.#tokens + ((now - this.#refilledAt) / 1000) * this.#rate)
    this.#refilledAt = now
    return this.#tokens > (lane === OTP ? 0 : burst * RESERVED)
  }

  took(parts: number): void {
    if (this.#rate !== null) this.#tokens -= parts
  }

  /** Adapts to answers: a refusal halves the allowance, and an accepted message adds one. */
  answered(outcomes: ReadonlyArray<SubmitOutcome>, now: number): void {
    let accepted = 0
    let refused = 0
    let retryAfter = 0
    for (const outcome of outcomes) {
      if (outcome.type === 'accepted' || outcome.type === 'rejected') accepted++
      if (outcome.type !== 'refused' || outcome.affectsOnlyThis === true) continue
      refused++
      retryAfter = Math.max(retryAfter, outcome.retryAfterMs)
    }
    if (refused > 0 && accepted === 0 && this.#allowance === 1) {
      this.#notBefore = now + Math.min(retryAfter, LONGEST_PAUSE_MS)
    }
    if (refused > 0) this.#allowance = Math.max(1, Math.floor(this.#allowance / 2))
    this.#allowance = Math.min(this.#window, this.#allowance + accepted)
  }
}
