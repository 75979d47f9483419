/**
 * A trial delivery: asked for here, made by the fan-out, which alone has a way out of the network. Source: contract, Webhook
 * subscription; docs/decisions/0011.
 */
import { type ApiError, apiError, type WebhookDelivery } from '@hub/contract'
import { decodeId } from '@hub/domain'
import { Sql, type StorageError } from '@hub/store'
import { Clock, Duration, Effect } from 'effect'
import type { MakeId } from '../ids.ts'
import { readDelivery } from './deliveries.ts'

/** Nobody took it: the fan-out does not run, or has its hands full. */
const CLAIMED_WITHIN_MS = 5000
/** Claim, ten seconds for the receiver, and recording; below the 20 s that a request has. */
const ANSWERED_WITHIN_MS = 17_000
/** A trial that nobody will answer any more stands in nobody's way. */
const ABANDONED_SECONDS = 20
const LOOK_EVERY = Duration.millis(100)
const RETRY_AFTER_SECONDS = 5
const DEADLINE = { deadline: Duration.millis(1200) }

const BUSY = 'A trial delivery of this subscription is under way.'
const notMade = apiError('internal_error', { retryAfter: RETRY_AFTER_SECONDS })

export interface Trials {
  /**
   * Makes one for a subscription of the caller's (UUID) and answers with the attempt. Fails with `rate_limited` while another is under
   * way, with `not_found` when the subscription is deleted meanwhile, with `internal_error` when nobody could make it.
   */
  readonly make: (endpoint: string) => Effect.Effect<WebhookDelivery, ApiError | StorageError>
}

export const makeTrials = Effect.fnUntraced(function* (
  makeAttemptId: MakeId,
): Effect.fn.Return<Trials, never, Sql> {
  const sql = yield* Sql

  const ask = (endpoint: string, id: string) =>
    sql.run(async (q) => {
      const rows = await q`
        INSERT INTO webhooks.trials AS t (endpoint_id, id) VALUES (${endpoint}, ${id})
        ON CONFLICT (endpoint_id) DO UPDATE SET id = excluded.id, requested_at = now(), claimed_at = NULL
          WHERE t.requested_at < now() - make_interval(secs => ${ABANDONED_SECONDS})
        RETURNING id`
      return rows.length === 1
    }, DEADLINE)

  /** In this order: a trial goes in the transaction that records its attempt. */
  const look = (endpoint: string, id: string) =>
    sql.run(async (q) => {
      const [trial] = await q<{ claimed: boolean }[]>`
        SELECT claimed_at IS NOT NULL AS claimed FROM webhooks.trials WHERE endpoint_id = ${endpoint} AND id = ${id}`
      return { trial: trial ?? null, made: await readDelivery(q, endpoint, id) }
    }, DEADLINE)

  /** True when it was still there, and nobody had taken it. */
  const takeBack = (endpoint: string, id: string) =>
    sql.run(async (q) => {
      const gone = await q`
        DELETE FROM webhooks.trials WHERE endpoint_id = ${endpoint} AND id = ${id} AND claimed_at IS NULL`
      return gone.count === 1
    }, DEADLINE)

  const isDeleted = (endpoint: string) =>
    sql.run(async (q) => {
      const alive = await q`SELECT 1 FROM webhooks.endpoints WHERE id = ${endpoint} AND deleted_at IS NULL`
      return alive.length === 0
    }, DEADLINE)

  const outcome = Effect.fnUntraced(function* (endpoint: string, id: string, askedAt: number) {
    for (;;) {
      yield* Effect.sleep(LOOK_EVERY)
      const { made, trial } = yield* look(endpoint, id)
      if (made !== null) return made
      const waited = (yield* Clock.currentTimeMillis) - askedAt
      if (trial === null) return yield* (yield* isDeleted(endpoint)) ? apiError('not_found') : notMade
      if (waited >= ANSWERED_WITHIN_MS) return yield* notMade
      if (!trial.claimed && waited >= CLAIMED_WITHIN_MS && (yield* takeBack(endpoint, id)))
        return yield* notMade
    }
  })

  return {
    make: Effect.fnUntraced(function* (endpoint) {
      const now = yield* Clock.currentTimeMillis
      const id = decodeId('whd', makeAttemptId(now)) ?? ''
      if (!(yield* ask(endpoint, id))) {
        return yield* apiError('rate_limited', { message: BUSY, retryAfter: 1 })
      }
      return yield* outcome(endpoint, id, now)
    }),
  }
})
