/**
 * Moves events from `command.event_inbox` into the journal. The inbox contains events that do not
 * come from a message fact, such as `webhook.endpoint_disabled`. Source: EVT-2;
 * docs/decisions/events.md#event-inbox.
 */
import { encodeId, type EventType, type Mode } from '@hub/domain'
import type { Queries } from '@hub/store'
import type { JournalEntry } from '../messages/fold.ts'
import type { TakenEntries } from '../store/projection-store.port.ts'

/** Events of one transaction, which locks their journal heads. */
const EVENTS_PER_TRANSACTION = 200

interface Row {
  readonly place: string
  readonly id: string
  readonly account: string
  readonly mode: Mode
  readonly type: EventType
  readonly object: object
}

export const isInboxFilled = async (q: Queries): Promise<boolean> =>
  (await q`SELECT FROM command.event_inbox LIMIT 1`).count > 0

/** Removes and returns the oldest events in order. Concurrent callers get different events. */
const takeEvents = async (q: Queries): Promise<ReadonlyArray<JournalEntry>> => {
  const rows = await q<Row[]>`
    DELETE FROM command.event_inbox WHERE place IN (
      SELECT place FROM command.event_inbox ORDER BY place LIMIT ${EVENTS_PER_TRANSACTION} FOR UPDATE SKIP LOCKED)
    RETURNING place, id, account, mode, type, object`
  return rows
    .toSorted((a, b) => Number(a.place) - Number(b.place))
    .map(({ account, id, mode, object, type }) => ({
      account: encodeId('acc', account),
      mode,
      event: { id: encodeId('evt', id), type, object },
    }))
}

export const takeFromInbox = async (q: Queries): Promise<TakenEntries> => {
  const entries = await takeEvents(q)
  return { entries, isFull: entries.length === EVENTS_PER_TRANSACTION }
}
