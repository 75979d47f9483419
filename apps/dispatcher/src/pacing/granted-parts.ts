/**
 * The parts that a process may submit to one operator, from its grants (`hub-rate.ts`), and when
 * it requests the next one. No clock, no timer and no I/O. Times are milliseconds of one clock of the process.
 */
import type { Grant } from './hub-rate.ts'
import type { Answers } from './learned-rate.ts'
import { SlowStart } from './slow-start.ts'

/** A piece of the timetable. It shrinks while its parts are used. */
interface Granted {
  at: number
  parts: number
  readonly everyMs: number
}

/**
 * A part may be used this much after its time. A process is often late by milliseconds, because of
 * its timers and of Redis. One that was stopped for longer must not submit what it has missed.
 */
const LATE_MS = 150
/** Requests while messages wait: the others must learn of throttled answers, and of a process's end. */
const REQUEST_MS = 100
const REQUEST_IDLE_MS = 1000
/** The next grant is asked for this long before the last one ends. */
const BEFORE_END_MS = 60
/** The least time between two requests, except after a throttled answer. */
const SOONEST_MS = 5

/** Messages that wait for the operator. */
export interface Waiting {
  readonly otp: number
  readonly service: number
}

export class GrantedParts {
  #grants: ReadonlyArray<Granted> = []
  /** Parts of long messages that were used before they were granted. */
  #debt = 0
  /** `undefined`: there was no grant yet. */
  #last: Grant | undefined
  #pausedUntil = 0
  /** A new part was throttled. Nothing more is submitted until others know, and agree on a reaction. */
  #isStopped = false
  #passed = 0
  #newPassed = 0
  #newThrottled = 0
  #requestedAt = Number.NEGATIVE_INFINITY
  #hasRequestedCodes = false
  /** Applies while `rate` is `null`: no limit is configured or learned. */
  readonly #slowStart = new SlowStart()

  /** The last reaction to throttled answers that the process knows. */
  get reaction(): number {
    return this.#last?.reaction ?? 0
  }
  get last(): Grant | undefined {
    return this.#last
  }

  /** Whether messages may have to wait for their parts. Otherwise nobody must know how many wait. */
  get isLimited(): boolean {
    return this.#last?.rate !== null || !this.#slowStart.isDone
  }

