/** Flood windows that mend themselves. */
import { Deferred, Effect, type Scope, type Stream } from 'effect'
import { Counters, type FloodAcceptance } from './port.ts'

/** While a lost store is not noticed, only `service` messages wait for it; one look costs the store next to nothing. */
const LOOK_EVERY = '1 second'

/** A start waits so long for a first look, which is enough for a store that is ready or small; a large one is rebuilt while otp passes. */
const FIRST_LOOK_WITHIN = '2 seconds'

/**
 * Looks every second, for as long as the scope, whether the store has lost its flood windows, and rebuilds them from
 * `acceptances`: those of the last day that spend windows, read afresh at each run. What fails is tried again at the next look. Ends after
 * the first look, so that a process takes requests with windows that are ready.
 */
export const keepFloodWindowsReady = <E, R>(
  acceptances: Stream.Stream<FloodAcceptance, E, R>,
): Effect.Effect<void, never, Counters | Scope.Scope | R> =>
  Effect.gen(function* () {
    const { generation } = yield* Counters
    const looked = yield* Deferred.make<void>()
    const look = Effect.gen(function* () {
      if ((yield* generation.state) !== 'empty') return
      yield* Effect.logInfo('The flood windows are empty: rebuilding them from what was accepted.')
      const outcome = yield* generation.rebuild(acceptances)
      yield* Effect.logInfo('The rebuild of the flood windows has ended.').pipe(
        Effect.annotateLogs({ outcome }),
      )
    }).pipe(
      // The cause may quote data; that it failed is what matters, and the next look tells more.
      Effect.catch(() => Effect.logDebug('The flood windows cannot be looked at or rebuilt now.')),
      Effect.catchDefect(() => Effect.logError('The source of the rebuild is broken.')),
      Effect.ensuring(Deferred.succeed(looked, undefined)),
    )
    yield* look.pipe(Effect.andThen(Effect.sleep(LOOK_EVERY)), Effect.forever, Effect.forkScoped)
    yield* Effect.timeoutOption(Deferred.await(looked), FIRST_LOOK_WITHIN)
  })
