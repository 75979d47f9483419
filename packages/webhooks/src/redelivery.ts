/**
 * Redeliveries: the hub's staff has the events of a period, or one event, delivered again. Source: DEL-24.
 *
 * A request is a row. The fan-out finds it and stores the events, from the journal
 * and with their ids, in separate batches. The delivery log marks their attempts. They do not
 * change the endpoint health: their failures do not disable the subscription, and their successes
 * do not release a backlog.
 */
import { randomUUID } from 'node:crypto'
import { decodeId } from '@hub/domain'
import { Sql, storageCrashPoint, type StorageError } from '@hub/store'
import { Data, Effect } from 'effect'

interface RedeliveryRequest {
  /** `we_…`, of any account. */
  readonly subscription: string
  /**
   * Events recorded at or after `from` and before `until`, milliseconds since the epoch. Events
   * recorded after the request are not part of it, because they are delivered anyway.
   */
  readonly from: number
  readonly until: number
}

/** The progress of a redelivery. */
interface Redelivery {
  /** UUID: `redelivery` of the delivery log. */
  readonly id: string
  /** Stored in batches so far. */
  readonly events: number
  readonly batches: number
  /** Batches that are neither delivered nor failed. */
  readonly pending: number
  /** When the last event was stored in a batch, ms since the epoch; `null`: not yet. */
  readonly finishedAt: number | null
}

const atRequested = storageCrashPoint('hubctl.redelivery-requested')

/** The request is invalid, and nothing was stored. A retry is refused again. */
export class RedeliveryRefused extends Data.TaggedError('RedeliveryRefused')<{
  readonly reason: 'subscription_unknown' | 'period_empty'
}> {}

/**
 * Requests a redelivery and returns its id. A repeated request delivers the events once more.
 *
 * It contains all events with the types of the subscription, also those from before the
 * subscription was created.
 */
export const requestRedelivery = Effect.fn('requestRedelivery')(function* ({
  from,
  subscription,
  until,
}: RedeliveryRequest): Effect.fn.Return<string, RedeliveryRefused | StorageError, Sql> {
  const sql = yield* Sql
  const subscriptionId = decodeId('we', subscription)
  if (subscriptionId === null) return yield* new RedeliveryRefused({ reason: 'subscription_unknown' })
  if (!(from < until)) return yield* new RedeliveryRefused({ reason: 'period_empty' })
  const id = randomUUID()
  const outcome = yield* sql
    .transaction(async (q): Promise<'requested' | RedeliveryRefused['reason']> => {
      const [found] = await q<{ account: string; mode: string; now: Date }[]>`
      SELECT account, mode, clock_timestamp() AS now FROM webhooks.endpoints
      WHERE id = ${subscriptionId} AND deleted_at IS NULL FOR KEY SHARE`
      if (found === undefined) return 'subscription_unknown'
      const createdFrom = new Date(from)
      const createdBefore = new Date(Math.min(until, found.now.getTime()))
      if (createdFrom >= createdBefore) return 'period_empty'
      // Times never decrease along a journal, so a period is a range of sequence numbers.
      await q`
      INSERT INTO webhooks.redeliveries (id, endpoint_id, created_from, created_before, after_sequence)
      VALUES (${id}, ${subscriptionId}, ${createdFrom}, ${createdBefore},
              coalesce(read.sequence_before(${found.account}, ${found.mode}, ${new Date(from - 1)}), 0))`
      return 'requested'
    })
    .pipe(atRequested)
  return outcome === 'requested' ? id : yield* new RedeliveryRefused({ reason: outcome })
})

/** The event cannot be delivered again. A retry is refused again. */
export class EventRedeliveryRefused extends Data.TaggedError('EventRedeliveryRefused')<{
  readonly reason: 'subscription_unknown' | 'event_unknown' | 'type_not_wanted'
}> {}

/**
 * Requests a redelivery of one event (`evt_…`) and returns its id. The event comes in a batch of its own
 * with a new id, because a receiver may drop a batch that it has seen. A repeat delivers it once more.
 */
export const requestEventRedelivery = Effect.fn('requestEventRedelivery')(function* ({
  event,
  subscription,
}: {
  /** `we_…`, of any account. */
  readonly subscription: string
  readonly event: string
}): Effect.fn.Return<string, EventRedeliveryRefused | StorageError, Sql> {
  const sql = yield* Sql
  const subscriptionId = decodeId('we', subscription)
  if (subscriptionId === null) return yield* new EventRedeliveryRefused({ reason: 'subscription_unknown' })
  const uuid = decodeId('evt', event)
  if (uuid === null) return yield* new EventRedeliveryRefused({ reason: 'event_unknown' })
  const id = randomUUID()
  const outcome = yield* sql
    .transaction(async (q): Promise<'requested' | EventRedeliveryRefused['reason']> => {
      const [found] = await q<{ account: string; mode: string; event_types: ReadonlyArray<string> }[]>`
      SELECT account, mode, event_types FROM webhooks.endpoints
      WHERE id = ${subscriptionId} AND deleted_at IS NULL FOR KEY SHARE`
      if (found === undefined) return 'subscription_unknown'
      const { account, event_types, mode } = found
      const [row] = await q<{ type: string }[]>`
      SELECT type FROM read.event_journal WHERE id = ${uuid} AND account = ${account} AND mode = ${mode}`
      if (row === undefined) return 'event_unknown'
      if (event_types.length > 0 && !event_types.includes(row.type)) return 'type_not_wanted'
      await q`
      INSERT INTO webhooks.redeliveries (id, endpoint_id, created_from, created_before, after_sequence, event_id)
      SELECT ${id}, ${subscriptionId}, created_at, created_at + interval '1 millisecond', sequence - 1, id
        FROM read.event_journal WHERE id = ${uuid} AND account = ${account} AND mode = ${mode}`
      return 'requested'
    })
    .pipe(atRequested)
  return outcome === 'requested' ? id : yield* new EventRedeliveryRefused({ reason: outcome })
})

/** The progress of a redelivery (UUID); `null`: there is none with this id. */
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
