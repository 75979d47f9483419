/**
 * The keys that reports and inbound messages are sealed with, one for each share of the recipients, so that one of them can be forgotten
 * (docs/decisions/0019). Once they are there, no report waits for PostgreSQL: the next ones are fetched beside the work, and the old ones
 * serve until they have come. What is sealed with them then lives a little shorter.
 */
import { PayloadEncryption, type PayloadKey, recipientShareOf } from '@hub/store'
import { Clock, Effect, FiberSet, type Scope } from 'effect'

/** Gives the keys for now, by recipient hash; fails only while there have never been any. */
export const makeReportKey = Effect.gen(function* () {
  const payloadEncryption = yield* PayloadEncryption
  const fork = yield* FiberSet.makeRuntime<never>()
  let keys: ReadonlyArray<PayloadKey> = []
  let fetching = false

  const fetch = Effect.tap(payloadEncryption.recipientShareKeys, (next) =>
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

  const keyOf = (recipient: string): PayloadKey => {
    const key = keys[recipientShareOf(recipient)]
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
}) satisfies Effect.Effect<unknown, never, PayloadEncryption | Scope.Scope>
