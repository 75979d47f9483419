/** Reads one message: from the read model, or from the ledger until the projectors have recorded it. */
import { CommandAcceptances, ReadMessages, uuidOf } from '@hub/store'
import { Effect } from 'effect'
import { refused } from '../failures.ts'
import { query } from '../sql.ts'

export interface FoundMessage {
  readonly row: ReadMessages.ProjectedMessage
  /** False: only the ledger has it. */
  readonly isProjected: boolean
}

/** `id`: `msg_…`. */
export const readMessage = Effect.fnUntraced(function* (id: string) {
  const uuid = uuidOf('msg', id)
  const found = yield* query(async (q): Promise<FoundMessage | null> => {
    const [row] = await ReadMessages.readAll(q, [uuid])
    if (row !== undefined) return row.is_shown ? { row, isProjected: true } : null
    const accepted = await CommandAcceptances.read(q, uuid)
    if (accepted === null) return null
    return {
      row: {
        ...accepted,
        updated_at: accepted.created_at,
        status: 'accepted',
        reason_code: null,
        attempts: 0,
        history: null,
        in_first_year: true,
        is_shown: true,
        personal_key: null,
        personal: null,
      },
      isProjected: false,
    }
  })
  return (
    found ??
    (yield* refused(
      'message_not_found',
      `There is no message ${id}. Records older than three years are not shown.`,
      'id',
    ))
  )
})
