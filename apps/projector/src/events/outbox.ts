/**
 * `read.event_outbox`: recorded events that are still to be published to `hub.webhooks.v1`: those of
 * accounts with a subscription. A row contains the compressed records of a transaction. Events are
 * repetitive JSON and shrink to a twentieth in half a millisecond, which costs far less than the
 * larger row.
 */
import { decodeOutboxRow, encodeOutboxRow, type OutgoingRecord } from '@hub/kafka'
import type { Queries } from '@hub/store'
import { Result } from 'effect'
import type { OutboxStatus } from '../store/projection-store.port.ts'
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib'

/** The fastest level. Higher levels gain little on such text. */
const params = { [constants.ZSTD_c_compressionLevel]: 1 }

/** Returns the id of the row. */
export const insertOutboxRow = async (
  q: Queries,
  records: ReadonlyArray<OutgoingRecord>,
): Promise<string> => {
  const [row] = await q<{ id: string }[]>`
    INSERT INTO read.event_outbox (records) VALUES (${zstdCompressSync(encodeOutboxRow(records), { params })})
    RETURNING id`
  return row?.id ?? ''
}

/** Throws on a row that this program did not write. The row must stay and be noticed. */
export const unpackRow = (row: Uint8Array): ReadonlyArray<OutgoingRecord> =>
  Result.getOrThrowWith(
    decodeOutboxRow(zstdDecompressSync(row)),
    (error) => new Error(`A row of read.event_outbox cannot be decoded: ${error.reason}`),
  )

export const deleteOutboxRows = (q: Queries, ids: ReadonlyArray<string>) =>
  q`DELETE FROM read.event_outbox WHERE id = ANY (${[...ids]}::bigint[])`

/** The rows in all, those at least `olderThanMs` old, and the age of the oldest (0 without rows). */
export const readOutboxStatus = async (q: Queries, olderThanMs: number): Promise<OutboxStatus> => {
  const [row] = await q<OutboxStatus[]>`
    SELECT count(*)::integer AS rows,
           coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 AS "ageSeconds",
           (count(*) FILTER (WHERE created_at <= now() - make_interval(secs => ${olderThanMs / 1000})))::integer
             AS "olderRows"
      FROM read.event_outbox`
  return row ?? { rows: 0, olderRows: 0, ageSeconds: 0 }
}
