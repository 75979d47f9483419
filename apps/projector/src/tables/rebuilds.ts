/**
 * The row of a rebuild, as the projector that is at it holds it: a lease that others respect until it ends, and a condition of every transaction,
 * so that whoever lost it without knowing changes nothing. Times are those of PostgreSQL's clock.
 */
import type { Queries, RebuildComparison, RebuildOutcome, RebuildPolicy, RebuildState } from '@hub/store'

/** For how long a rebuild is left alone when nothing is heard of its projector: work moves on within 15 s. */
const LEASE = '10 seconds'
/** How often the lease is renewed beside the work, ms. */
export const RENEW_EVERY_MS = 2500

/** A rebuild that is held. */
export interface Held {
  readonly id: string
  /** Names this projector; new with each time that a rebuild is taken. */
  readonly owner: string
  readonly policy: RebuildPolicy
  readonly state: RebuildState
  /** Milliseconds since the epoch; `null`: everything. */
  readonly since: number | null
  readonly sumsSince: number | null
}

interface Row {
  readonly id: string
  readonly policy: RebuildPolicy
  readonly state: RebuildState
  readonly since: Date | null
  readonly sums_since: Date | null
}

/** Takes the rebuild that is open and that nobody is at. What the one before has left must have been cleared away. */
export const takeRebuild = async (q: Queries, owner: string): Promise<Held | null> => {
  const [row] = await q<Row[]>`
    UPDATE command.rebuilds
       SET owner = ${owner}, owner_until = now() + ${LEASE}::interval, started_at = coalesce(started_at, now())
     WHERE ended_at IS NULL AND (owner_until IS NULL OR owner_until < now())
       AND NOT EXISTS (SELECT 1 FROM command.rebuilds e WHERE e.ended_at IS NOT NULL AND e.cleared_at IS NULL)
    RETURNING id, policy, state, since, sums_since`
  return row === undefined
    ? null
    : {
        id: row.id,
        owner,
        policy: row.policy,
        state: row.state,
        since: row.since?.getTime() ?? null,
        sumsSince: row.sums_since?.getTime() ?? null,
      }
}

/** Whether it is still ours, and for a while longer. Others who want the row wait for the transaction. */
export const hold = async (
  q: Queries,
  { id, owner }: Held,
  more: { readonly records?: number; readonly restored?: number } = {},
): Promise<boolean> => {
  const { count } = await q`
    UPDATE command.rebuilds
       SET owner_until = now() + ${LEASE}::interval, records = records + ${more.records ?? 0},
           restored = restored + ${more.restored ?? 0}
     WHERE id = ${id} AND owner = ${owner} AND ended_at IS NULL`
  return count === 1
}

/** Lets others have it at once. */
export const release = (q: Queries, { id, owner }: Held) => q`
  UPDATE command.rebuilds SET owner = NULL, owner_until = NULL WHERE id = ${id} AND owner = ${owner}`

export const enter = async (q: Queries, { id, owner }: Held, state: RebuildState): Promise<boolean> => {
  const { count } = await q`
    UPDATE command.rebuilds SET state = ${state} WHERE id = ${id} AND owner = ${owner} AND ended_at IS NULL`
  return count === 1
}

/** Keeps what is to be rebuilt: known once the topics have been looked at. */
export const noteHorizon = async (
  q: Queries,
  { id, owner }: Held,
  horizon: { readonly since: number | null; readonly sumsSince: number | null },
): Promise<boolean> => {
  const moment = (at: number | null) => (at === null ? null : new Date(at))
  const { count } = await q`
    UPDATE command.rebuilds
       SET state = 'folding', since = ${moment(horizon.since)}, sums_since = ${moment(horizon.sumsSince)}
     WHERE id = ${id} AND owner = ${owner} AND ended_at IS NULL`
  return count === 1
}

/** Keeps what the comparison found, and goes on to the next state. */
export const noteComparison = async (
  q: Queries,
  { id, owner }: Held,
  compared: ReadonlyArray<RebuildComparison>,
): Promise<boolean> => {
  const { count } = await q`
    UPDATE command.rebuilds SET compared = ${JSON.stringify(compared)}::text::jsonb, compared_at = now()
     WHERE id = ${id} AND owner = ${owner} AND ended_at IS NULL`
  return count === 1
}

export const end = async (
  q: Queries,
  { id, owner }: Held,
  outcome: RebuildOutcome,
  failure: string | null = null,
): Promise<boolean> => {
  const { count } = await q`
    UPDATE command.rebuilds
       SET state = 'ended', outcome = ${outcome}, failure = ${failure}, ended_at = now(), owner = NULL, owner_until = NULL
     WHERE id = ${id} AND owner = ${owner} AND ended_at IS NULL`
  return count === 1
}

/** Drops what a rebuild that has ended left beside the live tables. Answers whether there was any. */
export const clearEnded = async (q: Queries): Promise<boolean> => {
  const rows = await q<{ id: string }[]>`
    SELECT id FROM command.rebuilds WHERE ended_at IS NOT NULL AND cleared_at IS NULL FOR UPDATE SKIP LOCKED`
  if (rows.length === 0) return false
  await q`SELECT command.close_rebuild()`
  await q`UPDATE command.rebuilds SET cleared_at = now() WHERE id = ANY (${rows.map(({ id }) => id)}::uuid[])`
  return true
}
