/**
 * The key that reports and inbound messages are sealed with. Once there is one, no report waits for PostgreSQL: the next key is fetched
 * beside the work, and the old one serves until it has come. What is sealed with it then lives a little shorter.
 */
import { Sealing, type SealingKey } from '@hub/store'
import { Clock, Effect, FiberSet, type Scope } from 'effect'

/** Gives the key for now; fails only while there has never been one. */
export const makeReportKey = Effect.gen(function* () {
  const sealing = yield* Sealing
  const fork = yield* FiberSet.makeRuntime<never>()
  let key: SealingKey | null = null
  let fetching = false

  const fetch = Effect.tap(sealing.current('report'), (next) =>
    Effect.sync(() => {
      key = next
    }),
  )
  const fetchBeside = fetch.pipe(
    Effect.catch((error) => Effect.logDebug('the next key for reports is not there yet', error)),
    Effect.ensuring(
      Effect.sync(() => {
        fetching = false
      }),
    ),
  )

  return Effect.gen(function* () {
    if (key === null) return yield* fetch
    if (!fetching && (yield* Clock.currentTimeMillis) >= key.usableUntil) {
      fetching = true
      fork(fetchBeside)
    }
    return key
  })
}) satisfies Effect.Effect<unknown, never, Sealing | Scope.Scope>
