/** Public ids as PostgreSQL stores them. */
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
