/**
 * `command.event_inbox`: events that do not come from a message fact. Owner: projector, which moves
 * them into the journal. Any app inserts an event in the transaction of the change that it
 * describes. See docs/decisions/events.md#event-inbox.
 */
import type { PublicEvent } from '@hub/domain'
import type { Queries } from '../../pool.ts'
import { uuidOf } from '../../uuid.ts'
import type { Journal } from '../read/events.ts'

/** Inserts an event for a journal in the caller's transaction. Does nothing if the event exists. */
export const insert = async (q: Queries, { account, mode }: Journal, event: PublicEvent): Promise<void> => {
  await q`
    INSERT INTO command.event_inbox (id, account, mode, type, object)
    VALUES (${uuidOf('evt', event.id)}, ${account}, ${mode}, ${event.type}, ${JSON.stringify(event.object)}::text::json)
    ON CONFLICT (id) DO NOTHING`
}
