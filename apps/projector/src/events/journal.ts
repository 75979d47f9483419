/**
 * Records events: gives each new event the next sequence number of its journal. The events of
 * journals with a subscription are also written to an outbox row, from which the publisher sends
 * them. Pure. Source: docs/architecture.md, Webhooks; docs/decisions/events.md#which-events-are-published.
 */
import { envelopeOf } from '@hub/domain'
import { eventRecordedRecord, type TopicNames } from '@hub/kafka'
import { type ReadEvents, timeOfUuid } from '@hub/store'
import type { TraceHeaders } from '@hub/telemetry'
import type { JournalEntry } from '../messages/fold.ts'
import type {
  EventRecording,
  JournalHead,
  JournalKey,
  JournalWrites,
} from '../store/projection-store.port.ts'

const keyOf = ({ account, mode }: JournalKey) => `${account}:${mode}`

/** The journals of the entries, without duplicates. */
export const journalsOf = (entries: ReadonlyArray<JournalKey>): ReadonlyArray<JournalKey> => [
  ...new Map(entries.map(({ account, mode }) => [keyOf({ account, mode }), { account, mode }])).values(),
]

/**
 * Gives new events their sequence numbers, and leaves out recorded ones. The returned events have
 * public ids.
 */
export const assignSequences = (
  entries: ReadonlyArray<JournalEntry>,
  heads: ReadonlyArray<JournalHead>,
  recorded: ReadonlySet<string>,
): Pick<JournalWrites, 'events' | 'heads'> => {
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

/** Adds the records of events whose journals have a subscription. `traces`: their headers, by event id. */
export const withRecords = (
  topics: TopicNames,
  { events, heads }: ReturnType<typeof assignSequences>,
  traces: ReadonlyMap<string, TraceHeaders>,
): JournalWrites => {
  const subscribed = new Set(heads.filter((head) => head.subscribed).map(keyOf))
  const published = events.filter((event) => subscribed.has(keyOf(event)))
  const records = published.map((event) => {
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
      traces.get(event.id),
    )
  })
  return { events, heads, records }
}

/** Clocks agree within a second. A day is a large margin, and small beside a monthly partition. */
const CLOCK_SKEW_MS = 24 * 3_600_000

/**
 * The time (ms since the epoch) before which no event of these objects (UUIDs) can be recorded. A
 * UUIDv7 contains the time at which the id was made; any other id gives no lower bound.
 */
export const notRecordedBefore = (uuids: ReadonlyArray<string>, now: number): number => {
  let oldest = now
  for (const uuid of uuids) {
    const createdAt = uuid[14] === '7' ? timeOfUuid(uuid) : 0
    oldest = Math.min(oldest, createdAt)
  }
  return Math.max(0, oldest - CLOCK_SKEW_MS)
}

const NO_TRACES: ReadonlyMap<string, TraceHeaders> = new Map()

/** Records events that do not come from a message fact. */
export const recordingOf = (topics: TopicNames, entries: ReadonlyArray<JournalEntry>): EventRecording => ({
  journals: journalsOf(entries),
  eventIds: entries.map(({ event }) => event.id),
  // These events are few, and their ids give no time, so all months are read.
  since: 0,
  write: ({ heads, recorded }) => withRecords(topics, assignSequences(entries, heads, recorded), NO_TRACES),
})
