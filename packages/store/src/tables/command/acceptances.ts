/** `command.acceptances`: the accepted messages, in daily partitions. Owner: command-api. */
import type { Queries } from '../../pool.ts'
import { firstRow } from '../../sql.ts'
import type { MessageColumns } from '../read/messages.ts'
import { mayShow } from './erasures.ts'

/** The recipients of messages with these UUIDs. Unknown messages are left out. */
export const readRecipients = async (
  q: Queries,
  ids: ReadonlyArray<string>,
): Promise<ReadonlyArray<{ readonly id: string; readonly recipient: Buffer }>> =>
  q<{ id: string; recipient: Buffer }[]>`
    SELECT message_id AS id, recipient FROM command.acceptances WHERE message_id = ANY (${[...ids]}::uuid[])`

/** A message of the ledger with the columns that it shares with the read model. */
interface AcceptedMessage extends MessageColumns {
  /** False after an erasure: then no number or text of the message must be shown. */
  readonly may_show: boolean
}

/** A message (UUID); `null` without it. */
export const read = async (q: Queries, id: string): Promise<AcceptedMessage | null> =>
  firstRow(q<AcceptedMessage[]>`
    SELECT message_id AS id, account, mode, class, recipient, template, sender, client_ref, batch_id, parts, price,
           currency, variables, created_at, ${mayShow(q, 'a.recipient', 'a.created_at')} AS may_show
      FROM command.acceptances a WHERE message_id = ${id} AND NOT given_back`)
