/**
 * `command.rebuilds`: requested rebuilds, and the lease of the projector that executes one.
 *
 * Other projectors respect the lease until it expires. Each transaction of a rebuild also checks
 * it. So a projector that lost its lease without noticing changes nothing. All times come from
 * PostgreSQL's clock.
 */
import type { Queries, RebuildComparison, RebuildOutcome, RebuildPolicy, RebuildState } from '@hub/store'

/** Another projector continues a rebuild within 15 s after a crash. */
const LEASE = '10 seconds'
/** How often the lease is renewed, ms: three renewals may fail. */
export const RENEW_EVERY_MS = 2500

/** A rebuild that this projector executes. */
export interface RebuildLease {
  readonly id: string
  /** Identifies this lease; each acquisition has a new value. */
  readonly owner: string
  readonly policy: RebuildPolicy
  readonly state: RebuildState
  /** Milliseconds since the epoch; `null`: all messages. */
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

/** Acquires the open rebuild. The tables of an ended rebuild must be dropped first. */
export const acquireRebuild = async (q: Queries, owner: string): Promise<RebuildLease | null> => {
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

/** Renews the lease and adds to the counts. Returns false when the lease is lost. Locks the row. */
export const renewLease = async (
  q: Queries,
  { id, owner }: RebuildLease,
  added: { readonly records?: number; readonly restored?: number } = {},
): Promise<boolean> => {
  const { count } = await q`
    UPDATE command.rebuilds
       SET owner_until = now() + ${LEASE}::interval, records = records + ${added.records ?? 0},
           restored = restored + ${added.restored ?? 0}
     WHERE id = ${id} AND owner = ${owner} AND ended_at IS NULL`
  return count === 1
}

/** Ends the lease, so that another projector can continue at once. */
export const releaseLease = (q: Queries, { id, owner }: RebuildLease) => q`
  UPDATE command.rebuilds SET owner = NULL, owner_until = NULL WHERE id = ${id} AND owner = ${owner}`

// The following functions return false, and change nothing, when the lease is lost or the rebuild
// has ended.

export const setState = async (
  q: Queries,
  { id, owner }: RebuildLease,
  state: RebuildState,
): Promise<boolean> => {
  const { count } = await q`
    UPDATE command.rebuilds SET state = ${state} WHERE id = ${id} AND owner = ${owner} AND ended_at IS NULL`
  return count === 1
}

/** Stores from when on messages are rebuilt, and starts the fold. */
export const saveHorizon = async (
  q: Queries,
  { id, owner }: RebuildLease,
  horizon: { readonly since: number | null; readonly sumsSince: number | null },
): Promise<boolean> => {
  const date = (at: number | null) => (at === null ? null : new Date(at))
  const { count } = await q`
    UPDATE command.rebuilds
       SET state = 'folding', since = ${date(horizon.since)}, sums_since = ${date(horizon.sumsSince)}
     WHERE id = ${id} AND owner = ${owner} AND ended_at IS NULL`
  return count === 1
}

export const saveComparison = async (
  q: Queries,
  { id, owner }: RebuildLease,
  compared: ReadonlyArray<RebuildComparison>,
): Promise<boolean> => {
  const { count } = await q`
    UPDATE command.rebuilds SET compared = ${JSON.stringify(compared)}::text::jsonb, compared_at = now()
     WHERE id = ${id} AND owner = ${owner} AND ended_at IS NULL`
  return count === 1
}

export const endRebuild = async (
  q: Queries,
  { id, owner }: RebuildLease,
  outcome: RebuildOutcome,
  failure: string | null = null,
): Promise<boolean> => {
  const { count } = await q`
    UPDATE command.rebuilds
       SET state = 'ended', outcome = ${outcome}, failure = ${failure}, ended_at = now(), owner = NULL, owner_until = NULL
     WHERE id = ${id} AND owner = ${owner} AND ended_at IS NULL`
  return count === 1
}

/** Drops the tables of an ended rebuild. Returns whether there were any. */
export const dropEndedRebuild = async (q: Queries): Promise<boolean> => {
  const rows = await q<{ id: string }[]>`
    SELECT id FROM command.rebuilds WHERE ended_at IS NOT NULL AND cleared_at IS NULL FOR UPDATE SKIP LOCKED`
  if (rows.length === 0) return false
  await q`SELECT command.close_rebuild()`
  await q`UPDATE command.rebuilds SET cleared_at = now() WHERE id = ANY (${rows.map(({ id }) => id)}::uuid[])`
  return true
}
