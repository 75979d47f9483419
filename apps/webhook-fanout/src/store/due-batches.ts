/**
 * Reads of due batches from `webhooks.batches`. The rule is the domain's (`dueAction`); the suite
 * of the store checks that these queries follow it.
 *
 * A backlog passes through here as fast as it is delivered. So rows are taken as the bytes that the
 * driver has received: a body of 100 events is delivered from there, and is neither made a string
 * nor copied.
 */
import { encodeId, retryWindowExpired } from '@hub/domain'
import { type Queries, sqlArray } from '@hub/store'
import type { Fragment } from 'postgres'
import type { Settings } from '../config.ts'
import type { BatchCursor, PendingBatch } from '../subscriptions/pending-batch.ts'
import type { DueRequest, ExpiredRequest, FoundBatches } from './store.port.ts'

/** A column as the driver has received it. */
type Cell = Buffer | null
type BatchCells = readonly [
  id: Cell,
  attempts: Cell,
  queuedAt: Cell,
  dueAt: Cell,
  firstSequence: Cell,
  redelivery: Cell,
  body: Cell,
]

const textOf = (cell: Cell): string => cell?.toString('latin1') ?? ''

/**
 * The driver receives a few bodies in one buffer. A body that is smaller than this part of its
 * buffer is copied, because it would otherwise keep the whole buffer in memory. So the memory is at
 * most three times what `bodyBytes` counts. The two or three bodies of a hundred events in a buffer
 * are delivered one after the other and need no copy.
 */
const SMALL_PART = 3

const detached = (bytes: Buffer): Buffer =>
  bytes.length * SMALL_PART < bytes.buffer.byteLength ? Buffer.from(bytes) : bytes

const numberOf = (cell: Cell): number => Number(textOf(cell))

const pendingOf = ([id, attempts, queuedAt, dueAt, , redelivery, body]: BatchCells): PendingBatch => {
  const uuid = textOf(id)
  return {
    uuid,
    id: encodeId('evb', uuid),
    attempts: numberOf(attempts),
    queuedAt: numberOf(queuedAt),
    dueAt: Math.round(numberOf(dueAt) / 1000),
    redelivery: redelivery === null ? null : textOf(redelivery),
    body: body === null ? null : detached(body),
    attempt: null,
  }
}

/** In the order of `BatchCells`. Numbers cost less to convert than dates. */
const columns = (q: Queries, body: Fragment) => q`
  id, attempts, (date_part('epoch', queued_at) * 1000)::bigint, (date_part('epoch', next_attempt_at) * 1000000)::bigint, first_sequence,
  redelivery, ${body}`

/**
 * The rows of a query, moved out of its result. The driver's query objects, and what they
 * reference, stay in memory until V8 collects the whole heap (docs/decisions/webhook-throughput.md#memory).
 */
const rowsOf = async <Row = BatchCells>(query: {
  raw(): PromiseLike<unknown>
}): Promise<ReadonlyArray<Row>> => ((await query.raw()) as Array<Row>).splice(0)

/** Where a scan continues behind these rows; `null` if they are all. */
const cursorBehind = (rows: ReadonlyArray<BatchCells>, limit: number): BatchCursor | null => {
  const last = rows.at(-1)
  return last === undefined || rows.length < limit
    ? null
    : { dueAt: numberOf(last[3]), sequence: numberOf(last[4]) }
}

