/**
 * Learns how many parts per second an operator accepts. Pure: no clock and no I/O. The inputs are
 * the answers of the operator, of all dispatchers together, and the time in milliseconds.
 *
 * There is no limit until the operator throttles; only `slow-start.ts` applies. Then the rate begins at
 * what the operator accepted, and goes through two stages:
 *
 * - **holding**: the rate stays a little below the highest rate that passed;
 * - **rising**: each second without a throttled answer, the rate rises by a step, and the step grows.
 *
 * A throttled answer ends the stage. While rising it means that the limit lies between the last two
 * rates. While holding it means that the limit has fallen: the rate falls by a tenth. If it falls
 * twice in a short time, it falls to what the operator accepted in between.
 *
 * Sources: the measured rate and the probing are those of BBR (N. Cardwell et al., "BBR:
 * Congestion-Based Congestion Control", ACM Queue 14(5), 2016), the fall by a factor is that of AIMD
 * (D.-M. Chiu, R. Jain, Computer Networks and ISDN Systems 17, 1989), and the growing steps are those
 * of CUBIC (RFC 9438). Why: docs/decisions/pacing.md. Figures: benchmarks/history/pacing.md.
 */

import { Schema } from 'effect'

export const LearnedRate = Schema.Struct({
  /** Parts per second that the hub may submit. `null`: no answer was throttled yet, so no limit. */
  rate: Schema.NullOr(Schema.Number),
  /** The highest rate that seems to pass, parts per second. */
  passing: Schema.Number,
  /** `passing` before the last step. It passed for a second more. */
  proven: Schema.Number,
  isRising: Schema.Boolean,
  /** The next step, as a share of the rate. */
  step: Schema.Number,
  /** For how long the rate was used since it was set, in seconds of full use. */
  usedSeconds: Schema.Number,
  /** Throttled parts beyond those that are tolerated. */
  excess: Schema.Number,
  /** Counts the reactions to throttled answers. Parts submitted before the last one are no news. */
  reaction: Schema.Number,
  /** When the rate fell last, ms, and the parts that passed since. */
  fellAt: Schema.Number,
  passedSinceFall: Schema.Number,
  /** Nothing is submitted before this time, ms. */
  pausedUntil: Schema.Number,
  /** Above 0: only single parts are submitted, this many ms apart, until one passes. */
  tryEveryMs: Schema.Number,
  /** The rate is what the operator accepted before its first throttled answer, and is not final. */
  isFirst: Schema.Boolean,
  /** The parts that passed in each of the last 20 tenths of a second, the newest first. */
  passed: Schema.Array(Schema.Number),
  /** The begin of the newest tenth of a second, ms. */
  tenthAt: Schema.Number,
})
export type LearnedRate = typeof LearnedRate.Type

/** Answers to parts. A part passes if its answer is anything but throttled. */
export interface Answers {
  /** The reaction that the submitter knew when it submitted the new parts. */
  readonly reaction: number
  /** All parts that passed. */
  readonly passed: number
  /** Of these, the parts that were submitted after the reaction. */
  readonly newPassed: number
  /** Throttled parts that were submitted after the reaction. */
  readonly newThrottled: number
}

export const UNLIMITED: LearnedRate = {
  rate: null,
  passing: 0,
  proven: 0,
  isRising: false,
  step: 0,
  usedSeconds: 0,
  excess: 0,
  reaction: 0,
  fellAt: 0,
  passedSinceFall: 0,
  pausedUntil: 0,
  tryEveryMs: 0,
  isFirst: false,
  passed: [],
  tenthAt: 0,
}

/** Operators count per second, and a change must show within ten seconds. */
const SECOND = 1000
const TENTH = 100
const TENTHS = 20

/** Parts are never spread evenly, and the operator's second may begin at any time. */
const HOLDING = 0.97
/**
 * How long the rate stays: long enough that the throttled answer at the end of each rise is at most
 * one in thirty, and short enough to find a higher limit within ten seconds.
 */
