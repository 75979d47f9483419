/**
 * Requests for rebuilds of the read models, and their status: one row of `command.rebuilds` each.
 * The projector executes a request (apps/projector/src/rebuild). Source:
 * docs/decisions/read-models.md#rebuild.
 */
import { randomUUID } from 'node:crypto'
import { Data, Effect } from 'effect'
import { storageCrashPoint } from './crash-points.ts'
import { epochMs, firstRow, type Queries, Sql, type StorageError } from './sql.ts'

/**
 * What follows the comparison. `compare_only`: nothing. `swap_if_equal`: the rebuilt tables replace
 * the live ones if nothing differs. `swap`: they replace them in any case.
 */
export type RebuildPolicy = 'compare_only' | 'swap_if_equal' | 'swap'

export type RebuildState = 'requested' | 'folding' | 'comparing' | 'swapping' | 'ended'

/** The result. `compared`: no swap was requested. `refused`: not swapped, rows differ. */
export type RebuildOutcome = 'compared' | 'refused' | 'swapped' | 'cancelled' | 'failed'

/** A row that differs between the tables. Contains names and ids only. */
export interface RebuildDifference {
  /** The key of the row, with ids in their public form. */
  readonly key: string
  /** The table without this row; `null`: both have it. */
  readonly missing: 'live' | 'rebuilt' | null
  /** The columns that differ; empty if a row is missing. */
  readonly columns: ReadonlyArray<string>
}

export interface RebuildComparison {
  readonly table: string
  /** Rows compared. */
  readonly live: number
  readonly rebuilt: number
  readonly differences: number
  /** The first differences. */
  readonly examples: ReadonlyArray<RebuildDifference>
}

/** A rebuild. Times in milliseconds since the epoch. */
export interface Rebuild {
  /** UUID. */
  readonly id: string
  readonly policy: RebuildPolicy
  readonly state: RebuildState
  /** `null` before the end. */
  readonly outcome: RebuildOutcome | null
  /** The reason of a failure, as a code. */
  readonly failure: string | null
  /** Messages from this time on are rebuilt; `null`: all messages. */
  readonly since: number | null
  /** Records folded. */
  readonly records: number
  /** Messages whose number and text were missing and were stored again. */
  readonly restored: number
  /** `null` before the comparison. */
  readonly compared: ReadonlyArray<RebuildComparison> | null
  readonly requestedAt: number
  readonly startedAt: number | null
  readonly comparedAt: number | null
  readonly endedAt: number | null
}

const atRequested = storageCrashPoint('hubctl.rebuild-requested')

/** Another rebuild is in progress. Nothing was requested. */
export class RebuildInProgress extends Data.TaggedError('RebuildInProgress')<{ readonly id: string }> {}

/** The columns of a `Rebuild`. */
const columns = (q: Queries) => q`
  id, policy, state, outcome, failure, ${epochMs(q, 'since')} AS since, records::float8, restored::float8, compared,
  ${epochMs(q, 'requested_at')} AS "requestedAt", ${epochMs(q, 'started_at')} AS "startedAt",
  ${epochMs(q, 'compared_at')} AS "comparedAt", ${epochMs(q, 'ended_at')} AS "endedAt"`

/** Requests a rebuild. A projector starts it within seconds. */
export const requestRebuild = Effect.fnUntraced(function* (
  policy: RebuildPolicy,
): Effect.fn.Return<Rebuild, StorageError | RebuildInProgress, Sql> {
  const sql = yield* Sql
  const id = randomUUID()
  const [created, open] = yield* sql
    .transaction(async (q) => {
      const rows = await q<Rebuild[]>`
      INSERT INTO command.rebuilds (id, policy) VALUES (${id}, ${policy}) ON CONFLICT DO NOTHING RETURNING ${columns(q)}`
      const others = await q<Rebuild[]>`SELECT ${columns(q)} FROM command.rebuilds WHERE ended_at IS NULL`
      return [rows[0], others[0]] as const
    })
    .pipe(atRequested)
  return created === undefined ? yield* new RebuildInProgress({ id: open?.id ?? '' }) : created
})

/** The latest rebuilds, newest first. */
export const readRebuilds = (limit = 20): Effect.Effect<ReadonlyArray<Rebuild>, StorageError, Sql> =>
  Effect.flatMap(Sql, (sql) =>
    sql.run(
      (q) =>
        q<Rebuild[]>`SELECT ${columns(q)} FROM command.rebuilds ORDER BY requested_at DESC LIMIT ${limit}`,
    ),
  )

/** A rebuild by id, or `null`. */
export const readRebuild = (id: string): Effect.Effect<Rebuild | null, StorageError, Sql> =>
  Effect.flatMap(Sql, (sql) =>
    sql.run(async (q) => firstRow(q<Rebuild[]>`SELECT ${columns(q)} FROM command.rebuilds WHERE id = ${id}`)),
  )

/** Cancels the rebuild in progress and returns it, or `null`. */
export const cancelRebuild: Effect.Effect<Rebuild | null, StorageError, Sql> = Effect.flatMap(Sql, (sql) =>
  sql.run(async (q) =>
    firstRow(q<Rebuild[]>`
      UPDATE command.rebuilds SET state = 'ended', outcome = 'cancelled', ended_at = now(), owner = NULL, owner_until = NULL
       WHERE ended_at IS NULL
      RETURNING ${columns(q)}`),
  ),
)
