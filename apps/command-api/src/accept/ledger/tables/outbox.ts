/** `command.outbox`: the statements that only command-api runs. */
import type { Queries } from '@hub/store'

export const insertOutboxRow = (q: Queries, records: Uint8Array) =>
  q<{ id: string }[]>`INSERT INTO command.outbox (records) VALUES (${records}) RETURNING id`

export const deleteOutboxRows = (q: Queries, rows: ReadonlyArray<number>) =>
  q`DELETE FROM command.outbox WHERE id = ANY (${rows.map(String)}::bigint[])`

/** The highest row; 0 if the table is empty. */
export const selectHighestRow = async (q: Queries): Promise<number> => {
  const [row] = await q<{ highest: string }[]>`SELECT coalesce(max(id), 0) AS highest FROM command.outbox`
  return Number(row?.highest)
}

/** `hasBacklog`: a row up to `highest` is left. `age`: of the oldest row, seconds. */
export const selectBacklog = (q: Queries, highest: number | null) => q<
  { hasBacklog: boolean; age: number; count: number }[]
>`
  SELECT coalesce(bool_or(id <= ${highest}), false) AS "hasBacklog",
         coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 AS age,
         count(*)::integer AS count FROM command.outbox`
