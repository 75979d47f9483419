/**
 * Flow control for one operator: decides how many messages the handover loop may take for it now.
 * The loop creates one instance per operator. The class has no timer, and reads no clock.
 *
 * Two limits apply. The **window** bounds the messages in progress; refusals that have nothing to do
 * with the rate reduce it. The **rate** bounds the parts per second of all dispatchers together
 * (`GrantedParts`); throttled answers reduce it. The window grows and falls as that of TCP (V. Jacobson,
 * "Congestion Avoidance and Control", SIGCOMM 1988).
 */
import type { Capabilities, SubmitOutcome } from '@hub/operator'
import { GrantedParts } from '../pacing/granted-parts.ts'

/** The share of the window for `otp` only, so that a code finds room during a campaign. */
const RESERVED = 0.1
/**
 * The longest pause before the next message for an operator that refuses everything, and so the
 * longest wait of a code after the operator is back. Each refusal costs two facts in the log.
 */
const LONGEST_PAUSE_MS = 1000
/**
 * The window at the start for an operator that may throttle. It doubles with each round trip. So a slow
 * operator gets few parts before its first throttled answer arrives. A fast one gets few parts because of
 * the slow start of the rate (`slow-start.ts`).
 */
const FIRST_WINDOW = 4
/**
 * A message that is throttled again and again is a problem of its recipient. More of its answers say
 * nothing on the rate.
 */
const TELLING_ATTEMPTS = 2
/** The longest time over which the parts of a message are spread, ms. The recipient waits for all. */
const LONGEST_SPREAD_MS = 1000

const OTP = 0

/** The answer to a message. */
export interface Answer {
  readonly outcome: SubmitOutcome
  readonly parts: number
  /** How often the message was claimed, with this attempt. */
  readonly attempts: number
  /** The reaction of `GrantedParts` when the message was submitted. */
  readonly reaction: number
}

export class Pace {
  /** The rate; `null` if the operator never throttles. */
  readonly granted: GrantedParts | null
  readonly #window: number
  /** The maximum messages in progress: the window, or less while the operator refuses. */
  #allowance: number
  #notBefore = 0

  constructor({ isPaced = false, window }: Capabilities) {
    this.#window = window
    this.#allowance = isPaced ? Math.min(window, FIRST_WINDOW) : window
    this.granted = isPaced ? new GrantedParts() : null
  }

  /** How many messages of a lane may be taken now, with this many in progress. */
  room(lane: number, inProgress: number, now: number): number {
    if (now < this.#notBefore) return 0
    const reserved = lane === OTP || this.#allowance < 2 ? 0 : Math.max(1, this.#allowance * RESERVED)
    return Math.max(0, Math.floor(this.#allowance - reserved) - inProgress)
  }

  /** Whether the rate allows a message now. */
  mayTake(now: number): boolean {
    return this.granted?.mayTake(now) ?? true
  }

  took(parts: number): void {
    this.granted?.took(parts)
  }

  /** Whether messages with a claim must wait too. */
  isHeld(now: number): boolean {
    return this.granted?.isHeld(now) ?? false
  }

  get reaction(): number {
    return this.granted?.reaction ?? 0
  }

  /** The time between two parts of a message, ms. */
  partGapMs(parts: number): number {
    return parts < 2 ? 0 : Math.min(this.granted?.everyMs ?? 0, LONGEST_SPREAD_MS / parts)
  }

  /** A part of a message was throttled. The adapter submits it again, which needs a part more. */
  throttled({ attempts, reaction }: Pick<Answer, 'attempts' | 'reaction'>): void {
    this.granted?.took(1)
    if (attempts <= TELLING_ATTEMPTS) this.granted?.answered(reaction, 0, 1)
  }

  /**
   * Adapts to answers: a refusal halves the allowance, and an accepted message adds one. A throttled
   * message changes the rate instead.
   */
  answered(answers: ReadonlyArray<Answer>, now: number): void {
    let accepted = 0
    let refused = 0
    let retryAfter = 0
    for (const { attempts, outcome, parts, reaction } of answers) {
      const { throttledParts = 0, type } = outcome
      const isAnswered = type === 'accepted' || type === 'rejected'
      if (isAnswered) accepted++
      this.granted?.answered(
        reaction,
        isAnswered ? parts : 0,
        attempts > TELLING_ATTEMPTS ? 0 : throttledParts,
      )
      if (type !== 'refused' || outcome.affectsOnlyThis === true || throttledParts > 0) continue
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