/** Due batches by due time or, of a released backlog, in the order of events. */
export const selectDue = async (
  q: Queries,
  { cursor: behind, subscriptionId, limit, probe, releasedAt, withBodies, without }: DueRequest,
  now: number,
  settings: Pick<Settings, 'earlyAttempts'>,
): Promise<FoundBatches> => {
  const at = new Date(now)
  const selected = q`SELECT ${columns(q, withBodies ? q`body` : q`NULL`)} FROM webhooks.batches WHERE endpoint_id = ${subscriptionId}`
  const released = q`(next_attempt_at <= ${at}
    OR (scheduled_at < ${new Date(releasedAt ?? 0)} AND early_attempts < ${settings.earlyAttempts}))`
  if (behind !== null) {
    const rows = await rowsOf(
      releasedAt === null
        ? q`${selected} AND next_attempt_at <= ${at}
              AND (next_attempt_at, first_sequence)
                > (timestamptz 'epoch' + ${behind.dueAt}::bigint * interval '1 microsecond', ${behind.sequence}::bigint)
            ORDER BY next_attempt_at, first_sequence LIMIT ${limit}`
        : q`${selected} AND ${released} AND first_sequence > ${behind.sequence} ORDER BY first_sequence LIMIT ${limit}`,
    )
    // Hardly any of `without` lie behind the cursor, so they are not sent to PostgreSQL.
    return {
      batches: rows.map(pendingOf).filter((batch) => !without.has(batch.uuid)),
      nextDueAt: null,
      cursor: cursorBehind(rows, limit),
    }
  }
  const others = q`${selected} AND NOT (id = ANY(${sqlArray([...without])}::uuid[]))`
  const batches: Array<PendingBatch> = []
  if (releasedAt !== null && probe !== null) {
    batches.push(...(await rowsOf(q`${others} AND id = ${probe} AND ${released}`)).map(pendingOf))
  }
  const room = limit - batches.length
  const rows = await rowsOf(
    releasedAt === null
      ? q`${others} AND next_attempt_at <= ${at} ORDER BY next_attempt_at, first_sequence LIMIT ${room}`
      : q`${others} AND ${released} AND id IS DISTINCT FROM ${batches[0]?.uuid ?? null}::uuid
          ORDER BY first_sequence LIMIT ${room}`,
  )
  batches.push(...rows.map(pendingOf))
  const cursor = cursorBehind(rows, room)
  if (cursor !== null) return { batches, nextDueAt: null, cursor }
  const [next] = await q<{ at: Date | null }[]>`
    SELECT min(next_attempt_at) AS at FROM webhooks.batches
    WHERE endpoint_id = ${subscriptionId} AND next_attempt_at > ${at}`
  return { batches, nextDueAt: next?.at?.getTime() ?? null, cursor: null }
}

/** Batches of a disabled subscription whose retry window has ended at `now`. */
export const selectExpired = async (
  q: Queries,
  { subscriptionId, limit, without }: ExpiredRequest,
  now: number,
  { retryWindowMs }: Pick<Settings, 'retryWindowMs'>,
): Promise<FoundBatches> => {
  // Ordinary batches are queued in the order of their events, so the oldest ones have the lowest
  // sequence. The few batches of redeliveries are not.
  const selected = q`
    SELECT ${columns(q, q`NULL`)} FROM webhooks.batches
    WHERE endpoint_id = ${subscriptionId} AND NOT (id = ANY(${sqlArray([...without])}::uuid[]))`
  const rows = await rowsOf(q`
    (${selected} AND redelivery IS NULL ORDER BY first_sequence LIMIT ${limit})
    UNION ALL
    (${selected} AND redelivery IS NOT NULL ORDER BY queued_at LIMIT ${limit})`)
  const batches = rows.map(pendingOf)
  const isExpired = ({ queuedAt }: PendingBatch) => retryWindowExpired(queuedAt, now, retryWindowMs)
  const open = batches.filter((batch) => !isExpired(batch))
  return {
    batches: batches.filter(isExpired).slice(0, limit),
    cursor: null,
    nextDueAt: open.length === 0 ? null : Math.min(...open.map((batch) => batch.queuedAt)) + retryWindowMs,
  }
}

/** The body of a pending batch (UUID), or `null` if the batch is gone. */
export const selectBody = async (q: Queries, batch: string): Promise<Uint8Array | null> => {
  const [row] = await rowsOf<ReadonlyArray<Cell>>(q`SELECT body FROM webhooks.batches WHERE id = ${batch}`)
  const body = row?.[0] ?? null
  return body === null ? null : detached(body)
}
