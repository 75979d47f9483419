/**
 * The SQL of notes: successes of subscriptions that do not fail, written down in a statement that waits for no disk, and recorded by the
 * hundred later, by this process or by whoever takes its partition over. Why: docs/decisions/0030.
 */
import { encodeId } from '@hub/domain'
import { type Queries, sqlArray } from '@hub/store'
import { attemptIds } from './attempt-ids.ts'
import { recordOutcomes } from './recording-sql.ts'
import type { Settings } from './settings.ts'
import type { Outcome, Ownership } from './store.ts'

/**
 * Successes that were noted together. They stand in arrays as PostgreSQL writes them, since objects would keep much more alive until they are
 * recorded.
 */
export interface Note {
  /** Notes of an ownership are numbered from 1. */
  readonly number: number
  readonly size: number
  readonly batchIds: string
  readonly endpointIds: string
  readonly attempts: string
  readonly attemptIds: string
  readonly startedAt: string
  readonly responseCodes: string
  readonly durationsMs: string
}

export const noteOf = (number: number, successes: ReadonlyArray<Outcome>): Note => ({
  number,
  size: successes.length,
  batchIds: sqlArray(successes.map(({ batch }) => batch.uuid)),
  endpointIds: sqlArray(successes.map(({ endpoint }) => endpoint)),
  attempts: sqlArray(successes.map(({ batch }) => batch.attempts)),
  attemptIds: sqlArray(attemptIds(successes)),
  startedAt: sqlArray(successes.map(({ startedAt }) => startedAt)),
  responseCodes: sqlArray(successes.map(({ responseCode }) => responseCode)),
  durationsMs: sqlArray(successes.map(({ durationMs }) => durationMs)),
})

/**
 * Writes a note down; again, it changes nothing. It asks for no ownership: what was delivered was delivered, whoever it was. Of an owner that has
 * lost the partition without knowing, the next one to take it over records what nobody has delivered again.
 */
export const insertNote = async (q: Queries, { epoch, partition }: Ownership, note: Note): Promise<void> => {
  await q`
    INSERT INTO webhooks.noted_successes
      (partition, epoch, number, batch_ids, endpoint_ids, attempts, attempt_ids, started_at, response_codes, durations_ms)
    VALUES (${partition}, ${epoch}, ${note.number}, ${note.batchIds}, ${note.endpointIds}, ${note.attempts}, ${note.attemptIds},
      ${note.startedAt}, ${note.responseCodes}, ${note.durationsMs})
    ON CONFLICT DO NOTHING`
}

/** Numbers of notes that follow each other. */
interface NoteRange {
  readonly first: number
  readonly last: number
}

const within = (q: Queries, { epoch, partition }: Ownership, { first, last }: NoteRange) =>
  q`partition = ${partition} AND epoch = ${epoch} AND number BETWEEN ${first} AND ${last}`

/** How recording notes ended; only `recorded` has changed anything. */
export interface NotesOutcome {
  /**
   * `lost`: the partition is another's. `missing`: some of the notes are not there. `troubled`: a subscription among them does fail,
   * or is disabled, so that its outcomes must be judged.
   */
  readonly result: 'recorded' | 'lost' | 'missing' | 'troubled'
  /** Subscriptions among them that are not what they were thought to be: troubled, or gone. */
  readonly others: ReadonlyArray<string>
}

/**
 * Records notes of this ownership, from a number to a number, in one statement: nothing changes but the batches and their log. That they begin
 * with a number spares a long look over those that are deleted, and not yet cleared away.
 */
