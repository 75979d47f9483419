/** New identifiers. The domain is pure, so the random bytes come from here. */
import { randomFillSync } from 'node:crypto'
import { type IdPrefix, NEW_ID_RANDOM_BYTES, newId } from '@hub/domain'
import { uuidOf } from '@hub/store'

/** Random bytes for 400 ids: one system call per id is visible in the profile of a send. */
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

/** A new id of a commit: a UUIDv7, in the text form of PostgreSQL. */
export const commitId = (nowMs: number): string => uuidOf('msg', freshId('msg', nowMs))

/** Creates ids of one kind. Tests replace it by a deterministic one. */
export type MakeId = (nowMs: number) => string
