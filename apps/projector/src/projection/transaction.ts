/**
 * One poll, one transaction: checkpoints compared and moved, rows, history, operator ids, personal data, then what
 * projectors share (sums over messages), and last the events behind the ends of their journals.
 */
import {
  envelopeOf,
  eventIdOf,
  type MessageAccepted,
  type MessageFact,
  spendThresholdEventId,
} from '@hub/domain'
import { type BatchSealed, eventRecordedRecord, type OutgoingRecord, type TopicNames } from '@hub/kafka'
import { type Queries, ReadCheckpoints, Sql, type StorageError, uuidOf } from '@hub/store'
import { Clock, Effect } from 'effect'
import { packRow } from '../events/outbox-row.ts'
import type { Claim } from './record-buffer.ts'
import {
  type Checkpoint,
  type Head,
  type JournalKey,
  lockCheckpoints,
  moveCheckpoints,
  moveHeads,
  readMessages,
  recordedEvents,
  type RecordedEvent,
  takeHeads,
  writeAccepted,
  writeEvents,
  writeHistory,
  writeOperatorIds,
  writeOutbox,
  writePersonalData,
  writeUnaccepted,
  writeUpdated,
} from '../tables/all.ts'
import { completedEntry, mayClose, spendersOf, thresholdEntry } from '../aggregates/aggregate-events.ts'
import {
  closeBatches,
  lockSpendPeriods,
  tellThresholds,
  writeBatches,
  writeCharges,
  writeStats,
} from '../tables/aggregates.ts'
import { type Changes, fold, type JournalEntry } from '../messages/fold.ts'
import type { PersonalBox } from '../messages/personal-data.ts'
import { type PollTraces, UNTRACED } from './traces.ts'

/** Where a claim's checkpoint goes. */
export interface Advance {
  readonly claim: Claim
  readonly to: number
  /** Highest epoch of a `ShardOpened` before `to`. */
  readonly fence: number
}

/** A poll that has been read: what it means for the rows. */
export interface Digest {
  readonly advances: ReadonlyArray<Advance>
  /** Lanes first, then the log: what has its acceptance in the same poll need not wait for it. */
  readonly facts: ReadonlyArray<MessageFact>
  /** Seals of batches, of whichever messages. */
  readonly seals: ReadonlyArray<BatchSealed>
  /** Encrypted number (and text) of what is accepted here, by message id. */
  readonly boxes: ReadonlyMap<string, PersonalBox>
}

/** Events recorded by a transaction, waiting in its outbox row to be published. */
export interface Publication {
  readonly outboxId: string
  readonly records: ReadonlyArray<OutgoingRecord>
}

export type Outcome =
  | { readonly kind: 'applied'; readonly publication: Publication | null }
  /** An earlier attempt, whose outcome was not known, had been committed. Its events are in the outbox. */
  | { readonly kind: 'applied_before' }
  /** Somebody else has claimed a partition since, or moved it. Nothing was changed. */
  | { readonly kind: 'superseded' }

/**
 * For how long a transaction may take, ms. A poll takes tens of milliseconds; this is for a database under stress, and
 * short enough for a process that must end within ten seconds.
 */
const DEADLINE_MS = 5000

const compare = (
  advances: ReadonlyArray<Advance>,
  stored: ReadonlyArray<Checkpoint>,
): 'as_expected' | 'applied_before' | 'superseded' => {
  const at = new Map(stored.map((checkpoint) => [`${checkpoint.topic}/${checkpoint.partition}`, checkpoint]))
  let expected = 0
  let applied = 0
  for (const { claim, to } of advances) {
    const checkpoint = at.get(`${claim.topic}/${claim.partition}`)
    if (checkpoint === undefined || checkpoint.epoch !== claim.epoch) return 'superseded'
    if (checkpoint.position === claim.position) expected++
    if (checkpoint.position === to) applied++
  }
  if (expected === advances.length) return 'as_expected'
  return applied === advances.length ? 'applied_before' : 'superseded'
}

const journalKey = ({ account, mode }: JournalKey) => `${account}:${mode}`

