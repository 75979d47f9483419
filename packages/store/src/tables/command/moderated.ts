/** What senders and templates have in common: hub staff moderate both. */
import type { Mode } from '@hub/domain'
import type { Queries, SqlFragment } from '../../sql.ts'

export interface ModeratedRow {
  readonly id: string
  readonly account: string
  readonly mode: Mode
  readonly name: string
  readonly reason: string | null
  readonly created_at: Date
}

/** Filters for rows, oldest first; `null`: any. Ids are UUIDs. */
export interface ModerationFilter {
  readonly id: string | null
  readonly account: string | null
  readonly mode: Mode | null
  readonly status: string | null
  /** Rows behind this one; `null`: from the oldest on. */
  readonly after: Pick<ModeratedRow, 'created_at' | 'id'> | null
  readonly limit: number
}

/** Rows that wait for a decision. */
export interface WaitingForDecision {
  readonly rows: number
  readonly oldest_at: Date | null
}

interface ModeratedTable {
  readonly table: 'command.senders' | 'command.templates'
  /** The declined rows whose name was submitted again. */
  readonly superseded: 'command.superseded_senders' | 'command.superseded_templates'
  /** The condition of the rows that may be removed. The row has the alias `this`. */
  readonly removable: SqlFragment
}

/** Removes a row, superseded or not. False: the account has no such row, or it may not be removed. */
export const removeModerated = async (
  q: Queries,
  { removable, superseded, table }: ModeratedTable,
  { account, id, mode }: Pick<ModeratedRow, 'account' | 'id' | 'mode'>,
): Promise<boolean> => {
  const removed = await q`
    WITH superseded AS (
      DELETE FROM ${q(superseded)}
       WHERE id = ${id} AND account = ${account} AND mode = ${mode} RETURNING id),
    removed AS (
      DELETE FROM ${q(table)} AS this
       WHERE id = ${id} AND account = ${account} AND mode = ${mode} AND (${removable}) RETURNING id)
    SELECT id FROM superseded UNION ALL SELECT id FROM removed`
  return removed.length > 0
}
