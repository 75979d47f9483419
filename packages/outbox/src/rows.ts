/**
 * The rows of an outbox table. A row contains the encoded records of one transaction
 * (`encodeOutboxRow`), compressed or not.
 */
import { decodeOutboxRow, type OutgoingRecord, type UndecodableRecord } from '@hub/kafka'
import type { Queries } from '@hub/store'
import type { Result } from 'effect'
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib'

/** The tables. Each has the columns `id`, `records` and `created_at`. */
export type OutboxTable = 'command.outbox' | 'read.event_outbox'

/** The fastest level. Higher levels gain little on texts that repeat. */
const params = { [constants.ZSTD_c_compressionLevel]: 1 }
/** The first bytes of a zstd frame. Source: RFC 8878, 3.1.1. An encoded row begins with its version, 1. */
const ZSTD_MAGIC = Buffer.from([0x28, 0xb5, 0x2f, 0xfd])

/**
 * Compresses an encoded row. Events are repetitive JSON and shrink to a twentieth in half a millisecond,
 * which costs far less than the larger row.
 */
export const compressRow = (row: Uint8Array): Uint8Array => zstdCompressSync(row, { params })

/** Decodes a row, in the order of its records. */
export const decodeRow = (
  row: Uint8Array,
): Result.Result<ReadonlyArray<OutgoingRecord>, UndecodableRecord> => {
  const isCompressed = ZSTD_MAGIC.equals(row.subarray(0, ZSTD_MAGIC.length))
  return decodeOutboxRow(isCompressed ? zstdDecompressSync(row) : row)
}

/** Inserts an encoded row in the caller's transaction. */
export const insertOutboxRow = (q: Queries, table: OutboxTable, records: Uint8Array) =>
  q<{ id: string }[]>`INSERT INTO ${q(table)} (records) VALUES (${records}) RETURNING id`

export const deleteOutboxRows = (q: Queries, table: OutboxTable, rows: ReadonlyArray<number>) =>
  q`DELETE FROM ${q(table)} WHERE id = ANY (${rows.map(String)}::bigint[])`
