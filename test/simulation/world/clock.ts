/** A clock of Effect in virtual time. */
import { type Clock, Duration, Effect } from 'effect'

/** `wallClock` and `monotonic`: milliseconds. `after` returns a function that cancels the timer. */
export const clockOf = (
  wallClock: () => number,
  monotonic: () => number,
  after: (ms: number, act: () => void) => () => void,
): Clock.Clock => {
  const sleep = (ms: number): Effect.Effect<void> => {
    if (!Number.isFinite(ms)) return Effect.never
    if (ms <= 0) return Effect.yieldNow
    return Effect.callback((resume) => {
      // As the timers of Node. A clock with fractions of a millisecond cannot be encoded in a record.
      const cancel = after(Math.ceil(ms), () => resume(Effect.void))
      return Effect.sync(cancel)
    })
  }
  const nanos = (ms: number) => BigInt(Math.round(ms * 1_000_000))
  return {
    currentTimeMillisUnsafe: wallClock,
    currentTimeMillis: Effect.sync(wallClock),
    currentTimeNanosUnsafe: () => nanos(wallClock()),
    currentTimeNanos: Effect.sync(() => nanos(wallClock())),
    monotonicTimeNanosUnsafe: () => nanos(monotonic()),
    monotonicTimeNanos: Effect.sync(() => nanos(monotonic())),
    sleep: (duration) => sleep(Duration.toMillis(duration)),
  }
}
