/**
 * Returns the delay before connection attempt `attempt` (from 0), ms: exponential backoff with full
 * jitter, so that clients do not reconnect at once. `random` is in [0, 1).
 */
export const reconnectDelayMs = (
  attempt: number,
  random: number,
  options: { readonly baseMs: number; readonly maxMs: number },
): number => random * Math.min(options.maxMs, options.baseMs * 2 ** Math.min(attempt, 32))
