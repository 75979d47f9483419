/** Waiting for something to become true, with a bound. */
import { setTimeout as delay } from 'node:timers/promises'

export interface EventuallyOptions {
  /** The bound. After it the last failure is thrown. */
  readonly withinMs: number
  /** Between two looks; 20 ms by default: a local answer takes less, and a test loses little. */
  readonly everyMs?: number
}

/**
 * Looks again and again until `check` neither throws nor answers `false`, `null` or `undefined`, and answers what it
 * answered. Assertions are fine inside: the last one that failed is what the test fails with.
 */
export const eventually = async <A>(
  check: () => A | Promise<A>,
  options: EventuallyOptions,
): Promise<Exclude<A, false | null | undefined>> => {
  const deadline = performance.now() + options.withinMs
  for (;;) {
    let failure: unknown
    try {
      const answer = await check()
      if (answer !== false && answer !== null && answer !== undefined) {
        return answer as Exclude<A, false | null | undefined>
      }
      failure = new Error(`the condition was still ${String(answer)} after ${options.withinMs} ms`)
    } catch (error) {
      failure = error
    }
    if (performance.now() >= deadline) throw failure
    await delay(options.everyMs ?? 20)
  }
}
