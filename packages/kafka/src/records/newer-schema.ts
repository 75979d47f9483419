/** Recognizes records of a newer version of the hub, which occur during a rolling update. */
import type { IncomingRecord } from '../port.ts'
import { SCHEMAS } from '../schemas/schemas.ts'
import { HEADER_BYTES } from './codec.ts'

/** Schema ids are assigned in ascending order, so this version knows no id above this one. */
export const NEWEST_SCHEMA = Math.max(...SCHEMAS.map(({ id }) => id))

/**
 * No update adds so many schema versions. A larger id was never assigned: such a record is damaged
 * or foreign, and consumers dead-letter it.
 */
const MAX_NEW_SCHEMAS = 100

/** The schema id, if a newer version of the hub wrote the record; otherwise `null`. */
export const newerSchemaOf = (value: Uint8Array): number | null => {
  if (value.length < HEADER_BYTES || value[0] !== 0) return null
  const id = new DataView(value.buffer, value.byteOffset, HEADER_BYTES).getInt32(1)
  return id > NEWEST_SCHEMA && id <= NEWEST_SCHEMA + MAX_NEW_SCHEMAS ? id : null
}

/** The records before the first one that a newer version wrote; all of them where there is none. */
export const beforeNewer = (records: ReadonlyArray<IncomingRecord>): ReadonlyArray<IncomingRecord> => {
  const first = records.findIndex(({ value }) => newerSchemaOf(value) !== null)
  return first < 0 ? records : records.slice(0, first)
}
