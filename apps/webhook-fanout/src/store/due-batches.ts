/**
 * The SQL that finds what is due. The rule is the domain's (`dueFor`), to which these queries are held by the test of the store.
 *
 * A backlog goes through here as fast as it is delivered, so rows are taken as the bytes that the driver has received: a body of 100
 * events is delivered from there, and is neither made a string nor copied.
 */
import { encodeId } from '@hub/domain'
import { type Queries, sqlArray } from '@hub/store'
import type { Fragment } from 'postgres'
import type { Settings } from '../config.ts'
import type { PendingBatch } from '../subscriptions/subscription.ts'

/** A place among the batches of a subscription, for the reading that goes on behind it. */
export interface Place {
  /** When its batch is due, microseconds since the epoch, as exactly as PostgreSQL knows it. */
  readonly dueAt: number
  /** Where its batch begins in the journal. */
  readonly sequence: number
}

/** `nextDueAt` is there when the batches are all that are due now: when the next one is, milliseconds since the epoch. */
export interface FoundBatches {
  readonly batches: ReadonlyArray<PendingBatch>
  readonly nextDueAt: number | null
  /** Of the last batch, where there may be more behind it. */
  readonly place: Place | null
}

export interface DueRequest {
  /** UUID. */
  readonly endpoint: string
  /** Batches scheduled before this moment are due, milliseconds since the epoch; `null`: each by its own schedule. */
  readonly releasedAt: number | null
  /** The one (UUID) that goes before the rest of a released backlog. */
  readonly first: string | null
  /**
   * Only what lies behind this is read: entries of an index that lead to what was deleted before it, of which a backlog leaves
   * many, are not met again. `null`: everything.
   */
  readonly behind: Place | null
  /** UUIDs. */
  readonly without: ReadonlySet<string>
  readonly limit: number
  readonly withBodies: boolean
}

export interface ExpiredRequest {
  readonly endpoint: string
  /** UUIDs. */
  readonly without: ReadonlySet<string>
  readonly limit: number
}

/** What a column holds, as the driver has received it. */
type Cell = Buffer | null
type BatchCells = readonly [
  id: Cell,
  attempts: Cell,
  queuedAt: Cell,
  nextAttemptAt: Cell,
  firstSequence: Cell,
  redelivery: Cell,
  body: Cell,
]

const textOf = (cell: Cell): string => cell?.toString('latin1') ?? ''

/**
 * What is smaller than this part of its piece is copied. A piece that was received has two or three bodies of a hundred events, which are
 * delivered one after the other and need no copies; what is kept is at most so many times what `bodyBytes` counts.
 */
const SMALL_PART = 3

/**
 * Bytes that may be kept. They lie in what came from the socket in one piece: where they are a small part of that, they are copied, so that
 * they do not keep all of it.
 */
const kept = (bytes: Buffer): Buffer =>
  bytes.length * SMALL_PART < bytes.buffer.byteLength ? Buffer.from(bytes) : bytes

const numberOf = (cell: Cell): number => Number(textOf(cell))

const pendingOf = ([id, attempts, queuedAt, nextAttemptAt, , redelivery, body]: BatchCells): PendingBatch => {
  const uuid = textOf(id)
  return {
    uuid,
    id: encodeId('evb', uuid),
    attempts: numberOf(attempts),
    queuedAt: numberOf(queuedAt),
    nextAttemptAt: Math.round(numberOf(nextAttemptAt) / 1000),
    redelivery: redelivery === null ? null : textOf(redelivery),
    body: body === null ? null : kept(body),
    begun: null,
  }
}

/** In the order of `BatchCells`; moments as numbers, which cost less to write and to read than dates: milliseconds, and microseconds. */
const columns = (q: Queries, body: Fragment) => q`
  id, attempts, (date_part('epoch', queued_at) * 1000)::bigint, (date_part('epoch', next_attempt_at) * 1000000)::bigint, first_sequence,
  redelivery, ${body}`

/**
 * The rows of a query, taken out of its result: the driver's queries, and what they hold, stay until V8 collects the whole heap
 * (docs/decisions/0027).
 */
const found = async <Row = BatchCells>(query: { raw(): PromiseLike<unknown> }): Promise<ReadonlyArray<Row>> =>
  ((await query.raw()) as Array<Row>).splice(0)

/** Where reading goes on behind these rows; `null` when they are all there was. */
const placeBehind = (rows: ReadonlyArray<BatchCells>, limit: number): Place | null => {
  const last = rows.at(-1)
  return last === undefined || rows.length < limit
    ? null
    : { dueAt: numberOf(last[3]), sequence: numberOf(last[4]) }
}

