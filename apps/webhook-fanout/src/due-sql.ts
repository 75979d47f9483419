/**
 * The SQL that finds what is due. The rule is the domain's (`dueFor`), to which these queries are held by the test of the store.
 *
 * A backlog goes through here as fast as it is delivered, so rows are taken as the bytes that the driver has received: a body of 100
 * events is delivered from there, and is neither made a string nor copied.
 */
import { encodeId } from '@hub/domain'
import type { Queries } from '@hub/store'
import type { Fragment } from 'postgres'
import type { Settings } from './settings.ts'
import { array } from './sql-array.ts'
import type { PendingBatch } from './subscription.ts'

/** `nextDueAt` is there when the batches are all that are due now: when the next one is, milliseconds since the epoch. */
export interface FoundBatches {
  readonly batches: ReadonlyArray<PendingBatch>
  readonly nextDueAt: number | null
}

export interface DueRequest {
  /** UUID. */
  readonly endpoint: string
  /** Batches scheduled before this moment are due, milliseconds since the epoch; `null`: each by its own schedule. */
  readonly releasedAt: number | null
  /** The one (UUID) that goes before the rest of a released backlog. */
  readonly first: string | null
  readonly without: ReadonlyArray<string>
  readonly limit: number
  readonly withBodies: boolean
}

export interface ExpiredRequest {
  readonly endpoint: string
  readonly without: ReadonlyArray<string>
  readonly limit: number
}

/** What a column holds, as the driver has received it. */
type Cell = Buffer | null
type BatchCells = readonly [
  id: Cell,
  attempts: Cell,
  queuedAt: Cell,
  nextAttemptAt: Cell,
  redelivery: Cell,
  body: Cell,
]

const textOf = (cell: Cell): string => cell?.toString('latin1') ?? ''

/**
 * Bytes that may be kept. They lie in what came from the socket in one piece: where they are a small part of that, they are copied, so that
 * they do not keep all of it.
 */
const kept = (bytes: Buffer): Buffer =>
  bytes.length * 2 < bytes.buffer.byteLength ? Buffer.from(bytes) : bytes

const pendingOf = ([id, attempts, queuedAt, nextAttemptAt, redelivery, body]: BatchCells): PendingBatch => {
  const uuid = textOf(id)
  return {
    uuid,
    id: encodeId('evb', uuid),
    attempts: Number(textOf(attempts)),
    queuedAt: Number(textOf(queuedAt)),
    nextAttemptAt: Number(textOf(nextAttemptAt)),
    redelivery: redelivery === null ? null : textOf(redelivery),
    body: body === null ? null : kept(body),
  }
}

/** In the order of `BatchCells`; moments in milliseconds, which cost less to write and to read than dates. */
const columns = (q: Queries, body: Fragment) => q`
  id, attempts, (date_part('epoch', queued_at) * 1000)::bigint, (date_part('epoch', next_attempt_at) * 1000)::bigint, redelivery, ${body}`

const found = async (query: { raw(): PromiseLike<ReadonlyArray<unknown>> }): Promise<Array<PendingBatch>> => {
  const rows = (await query.raw()) as ReadonlyArray<BatchCells>
  return rows.map(pendingOf)
}

/** What is due at `now`: in order of its time, or, of a released backlog, in the order of its events. */
export const dueBatches = async (
  q: Queries,
  { endpoint, first, limit, releasedAt, withBodies, without }: DueRequest,
  now: number,
  settings: Pick<Settings, 'earlyAttempts'>,
): Promise<FoundBatches> => {
  const at = new Date(now)
  const selected = q`
    SELECT ${columns(q, withBodies ? q`body` : q`NULL`)} FROM webhooks.batches
    WHERE endpoint_id = ${endpoint} AND NOT (id = ANY(${array(without)}::uuid[]))`
  const released = q`(next_attempt_at <= ${at}
    OR (scheduled_at < ${new Date(releasedAt ?? 0)} AND early_attempts < ${settings.earlyAttempts}))`
  const batches: Array<PendingBatch> = []
  if (releasedAt !== null && first !== null) {
    batches.push(...(await found(q`${selected} AND id = ${first} AND ${released}`)))
  }
  batches.push(
    ...(await found(
      releasedAt === null
        ? q`${selected} AND next_attempt_at <= ${at} ORDER BY next_attempt_at, first_sequence LIMIT ${limit}`
        : q`${selected} AND ${released} AND id IS DISTINCT FROM ${batches[0]?.uuid ?? null}::uuid
            ORDER BY first_sequence LIMIT ${limit - batches.length}`,
    )),
  )
  if (batches.length === limit) return { batches, nextDueAt: null }
  const [next] = await q<{ at: Date | null }[]>`
    SELECT min(next_attempt_at) AS at FROM webhooks.batches
    WHERE endpoint_id = ${endpoint} AND next_attempt_at > ${at}`
  return { batches, nextDueAt: next?.at?.getTime() ?? null }
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
    WHERE endpoint_id = ${endpoint} AND NOT (id = ANY(${array(without)}::uuid[]))`
  const batches = await found(q`
    (${selected} AND redelivery IS NULL ORDER BY first_sequence LIMIT ${limit})
    UNION ALL
    (${selected} AND redelivery IS NOT NULL ORDER BY queued_at LIMIT ${limit})`)
  const open = batches.filter((batch) => batch.queuedAt + retryWindowMs > now)
  return {
    batches: batches.filter((batch) => batch.queuedAt + retryWindowMs <= now).slice(0, limit),
    nextDueAt: open.length === 0 ? null : Math.min(...open.map((batch) => batch.queuedAt)) + retryWindowMs,
  }
}

/** The body of a batch that waits, or `null` when it is gone. */
export const bodyOfBatch = async (q: Queries, batch: string): Promise<Uint8Array | null> => {
  const [row] = (await q`SELECT body FROM webhooks.batches WHERE id = ${batch}`.raw()) as ReadonlyArray<
    ReadonlyArray<Cell>
  >
  const body = row?.[0] ?? null
  return body === null ? null : kept(body)
}