export const recordNotes = async (q: Queries, owner: Ownership, range: NoteRange): Promise<NotesOutcome> => {
  const meant = within(q, owner, range)
  const count = range.last - range.first + 1
  const [row] = await q<{ held: number; found: number; troubled: boolean; others: ReadonlyArray<string> }[]>`
    WITH owner AS MATERIALIZED (
      SELECT 1 FROM webhooks.positions WHERE partition = ${owner.partition} AND epoch = ${owner.epoch} FOR SHARE
    ), notes AS MATERIALIZED (
      SELECT * FROM webhooks.noted_successes
       WHERE ${meant} AND EXISTS (SELECT 1 FROM owner)
    ), noted AS MATERIALIZED (
      SELECT o.* FROM notes, unnest(batch_ids, endpoint_ids, attempts, attempt_ids, started_at, response_codes, durations_ms)
        AS o (batch_id, endpoint_id, attempts, attempt_id, started_at, response_code, duration_ms)
    ), subscriptions AS MATERIALIZED (
      SELECT ids.endpoint_id AS id, e.id IS NOT NULL AS alive,
             coalesce(e.status = 'enabled' AND e.consecutive_failures = 0, false) AS calm
        FROM (SELECT DISTINCT endpoint_id FROM noted) AS ids
        LEFT JOIN webhooks.endpoints e ON e.id = ids.endpoint_id AND e.deleted_at IS NULL
    ), verdict AS MATERIALIZED (
      SELECT (SELECT count(*) FROM notes)::integer AS found,
             EXISTS (SELECT 1 FROM subscriptions WHERE alive AND NOT calm) AS troubled
    ), go AS MATERIALIZED (
      SELECT 1 FROM verdict WHERE found = ${count}::integer AND NOT troubled
    ), done AS (
      DELETE FROM webhooks.batches b USING noted o, subscriptions s, go
       WHERE b.id = o.batch_id AND b.attempts = o.attempts AND s.id = o.endpoint_id AND s.calm
      RETURNING b.id, b.endpoint_id, b.attempts + 1 AS attempt, b.redelivery, o.attempt_id, o.response_code, o.duration_ms, o.started_at
    ), logged AS (
      INSERT INTO webhooks.attempts
        (id, endpoint_id, batch_id, attempt, status, response_code, duration_ms, created_at, redelivery)
      SELECT attempt_id, endpoint_id, id, attempt, 'succeeded', response_code, duration_ms,
             timestamptz 'epoch' + started_at * interval '1 millisecond', redelivery
        FROM done
    ), forgotten AS (
      DELETE FROM webhooks.noted_successes
       WHERE ${meant} AND EXISTS (SELECT 1 FROM go)
    )
    SELECT (SELECT count(*) FROM owner)::integer AS held, found, troubled,
           ARRAY(SELECT id FROM subscriptions WHERE NOT calm) AS others
      FROM verdict`
  const others = row?.others ?? []
  if ((row?.held ?? 0) === 0) return { result: 'lost', others }
  if (row?.found !== count) return { result: 'missing', others }
  return { result: row.troubled ? 'troubled' : 'recorded', others }
}

interface NotedRow {
  readonly batch_id: string
  readonly endpoint_id: string
  readonly attempts: number
  readonly started_at: string
  readonly response_code: number
  readonly duration_ms: number
  readonly queued_at: Date
  readonly next_attempt_at: Date
  readonly redelivery: string | null
}

/**
 * The same with any subscription, success by success, in a transaction. `earlier`: those of all earlier owners. False: the partition is
 * another's.
 */
export const judgeNotes = async (
  q: Queries,
  owner: Ownership,
  which: NoteRange | 'earlier',
  settings: Settings,
): Promise<boolean> => {
  const { epoch, partition } = owner
  const meant =
    which === 'earlier' ? q`partition = ${partition} AND epoch < ${epoch}` : within(q, owner, which)
  const rows = await q<NotedRow[]>`
    SELECT o.*, b.queued_at, b.next_attempt_at, b.redelivery
      FROM (SELECT * FROM webhooks.noted_successes WHERE ${meant}) AS n,
           unnest(n.batch_ids, n.endpoint_ids, n.attempts, n.started_at, n.response_codes, n.durations_ms) WITH ORDINALITY
             AS o (batch_id, endpoint_id, attempts, started_at, response_code, duration_ms, place)
      JOIN webhooks.batches b ON b.id = o.batch_id AND b.attempts = o.attempts
     ORDER BY n.epoch, n.number, o.place`
  // Two owners may have made the same attempt.
  const outcomes = new Map(rows.map((row) => [row.batch_id, outcomeOf(row)]))
  if ((await recordOutcomes(q, owner, [...outcomes.values()], settings)) === null) return false
  await q`DELETE FROM webhooks.noted_successes WHERE ${meant}`
  return true
}

const outcomeOf = (row: NotedRow): Outcome => {
  const startedAt = Number(row.started_at)
  return {
    endpoint: row.endpoint_id,
    batch: {
      uuid: row.batch_id,
      id: encodeId('evb', row.batch_id),
      attempts: row.attempts,
      queuedAt: row.queued_at.getTime(),
      nextAttemptAt: row.next_attempt_at.getTime(),
      redelivery: row.redelivery,
      body: null,
      begun: null,
    },
    kind: 'attempt',
    responseCode: row.response_code,
    durationMs: row.duration_ms,
    reason: null,
    startedAt,
    endedAt: startedAt + row.duration_ms,
  }
}
