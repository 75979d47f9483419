/** Parts that a process does not go on without. */
import { Cause, Deferred, Effect } from 'effect'

export interface Vital {
  /** Runs a part; where it dies of a defect, `failure` does. Ends quietly when it is interrupted. */
  readonly vital: <A, R>(part: Effect.Effect<A, never, R>) => Effect.Effect<void, never, R>
  /** Never succeeds; dies when a part has died. */
  readonly failure: Effect.Effect<never>
}

/**
 * A defect in a fiber that nobody waits for would leave others waiting for what never comes: better that the process ends, and what it did is
 * recovered elsewhere.
 */
export const makeVital = (): Vital => {
  const died = Deferred.makeUnsafe<never>()
  return {
    vital: (part) =>
      part.pipe(
        Effect.asVoid,
        Effect.catchCause((cause) =>
          Cause.hasInterruptsOnly(cause) ? Effect.void : Effect.asVoid(Deferred.failCause(died, cause)),
        ),
      ),
    failure: Deferred.await(died),
  }
}
