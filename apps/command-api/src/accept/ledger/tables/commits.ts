/**
 * `command.commits`: the commits of acceptance batches, and those that were withdrawn. Only one
 * transaction can insert an id, so a withdrawn commit never succeeds.
 */
import type { Queries } from '@hub/store'

/** Inserts the id of a commit. No row: the commit was withdrawn. */
export const insertCommit = (q: Queries, id: string) =>
  q<{ id: string }[]>`INSERT INTO command.commits (id) VALUES (${id}) ON CONFLICT DO NOTHING RETURNING id`

/** Fails as a conflict, which undoes the transaction, if the commit was withdrawn. */
export const requireCommit = (q: Queries, id: string) => q`
  WITH inserted AS (${insertCommit(q, id)})
  SELECT command.require((SELECT count(*) FROM inserted) = 1)`

/**
 * Withdraws a commit, and returns whether it was too late. Waits for a transaction in progress with
 * the same id, for a short time.
 */
export const withdrawCommit = async (q: Queries, id: string): Promise<'committed' | 'withdrawn'> => {
  // One round trip: the driver sends statements in the order of their start.
  const [, , [row]] = await Promise.all([
    q`SET LOCAL lock_timeout = '400ms'`.execute(),
    q`INSERT INTO command.commits (id, withdrawn) VALUES (${id}, true) ON CONFLICT DO NOTHING`.execute(),
    q<{ withdrawn: boolean }[]>`SELECT withdrawn FROM command.commits WHERE id = ${id}`.execute(),
  ])
  return row?.withdrawn === true ? 'withdrawn' : 'committed'
}

/** Deletes up to `limit` ids of commits that are older than an hour. Returns their number. */
export const deleteOldCommits = async (q: Queries, limit: number): Promise<number> => {
  const rows = await q`
    DELETE FROM command.commits WHERE id IN (
      SELECT id FROM command.commits WHERE id < command.uuid_floor(now() - interval '1 hour') ORDER BY id LIMIT ${limit})`
  return rows.count
}
