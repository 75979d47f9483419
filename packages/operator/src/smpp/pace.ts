/**
 * How a throttling operator is slowed down for. All binds share one pace: the operator counts the account, not the
 * connection. Pure: whoever calls brings the time (milliseconds, any origin).
 */

export interface PaceOptions {
  /** The first pause. */
  readonly pauseMs: number
  /** Each further one is twice as long, up to this. */
  readonly maxPauseMs: number
  /** Without a throttled answer for so long, the next pause is half as long again. */
  readonly recoverMs: number
}

export interface Pace {
  /** Length of the last pause, ms; 0 when there has been none. */
  readonly pause: number
  /** Nothing is written before this time. */
  readonly until: number
  /** When the operator last throttled. */
  readonly throttledAt: number
  /** Parts that may be under way at once. After a pause it is one, and each part that is taken adds one. */
  readonly allowance: number
}

export const UNTHROTTLED: Pace = { pause: 0, until: 0, throttledAt: 0, allowance: Number.POSITIVE_INFINITY }

/**
 * The operator said "slow down" to something written at `writtenAt`. Answers to what was written before the pause began
 * say nothing new and do not lengthen it.
 */
export const throttled = (pace: Pace, now: number, writtenAt: number, options: PaceOptions): Pace => {
  if (pace.pause > 0 && writtenAt < pace.until) return { ...pace, throttledAt: now }
  const halvings = pace.pause === 0 ? 0 : Math.floor((now - pace.throttledAt) / options.recoverMs)
  const decayed = pace.pause / 2 ** Math.min(halvings, 64)
  const pause = Math.min(options.maxPauseMs, Math.max(options.pauseMs, decayed * 2))
  return { pause, until: now + pause, throttledAt: now, allowance: 1 }
}

/**
 * The operator took a part that was written at `writtenAt`. What was written before the pause proves nothing. Once the whole
 * window is open again there is nothing left to watch.
 */
export const taken = (pace: Pace, writtenAt: number, window: number): Pace => {
  if (pace.allowance === Number.POSITIVE_INFINITY || writtenAt < pace.until) return pace
  const allowance = pace.allowance + 1
  return { ...pace, allowance: allowance >= window ? Number.POSITIVE_INFINITY : allowance }
}

/** How long to wait before something may be written, ms. */
export const waitOf = (pace: Pace, now: number): number => Math.max(0, pace.until - now)

/**
 * Before the n-th attempt to connect (from 0): anything between nothing and a bound that doubles, so that many clients of a
 * centre that comes back do not come all at once. `random` is in [0, 1).
 */
export const backoff = (
  attempt: number,
  random: number,
  options: { readonly baseMs: number; readonly maxMs: number },
): number => random * Math.min(options.maxMs, options.baseMs * 2 ** Math.min(attempt, 32))
