/**
 * The reaction to an operator that throttles: pauses, then a slow start. All binds share one state,
 * because the operator limits the account. Pure; times are milliseconds with any origin.
 */

export interface ThrottleOptions {
  /** The first pause, ms. */
  readonly pauseMs: number
  /** Each further pause is twice as long, up to this limit. */
  readonly maxPauseMs: number
  /** For each such period without a throttled answer, the next pause is half as long. */
  readonly recoverMs: number
}

export interface ThrottleState {
  /** Length of the last pause, ms. 0: there was none. */
  readonly pauseMs: number
  /** Nothing is written before this time. */
  readonly pausedUntil: number
  readonly throttledAt: number
  /** The most parts in flight. It is one after a pause, and each accepted part adds one. */
  readonly maxInFlight: number
}

export const UNTHROTTLED: ThrottleState = {
  pauseMs: 0,
  pausedUntil: 0,
  throttledAt: 0,
  maxInFlight: Number.POSITIVE_INFINITY,
}

/**
 * Applies a throttled answer to a part written at `writtenAt`. One about a part written before the
 * current pause is no news, so it does not extend the pause.
 */
export const afterThrottled = (
  state: ThrottleState,
  now: number,
  writtenAt: number,
  options: ThrottleOptions,
): ThrottleState => {
  if (state.pauseMs > 0 && writtenAt < state.pausedUntil) return { ...state, throttledAt: now }
  const halvings = state.pauseMs === 0 ? 0 : Math.floor((now - state.throttledAt) / options.recoverMs)
  const decayed = state.pauseMs / 2 ** Math.min(halvings, 64)
  const pauseMs = Math.min(options.maxPauseMs, Math.max(options.pauseMs, decayed * 2))
  return { pauseMs, pausedUntil: now + pauseMs, throttledAt: now, maxInFlight: 1 }
}

/**
 * Applies an accepted part written at `writtenAt`. A part written before the pause proves nothing.
 * The limit ends when it reaches the whole window.
 */
export const afterAccepted = (state: ThrottleState, writtenAt: number, window: number): ThrottleState => {
  if (state.maxInFlight === Number.POSITIVE_INFINITY || writtenAt < state.pausedUntil) return state
  const maxInFlight = state.maxInFlight + 1
  return { ...state, maxInFlight: maxInFlight >= window ? Number.POSITIVE_INFINITY : maxInFlight }
}

/** Returns the rest of the current pause, ms. */
export const remainingPauseMs = (state: ThrottleState, now: number): number =>
  Math.max(0, state.pausedUntil - now)

/**
 * Returns the delay before connection attempt `attempt` (from 0): exponential backoff with full
 * jitter, so that clients do not reconnect at once. `random` is in [0, 1).
 */
export const reconnectDelayMs = (
  attempt: number,
  random: number,
  options: { readonly baseMs: number; readonly maxMs: number },
): number => random * Math.min(options.maxMs, options.baseMs * 2 ** Math.min(attempt, 32))
