/** Waiting for a moment or a call, whichever comes first, with one fiber and no polling. */
import { Clock, Effect, Latch } from 'effect'

export interface Alarm {
  /** Ends the wait under way, or the next one. */
  readonly ring: () => void
  /** Waits until `at` (milliseconds since the epoch; `null`: for ever) or a ring. */
  readonly wait: (at: number | null) => Effect.Effect<void>
}

export const makeAlarm = (): Alarm => {
  const latch = Latch.makeUnsafe(false)
  return {
    ring: () => {
      latch.openUnsafe()
    },
    wait: (at) =>
      Effect.gen(function* () {
        const rung = latch.await
        if (at === null) yield* rung
        else {
          const ms = at - (yield* Clock.currentTimeMillis)
          if (ms > 0) yield* Effect.raceFirst(rung, Effect.sleep(ms))
        }
        latch.closeUnsafe()
      }),
  }
}
