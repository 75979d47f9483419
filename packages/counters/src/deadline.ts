/** The deadline of a call to Redis. */
import { Effect } from 'effect'
import { timedOut, toUnavailable } from './failures.ts'
import type { CountersUnavailable } from './port.ts'

/** Milliseconds, of a clock that does not step. */
export const now = () => performance.now()

/**
 * Runs a promise with the deadline. It times out only after one more turn of the event loop: in a
 * process that was busy for longer than the deadline, both the timer and the answer are waiting,
 * and Redis is not at fault. It never times out early: a timer counts from the beginning of its turn,
 * and the next call would not find the answer overdue yet.
 */
export const withDeadline = <A>(
  begin: () => Promise<A>,
  deadlineMs: number,
): Effect.Effect<A, CountersUnavailable> =>
  Effect.callback((resume) => {
    const pending = begin()
    const endsAt = now() + deadlineMs
    const expire = () => {
      const leftMs = endsAt - now()
      if (leftMs > 0) timer = setTimeout(expire, leftMs)
      else setImmediate(() => resume(Effect.fail(timedOut)))
    }
    let timer = setTimeout(expire, deadlineMs)
    pending.then(
      (answer) => {
        clearTimeout(timer)
        resume(Effect.succeed(answer))
      },
      (error: unknown) => {
        clearTimeout(timer)
        resume(Effect.fail(toUnavailable(error)))
      },
    )
    return Effect.sync(() => clearTimeout(timer))
  })
