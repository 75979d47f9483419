/** Supervision of the loops that a process cannot work without. */
import { Cause, Deferred, type Duration, Effect, type Scope } from 'effect'

export interface Supervisor {
  /** Runs an effect. A defect also fails `failure`; an interruption ends it without an error. */
  readonly supervise: <A, R>(part: Effect.Effect<A, never, R>) => Effect.Effect<void, never, R>
  /** Runs a step after each pause until the scope closes, supervised. `pause` is asked before each step. */
  readonly every: <R>(
    pause: Duration.Input | (() => Duration.Input),
    step: Effect.Effect<void, never, R>,
  ) => Effect.Effect<void, never, R | Scope.Scope>
  /** Never succeeds. It dies with the defect of the first supervised effect that died. */
  readonly failure: Effect.Effect<never>
}

/** The process ends with a defect: other fibers would wait forever for the dead one. */
export const makeSupervisor = (): Supervisor => {
  const died = Deferred.makeUnsafe<never>()
  const supervise: Supervisor['supervise'] = (part) =>
    part.pipe(
      Effect.asVoid,
      Effect.catchCause((cause) =>
        Cause.hasInterruptsOnly(cause) ? Effect.void : Effect.asVoid(Deferred.failCause(died, cause)),
      ),
    )
  return {
    supervise,
    every: (pause, step) => {
      const sleep = Effect.suspend(() => Effect.sleep(typeof pause === 'function' ? pause() : pause))
      return Effect.asVoid(Effect.forkScoped(supervise(Effect.forever(Effect.andThen(sleep, step)))))
    },
    failure: Deferred.await(died),
  }
}
