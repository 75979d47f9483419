/**
 * `read.messages`: the read model of messages, one row for each message, in monthly partitions.
 *
 * Owner: projector. A row without `account` is incomplete: the projector has applied a fact of the message,
 * but not its `MessageAccepted` yet.
 */
import type { Queries } from '../../pool.ts'
import type { SqlFragment } from '../../sql.ts'

/**
 * A condition: whether the projector has applied the acceptance of a message. `messageId` is the column
 * with the UUID of the message, such as `a.message_id`.
 */
export const isProjected = (q: Queries, messageId: string): SqlFragment =>
  q`coalesce((SELECT m.account IS NOT NULL FROM read.messages m WHERE m.id = ${q(messageId)}), false)`
