/**
 * Test deliveries (`POST /v1/webhook_endpoints/{id}/test`). This process writes a request row; the
 * fan-out, the only app with egress to the internet, claims it and delivers. This process polls for
 * the result. Source: contract, Webhook subscription; docs/decisions/0011.
 */
import { apiError } from '@hub/contract'
import { Sql, uuidOf } from '@hub/store'
import { Clock, Duration, Effect } from 'effect'
import { freshId } from '../ids/ids.ts'
import { readDelivery } from './deliveries.ts'
import * as Endpoints from './endpoints.ts'
import * as TestDeliveries from './trials.ts'

/** The fan-out is down or overloaded when it has claimed nothing after this time. */
const CLAIM_WITHIN_MS = 5000
/** Claim, 10 s for the receiver, and recording; below the 20 s that a request may take. */
const ANSWER_WITHIN_MS = 17_000
const POLL_INTERVAL = Duration.millis(100)
const RETRY_AFTER_SECONDS = 5
const DEADLINE = { deadline: Duration.millis(1200) }

const BUSY = 'A trial delivery of this subscription is under way.'
const notDelivered = apiError('internal_error', { retryAfter: RETRY_AFTER_SECONDS })

/**
 * Makes a function that requests a test delivery for a subscription of the caller (UUID) and waits
 * for its attempt. It fails with `rate_limited` while another one is in progress, with `not_found`
 * when the subscription is deleted meanwhile, and with `internal_error` when no fan-out process
 * delivers it in time.
 */
export const makeTestDelivery = Effect.gen(function* () {
  const sql = yield* Sql

  /** Reads the request before the attempt: one transaction replaces the request by the attempt. */
  const poll = (endpoint: string, id: string) =>
    sql.run(
      async (q) => ({
        claimed: await TestDeliveries.isClaimed(q, endpoint, id),
        delivery: await readDelivery(q, endpoint, id),
      }),
      DEADLINE,
    )

  const awaitResult = Effect.fnUntraced(function* (endpoint: string, id: string, requestedAt: number) {
    for (;;) {
      yield* Effect.sleep(POLL_INTERVAL)
      const { claimed, delivery } = yield* poll(endpoint, id)
      if (delivery !== null) return delivery
      if (claimed === null) {
        const deleted = yield* sql.run((q) => Endpoints.isDeleted(q, endpoint), DEADLINE)
        return yield* deleted ? apiError('not_found') : notDelivered
      }
      const waited = (yield* Clock.currentTimeMillis) - requestedAt
      if (waited >= ANSWER_WITHIN_MS) return yield* notDelivered
      if (
        !claimed &&
        waited >= CLAIM_WITHIN_MS &&
        (yield* sql.run((q) => TestDeliveries.withdraw(q, endpoint, id), DEADLINE))
      ) {
        return yield* notDelivered
      }
    }
  })

  return Effect.fnUntraced(function* (endpoint: string) {
    const now = yield* Clock.currentTimeMillis
    const id = uuidOf('whd', freshId('whd', now))
    if (!(yield* sql.run((q) => TestDeliveries.request(q, endpoint, id), DEADLINE))) {
      return yield* apiError('rate_limited', { message: BUSY, retryAfter: 1 })
    }
    return yield* awaitResult(endpoint, id, now)
  })
})