const HOLD_SECONDS = 2.5
const HOLD_PARTS = 36
/** A rate is proven after a second, which a counter per second needs, and a few parts. */
const STEP_SECONDS = 1
const STEP_PARTS = 4
/** Each step is 2.5 times the one before: a doubled limit is found with five steps. */
const FIRST_STEP = 0.03
const STEP_GROWTH = 2.5
const LARGEST_STEP = 0.6
/** The rate does not rise while the hub uses less than this share of it. */
const USED = 0.7

const FALL = 0.9
/** Two falls in this time, or with so few parts between them, mean that the limit is much lower. */
const SHORT_MS = 1500
const FEW_PARTS = 5
/** In less time, what passed says nothing. */
const MEASURABLE_MS = 500
/** If less than this share of the rate passed, the rate falls to what passed. */
const MUCH_LOWER = 0.75

/**
 * SMSCs throttle single parts for other reasons (a full queue of one recipient). More than this share
 * of a second's parts is a sign of the limit. Below 100 parts per second, each throttled part is.
 */
const TOLERATED_HOLDING = 0.02
const TOLERATED_RISING = 0.01

/** The shortest pause: the rest of the operator's second, when the limit was exceeded by a little. */
const SHORT_PAUSE_MS = 100
/**
 * The first pause before a try is the time of a few parts, within these bounds: at a low rate, a try
 * that comes too early is a large share of all answers. Each further pause is twice as long, except soon
 * after the first throttled answer.
 */
const FIRST_TRY_MS = { least: 200, most: 450 }
/** The time in which the count of an operator starts anew. */
const REFILL_MS = SECOND

/**
 * An operator that counts per second accepts again a second after the first throttled part. The requests
 * and the distance of tries make it longer. One that takes longer allows less than a part per second.
 */
const FIRST_SECOND_MS = 1800

/** The lowest rate to begin with. A single throttled answer of an idle operator says little. */
const FIRST_RATE = 10
/** The lowest rate: a part in ten seconds still finds out that the limit has risen. */
const LOWEST_RATE = 0.1

const lastSecond = (state: LearnedRate): number => sum(state.passed.slice(0, SECOND / TENTH))
const sum = (numbers: ReadonlyArray<number>): number => numbers.reduce((total, one) => total + one, 0)

/** Adds parts that passed now. */
const counted = (state: LearnedRate, passed: number, now: number): LearnedRate => {
  const tenths = Math.max(0, Math.floor((now - state.tenthAt) / TENTH))
  const empty = Array.from({ length: Math.min(tenths, TENTHS) }, () => 0)
  const [newest = 0, ...older] = [...empty, ...state.passed].slice(0, TENTHS)
  return {
    ...state,
    passed: [newest + passed, ...older],
    tenthAt: state.tenthAt + tenths * TENTH,
    passedSinceFall: state.passedSinceFall + passed,
  }
}

const holding = (state: LearnedRate, passing: number): LearnedRate => {
  const proven = Math.max(LOWEST_RATE, passing)
  return {
    ...state,
    rate: proven * HOLDING,
    passing: proven,
    proven,
    isRising: false,
    step: FIRST_STEP,
    usedSeconds: 0,
    excess: 0,
  }
}

const fell = (state: LearnedRate, now: number): LearnedRate => ({ ...state, fellAt: now, passedSinceFall: 0 })

/** Answers to earlier parts are no news any more. */
const reacted = (state: LearnedRate): LearnedRate => ({ ...state, reaction: state.reaction + 1, excess: 0 })

const paused = (state: LearnedRate, now: number, pauseMs: number, tryEveryMs: number): LearnedRate => ({
  ...state,
  pausedUntil: now + pauseMs,
  tryEveryMs,
})

const pausedForTry = (state: LearnedRate, now: number): LearnedRate => {
  const partMs = SECOND / state.passing
  const { least, most } = FIRST_TRY_MS
  // Below one part per second, half the time of a part is longer.
  const pauseMs = Math.max(least, Math.min(most, FEW_PARTS * partMs), partMs / 2)
  return paused(state, now, pauseMs, pauseMs)
}

const firstRate = (state: LearnedRate): number => Math.max(FIRST_RATE, lastSecond(state))

/**
 * The time until a second has passed since the first part of the last second. Then the operator has room
 * again. The times are those of the requests.
 */
