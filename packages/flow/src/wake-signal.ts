/** Lets one fiber wait for a time or a notification, whichever comes first, without polling. */
import { Clock, Effect, Latch } from 'effect'

interface WakeSignal {
  /** Ends the current wait, or the next one. */
  readonly notify: () => void
  /** Waits until `at` (milliseconds since the epoch; `null`: no limit) or a notification. */
  readonly waitUntil: (at: number | null) => Effect.Effect<void>
}

export const makeWakeSignal = (): WakeSignal => {
  const latch = Latch.makeUnsafe(false)
  return {
    notify: () => {
      latch.openUnsafe()
    },
    waitUntil: (at) =>
      Effect.gen(function* () {
        if (at === null) yield* latch.await
        else {
          const ms = at - (yield* Clock.currentTimeMillis)
          if (ms > 0) yield* Effect.raceFirst(latch.await, Effect.sleep(ms))
        }
        latch.closeUnsafe()
      }),
  }
}
