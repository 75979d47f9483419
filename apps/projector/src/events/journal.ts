/**
 * Records events: gives each new event the next sequence number of its journal, and writes the
 * journal and the outbox row from which the publisher sends the events.
 */
import { envelopeOf } from '@hub/domain'
import { eventRecordedRecord, type OutgoingRecord, type TopicNames } from '@hub/kafka'
import { type Queries, timeOfUuid, uuidOf } from '@hub/store'
import type { JournalEntry } from '../messages/fold.ts'
import {
  findRecordedEvents,
  type JournalHead,
  type JournalKey,
  lockJournalHeads,
  type RecordedEvent,
  updateJournalHeads,
  writeEvents,
} from '../tables/event-journal.ts'
import { insertOutboxRow } from '../tables/event-outbox.ts'
import { packRow } from './outbox-row.ts'

/** The events of a transaction. Its outbox row contains them until they are published. */
export interface Publication {
  readonly outboxId: string
  readonly records: ReadonlyArray<OutgoingRecord>
}

const keyOf = ({ account, mode }: JournalKey) => `${account}:${mode}`

/** The journals of the entries, without duplicates. */
export const journalsOf = (entries: ReadonlyArray<JournalKey>): ReadonlyArray<JournalKey> => [
  ...new Map(entries.map(({ account, mode }) => [keyOf({ account, mode }), { account, mode }])).values(),
]

/** Gives new events their sequence numbers, and leaves out recorded ones. Pure. */
export const assignSequences = (
  entries: ReadonlyArray<JournalEntry>,
  heads: ReadonlyArray<JournalHead>,
  recorded: ReadonlySet<string>,
): { readonly events: ReadonlyArray<RecordedEvent>; readonly heads: ReadonlyArray<JournalHead> } => {
  const headsByKey = new Map(heads.map((head) => [keyOf(head), { ...head }]))
  const events: Array<RecordedEvent> = []
  const seen = new Set(recorded)
  for (const { account, mode, event } of entries) {
    const head = headsByKey.get(keyOf({ account, mode }))
    if (head === undefined || seen.has(event.id)) continue
    seen.add(event.id)
    head.sequence += 1
    events.push({
      account,
      mode,
      id: event.id,
      type: event.type,
      sequence: head.sequence,
      recordedAt: head.recordedAt,
      body: JSON.stringify(envelopeOf(event, { recordedAt: head.recordedAt, mode })),
    })
  }
  return { events, heads: [...headsByKey.values()] }
}

/** Writes events, their journal heads and the outbox row. `traceparents`: by event id. */
export const writeJournal = async (
  q: Queries,
  topics: TopicNames,
  { events, heads }: ReturnType<typeof assignSequences>,
  traceparents: ReadonlyMap<string, string>,
): Promise<Publication | null> => {
  if (events.length === 0) return null
  const records = events.map((event) => {
    const traceparent = traceparents.get(event.id)
    return eventRecordedRecord(
      topics,
      {
        type: 'EventRecorded',
        event: event.id,
        account: event.account,
        mode: event.mode,
        sequence: event.sequence,
        eventType: event.type,
        createdAt: event.recordedAt,
        body: event.body,
      },
      traceparent === undefined ? {} : { traceparent },
    )
  })
  const [outboxId] = await Promise.all([
    insertOutboxRow(q, packRow(records)),
    writeEvents(q, events),
    updateJournalHeads(q, heads),
  ])
  return { outboxId, records }
}

/** Clocks agree within a second. A day is a large margin, and small beside a monthly partition. */
const CLOCK_SKEW_MS = 24 * 3_600_000

/**
 * The time (ms since the epoch) before which no event of these subjects can be recorded. A UUIDv7
 * contains the time at which the id was made; any other id gives no lower bound. Pure.
 */
export const notRecordedBefore = (
  subjects: ReadonlyArray<{ readonly prefix: 'msg' | 'bat'; readonly id: string }>,
  now: number,
): number => {
  let oldest = now
  for (const { id, prefix } of subjects) {
    const uuid = uuidOf(prefix, id)
    const createdAt = uuid[14] === '7' ? timeOfUuid(uuid) : 0
    oldest = Math.min(oldest, createdAt)
  }
  return Math.max(0, oldest - CLOCK_SKEW_MS)
}

const NO_TRACEPARENTS: ReadonlyMap<string, string> = new Map()

/** Records events of the inbox. Call it last in a transaction: it locks the journal heads. */
export const recordEvents = async (
  q: Queries,
  topics: TopicNames,
  entries: ReadonlyArray<JournalEntry>,
): Promise<Publication | null> => {
  const heads = await lockJournalHeads(q, journalsOf(entries))
  // These events are few, and their ids give no time, so all months are read.
  const recorded = await findRecordedEvents(
    q,
    entries.map(({ event }) => event.id),
    0,
  )
  return writeJournal(q, topics, assignSequences(entries, heads, recorded), NO_TRACEPARENTS)
}
