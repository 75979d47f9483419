/**
 * Rebuilds of the read models, as whoever operates the hub asks for them and looks at them: a row each, which a projector takes up. How one is made
 * is the projector's. Source: docs/decisions/0020.
 */
import { randomUUID } from 'node:crypto'
import { Data, Effect } from 'effect'
import { Sql, type StorageError } from './sql.ts'

/**
 * What follows from the comparison. `compare_only`: nothing. `swap_if_equal`: the rebuilt tables take the place of the live ones, unless something
 * differs. `swap`: they do, whatever differs.
 */
export type RebuildPolicy = 'compare_only' | 'swap_if_equal' | 'swap'

export type RebuildState = 'requested' | 'folding' | 'comparing' | 'swapping' | 'ended'

/** What became of it. `compared`: as asked, nothing was swapped. `refused`: something differs, so nothing was swapped. */
export type RebuildOutcome = 'compared' | 'refused' | 'swapped' | 'cancelled' | 'failed'

/** A row that is not the same in both tables. Names and ids only. */
export interface RebuildDifference {
  /** The row's key, ids in their public form. */
  readonly key: string
  /** Which of the two has no such row; `null`: both have it. */
  readonly missing: 'live' | 'rebuilt' | null
  /** Columns that differ; none where a row is missing. */
  readonly columns: ReadonlyArray<string>
}

export interface RebuildComparison {
  readonly table: string
  /** Rows compared. */
  readonly live: number
  readonly rebuilt: number
  readonly differences: number
  /** The first of them. */
  readonly examples: ReadonlyArray<RebuildDifference>
}

/** A rebuild. Times in milliseconds since the epoch. */
export interface Rebuild {
  /** UUID. */
  readonly id: string
  readonly policy: RebuildPolicy
  readonly state: RebuildState
  /** `null` until it has ended. */
  readonly outcome: RebuildOutcome | null
  /** Why it failed, as a code. */
  readonly failure: string | null
  /** Messages from this moment on are rebuilt, because the topics hold all of them; `null`: all messages. */
  readonly since: number | null
  /** Records folded. */
  readonly records: number
  /** Messages whose number and text were missing and are stored again. */
  readonly restored: number
  /** `null` until they were compared. */
  readonly compared: ReadonlyArray<RebuildComparison> | null
  readonly requestedAt: number
  readonly startedAt: number | null
  readonly comparedAt: number | null
  readonly endedAt: number | null
}

/** One is under way; nothing was requested. */
export class RebuildInProgress extends Data.TaggedError('RebuildInProgress')<{ readonly id: string }> {}

interface Row {
  readonly id: string
  readonly policy: RebuildPolicy
  readonly state: RebuildState
  readonly outcome: RebuildOutcome | null
  readonly failure: string | null
  readonly since: Date | null
  readonly records: string
  readonly restored: string
  readonly compared: ReadonlyArray<RebuildComparison> | null
  readonly requested_at: Date
  readonly started_at: Date | null
  readonly compared_at: Date | null
  readonly ended_at: Date | null
}

const rebuildOf = (row: Row): Rebuild => ({
  id: row.id,
  policy: row.policy,
  state: row.state,
  outcome: row.outcome,
  failure: row.failure,
  since: row.since?.getTime() ?? null,
  records: Number(row.records),
  restored: Number(row.restored),
  compared: row.compared,
  requestedAt: row.requested_at.getTime(),
  startedAt: row.started_at?.getTime() ?? null,
  comparedAt: row.compared_at?.getTime() ?? null,
  endedAt: row.ended_at?.getTime() ?? null,
})

/** Asks for a rebuild. A projector takes it up within seconds. */
export const requestRebuild = Effect.fnUntraced(function* (
  policy: RebuildPolicy,
): Effect.fn.Return<Rebuild, StorageError | RebuildInProgress, Sql> {
  const sql = yield* Sql
  const id = randomUUID()
  const [made, open] = yield* sql.transaction(async (q) => {
    const rows = await q<Row[]>`
      INSERT INTO command.rebuilds (id, policy) VALUES (${id}, ${policy}) ON CONFLICT DO NOTHING RETURNING *`
    const others = await q<Row[]>`SELECT * FROM command.rebuilds WHERE ended_at IS NULL`
    return [rows[0], others[0]] as const
  })
  return made === undefined ? yield* new RebuildInProgress({ id: open?.id ?? '' }) : rebuildOf(made)
})

/** The latest rebuilds, newest first. */
export const readRebuilds = (limit = 20): Effect.Effect<ReadonlyArray<Rebuild>, StorageError, Sql> =>
  Effect.flatMap(Sql, (sql) =>
    sql.run(async (q) => {
      const rows = await q<Row[]>`SELECT * FROM command.rebuilds ORDER BY requested_at DESC LIMIT ${limit}`
      return rows.map(rebuildOf)
    }),
  )

/** What has become of one; `null`: there is no such rebuild. */
export const readRebuild = (id: string): Effect.Effect<Rebuild | null, StorageError, Sql> =>
  Effect.flatMap(Sql, (sql) =>
    sql.run(async (q) => {
      const [row] = await q<Row[]>`SELECT * FROM command.rebuilds WHERE id = ${id}`
      return row === undefined ? null : rebuildOf(row)
    }),
  )

/** Ends the rebuild under way, if there is one: the live tables stay as they are. Once it has ended, nothing of it will be swapped any more. */
export const cancelRebuild: Effect.Effect<Rebuild | null, StorageError, Sql> = Effect.flatMap(Sql, (sql) =>
  sql.run(async (q) => {
    const [row] = await q<Row[]>`
      UPDATE command.rebuilds SET state = 'ended', outcome = 'cancelled', ended_at = now(), owner = NULL, owner_until = NULL
       WHERE ended_at IS NULL
      RETURNING *`
    return row === undefined ? null : rebuildOf(row)
  }),
)
