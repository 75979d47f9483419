/** The main fiber of a process: its end ends the process. */
import { Cause, Effect, Exit } from 'effect'
import type { SimulatedProcess } from './process.ts'

export const runMain = (
  process: SimulatedProcess,
  main: Effect.Effect<unknown, unknown>,
  events: {
    /** `stop` ends the process in an orderly way. */
    readonly onStarted: (stop: () => void) => void
    readonly onFailed: (cause: string) => void
  },
): void =>
  process.post(() => {
    const fiber = Effect.runForkWith(process.context)(main)
    events.onStarted(() => process.post(() => fiber.interruptUnsafe()))
    fiber.addObserver((exit) => {
      if (Exit.isFailure(exit) && !Cause.hasInterruptsOnly(exit.cause)) {
        events.onFailed(Cause.pretty(exit.cause))
      }
      process.kill()
    })
  })
