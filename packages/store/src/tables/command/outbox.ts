/**
 * `command.outbox`: records that are committed in PostgreSQL and still to be appended to Kafka.
 * Owner: command-api, which relays the rows (`@hub/outbox`). Any app may insert a row in the
 * transaction of the change that its records describe.
 */
import type { Queries } from '../../pool.ts'

/** Inserts encoded records in the caller's transaction. Returns the id of the row. */
export const insert = async (q: Queries, records: Uint8Array): Promise<string> => {
  const [row] = await q<{ id: string }[]>`
    INSERT INTO command.outbox (records) VALUES (${Buffer.from(records)}) RETURNING id`
  return row?.id ?? ''
}
