/**
 * How much an operator may be given now: its window, its rate, and what its own refusals say. Pure; one for each operator of
 * a process.
 */
import type { Capabilities, SubmitOutcome } from '@hub/operator'

/** Of an operator's rate, so much may be used at once after a rest. */
const BURST_SECONDS = 1
/** Of window and burst, what only `otp` may use: with a campaign under way a code must find a free place, not wait for one. */
const RESERVED = 0.1
/**
 * An operator that refuses everything is asked again at the latest after this. Each refusal costs two facts in the log, so it is asked with
 * one message at a time, and codes that come meanwhile wait no longer than this once it is back.
 */
const LONGEST_PAUSE_MS = 1000

/** Lanes by urgency: `otp`, then `service`. */
const OTP = 0

export class Pace {
  readonly #window: number
  readonly #rate: number | null
  /** Messages that may be under way: the window, and less while the operator refuses. */
  #allowance: number
  #notBefore = 0
  /** Parts that may go now, where the rate is limited. */
  #tokens: number
  #refilledAt: number

  constructor({ maxPartsPerSecond, window }: Capabilities, now: number) {
    this.#window = window
    this.#allowance = window
    this.#rate = maxPartsPerSecond ?? null
    this.#tokens = (this.#rate ?? 0) * BURST_SECONDS
    this.#refilledAt = now
  }

  /** How many messages of a lane may be taken now, with so many under way. */
  room(lane: number, underWay: number, now: number): number {
    if (now < this.#notBefore) return 0
    const reserved = lane === OTP || this.#allowance < 2 ? 0 : Math.max(1, this.#allowance * RESERVED)
    return this.mayTake(lane, now) ? Math.max(0, Math.floor(this.#allowance - reserved) - underWay) : 0
  }

  /** Whether the rate allows one more. A message of several parts may overdraw; the next waits for it. */
  mayTake(lane: number, now: number): boolean {
    if (this.#rate === null) return true
    const burst = this.#rate * BURST_SECONDS
    this.#tokens = Math.min(burst, this.#tokens + ((now - this.#refilledAt) / 1000) * this.#rate)
    this.#refilledAt = now
    return this.#tokens > (lane === OTP ? 0 : burst * RESERVED)
  }

  /** A message of so many parts was taken. */
  took(parts: number): void {
    if (this.#rate !== null) this.#tokens -= parts
  }

  /**
   * What the operator answered, some at a time. Refused: half as many at a time, and when even one alone was refused, a pause. Taken: one
   * more for each, so that the window is there again after a few round trips.
   */
  answered(outcomes: ReadonlyArray<SubmitOutcome>, now: number): void {
    let taken = 0
    let refused = 0
    let retryAfter = 0
    for (const outcome of outcomes) {
      if (outcome.type === 'accepted' || outcome.type === 'rejected') taken++
      if (outcome.type !== 'refused' || outcome.affectsOnlyThis === true) continue
      refused++
      retryAfter = Math.max(retryAfter, outcome.retryAfterMs)
    }
    if (refused > 0 && taken === 0 && this.#allowance === 1) {
      this.#notBefore = now + Math.min(retryAfter, LONGEST_PAUSE_MS)
    }
    if (refused > 0) this.#allowance = Math.max(1, Math.floor(this.#allowance / 2))
    this.#allowance = Math.min(this.#window, this.#allowance + taken)
  }
}
