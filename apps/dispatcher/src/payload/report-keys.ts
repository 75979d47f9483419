/**
 * The keys that encrypt reports and inbound messages, one for each share of the recipients, so that
 * an erasure can destroy one of them (docs/decisions/erasure.md). Only the first report waits for
 * PostgreSQL.
 */
import { PayloadEncryption, type PayloadKey, recipientShareOf } from '@hub/store'
import { Clock, Effect, FiberSet, type Scope } from 'effect'

/** Returns the current key of each recipient hash. Only the first fetch can fail. */
export const makeReportKeys = Effect.gen(function* () {
  const payloadEncryption = yield* PayloadEncryption
  const fork = yield* FiberSet.makeRuntime<never>()
  let keys: ReadonlyArray<PayloadKey> = []
  let fetching = false

  const fetch = Effect.tap(payloadEncryption.recipientShareKeys, (next) =>
    Effect.sync(() => {
      keys = next
    }),
  )
  const fetchInBackground = fetch.pipe(
    Effect.catch((error) => Effect.logDebug('dispatcher: no new report keys; using the old ones', error)),
    Effect.ensuring(
      Effect.sync(() => {
        fetching = false
      }),
    ),
  )

  const keyOf = (recipient: string): PayloadKey => {
    const key = keys[recipientShareOf(recipient)]
    if (key === undefined) throw new RangeError('A recipient hash must have 64 hexadecimal digits.')
    return key
  }

  return Effect.gen(function* () {
    const [first] = keys
    if (first === undefined) yield* fetch
    else if (!fetching && (yield* Clock.currentTimeMillis) >= first.usableUntil) {
      fetching = true
      fork(fetchInBackground)
    }
    return keyOf
  })
}) satisfies Effect.Effect<unknown, never, PayloadEncryption | Scope.Scope>
