/** Detects that the store has lost its flood windows, and rebuilds them. */
import { Deferred, Effect, type Scope, type Stream } from 'effect'
import { Counters, type FloodAcceptance } from './port.ts'

/** Until then `service` messages are refused. A check costs the store almost nothing. */
const CHECK_EVERY = '1 second'

/** How long the start of a process waits. A larger rebuild continues while codes pass. */
const FIRST_CHECK_WITHIN = '2 seconds'

/**
 * Checks the store every second until the scope closes, and rebuilds lost flood windows from
 * `acceptances`: those of the last day that flood windows count, read again at each run. The next
 * check retries after a failure. Returns after the first check, so that a process accepts requests
 * with complete windows.
 */
export const keepFloodWindowsReady = <E, R>(
  acceptances: Stream.Stream<FloodAcceptance, E, R>,
): Effect.Effect<void, never, Counters | Scope.Scope | R> =>
  Effect.gen(function* () {
    const { generation } = yield* Counters
    const checked = yield* Deferred.make<void>()
    const check = Effect.gen(function* () {
      if ((yield* generation.state) !== 'empty') return
      yield* Effect.logInfo('counters: Redis has lost the flood windows; rebuilding them from the ledger')
      const outcome = yield* generation.rebuild(acceptances)
      yield* Effect.logInfo('counters: the rebuild of the flood windows has ended').pipe(
        Effect.annotateLogs({ outcome }),
      )
    }).pipe(
      // The cause may contain data, so it is not logged.
      Effect.catch(() =>
        Effect.logDebug(
          'counters: the flood windows were not checked or rebuilt; the next check tries again',
        ),
      ),
      Effect.catchDefect(() =>
        Effect.logError(
          'counters: the rebuild of the flood windows ended with a defect; the next check tries again',
        ),
      ),
      Effect.ensuring(Deferred.succeed(checked, undefined)),
    )
    yield* check.pipe(Effect.andThen(Effect.sleep(CHECK_EVERY)), Effect.forever, Effect.forkScoped)
    yield* Effect.timeoutOption(Deferred.await(checked), FIRST_CHECK_WITHIN)
  })
