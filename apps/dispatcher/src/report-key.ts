/**
 * The keys that reports and inbound messages are sealed with, one for each share of the recipients, so that one of them can be forgotten
 * (docs/decisions/0019). Once they are there, no report waits for PostgreSQL: the next ones are fetched beside the work, and the old ones
 * serve until they have come. What is sealed with them then lives a little shorter.
 */
import { Sealing, type SealingKey, shareOf } from '@hub/store'
import { Clock, Effect, FiberSet, type Scope } from 'effect'

/** Gives the keys for now, by recipient hash; fails only while there have never been any. */
export const makeReportKey = Effect.gen(function* () {
  const sealing = yield* Sealing
  const fork = yield* FiberSet.makeRuntime<never>()
  let keys: ReadonlyArray<SealingKey> = []
  let fetching = false

  const fetch = Effect.tap(sealing.ofShares, (next) =>
    Effect.sync(() => {
      keys = next
    }),
  )
  const fetchBeside = fetch.pipe(
    Effect.catch((error) => Effect.logDebug('the next keys for reports are not there yet', error)),
    Effect.ensuring(
      Effect.sync(() => {
        fetching = false
      }),
    ),
  )

  const keyOf = (recipient: string): SealingKey => {
    const key = keys[shareOf(recipient)]
    if (key === undefined) throw new RangeError('a recipient hash has 64 hexadecimal digits')
    return key
  }

  return Effect.gen(function* () {
    const [first] = keys
    if (first === undefined) yield* fetch
    else if (!fetching && (yield* Clock.currentTimeMillis) >= first.usableUntil) {
      fetching = true
      fork(fetchBeside)
    }
    return keyOf
  })
}) satisfies Effect.Effect<unknown, never, Sealing | Scope.Scope>
