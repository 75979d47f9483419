/**
 * Waits for a delivery on demand (a test delivery or a resend). The caller has inserted a request
 * row; the fan-out, the only app with egress to the internet, takes it, makes the attempt, and
 * replaces the row by the attempt in the delivery log.
 */
import { type Queries, Sql, type StorageError, WebhooksAttempts, WebhooksEndpoints } from '@hub/store'
import { Clock, Data, Duration, Effect } from 'effect'

/** The fan-out is down or overloaded when it has not taken the request after this time. */
const TAKE_WITHIN_MS = 5000
/** Taking the request, 10 s for the receiver, and recording; below the 20 s that a request may take. */
const ANSWER_WITHIN_MS = 17_000
const POLL_INTERVAL = Duration.millis(100)
/** The deadline of a statement. */
const DEADLINE = { deadline: Duration.millis(1200) }

/**
 * No attempt is in the delivery log. `unavailable`: no process of the fan-out made one in time; a
 * retry may succeed. `deleted`: the subscription was deleted meanwhile.
 */
export class NotDelivered extends Data.TaggedError('NotDelivered')<{
  readonly reason: 'unavailable' | 'deleted'
}> {}

interface OnDemandRequest {
  /** UUID of the subscription. */
  readonly subscriptionId: string
  /** UUID of the attempt that the request becomes. */
  readonly id: string
  /** Milliseconds since the epoch. */
  readonly requestedAt: number
  /** Whether the fan-out has taken the request; `null` when its row is gone. */
  readonly isTaken: (q: Queries) => Promise<boolean | null>
  /** Withdraws the request; false when it is taken or gone. */
  readonly withdraw: (q: Queries) => Promise<boolean>
}

const pollForAttempt = Effect.fnUntraced(function* (
  request: OnDemandRequest,
): Effect.fn.Return<WebhooksAttempts.Attempt, NotDelivered | StorageError, Sql> {
  const { subscriptionId, id, isTaken, requestedAt, withdraw } = request
  const sql = yield* Sql
  for (;;) {
    yield* Effect.sleep(POLL_INTERVAL)
    // The request is read before the attempt: one transaction replaces the request by the attempt.
    const { attempt, taken } = yield* sql.run(
      async (q) => ({
        taken: await isTaken(q),
        attempt: await WebhooksAttempts.read(q, subscriptionId, id),
      }),
      DEADLINE,
    )
    if (attempt !== null) return attempt
    if (taken === null) {
      const exists = yield* sql.run((q) => WebhooksEndpoints.exists(q, subscriptionId), DEADLINE)
      return yield* new NotDelivered({ reason: exists ? 'unavailable' : 'deleted' })
    }
    const waited = (yield* Clock.currentTimeMillis) - requestedAt
    const gaveUp = !taken && waited >= TAKE_WITHIN_MS && (yield* sql.run(withdraw, DEADLINE))
    if (gaveUp || waited >= ANSWER_WITHIN_MS) return yield* new NotDelivered({ reason: 'unavailable' })
  }
})

/**
 * The attempt of a request, when the fan-out has made and recorded it. Without an attempt, also when
 * the client disconnects, the request is withdrawn unless the fan-out has taken it. Call it in the
 * same uninterruptible region as the insert: only the wait can be interrupted.
 */
export const awaitOnDemand = (
  request: OnDemandRequest,
): Effect.Effect<WebhooksAttempts.Attempt, NotDelivered | StorageError, Sql> =>
  Effect.interruptible(pollForAttempt(request)).pipe(
    Effect.onError(() =>
      Effect.flatMap(Sql, (sql) => Effect.ignore(sql.run((q) => request.withdraw(q), DEADLINE))),
    ),
  )
