/** Records of a version of the hub that is newer than this process, as there are while one is rolled out. */
import type { IncomingRecord } from '../port.ts'
import { SCHEMAS } from '../schemas/schemas.ts'

/** Ids are given one after the other, so this is the end of those that this process can read. */
export const NEWEST_SCHEMA = Math.max(...SCHEMAS.map(({ id }) => id))

/**
 * No upgrade leaves out so many versions of records. An id further ahead was never given: such bytes are damaged, or nobody's, and readers
 * set them aside.
 */
const AHEAD = 100

/** The magic byte and the id of the schema, as `encodeRecord` writes them. */
const HEADER = 5

/** The schema's id where a newer version of the hub has written the record, otherwise `null`. */
export const newerSchemaOf = (value: Uint8Array): number | null => {
  if (value.length < HEADER || value[0] !== 0) return null
  const id = new DataView(value.buffer, value.byteOffset, HEADER).getInt32(1)
  return id > NEWEST_SCHEMA && id <= NEWEST_SCHEMA + AHEAD ? id : null
}

/** The records before the first one that a newer version has written; all of them where there is none. */
export const beforeNewer = (records: ReadonlyArray<IncomingRecord>): ReadonlyArray<IncomingRecord> => {
  const first = records.findIndex(({ value }) => newerSchemaOf(value) !== null)
  return first < 0 ? records : records.slice(0, first)
}
