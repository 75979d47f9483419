/**
 * `command.rebuilds`: requested rebuilds, and the lease of the projector that executes one.
 *
 * Other projectors respect the lease until it expires. Each transaction of a rebuild also checks
 * it. So a projector that lost its lease without noticing changes nothing. All times come from
 * PostgreSQL's clock.
 */
import type {
  Queries,
  RebuildComparison,
  RebuildOutcome,
  RebuildPolicy,
  RebuildState,
  SqlFragment,
} from '@hub/store'
import type { Horizon } from './horizon.ts'

/** Another projector continues a rebuild within 15 s after a crash. */
const LEASE = '10 seconds'
/** How often the lease is renewed, ms: three renewals may fail. */
export const RENEW_EVERY_MS = 2500

/** A rebuild that this projector executes. */
export interface RebuildLease extends Horizon {
  readonly id: string
  /** Identifies this lease; each acquisition has a new value. */
  readonly owner: string
  readonly policy: RebuildPolicy
  readonly state: RebuildState
}

/** Acquires the open rebuild. The tables of an ended rebuild must be dropped first. */
export const acquireRebuild = async (q: Queries, owner: string): Promise<RebuildLease | null> => {
  const [row] = await q<
    (Pick<RebuildLease, 'id' | 'policy' | 'state'> & { since: Date | null; sums_since: Date | null })[]
  >`
    UPDATE command.rebuilds
       SET owner = ${owner}, owner_until = now() + ${LEASE}::interval, started_at = coalesce(started_at, now())
     WHERE ended_at IS NULL AND (owner_until IS NULL OR owner_until < now())
       AND NOT EXISTS (SELECT 1 FROM command.rebuilds e WHERE e.ended_at IS NOT NULL AND e.cleared_at IS NULL)
    RETURNING id, policy, state, since, sums_since`
  if (row === undefined) return null
  const { since, sums_since, ...rebuild } = row
  return { ...rebuild, owner, since: since?.getTime() ?? null, sumsSince: sums_since?.getTime() ?? null }
}

/** Ends the lease, so that another projector can continue at once. */
export const releaseLease = (q: Queries, { id, owner }: RebuildLease) => q`
  UPDATE command.rebuilds SET owner = NULL, owner_until = NULL WHERE id = ${id} AND owner = ${owner}`

/** Returns false, and changes nothing, when the lease is lost or the rebuild has ended. */
const change = async (q: Queries, { id, owner }: RebuildLease, columns: SqlFragment): Promise<boolean> => {
  const { count } = await q`
    UPDATE command.rebuilds SET ${columns} WHERE id = ${id} AND owner = ${owner} AND ended_at IS NULL`
  return count === 1
}

/** Renews the lease and adds to the counts. Returns false when the lease is lost. Locks the row. */
export const renewLease = (
  q: Queries,
  lease: RebuildLease,
  { records = 0, restored = 0 }: { readonly records?: number; readonly restored?: number } = {},
) =>
  change(
    q,
    lease,
    q`owner_until = now() + ${LEASE}::interval, records = records + ${records}, restored = restored + ${restored}`,
  )

export const setState = (q: Queries, lease: RebuildLease, state: RebuildState) =>
  change(q, lease, q`state = ${state}`)

/** Stores from when on messages are rebuilt, and starts the fold. */
export const saveHorizon = (q: Queries, lease: RebuildLease, { since, sumsSince }: Horizon) => {
  const date = (at: number | null) => (at === null ? null : new Date(at))
  return change(q, lease, q`state = 'folding', since = ${date(since)}, sums_since = ${date(sumsSince)}`)
}

export const saveComparison = (q: Queries, lease: RebuildLease, compared: ReadonlyArray<RebuildComparison>) =>
  change(q, lease, q`compared = ${JSON.stringify(compared)}::text::jsonb, compared_at = now()`)

export const endRebuild = (
  q: Queries,
  lease: RebuildLease,
  outcome: RebuildOutcome,
  failure: string | null = null,
) =>
  change(
    q,
    lease,
    q`state = 'ended', outcome = ${outcome}, failure = ${failure}, ended_at = now(), owner = NULL, owner_until = NULL`,
  )

/** Drops the tables of an ended rebuild. Returns whether there were any. */
export const dropEndedRebuild = async (q: Queries): Promise<boolean> => {
  const rows = await q<{ id: string }[]>`
    SELECT id FROM command.rebuilds WHERE ended_at IS NOT NULL AND cleared_at IS NULL FOR UPDATE SKIP LOCKED`
  if (rows.length === 0) return false
  await q`SELECT command.close_rebuild()`
  await q`UPDATE command.rebuilds SET cleared_at = now() WHERE id = ANY (${rows.map(({ id }) => id)}::uuid[])`
  return true
}
