/** The requests that the process works on. Their number is limited, in all and for each caller. */
import { Duration, Effect, Scope } from 'effect'
import type { Caller } from '../access/caller.ts'
import { type ApiFailure, apiFailure } from './failures.ts'

/** Some operations read Kafka. Browsers and load balancers wait for longer. */
const LONGEST_REQUEST = Duration.seconds(20)

/** PostgreSQL has ten connections for them. */
const MAX_IN_PROGRESS = 100
/** Requests of one session, or of the programs with one name. A page of the console sends some at a time. */
const MAX_OF_CALLER = 20

const TOO_MANY = 'You have too many requests in progress. Repeat this one after retry_after seconds.'

const callerKey = ({ actor, session }: Caller): string => session?.token ?? `token ${actor.name}`

/** Counts what each caller has open. */
export const makeCallerLimit = (max: number) => {
  const counts = new Map<string, number>()
  return {
    /** Fails if the caller has as much open as it may have. */
    check: (caller: Caller): Effect.Effect<void, ApiFailure> =>
      Effect.suspend(() =>
        (counts.get(callerKey(caller)) ?? 0) < max
          ? Effect.void
          : Effect.fail(apiFailure('overloaded', { message: TOO_MANY })),
      ),
    /** Counts one until the scope closes. */
    open: (caller: Caller): Effect.Effect<void, never, Scope.Scope> => {
      const key = callerKey(caller)
      const add = (change: number): void => {
        const count = (counts.get(key) ?? 0) + change
        if (count === 0) counts.delete(key)
        else counts.set(key, count)
      }
      return Effect.acquireRelease(
        Effect.sync(() => add(1)),
        () => Effect.sync(() => add(-1)),
      )
    },
  }
}

export const makeWorkLimits = () => {
  let inProgress = 0
  const callers = makeCallerLimit(MAX_OF_CALLER)
  return {
    /** Not for the time in which a body arrives: its client decides how long that takes. */
    counted: <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E | ApiFailure, R> =>
      Effect.suspend((): Effect.Effect<A, E | ApiFailure, R> => {
        if (inProgress >= MAX_IN_PROGRESS) return Effect.fail(apiFailure('overloaded'))
        inProgress += 1
        return Effect.ensuring(
          Effect.timeoutOrElse(work, {
            duration: LONGEST_REQUEST,
            orElse: () => Effect.fail(apiFailure('timeout')),
          }),
          Effect.sync(() => (inProgress -= 1)),
        )
      }),
    ofCaller: <A, E, R>(caller: Caller, work: Effect.Effect<A, E, R>): Effect.Effect<A, E | ApiFailure, R> =>
      Effect.andThen(
        callers.check(caller),
        Effect.scopedWith((scope) =>
          Effect.andThen(Effect.provideService(callers.open(caller), Scope.Scope, scope), work),
        ),
      ),
  }
}
export type WorkLimits = ReturnType<typeof makeWorkLimits>
