/** UUIDs: public ids as PostgreSQL stores them, and the time in a UUIDv7. */
import { decodeId, type IdPrefix } from '@hub/domain'

/**
 * The UUID of a public id that this program made or has already validated.
 *
 * Throws `RangeError` for any other text: the caller must validate ids from outside with `decodeId`
 * first.
 */
export const uuidOf = (prefix: IdPrefix, id: string): string => {
  const uuid = decodeId(prefix, id)
  if (uuid === null) throw new RangeError(`expected a public id with the prefix ${prefix}_`)
  return uuid
}

/** The smallest UUID, before every id. */
export const NIL_UUID = '00000000-0000-0000-0000-000000000000'

/** The smallest UUIDv7 of a time, milliseconds since the epoch. */
export const uuidFloor = (at: number): string => {
  const hex = Math.max(0, at).toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`
}

/** The time in a UUIDv7, milliseconds since the epoch. */
export const timeOfUuid = (uuid: string): number => Number.parseInt(uuid.slice(0, 8) + uuid.slice(9, 13), 16)
