/**
 * `command.range_blocks`: number ranges to which an account cannot send in live mode, until a time.
 *
 * Owner: command-api, which reads them together with the settings of the account. Hub staff change them. Ids of
 * accounts are UUIDs. A block that is over is no block; its row is deleted at the next change.
 */
import { firstRow, type Queries, type SqlFragment } from '../../sql.ts'

export interface RangeBlockRow {
  readonly account: string
  /** `912`. */
  readonly number_range: string
  readonly until: Date
  readonly reason: string
  readonly blocked_by: string
  readonly blocked_at: Date
}

/** Whether a block is in force, by the clock of PostgreSQL. */
const inForce = (q: Queries): SqlFragment => q`until > now()`

/** A column with the blocked ranges of an account, as an array. `account`: the column with its id, such as `a.id`. */
export const blockedRanges = (q: Queries, account: string): SqlFragment => q`
  ARRAY(SELECT number_range FROM command.range_blocks WHERE account = ${q(account)} AND ${inForce(q)}) AS blocked_ranges`

/** The blocks in force, the newest first. `account`: `null` for all. */
export const read = (
  q: Queries,
  account: string | null,
  limit: number,
): Promise<ReadonlyArray<RangeBlockRow>> => q<RangeBlockRow[]>`
  SELECT account, number_range, until, reason, blocked_by, blocked_at FROM command.range_blocks
   WHERE ${inForce(q)} ${account === null ? q`` : q`AND account = ${account}`}
   ORDER BY blocked_at DESC, account, number_range LIMIT ${limit}`

/** Blocks a range for some seconds from now. A block in force is replaced: `before` is its end. */
export const block = async (
  q: Queries,
  of: Pick<RangeBlockRow, 'account' | 'blocked_by' | 'number_range' | 'reason'> & {
    readonly seconds: number
  },
): Promise<RangeBlockRow & { readonly before: Date | null }> => {
  await q`DELETE FROM command.range_blocks WHERE NOT ${inForce(q)}`
  const earlier = await firstRow(q<{ until: Date }[]>`
    SELECT until FROM command.range_blocks
     WHERE account = ${of.account} AND number_range = ${of.number_range} FOR UPDATE`)
  const [row] = await q<RangeBlockRow[]>`
    INSERT INTO command.range_blocks AS b (account, number_range, until, reason, blocked_by)
    VALUES (${of.account}, ${of.number_range}, now() + make_interval(secs => ${of.seconds}), ${of.reason}, ${of.blocked_by})
    ON CONFLICT (account, number_range) DO UPDATE
       SET until = excluded.until, reason = excluded.reason, blocked_by = excluded.blocked_by, blocked_at = now()
    RETURNING account, number_range, until, reason, blocked_by, blocked_at`
  if (row === undefined) throw new Error('the insert of a block returned no row; it must return exactly one')
  return { ...row, before: earlier?.until ?? null }
}

/** Ends a block. Returns when it would have ended, or `null` if there is none. */
export const unblock = async (q: Queries, account: string, range: string): Promise<Date | null> => {
  const row = await firstRow(q<{ until: Date }[]>`
    DELETE FROM command.range_blocks WHERE account = ${account} AND number_range = ${range} AND ${inForce(q)}
    RETURNING until`)
  return row?.until ?? null
}