const restOfSecond = ({ passed, tenthAt }: LearnedRate, now: number): number => {
  const oldest = passed.slice(0, SECOND / TENTH).findLastIndex((parts) => parts > 0)
  const firstAt = tenthAt - Math.max(0, oldest) * TENTH
  return Math.max(SHORT_PAUSE_MS, firstAt + SECOND - now)
}

const afterFirstThrottled = (state: LearnedRate, now: number): LearnedRate => {
  const held = fell(holding(state, firstRate(state)), now)
  return { ...paused(reacted(held), now, restOfSecond(state, now), FIRST_TRY_MS.least), isFirst: true }
}

const afterThrottled = (state: LearnedRate, rate: number, now: number): LearnedRate => {
  const elapsed = now - state.fellAt
  if (elapsed < MEASURABLE_MS) return pausedForTry(reacted(state), now)
  const accepted = (state.passedSinceFall / elapsed) * SECOND
  const isSoon = elapsed < SHORT_MS
  if ((isSoon || state.passedSinceFall < FEW_PARTS) && accepted < rate * MUCH_LOWER) {
    // What passed in a short time may be too little by chance.
    const passing = Math.max(accepted, isSoon ? state.passing / 2 : 0)
    return pausedForTry(reacted(fell(holding(state, passing), now)), now)
  }
  if (!state.isRising) return pausedForTry(reacted(fell(holding(state, state.passing * FALL), now)), now)
  // Two seconds of the operator may share the last second, so it may contain a part too many.
  const passing = Math.max(state.proven, Math.min(rate, lastSecond(state)) * HOLDING - 1)
  return paused(reacted(fell(holding(state, passing), now)), now, SHORT_PAUSE_MS, 0)
}

const afterPassed = (state: LearnedRate, rate: number, passed: number): LearnedRate => {
  const usedSeconds = state.usedSeconds + passed / rate
  const needed = state.isRising
    ? Math.max(STEP_SECONDS, STEP_PARTS / rate)
    : Math.max(HOLD_SECONDS, HOLD_PARTS / state.passing)
  const isUsed = lastSecond(state) >= rate * USED - 1
  if (usedSeconds < needed || !isUsed) return { ...state, usedSeconds }
  const next = { ...state, isRising: true, usedSeconds: 0, excess: 0 }
  if (!state.isRising) return { ...next, rate: state.passing * (1 + state.step) }
  const step = Math.min(LARGEST_STEP, state.step * STEP_GROWTH)
  return { ...next, proven: state.passing, passing: rate, step, rate: rate * (1 + step) }
}

/** Applies the answers that arrived since the last call. */
export const learn = (before: LearnedRate, answers: Answers, now: number): LearnedRate => {
  const isCurrent = answers.reaction === before.reaction
  const throttled = isCurrent ? answers.newThrottled : 0
  let state = counted(before, answers.passed, now)
  if (state.rate === null) return throttled > 0 ? afterFirstThrottled(state, now) : state
  if (state.tryEveryMs > 0) {
    // Dispatchers ask separately. Later requests may add parts that passed before the throttled one.
    if (state.isFirst) state = holding(state, Math.max(state.passing, firstRate(state)))
    const isInFirstSecond = state.isFirst && now - state.fellAt < FIRST_SECOND_MS
    if (throttled > 0) {
      const pauseMs = isInFirstSecond
        ? state.tryEveryMs
        : Math.min(Math.max(REFILL_MS, SECOND / state.passing), state.tryEveryMs * 2)
      return paused(reacted(state), now, pauseMs, pauseMs)
    }
    if (!isCurrent || answers.newPassed === 0) return state
    const resumed = { ...state, tryEveryMs: 0, isFirst: false }
    // In this time, the operator accepted nothing because its second was used up: it says nothing more.
    return isInFirstSecond ? fell(resumed, now) : resumed
  }
  const tolerated = state.isRising ? TOLERATED_RISING : TOLERATED_HOLDING
  const excess = Math.max(0, state.excess + throttled - tolerated * answers.passed)
  state = { ...state, excess }
  if (throttled > 0 && excess > tolerated * before.rate!) return afterThrottled(state, before.rate!, now)
  return answers.passed > 0 ? afterPassed(state, state.rate!, answers.passed) : state
}
