/** The statements that record events: lock the journal heads, then write events and outbox row. */
import { encodeOutboxRow } from '@hub/kafka'
import { compressRow, insertOutboxRow } from '@hub/outbox'
import { type Queries, ReadEvents, uuidOf } from '@hub/store'
import type { EventRecording, JournalWrites, Recorded } from '../store/projection-store.port.ts'
import { findRecordedEvents, lockJournalHeads, updateJournalHeads } from './journal-tables.ts'

/** Writes events, their journal heads and the outbox row. */
export const writeJournal = async (
  q: Queries,
  { events, heads, records }: JournalWrites,
): Promise<Recorded> => {
  if (events.length === 0) return { events: 0, publication: null }
  const [rows] = await Promise.all([
    records.length === 0
      ? null
      : insertOutboxRow(q, 'read.event_outbox', compressRow(encodeOutboxRow(records))),
    ReadEvents.insert(
      q,
      events.map((event) => ({
        ...event,
        account: uuidOf('acc', event.account),
        id: uuidOf('evt', event.id),
      })),
    ),
    updateJournalHeads(q, heads),
  ])
  const row = rows?.[0]
  return {
    events: events.length,
    publication: row === undefined ? null : { outboxRow: Number(row.id), records },
  }
}

/** Records events of a source. Call it last in a transaction: it locks the journal heads. */
export const recordEvents = async (
  q: Queries,
  { eventIds, journals, since, write }: EventRecording,
): Promise<Recorded> => {
  const heads = await lockJournalHeads(q, journals)
  const recorded = await findRecordedEvents(q, eventIds, since)
  return writeJournal(q, write({ heads, recorded, closed: [], crossed: [] }))
}
