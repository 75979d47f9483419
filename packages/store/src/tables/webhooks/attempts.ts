/**
 * `webhooks.attempts`: the delivery log, one row for each attempt, in monthly partitions. Its rows
 * are read together with `webhooks.batch_events`, the events of each webhook batch.
 *
 * Owner of both: webhook-fanout, which records each attempt. All ids here are UUIDs.
 */
import type { Queries } from '../../pool.ts'

export interface Attempt {
  readonly id: string
  readonly batch_id: string
  /** In the order of the batch. */
  readonly event_ids: ReadonlyArray<string>
  readonly attempt: number
  readonly status: 'succeeded' | 'failed'
  readonly response_code: number | null
  readonly duration_ms: number
  readonly reason: string | null
  /** True for a test delivery. */
  readonly trial: boolean
  readonly redelivery: boolean
  readonly created_at: Date
  readonly next_attempt_at: Date | null
}

const columns = (q: Queries) => q`
  a.id, a.batch_id, a.attempt, a.status, a.response_code, a.duration_ms, a.reason, a.trial, a.redelivery IS NOT NULL AS redelivery,
  a.created_at, a.next_attempt_at,
  ARRAY(SELECT b.event_id FROM webhooks.batch_events b WHERE b.batch_id = a.batch_id AND b.endpoint_id = a.endpoint_id
         ORDER BY b.position) AS event_ids`

/** Only attempts of this period are shown. Specification, Retention. */
const visible = (q: Queries) => q`a.created_at > now() - interval '3 years'`

/** One attempt of an endpoint, `null` without a row. */
export const read = async (q: Queries, endpoint: string, attempt: string): Promise<Attempt | null> => {
  const [row] = await q<Attempt[]>`
    SELECT ${columns(q)} FROM webhooks.attempts a WHERE a.id = ${attempt} AND a.endpoint_id = ${endpoint}`
  return row ?? null
}

/** The newest `limit` attempts of an endpoint before `below`; `null` if `below` is none of them. */
export const readPage = async (
  q: Queries,
  endpoint: string,
  below: string | null,
  limit: number,
): Promise<ReadonlyArray<Attempt> | null> => {
  if (below !== null) {
    const known = await q`
      SELECT 1 FROM webhooks.attempts a WHERE a.id = ${below} AND a.endpoint_id = ${endpoint} AND ${visible(q)}`
    if (known.length === 0) return null
  }
  return q<Attempt[]>`
    SELECT ${columns(q)} FROM webhooks.attempts a
     WHERE a.endpoint_id = ${endpoint} AND ${visible(q)} ${below === null ? q`` : q`AND a.id < ${below}`}
     ORDER BY a.id DESC LIMIT ${limit}`
}
