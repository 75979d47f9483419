/** Repeats a check until it succeeds or its time is over. */
import { setTimeout as delay } from 'node:timers/promises'

/**
 * The default of the time limit. A wait ends when its condition holds, so the limit only ends a test that hangs,
 * and a busy machine does not reach it.
 */
const HANGS_AFTER_MS = 180_000

interface EventuallyOptions {
  /** The time limit. After it, `eventually` throws the last failure. Default: three minutes. */
  readonly withinMs?: number
  /** Pause between two checks. Default: 20 ms. */
  readonly everyMs?: number
}

/**
 * Repeats `check` until it returns something other than `false`, `null` or `undefined`, and returns
 * that value. `check` may contain assertions: a failed assertion is a failed check.
 */
export const eventually = async <A>(
  check: () => A | Promise<A>,
  { everyMs = 20, withinMs = HANGS_AFTER_MS }: EventuallyOptions = {},
): Promise<Exclude<A, false | null | undefined>> => {
  const deadline = performance.now() + withinMs
  for (;;) {
    let failure: unknown
    try {
      const result = await check()
      if (result !== false && result !== null && result !== undefined) {
        return result as Exclude<A, false | null | undefined>
      }
      failure = new Error(`the condition was still ${String(result)} after ${withinMs} ms`)
    } catch (error) {
      failure = error
    }
    if (performance.now() >= deadline) throw failure
    await delay(everyMs)
  }
}
