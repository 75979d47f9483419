/** `command.acceptances`: the accepted messages, in daily partitions. Owner: command-api. */
import type { Queries } from '../../pool.ts'
import { firstRow } from '../../sql.ts'
import type { MessageColumns } from '../read/messages.ts'

/** The recipients of messages with these UUIDs. Unknown messages are left out. */
export const readRecipients = async (
  q: Queries,
  ids: ReadonlyArray<string>,
): Promise<ReadonlyArray<{ readonly id: string; readonly recipient: Buffer }>> =>
  q<{ id: string; recipient: Buffer }[]>`
    SELECT message_id AS id, recipient FROM command.acceptances WHERE message_id = ANY (${[...ids]}::uuid[])`

/** The columns of a message (UUID) that it shares with the read model; `null` without it. */
export const read = async (q: Queries, id: string): Promise<MessageColumns | null> =>
  firstRow(q<MessageColumns[]>`
    SELECT message_id AS id, account, mode, class, recipient, template, sender, client_ref, batch_id, parts, price,
           currency, variables, created_at
      FROM command.acceptances WHERE message_id = ${id} AND NOT given_back`)
