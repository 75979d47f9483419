import { randomBytes } from 'node:crypto'
import { NEW_ID_RANDOM_BYTES, newUuid } from '@hub/domain'
import type { Outcome } from './store.port.ts'

/** Ids of attempts, UUIDs. Random bytes are drawn for all of them at once. */
export const attemptIds = (outcomes: ReadonlyArray<Outcome>): ReadonlyArray<string> => {
  const random = randomBytes(NEW_ID_RANDOM_BYTES * outcomes.length)
  return outcomes.map(({ startedAt }, index) =>
    newUuid(startedAt, random.subarray(index * NEW_ID_RANDOM_BYTES, (index + 1) * NEW_ID_RANDOM_BYTES)),
  )
}
