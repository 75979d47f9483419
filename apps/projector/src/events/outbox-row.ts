/**
 * The format of `read.event_outbox.records`: compressed records. Events are repetitive JSON and
 * shrink to a twentieth in half a millisecond, which costs far less than the larger row.
 */
import { decodeOutboxRow, encodeOutboxRow, type OutgoingRecord } from '@hub/kafka'
import { Result } from 'effect'
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib'

/** The fastest level. Higher levels gain little on such text. */
const params = { [constants.ZSTD_c_compressionLevel]: 1 }

export const packRow = (records: ReadonlyArray<OutgoingRecord>): Buffer =>
  zstdCompressSync(encodeOutboxRow(records), { params })

/** Throws on a row that this program did not write. The row must stay and be noticed. */
export const unpackRow = (row: Uint8Array): ReadonlyArray<OutgoingRecord> =>
  Result.getOrThrowWith(
    decodeOutboxRow(zstdDecompressSync(row)),
    (error) => new Error(`A row of read.event_outbox cannot be decoded: ${error.reason}`),
  )
