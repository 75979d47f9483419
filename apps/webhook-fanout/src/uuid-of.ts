/** Public ids as PostgreSQL has them. */
import { decodeId } from '@hub/domain'

/** The UUID of an id that this program or the codec has vouched for; what reads records checks theirs. */
export const uuidOf = (prefix: 'evt' | 'evb' | 'whd', id: string): string => {
  const uuid = decodeId(prefix, id)
  // Ids come from records that the codec has accepted or from this program; what reads records checks them.
  if (uuid === null) throw new RangeError(`not an id of kind ${prefix}`)
  return uuid
}
