/**
 * Records events: gives each new event the next sequence number of its journal, and writes the
 * journal. The events of journals with a subscription are also written to an outbox row, from which
 * the publisher sends them. Source: contract amendments, Retention; docs/decisions/0046.
 */
import { envelopeOf } from '@hub/domain'
import { eventRecordedRecord, type OutgoingRecord, type TopicNames } from '@hub/kafka'
import { type Queries, ReadEvents, timeOfUuid, uuidOf } from '@hub/store'
import type { JournalEntry } from '../messages/fold.ts'
import {
  findRecordedEvents,
  type JournalHead,
  type JournalKey,
  lockJournalHeads,
  updateJournalHeads,
} from './journal-tables.ts'
import { insertOutboxRow } from './outbox.ts'

/** The events of a transaction for webhooks. Its outbox row contains them until they are published. */
export interface Publication {
  readonly outboxId: string
  readonly records: ReadonlyArray<OutgoingRecord>
}

/** What a transaction recorded. */
export interface Recorded {
  /** The number of new events in the journals. */
  readonly events: number
  /** `null`: none of their journals has a subscription. */
  readonly publication: Publication | null
}

const keyOf = ({ account, mode }: JournalKey) => `${account}:${mode}`

/** The journals of the entries, without duplicates. */
export const journalsOf = (entries: ReadonlyArray<JournalKey>): ReadonlyArray<JournalKey> => [
  ...new Map(entries.map(({ account, mode }) => [keyOf({ account, mode }), { account, mode }])).values(),
]

/**
 * Gives new events their sequence numbers, and leaves out recorded ones. The returned events have
 * public ids. Pure.
 */
export const assignSequences = (
  entries: ReadonlyArray<JournalEntry>,
  heads: ReadonlyArray<JournalHead>,
  recorded: ReadonlySet<string>,
): {
  readonly events: ReadonlyArray<ReadEvents.JournalEvent>
  readonly heads: ReadonlyArray<JournalHead>
} => {
  const headsByKey = new Map(heads.map((head) => [keyOf(head), { ...head }]))
  const events: Array<ReadEvents.JournalEvent> = []
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
      createdAt: head.recordedAt,
      body: JSON.stringify(envelopeOf(event, { recordedAt: head.recordedAt, mode })),
    })
  }
  return { events, heads: [...headsByKey.values()] }
}

/**
 * Writes events, their journal heads and, for journals with a subscription, the outbox row.
 * `traceparents`: by event id.
 */
export const writeJournal = async (
  q: Queries,
  topics: TopicNames,
  { events, heads }: ReturnType<typeof assignSequences>,
  traceparents: ReadonlyMap<string, string>,
): Promise<Recorded> => {
  if (events.length === 0) return { events: 0, publication: null }
  const subscribed = new Set(heads.filter((head) => head.subscribed).map(keyOf))
  const published = events.filter((event) => subscribed.has(keyOf(event)))
  const records = published.map((event) => {
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
        createdAt: event.createdAt,
        body: event.body,
      },
      traceparent === undefined ? {} : { traceparent },
    )
  })
  const [outboxId] = await Promise.all([
    records.length === 0 ? null : insertOutboxRow(q, records),
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
  return { events: events.length, publication: outboxId === null ? null : { outboxId, records } }
}

/** Clocks agree within a second. A day is a large margin, and small beside a monthly partition. */
const CLOCK_SKEW_MS = 24 * 3_600_000

/**
 * The time (ms since the epoch) before which no event of these objects (UUIDs) can be recorded. A
 * UUIDv7 contains the time at which the id was made; any other id gives no lower bound. Pure.
 */
export const notRecordedBefore = (uuids: ReadonlyArray<string>, now: number): number => {
  let oldest = now
  for (const uuid of uuids) {
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
): Promise<Recorded> => {
  const heads = await lockJournalHeads(q, journalsOf(entries))
  // These events are few, and their ids give no time, so all months are read.
  const recorded = await findRecordedEvents(
    q,
    entries.map(({ event }) => event.id),
    0,
  )
  return writeJournal(q, topics, assignSequences(entries, heads, recorded), NO_TRACEPARENTS)
}
