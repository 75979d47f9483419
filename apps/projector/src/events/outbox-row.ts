/**
 * What a row of `read.event_outbox` holds: packed records, compressed. Events are JSON that repeats itself, so they
 * shrink to a twentieth in half a millisecond, which is a small part of what PostgreSQL takes for the difference.
 */
import { decodeOutboxRow, encodeOutboxRow, type OutgoingRecord } from '@hub/kafka'
import { Result } from 'effect'
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib'

/** The fastest level: the higher ones gain little on text like this. */
const params = { [constants.ZSTD_c_compressionLevel]: 1 }

export const packRow = (records: ReadonlyArray<OutgoingRecord>): Buffer =>
  zstdCompressSync(encodeOutboxRow(records), { params })

/** Throws on a row that this program has not written: it must stay where it is, and be seen. */
export const unpackRow = (row: Uint8Array): ReadonlyArray<OutgoingRecord> =>
  Result.getOrThrowWith(
    decodeOutboxRow(zstdDecompressSync(row)),
    (error) => new Error(`outbox row: ${error.reason}`),
  )