  /** Whether a message may be taken now. Its further parts use parts of the future. */
  mayTake(now: number): boolean {
    if (this.#last === undefined || this.isHeld(now)) return false
    return this.#last.rate === null ? this.#slowStart.mayTake(now) : this.#due(now) > 0
  }

  took(parts: number): void {
    if (this.#last?.rate === null) return this.#slowStart.took(parts)
    let rest = parts
    for (const granted of this.#grants) {
      const used = Math.min(rest, granted.parts)
      granted.parts -= used
      granted.at += used * granted.everyMs
      rest -= used
    }
    this.#debt += rest
    this.#grants = this.#grants.filter((granted) => granted.parts > 0)
  }

  /** Whether messages with a claim must wait too: the operator would throttle them. */
  isHeld(now: number): boolean {
    return this.#isStopped || now < this.#pausedUntil
  }

  /** The time between two parts of a message, ms. */
  get everyMs(): number {
    if (this.#last === undefined) return 0
    return this.#last.rate === null ? this.#slowStart.everyMs : 1000 / this.#last.rate
  }

  /** When the next part may be submitted, or the pause ends. Infinity: only a grant changes that. */
  nextAt(now: number): number {
    if (this.#isStopped) return Number.POSITIVE_INFINITY
    if (now < this.#pausedUntil) return this.#pausedUntil
    if (this.#last?.rate === null) return this.#slowStart.nextAt
    return this.#grants[0]?.at ?? Number.POSITIVE_INFINITY
  }

  /** Counts answers to parts that were submitted after this reaction. */
  answered(reaction: number, passed: number, throttled: number): void {
    this.#passed += passed
    if (reaction !== this.reaction) return
    this.#newPassed += passed
    this.#newThrottled += throttled
    this.#isStopped ||= throttled > 0
  }

  /** When to request a grant next, with these messages waiting. */
  requestAt(waiting: Waiting): number {
    if (this.#last === undefined || this.#isStopped) return this.#requestedAt
    const { isTry, rate, retryInMs } = this.#last
    if (isTry && this.#newPassed > 0) return this.#requestedAt
    const isIdle = waiting.otp + waiting.service === 0
    if (isIdle) return this.#requestedAt + REQUEST_IDLE_MS
    // After the first throttled answer, the pause depends on the times at which parts passed.
    if (rate === null) return this.#requestedAt + (this.#slowStart.isDone ? REQUEST_IDLE_MS : REQUEST_MS)
    const wanted = this.#wanted(waiting)
    if (wanted.otp + wanted.service === 0) return this.#requestedAt + REQUEST_MS
    // Codes need not wait for what the last request asked for.
    const isUrgent = wanted.otp > 0 && !this.#hasRequestedCodes
    const soonest = this.#requestedAt + (isUrgent ? SOONEST_MS : Math.max(SOONEST_MS, retryInMs))
    const last = this.#grants.at(-1)
    if (last === undefined || isUrgent) return soonest
    const before = last.at + last.parts * last.everyMs - BEFORE_END_MS
    return Math.min(this.#requestedAt + REQUEST_MS, Math.max(soonest, before))
  }

  /** The waiting messages for which there is no granted part. Codes use the first parts. */
  #wanted({ otp, service }: Waiting): Waiting {
    const parts = this.#grants.reduce((sum, granted) => sum + granted.parts, 0)
    const granted = Math.max(0, parts - this.#debt)
    const wantedOtp = Math.max(0, otp - granted)
    return { otp: wantedOtp, service: Math.max(0, otp + service - granted - wantedOtp) }
  }

  /** What has happened since the last request, and the messages that need a grant. */
  request(waiting: Waiting, now: number): Answers & Waiting {
    this.#requestedAt = now
    const wanted = this.#wanted(waiting)
    this.#hasRequestedCodes = wanted.otp > 0
    const answers = {
      reaction: this.reaction,
      passed: this.#passed,
      newPassed: this.#newPassed,
      newThrottled: this.#newThrottled,
      ...wanted,
    }
    this.#passed = 0
    this.#newPassed = 0
    this.#newThrottled = 0
    return answers
  }

  /** The request did not arrive. The next one contains it again. */
  requestLost(answers: Answers): void {
    this.#passed += answers.passed
    if (answers.reaction !== this.reaction) return
    this.#newPassed += answers.newPassed
    this.#newThrottled += answers.newThrottled
  }

  accept(grant: Grant, now: number): void {
    const isNews = grant.reaction !== this.reaction || this.#last === undefined
    this.#last = grant
    if (isNews) {
      this.#newPassed = 0
      this.#newThrottled = 0
      // Others have used the timetable anew from the reaction on.
      this.#grants = []
    }
    this.#isStopped = this.#newThrottled > 0
    this.#pausedUntil = grant.pausedMs > 0 ? now + grant.pausedMs : 0
    const { everyMs, parts, startsInMs } = grant
    if (parts > 0) this.#grants = [...this.#grants, { at: now + startsInMs, everyMs, parts }]
  }

  /** The parts that are due. Drops those that are too late, and pays the debt. */
  #due(now: number): number {
    let due = 0
    for (const granted of this.#grants) {
      const { everyMs } = granted
      // At a low rate, a part stays until the next one is due.
      const oldest = now - Math.max(LATE_MS, 1.5 * everyMs)
      const missed = Math.min(granted.parts, Math.max(0, Math.ceil((oldest - granted.at) / everyMs)))
      granted.parts -= missed
      granted.at += missed * everyMs
      if (granted.at <= now) due += Math.min(granted.parts, Math.floor((now - granted.at) / everyMs) + 1)
    }
    this.#grants = this.#grants.filter(({ parts }) => parts > 0)
    const paid = Math.min(due, this.#debt)
    if (paid > 0) {
      this.#debt -= paid
      const debt = this.#debt
      this.took(paid)
      this.#debt = debt
    }
    return due - paid
  }
}
