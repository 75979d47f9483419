/**
 * `webhooks.attempts`: the delivery log, one row for each attempt, in monthly partitions. Its rows
 * are read together with `webhooks.batch_events`, the events of each webhook batch.
 *
 * The log of a deleted subscription stays for its three years. Clients cannot read it, and hub staff
 * can.
 *
 * Owner of both: webhook-fanout, which records each attempt. All ids here are UUIDs.
 */
import { encodeId, toTimestamp } from '@hub/domain'
import { firstRow, type Queries } from '../../sql.ts'
import { uuidFloor } from '../../uuid.ts'

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
  readonly resend: boolean
  readonly created_at: Date
  readonly next_attempt_at: Date | null
}

/** What clients and staff see of an attempt. Source: SUB-28. */
export const toDelivery = (row: Attempt) => ({
  id: encodeId('whd', row.id),
  object: 'webhook_delivery' as const,
  event_batch: encodeId('evb', row.batch_id),
  event_ids: row.event_ids.map((id) => encodeId('evt', id)),
  attempt: row.attempt,
  status: row.status,
  response_code: row.response_code,
  duration_ms: row.duration_ms,
  reason: row.reason,
  trial: row.trial,
  redelivery: row.redelivery,
  resend: row.resend,
  created_at: toTimestamp(row.created_at.getTime()),
  next_attempt_at: row.next_attempt_at === null ? null : toTimestamp(row.next_attempt_at.getTime()),
})

const columns = (q: Queries) => q`
  a.id, a.batch_id, a.attempt, a.status, a.response_code, a.duration_ms, a.reason, a.trial, a.redelivery IS NOT NULL AS redelivery,
  a.resend_of IS NOT NULL AS resend,
  a.created_at, a.next_attempt_at,
  ARRAY(SELECT b.event_id FROM webhooks.batch_events b WHERE b.batch_id = a.batch_id AND b.endpoint_id = a.endpoint_id
         ORDER BY b.position) AS event_ids`

/** Only attempts of this period are shown. Source: RET-6. */
const visible = (q: Queries) => q`a.created_at > now() - interval '3 years'`

/** One attempt of a subscription, `null` without a row. */
export const read = async (q: Queries, subscriptionId: string, attempt: string): Promise<Attempt | null> =>
  firstRow(q<Attempt[]>`
    SELECT ${columns(q)} FROM webhooks.attempts a WHERE a.id = ${attempt} AND a.endpoint_id = ${subscriptionId}`)

/** The subscription of an attempt, whichever it is; `null` without a row. */
export const findSubscription = async (q: Queries, attempt: string): Promise<string | null> => {
  // The log has no index by attempt alone, and few subscriptions.
  const row = await firstRow(q<{ subscriptionId: string }[]>`
    SELECT e.id AS "subscriptionId" FROM webhooks.endpoints e
     CROSS JOIN LATERAL (
           SELECT 1 FROM webhooks.attempts a WHERE a.endpoint_id = e.id AND a.id = ${attempt} AND ${visible(q)} LIMIT 1) AS found
     LIMIT 1`)
  return row?.subscriptionId ?? null
}

/** The events of a webhook batch, in its order, with its subscription; empty: there is no such batch. */
export const readBatchEvents = async (
  q: Queries,
  batch: string,
): Promise<ReadonlyArray<{ readonly subscriptionId: string; readonly event: string }>> =>
  q<{ subscriptionId: string; event: string }[]>`
    SELECT endpoint_id AS "subscriptionId", event_id AS event FROM webhooks.batch_events
     WHERE batch_id = ${batch} ORDER BY position`

/** The newest attempts at a batch of a subscription. */
export const readOfBatch = async (
  q: Queries,
  subscriptionId: string,
  batch: string,
  limit: number,
): Promise<ReadonlyArray<Attempt>> =>
  q<Attempt[]>`
    SELECT ${columns(q)} FROM webhooks.attempts a
     WHERE a.batch_id = ${batch} AND a.endpoint_id = ${subscriptionId} AND ${visible(q)}
     ORDER BY a.id DESC LIMIT ${limit}`

/** Which attempts to read. `null`: no restriction. */
export interface AttemptFilter {
  readonly status: Attempt['status'] | null
  /** Attempts at batches with this event. */
  readonly event: string | null
  /** Milliseconds since the epoch, exclusive. */
  readonly createdAfter: number | null
  readonly createdBefore: number | null
}

export const ALL_ATTEMPTS: AttemptFilter = {
  status: null,
  event: null,
  createdAfter: null,
  createdBefore: null,
}