/** The journals that these belong to, each once. */
const journalsOf = (entries: ReadonlyArray<JournalKey>): ReadonlyArray<JournalKey> => {
  const journals = new Map<string, JournalKey>()
  for (const { account, mode } of entries) {
    const key = journalKey({ account, mode })
    if (!journals.has(key)) journals.set(key, { account, mode })
  }
  return [...journals.values()]
}

/** Gives new events their places behind the heads; what is recorded already is left out. Pure. */
export const placeEvents = (
  entries: ReadonlyArray<JournalEntry>,
  heads: ReadonlyArray<Head>,
  recorded: ReadonlySet<string>,
): { readonly events: ReadonlyArray<RecordedEvent>; readonly heads: ReadonlyArray<Head> } => {
  const ends = new Map(heads.map((head) => [journalKey(head), { ...head }]))
  const events: Array<RecordedEvent> = []
  const seen = new Set(recorded)
  for (const { account, mode, event } of entries) {
    const end = ends.get(journalKey({ account, mode }))
    if (end === undefined || seen.has(event.id)) continue
    seen.add(event.id)
    end.sequence += 1
    events.push({
      account,
      mode,
      id: event.id,
      type: event.type,
      sequence: end.sequence,
      recordedAt: end.recordedAt,
      body: JSON.stringify(envelopeOf(event, { recordedAt: end.recordedAt, mode })),
    })
  }
  return { events, heads: [...ends.values()] }
}

const writeRows = (q: Queries, changes: Changes, boxes: ReadonlyMap<string, PersonalBox>) => {
  const personal = changes.accepted.flatMap(({ fact }: { readonly fact: MessageAccepted }) => {
    const box = boxes.get(fact.messageId)
    return box === undefined ? [] : [{ fact, box }]
  })
  return [
    ...(changes.accepted.length > 0 ? [writeAccepted(q, changes.accepted)] : []),
    ...(changes.updated.length > 0 ? [writeUpdated(q, changes.updated)] : []),
    ...(changes.unaccepted.length > 0 ? [writeUnaccepted(q, changes.unaccepted)] : []),
    ...(changes.history.length > 0 ? [writeHistory(q, changes.history)] : []),
    ...(changes.operatorIds.length > 0 ? [writeOperatorIds(q, changes.operatorIds)] : []),
    ...(personal.length > 0 ? [writePersonalData(q, personal)] : []),
  ]
}

/** What projectors share, table by table in the order in which everybody takes them. */
const writeSums = (q: Queries, { batches, charges, stats }: Changes, seals: ReadonlyArray<BatchSealed>) => {
  const reversals = charges.filter(({ kind }) => kind === 'reversal')
  return [
    ...(batches.length > 0 || seals.length > 0 ? [writeBatches(q, batches, seals)] : []),
    ...(stats.length > 0 ? [writeStats(q, stats)] : []),
    ...(reversals.length > 0 ? [lockSpendPeriods(q, reversals, spendersOf(charges))] : []),
    ...(charges.length > 0 ? [writeCharges(q, charges)] : []),
  ]
}

/** Writes events behind the ends of their journals, and the outbox row that they are published from. */
const writePlaced = async (
  q: Queries,
  topics: TopicNames,
  placed: ReturnType<typeof placeEvents>,
  traceparents: ReadonlyMap<string, string>,
): Promise<Publication | null> => {
  if (placed.events.length === 0) return null
  const records = placed.events.map((event) => {
    const traceparent = traceparents.size === 0 ? undefined : traceparents.get(event.id)
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
    writeOutbox(q, packRow(records)),
    writeEvents(q, placed.events),
    moveHeads(q, placed.heads),
  ])
  return { outboxId, records }
}

/**
 * Clocks of processes and of PostgreSQL agree within a second, or a process is not ready; a day is a thousand times that, and nothing beside
 * the month that is looked into anyway.
 */
const SKEW_MS = 24 * 3_600_000

/**
 * Before this moment (milliseconds since the epoch) nothing can have been recorded of what these ids name: they carry the moment in which
 * they were made. Of an id that does not, nothing is known. Pure.
 */
