/** New public ids, with their UUIDs in PostgreSQL. */
import { randomBytes } from 'node:crypto'
import { type IdPrefix, NEW_ID_RANDOM_BYTES, newId } from '@hub/domain'
import { uuidOf } from '@hub/store'
import { Clock, Effect } from 'effect'

export const generateId = Effect.fnUntraced(function* (prefix: IdPrefix) {
  const id = newId(prefix, yield* Clock.currentTimeMillis, randomBytes(NEW_ID_RANDOM_BYTES))
  return { id, uuid: uuidOf(prefix, id) }
})
