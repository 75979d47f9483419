/** New identifiers. The domain knows no randomness; this is where it comes in. */
import { randomFillSync } from 'node:crypto'
import { type IdPrefix, NEW_ID_RANDOM_BYTES, newId } from '@hub/domain'

/** Random bytes are drawn for 400 ids at once: a system call an id shows in the profile of a send. */
const pool = Buffer.alloc(NEW_ID_RANDOM_BYTES * 400)
let used = pool.length

/** A new public id. `nowMs` is milliseconds since the epoch. */
export const freshId = (prefix: IdPrefix, nowMs: number): string => {
  if (used === pool.length) {
    randomFillSync(pool)
    used = 0
  }
  const random = pool.subarray(used, used + NEW_ID_RANDOM_BYTES)
  used += NEW_ID_RANDOM_BYTES
  return newId(prefix, nowMs, random)
}

/** Makes ids of one kind; a port, so that tests can say what comes out. */
export type MakeId = (nowMs: number) => string
