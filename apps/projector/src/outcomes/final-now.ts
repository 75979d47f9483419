/** The messages whose outcome a transaction decides. Pure. */
import { isFinal } from '@hub/domain'
import type { Changes } from '../messages/fold.ts'
import type { MessageRow } from '../messages/row.ts'

const hasOutcome = (row: MessageRow | undefined): boolean =>
  row !== undefined && row.subject !== null && isFinal(row.status)

/**
 * The ids (`msg_…`) of messages that are final after the changes, and were not before or have another
 * status now. A message without its acceptance follows with the acceptance.
 */
export const finalNow = (
  before: ReadonlyMap<string, MessageRow>,
  { accepted, updated }: Pick<Changes, 'accepted' | 'updated'>,
): ReadonlyArray<string> =>
  [...accepted.map(({ row }) => row), ...updated]
    .filter((row) => {
      const old = before.get(row.messageId)
      return hasOutcome(row) && (!hasOutcome(old) || old?.status !== row.status)
    })
    .map(({ messageId }) => messageId)
