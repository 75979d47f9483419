/**
 * Repeating deliveries for a period, on the request of the hub's operator. Source: specification, What the service does, and
 * Delivery of events, 10.
 *
 * A request is a row; the fan-out finds it and queues the events of the period from the journal, in batches of their own, with the
 * ids that the events have always had. The delivery log marks their attempts. They do not count for the subscription: neither do their
 * failures disable it, nor does their success send anything out.
 */
import { randomUUID } from 'node:crypto'
import { decodeId } from '@hub/domain'
import { Sql, type StorageError } from '@hub/store'
import { Data, Effect } from 'effect'

export interface RedeliveryRequest {
  /** `we_…`, of any account. */
  readonly subscription: string
  /** Of the events: recorded at or after `from` and before `until`, milliseconds since the epoch. Nothing recorded later than the
   * request is part of it: that is delivered anyway. */
  readonly from: number
  readonly until: number
}

/** How far a redelivery has got. */
export interface Redelivery {
  /** UUID: `redelivery` of the delivery log. */
  readonly id: string
  /** Queued so far. */
  readonly events: number
  readonly batches: number
  /** Queued and neither delivered nor given up. */
  readonly pending: number
  /** When the last event was queued, milliseconds since the epoch; `null`: there are more. A disabled subscription is waited for. */
  readonly finishedAt: number | null
}

/** Nothing was requested. A retry of the same is refused again. */
export class RedeliveryRefused extends Data.TaggedError('RedeliveryRefused')<{
  readonly reason: 'subscription_unknown' | 'period_empty'
}> {}

/**
 * Requests a redelivery and answers its id. Each request is one: repeating it delivers once more.
 *
 * All events of the types that the subscription asks for are part of it, also those from before it was created.
 */
export const requestRedelivery = Effect.fn('requestRedelivery')(function* ({
  from,
  subscription,
  until,
}: RedeliveryRequest): Effect.fn.Return<string, RedeliveryRefused | StorageError, Sql> {
  const sql = yield* Sql
  const endpoint = decodeId('we', subscription)
  if (endpoint === null) return yield* new RedeliveryRefused({ reason: 'subscription_unknown' })
  if (!(from < until)) return yield* new RedeliveryRefused({ reason: 'period_empty' })
  const id = randomUUID()
  const outcome = yield* sql.transaction(async (q): Promise<'requested' | RedeliveryRefused['reason']> => {
    const [found] = await q<{ account: string; mode: string; now: Date }[]>`
      SELECT account, mode, clock_timestamp() AS now FROM webhooks.endpoints
      WHERE id = ${endpoint} AND deleted_at IS NULL FOR KEY SHARE`
    if (found === undefined) return 'subscription_unknown'
    const createdFrom = new Date(from)
    const createdBefore = new Date(Math.min(until, found.now.getTime()))
    if (createdFrom >= createdBefore) return 'period_empty'
    // Moments never go back along a journal, so the period is a stretch of it. Found once: reading goes on from a place.
    await q`
      INSERT INTO webhooks.redeliveries (id, endpoint_id, created_from, created_before, after_sequence)
      VALUES (${id}, ${endpoint}, ${createdFrom}, ${createdBefore}, coalesce(
        (SELECT sequence - 1 FROM read.events
          WHERE account = ${found.account} AND mode = ${found.mode} AND created_at >= ${createdFrom}
          ORDER BY created_at, sequence LIMIT 1),
        (SELECT sequence FROM read.event_heads WHERE account = ${found.account} AND mode = ${found.mode}),
        0))`
    return 'requested'
  })
  return outcome === 'requested' ? id : yield* new RedeliveryRefused({ reason: outcome })
})

/** How far a redelivery has got, or `null` when there is none of this id. */
export const readRedelivery = Effect.fn('readRedelivery')(function* (
  id: string,
): Effect.fn.Return<Redelivery | null, StorageError, Sql> {
  const sql = yield* Sql
  const [row] = yield* sql.run(
    (q) => q<{ events: string; batches: string; pending: number; finished_at: Date | null }[]>`
      SELECT r.events, r.batches, r.finished_at,
             (SELECT count(*) FROM webhooks.batches b
               WHERE b.endpoint_id = r.endpoint_id AND b.redelivery = r.id)::integer AS pending
        FROM webhooks.redeliveries r WHERE r.id = ${id}`,
  )
  return row === undefined
    ? null
    : {
        id,
        events: Number(row.events),
        batches: Number(row.batches),
        pending: row.pending,
        finishedAt: row.finished_at?.getTime() ?? null,
      }
})
