/**
 * `webhooks.batches`: webhook batches that wait for their delivery. A batch that has ended is deleted.
 * Owner: webhook-fanout. All ids here are UUIDs.
 */
import { firstRow, type Queries } from '../../sql.ts'

/** What waits for a subscription. */
export interface Backlog {
  readonly subscriptionId: string
  /** Batches, counted up to `MOST_COUNTED`. */
  readonly batches: number
  /** When the first of them was queued, and when it is attempted next. */
  readonly oldest_at: Date
  readonly next_attempt_at: Date
}

/** More batches are shown as this number: counting them all would take long. */
export const MOST_COUNTED = 10_000

/** The backlogs of subscriptions, without those that have none. */
export const readBacklogs = async (
  q: Queries,
  subscriptionIds: ReadonlyArray<string>,
): Promise<ReadonlyArray<Backlog>> =>
  q<Backlog[]>`
    SELECT e.id AS "subscriptionId", first.queued_at AS oldest_at, first.next_attempt_at,
           (SELECT count(*)::integer FROM (
              SELECT 1 FROM webhooks.batches b WHERE b.endpoint_id = e.id LIMIT ${MOST_COUNTED}) AS counted) AS batches
      FROM unnest(${[...subscriptionIds]}::uuid[]) AS e (id)
     CROSS JOIN LATERAL (
           SELECT queued_at, next_attempt_at FROM webhooks.batches b
            WHERE b.endpoint_id = e.id ORDER BY b.first_sequence LIMIT 1) AS first`

/** The body of a waiting batch, byte for byte; `null`: it has ended, or there is none. */
export const readBody = async (q: Queries, subscriptionId: string, batch: string): Promise<string | null> => {
  const row = await firstRow(q<{ body: string }[]>`
    SELECT body FROM webhooks.batches WHERE id = ${batch} AND endpoint_id = ${subscriptionId}`)
  return row?.body ?? null
}