/**
 * The id of an attempt contains the time at which it was begun or requested, so a range of times is
 * a range of ids. A request is at most so much older than its attempt, ms; clocks of processes
 * differ by less.
 */
const ID_TIME_SLACK_MS = 60_000

const batchesOf = (q: Queries, subscriptionId: string, event: string) => q`
  SELECT b.batch_id FROM webhooks.batch_events b
   WHERE b.endpoint_id = ${subscriptionId} AND b.event_id = ${event} AND b.redelivery IS NULL
  UNION ALL
  SELECT b.batch_id FROM webhooks.redeliveries r
    JOIN webhooks.batch_events b ON b.redelivery = r.id AND b.event_id = ${event}
   WHERE r.endpoint_id = ${subscriptionId}`

/** PostgreSQL refuses the year 0, and no attempt is older than the epoch. */
const dateOf = (at: number): Date => new Date(Math.max(0, at))

const matches = (q: Queries, subscriptionId: string, filter: AttemptFilter) => {
  const { createdAfter, createdBefore, event, status } = filter
  const after =
    createdAfter === null
      ? q``
      : q`AND a.created_at > ${dateOf(createdAfter)} AND a.id >= ${uuidFloor(createdAfter - ID_TIME_SLACK_MS)}`
  const before =
    createdBefore === null
      ? q``
      : q`AND a.created_at < ${dateOf(createdBefore)} AND a.id < ${uuidFloor(createdBefore + ID_TIME_SLACK_MS)}`
  return q`${after} ${before}
    ${status === null ? q`` : status === 'failed' ? q`AND a.status = 'failed'` : q`AND a.status = 'succeeded'`}
    ${event === null ? q`` : q`AND a.batch_id IN (${batchesOf(q, subscriptionId, event)})`}`
}

/**
 * The newest `limit` matching attempts of a subscription, also of a deleted one, before the attempt
 * `below`; `null` if `below` is none of its attempts.
 */
export const readPage = async (
  q: Queries,
  subscriptionId: string,
  filter: AttemptFilter,
  below: string | null,
  limit: number,
): Promise<ReadonlyArray<Attempt> | null> => {
  if (below !== null) {
    const known = await q`
      SELECT 1 FROM webhooks.attempts a WHERE a.id = ${below} AND a.endpoint_id = ${subscriptionId} AND ${visible(q)}`
    if (known.length === 0) return null
  }
  return q<Attempt[]>`
    SELECT ${columns(q)} FROM webhooks.attempts a
     WHERE a.endpoint_id = ${subscriptionId} AND ${visible(q)} ${below === null ? q`` : q`AND a.id < ${below}`}
           ${matches(q, subscriptionId, filter)}
     ORDER BY a.id DESC LIMIT ${limit}`
}

/** Attempts that a page of a search by response code looks at. */
const EXAMINED = 5000

/** A filter of hub staff. */
interface AttemptSearch extends AttemptFilter {
  readonly responseCode: number | null
}

/**
 * A page of the newest attempts of a subscription, also of a deleted one, below an attempt. With a
 * response code it looks at a limited number of attempts: `next` is then the last of them. `null`:
 * there are no more.
 */
export const findPage = async (
  q: Queries,
  subscriptionId: string,
  { responseCode, ...filter }: AttemptSearch,
  below: string | null,
  limit: number,
): Promise<{ readonly rows: ReadonlyArray<Attempt>; readonly next: string | null }> => {
  const newest = (most: number) => q`
    SELECT * FROM webhooks.attempts a
     WHERE a.endpoint_id = ${subscriptionId} AND ${visible(q)} ${below === null ? q`` : q`AND a.id < ${below}`}
           ${matches(q, subscriptionId, filter)}
     ORDER BY a.id DESC LIMIT ${most}`
  const found = await q<Attempt[]>`
    SELECT ${columns(q)} FROM (${newest(responseCode === null ? limit + 1 : EXAMINED)}) AS a
     ${responseCode === null ? q`` : q`WHERE a.response_code = ${responseCode}`}
     ORDER BY a.id DESC LIMIT ${limit + 1}`
  const rows = found.slice(0, limit)
  if (found.length > limit) return { rows, next: rows.at(-1)?.id ?? null }
  if (responseCode === null) return { rows, next: null }
  const [last] = await q<{ id: string }[]>`
    SELECT id FROM (${newest(EXAMINED)}) AS a ORDER BY id DESC OFFSET ${EXAMINED - 1} LIMIT 1`
  return { rows, next: last?.id ?? null }
}
