/** Supervision of the loops that a process cannot work without. */
import { Cause, Deferred, Effect } from 'effect'

export interface Supervisor {
  /** Runs an effect. A defect also fails `failure`; an interruption ends it without an error. */
  readonly supervise: <A, R>(part: Effect.Effect<A, never, R>) => Effect.Effect<void, never, R>
  /** Never succeeds. It dies with the defect of the first supervised effect that died. */
  readonly failure: Effect.Effect<never>
}

/** The process ends with a defect: other fibers would wait forever for the dead one. */
export const makeSupervisor = (): Supervisor => {
  const died = Deferred.makeUnsafe<never>()
  return {
    supervise: (part) =>
      part.pipe(
        Effect.asVoid,
        Effect.catchCause((cause) =>
          Cause.hasInterruptsOnly(cause) ? Effect.void : Effect.asVoid(Deferred.failCause(died, cause)),
        ),
      ),
    failure: Deferred.await(died),
  }
}
