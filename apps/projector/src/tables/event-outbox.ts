/** `read.event_outbox`: recorded events that are still to be published to `hub.webhooks.v1`. */
import type { Queries } from '@hub/store'

/** Returns the id of the row. */
export const insertOutboxRow = async (q: Queries, records: Buffer): Promise<string> => {
  const [row] = await q<{ id: string }[]>`
    INSERT INTO read.event_outbox (records) VALUES (${records}) RETURNING id`
  return row?.id ?? ''
}

export const deleteOutboxRows = (q: Queries, ids: ReadonlyArray<string>) =>
  q`DELETE FROM read.event_outbox WHERE id = ANY (${[...ids]}::bigint[])`

interface OutboxStatus {
  readonly rows: number
  /** Rows that are at least `olderThanMs` old. */
  readonly olderRows: number
  /** Age of the oldest row; 0 without rows. */
  readonly ageSeconds: number
}

export const readOutboxStatus = async (q: Queries, olderThanMs: number): Promise<OutboxStatus> => {
  const [row] = await q<OutboxStatus[]>`
    SELECT count(*)::integer AS rows,
           coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 AS "ageSeconds",
           (count(*) FILTER (WHERE created_at <= now() - make_interval(secs => ${olderThanMs / 1000})))::integer
             AS "olderRows"
      FROM read.event_outbox`
  return row ?? { rows: 0, olderRows: 0, ageSeconds: 0 }
}