export const notRecordedBefore = (
  subjects: ReadonlyArray<{ readonly prefix: 'msg' | 'bat'; readonly id: string }>,
  now: number,
): number => {
  const moments = subjects.map(({ id, prefix }) => {
    const uuid = uuidOf(prefix, id)
    return uuid[14] === '7' ? Number.parseInt(uuid.slice(0, 8) + uuid.slice(9, 13), 16) : 0
  })
  return Math.max(0, moments.reduce((oldest, moment) => Math.min(oldest, moment), now) - SKEW_MS)
}

/** Records events that come from elsewhere. To be called last in a transaction: it holds the ends of their journals. */
export const recordEntries = async (
  q: Queries,
  topics: TopicNames,
  entries: ReadonlyArray<JournalEntry>,
): Promise<Publication | null> => {
  const heads = await takeHeads(q, journalsOf(entries))
  const recorded = await recordedEvents(
    q,
    entries.map(({ event }) => event.id),
    // Of what these tell is not known here; they are few.
    0,
  )
  return writePlaced(q, topics, placeEvents(entries, heads, recorded), UNTRACED.ofEvents(entries))
}

/**
 * Applies a digest. Three round trips whatever its size: lock and read; write rows and take the heads; write events.
 * Statements of one round trip are sent together and run in order.
 */
export const applyDigest = (
  topics: TopicNames,
  digest: Digest,
  traces: PollTraces = UNTRACED,
): Effect.Effect<Outcome, StorageError, Sql> =>
  Effect.flatMap(Effect.all([Sql, Clock.currentTimeMillis]), ([sql, now]) =>
    sql.transaction<Outcome>(
      async (q) => {
        const { advances, boxes, facts, seals } = digest
        const messageIds = [...new Set(facts.map((fact) => fact.messageId))]
        const [stored, rows] = await Promise.all([
          lockCheckpoints(
            q,
            ReadCheckpoints.PROJECTION,
            advances.map(({ claim }) => claim),
          ),
          messageIds.length === 0 ? new Map() : readMessages(q, messageIds),
        ])
        const verdict = compare(advances, stored)
        if (verdict !== 'as_expected') return { kind: verdict }

        const changes = fold(rows, facts)
        const candidates = mayClose(changes.batches, seals)
        const spenders = spendersOf(changes.charges)
        const since = Math.min(
          notRecordedBefore(
            [
              ...messageIds.map((id) => ({ prefix: 'msg' as const, id })),
              ...candidates.map(({ batch }) => ({ prefix: 'bat' as const, id: batch })),
            ],
            now,
          ),
          ...spenders.map(({ period }) => Date.parse(period)),
        )
        // Started here, in this order: statements on one connection run as they were started, and what is shared, the
        // heads most of all, is to be held for as short a time as possible.
        const writes = [
          moveCheckpoints(
            q,
            ReadCheckpoints.PROJECTION,
            advances.map(({ claim, fence, to }) => ({
              topic: claim.topic,
              partition: claim.partition,
              position: to,
              fence,
            })),
          ),
          ...writeRows(q, changes, boxes),
          ...writeSums(q, changes, seals),
        ].map((statement) => statement.execute())
        if (changes.events.length === 0 && candidates.length === 0) {
          await Promise.all(writes)
          return { kind: 'applied', publication: null }
        }
        const [closed, crossed, heads, recorded] = await Promise.all([
          candidates.length === 0
            ? []
            : closeBatches(
                q,
                candidates.map(({ batch }) => batch),
              ),
          spenders.length === 0 ? [] : tellThresholds(q, spenders),
          takeHeads(q, journalsOf([...changes.events, ...candidates])),
          recordedEvents(
            q,
            [
              ...changes.events.map(({ event }) => event.id),
              ...candidates.map(({ batch }) => eventIdOf(batch, 'batch.completed')),
              ...spenders.map(({ account, period }) => spendThresholdEventId(account, period)),
            ],
            since,
          ),
          Promise.all(writes),
        ])
        const entries = [...changes.events, ...closed.map(completedEntry), ...crossed.map(thresholdEntry)]
        return {
          kind: 'applied',
          publication: await writePlaced(
            q,
            topics,
            placeEvents(entries, heads, recorded),
            traces.ofEvents(entries),
          ),
        }
      },
      { deadline: DEADLINE_MS },
    ),
  )
