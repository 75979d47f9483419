/** `command.acceptances`: the accepted messages, in daily partitions. Owner: command-api. */
import type { Queries } from '../../pool.ts'

/** The recipients of messages with these UUIDs. Unknown messages are left out. */
export const readRecipients = async (
  q: Queries,
  ids: ReadonlyArray<string>,
): Promise<ReadonlyArray<{ readonly id: string; readonly recipient: Buffer }>> =>
  q<{ id: string; recipient: Buffer }[]>`
    SELECT message_id AS id, recipient FROM command.acceptances WHERE message_id = ANY (${[...ids]}::uuid[])`