/** What is due at `now`: in order of its time, or, of a released backlog, in the order of its events. */
export const dueBatches = async (
  q: Queries,
  { behind, endpoint, first, limit, releasedAt, withBodies, without }: DueRequest,
  now: number,
  settings: Pick<Settings, 'earlyAttempts'>,
): Promise<FoundBatches> => {
  const at = new Date(now)
  const selected = q`SELECT ${columns(q, withBodies ? q`body` : q`NULL`)} FROM webhooks.batches WHERE endpoint_id = ${endpoint}`
  const released = q`(next_attempt_at <= ${at}
    OR (scheduled_at < ${new Date(releasedAt ?? 0)} AND early_attempts < ${settings.earlyAttempts}))`
  if (behind !== null) {
    const rows = await found(
      releasedAt === null
        ? q`${selected} AND next_attempt_at <= ${at}
              AND (next_attempt_at, first_sequence)
                > (timestamptz 'epoch' + ${behind.dueAt}::bigint * interval '1 microsecond', ${behind.sequence}::bigint)
            ORDER BY next_attempt_at, first_sequence LIMIT ${limit}`
        : q`${selected} AND ${released} AND first_sequence > ${behind.sequence} ORDER BY first_sequence LIMIT ${limit}`,
    )
    // Hardly any of those lie behind the place, so they are not named to PostgreSQL.
    return {
      batches: rows.map(pendingOf).filter((batch) => !without.has(batch.uuid)),
      nextDueAt: null,
      place: placeBehind(rows, limit),
    }
  }
  const others = q`${selected} AND NOT (id = ANY(${sqlArray([...without])}::uuid[]))`
  const batches: Array<PendingBatch> = []
  if (releasedAt !== null && first !== null) {
    batches.push(...(await found(q`${others} AND id = ${first} AND ${released}`)).map(pendingOf))
  }
  const room = limit - batches.length
  const rows = await found(
    releasedAt === null
      ? q`${others} AND next_attempt_at <= ${at} ORDER BY next_attempt_at, first_sequence LIMIT ${room}`
      : q`${others} AND ${released} AND id IS DISTINCT FROM ${batches[0]?.uuid ?? null}::uuid
          ORDER BY first_sequence LIMIT ${room}`,
  )
  batches.push(...rows.map(pendingOf))
  const place = placeBehind(rows, room)
  if (place !== null) return { batches, nextDueAt: null, place }
  const [next] = await q<{ at: Date | null }[]>`
    SELECT min(next_attempt_at) AS at FROM webhooks.batches
    WHERE endpoint_id = ${endpoint} AND next_attempt_at > ${at}`
  return { batches, nextDueAt: next?.at?.getTime() ?? null, place: null }
}

/** What a disabled subscription has whose window has closed at `now`. */
export const expiredBatches = async (
  q: Queries,
  { endpoint, limit, without }: ExpiredRequest,
  now: number,
  { retryWindowMs }: Pick<Settings, 'retryWindowMs'>,
): Promise<FoundBatches> => {
  // Batches are queued in the order of their events, so the oldest stand first in that order; those of redeliveries, which
  // are few, follow their own.
  const selected = q`
    SELECT ${columns(q, q`NULL`)} FROM webhooks.batches
    WHERE endpoint_id = ${endpoint} AND NOT (id = ANY(${sqlArray([...without])}::uuid[]))`
  const rows = await found(q`
    (${selected} AND redelivery IS NULL ORDER BY first_sequence LIMIT ${limit})
    UNION ALL
    (${selected} AND redelivery IS NOT NULL ORDER BY queued_at LIMIT ${limit})`)
  const batches = rows.map(pendingOf)
  const open = batches.filter((batch) => batch.queuedAt + retryWindowMs > now)
  return {
    batches: batches.filter((batch) => batch.queuedAt + retryWindowMs <= now).slice(0, limit),
    place: null,
    nextDueAt: open.length === 0 ? null : Math.min(...open.map((batch) => batch.queuedAt)) + retryWindowMs,
  }
}

/** The body of a batch that waits, or `null` when it is gone. */
export const bodyOfBatch = async (q: Queries, batch: string): Promise<Uint8Array | null> => {
  const [row] = await found<ReadonlyArray<Cell>>(q`SELECT body FROM webhooks.batches WHERE id = ${batch}`)
  const body = row?.[0] ?? null
  return body === null ? null : kept(body)
}
