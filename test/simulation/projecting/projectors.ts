/**
 * The projector processes with their store, the readers of the journals, and the checks of what they
 * recorded: at each commit, at each published event, and after all records are applied.
 */
import {
  applyBatch,
  decodeBatch,
  type JournalKey,
  makeProjector,
  type MessageRow,
  movePositions,
  ProjectionStore,
  RecordBuffer,
  recordCount,
  runOutcomes,
} from '@hub/projector'
import { journalName, MemoryStore } from '@hub/projector/testing'
import { isFinal, rank } from '@hub/domain'
import {
  DEAD_LETTER_HEADERS,
  deadLetterTopic,
  decodeEventRecorded,
  decodeMessageOutcome,
  type IncomingRecord,
  type MessageOutcome,
  topicNames,
} from '@hub/kafka'
import { simulatedKafka } from '@hub/kafka/testing'
import { OutboxStore } from '@hub/outbox'
import { PayloadEncryption, type ReadEvents } from '@hub/store'
import { Context, Effect, Result } from 'effect'
import { compareTable, differences } from '../../support/checker/compare.ts'
import { decodeValue, type TopicRecord } from '../../support/checker/decode-value.ts'
import { uuidOf } from '../../support/checker/ids.ts'
import { buildReference, type ReferenceModels, TABLES } from '../../support/checker/reference-projection.ts'
import { payloadEncryption } from '../dispatching/stores.ts'
import type { Activity } from '../world/idle.ts'
import { runMain } from '../world/main-fiber.ts'
import { ProcessFaults } from '../world/process-faults.ts'
import type { Simulation } from '../world/simulation.ts'
import { liveTablesOf } from './live-tables.ts'
import { lookedUpModel } from './looked-up-model.ts'
import { isPoison } from './poison.ts'
import { type Owners, storesOf } from './store-server.ts'

const SECOND = 1000
/**
 * All records must be applied this long after the faults: sessions, idle transactions, and the
 * longest pause between two attempts.
 */
export const APPLIED_WITHIN_MS = 60 * SECOND
/** Events of a page: small, so that a reader stops within transactions. */
const PAGE = 3
/** Records of one transaction in a rebuild. */
const REBUILD_BATCH = 7
/** Records of one transaction: also few, so that a message and its facts are in several ones. */
const BATCH_RECORDS = [5, 20, 2000]

/** The guarantee that a difference between topics and tables violates. */
const guaranteeOf = (difference: string): string => {
  const [, table] = /^(?:read|hub)\.(\w+)/u.exec(difference) ?? []
  switch (table) {
    case 'charges':
      return 'charges differ from the messages'
    case 'batches':
    case 'daily_stats':
    case 'hourly_stats':
    case 'range_stats':
      return 'a sum differs from its messages'
    case 'events':
    case 'event_heads':
      return 'the journal differs from the topics'
    case 'webhooks':
      return 'a published event changes'
    case 'checkpoints':
      return 'records are not applied'
    default:
      return 'a row differs from the topics'
  }
}

interface ProjectorOptions {
  /** The journals that have readers. */
  readonly journals: ReadonlyArray<JournalKey>
  /** Those that have a subscription from the beginning. */
  readonly subscribed?: ReadonlyArray<JournalKey>
  readonly onMessage?: (row: MessageRow) => void
  readonly onRecorded?: (events: ReadonlyArray<ReadEvents.JournalEvent>) => void
}

export const startProjectors = (
  simulation: Simulation,
  { journals, onMessage, onRecorded, subscribed = [] }: ProjectorOptions,
) => {
  const { broker, network, violations, world } = simulation
  const random = simulation.random('projectors')
  const topics = topicNames()
  const sources = [topics.acceptedOtp, topics.acceptedService, topics.messages]
  /** The sequence after which a journal has a subscription. */
  const subscribedAfter = new Map(subscribed.map((journal) => [journalName(journal), 0]))

  const store: MemoryStore = new MemoryStore({
    now: () => world.now(),
    isSubscribed: (journal) => subscribedAfter.has(journalName(journal)),
    onMessage: (row, before) => {
      world.note('read model', () => `${row.messageId} is ${row.status}`)
      if (before !== undefined) {
        if (rank(row.status, row.reason) < rank(before.status, before.reason)) {
          violations.add('a status goes back', `${row.messageId}: ${before.status} to ${row.status}`)
        }
        if (isFinal(before.status) && before.reason !== 'dlr_timeout_local' && row.status !== before.status) {
          violations.add('a final status changes', `${row.messageId}: ${before.status} to ${row.status}`)
        }
      }
      onMessage?.(row)
    },
    onRecorded: (events) => {
      for (const event of events) {
        world.note('journal', () => `${event.sequence} of ${event.account}: ${event.type}`)
        const reader = readers.get(journalName(event))
        if (reader !== undefined && event.sequence <= reader.length) {
          violations.add('an event appears behind a reader', `${event.sequence}: ${event.type}`)
        }
      }
      onRecorded?.(events)
    },
  })

  // ---- the readers of the journals

  /** The ids that the reader of each journal has read. */
  const readers = new Map<string, Array<string>>(journals.map((journal) => [journalName(journal), []]))
  const readPage = (journal: JournalKey): number => {
    const read = readers.get(journalName(journal))!
    const page = store.events(journal).filter(({ sequence }) => sequence > read.length)
    for (const { id, sequence } of page.slice(0, PAGE)) {
      if (sequence !== read.length + 1) {
        violations.add('the sequence of a journal has a gap', `${sequence} after ${read.length}`)
      }
      if (read.includes(id)) violations.add('an event is in the journal twice', `${sequence}: ${id}`)
      read.push(id)
    }
    return page.length
  }
  const follow = (journal: JournalKey) => {
    readPage(journal)
    world.after(random.between(5, 1500), () => follow(journal))
  }
  for (const journal of journals) follow(journal)

  // ---- what is published

  const recorded = (record: IncomingRecord): boolean => {
    const decoded = decodeEventRecorded(record)
    if (Result.isFailure(decoded)) return true
    const { account, event, mode } = decoded.success
    return store.events({ account, mode }).some(({ id }) => id === event)
  }
  const checked = new Map<number, number>()
  broker.watch((topic, partition) => {
    if (topic !== topics.webhooks) return
    const from = checked.get(partition) ?? 0
    const records = broker.fetch(topic, partition, from, Number.POSITIVE_INFINITY)
    checked.set(partition, from + records.length)
    for (const record of records) {
      if (record.type === 'EventRecorded' && !recorded(record)) {
        violations.add('an event is published that is not recorded', record.id)
      }
    }
  })

  // ---- the processes

  const maxBatchRecords = random.pick(BATCH_RECORDS)
  const outcomes = simulation.random('outcomes').chance(0.5)
  const owners: Owners = new Map()
  const start = (number: number) => {
    const skew = random.chance(0.2) ? random.between(-3000, 3000) : 0
    const process = world.startProcess(`projector-${number}`, skew)
    const stores = storesOf(simulation, store, owners, process)
    const services = simulatedKafka(broker, network.kafkaHost(process)).pipe(
      Context.add(ProjectionStore, stores.projection),
      Context.add(OutboxStore, stores.outbox),
      Context.add(PayloadEncryption, payloadEncryption(network, process)),
      Context.merge(process.context),
    )
    const main = Effect.andThen(
      Effect.andThen(
        makeProjector({ prefix: '', partitions: broker.partitions, maxBatchRecords, outcomes }),
        outcomes ? runOutcomes(topics, true) : Effect.void,
      ),
      Effect.never,
    ).pipe(Effect.scoped, Effect.provideContext(services))
    runMain(process, main, {
      onStarted: (stop) => processes.onStop(process, stop),
      onFailed: (cause) => violations.add('a process fails', `${process.name}: ${cause}`),
    })
    return process
  }
  const processes = new ProcessFaults(simulation, 'projector', start)

  // ---- the checks

  const recordsOf = (topic: string) => broker.topic(topic).flat()
  const valuesOf = (...names: ReadonlyArray<string>): ReadonlyArray<TopicRecord> =>
    names
      .flatMap(recordsOf)
      .filter((record) => !isPoison(record))
      .map(({ offset, partition, value }) => ({ partition, offset, ...decodeValue(value) }))
  const behind = () =>
    sources.flatMap((topic) =>
      Array.from({ length: broker.partitions }, (_, partition) => {
        const position = store.tables.checkpoints.get(`${topic}/${partition}`)?.position ?? 0
        return broker.end(topic, partition) - position
      }),
    )
  const isDone = () =>
    behind().every((records) => records === 0) &&
    store.tables.outbox.size === 0 &&
    store.tables.outcomesDue.size === 0

  const checkTopics = () => {
    const lanes = valuesOf(topics.acceptedOtp, topics.acceptedService)
    const log = valuesOf(topics.messages)
    const without = sources.flatMap(recordsOf).length - lanes.length - log.length
    const live = liveTablesOf(
      store,
      new Map(
        [...subscribedAfter].map(([name, after]) => {
          const [account, mode] = name.split(':')
          return [`${uuidOf(account ?? '')} ${mode}`, after]
        }),
      ),
    )
    const all = {
      lanes,
      log,
      webhooks: valuesOf(topics.webhooks),
      deadLetters: new Map(),
    }
    const reference = buildReference(all)
    const found = differences(all, reference, { ...live, applied: live.applied - without })
    for (const difference of found) violations.add(guaranteeOf(difference), difference)
    if (outcomes) checkOutcomes(reference)
  }

  /**
   * The last record of each message with a final status is its outcome, and no other message has one.
   * An earlier one may say that the message expired. Behind it, a late append of this one is possible
   * (docs/decisions/read-models.md#message-outcomes).
   */
  const checkOutcomes = ({ tables: { messages } }: ReferenceModels) => {
    const byMessage = new Map<string, Array<MessageOutcome>>()
    for (const record of recordsOf(topics.outcomes)) {
      const { messageId, ...rest } = Result.getOrThrow(decodeMessageOutcome(record))
      const uuid = uuidOf(messageId)
      byMessage.set(uuid, [...(byMessage.get(uuid) ?? []), { messageId, ...rest }])
    }
    for (const [uuid, row] of messages) {
      const own = byMessage.get(uuid) ?? []
      byMessage.delete(uuid)
      const isRow = ({ accountId, finalStatus, priceHundredths, reasonCode }: MessageOutcome) =>
        finalStatus === row['status'] &&
        reasonCode === row['reason_code'] &&
        uuidOf(accountId) === row['account'] &&
        priceHundredths === Math.round(Number(row['price']) * 100)
      if (row['final'] !== 'true' || row['account'] === null) {
        if (own.length > 0) violations.add('a message without a final status has an outcome', uuid)
        continue
      }
      if (!own.some(isRow)) violations.add('a message has no outcome', uuid)
      const isExpiry = ({ reasonCode }: MessageOutcome) => reasonCode === 'dlr_timeout_local'
      for (const other of own.filter((one) => !isRow(one) && !isExpiry(one))) {
        violations.add('an outcome differs from its message', `${uuid}: ${other.finalStatus}`)
      }
    }
    for (const uuid of byMessage.keys()) violations.add('an outcome has no message', uuid)
  }

  /** The records that cannot be applied are dead letters, and no others are. */
  const checkDeadLetters = () => {
    const nameOf = (topic: string, partition: number | string, offset: number | string) =>
      `${topic}/${partition}/${offset}`
    const expected = new Set(
      sources
        .flatMap(recordsOf)
        .filter(isPoison)
        .map(({ offset, partition, topic }) => nameOf(topic, partition, offset)),
    )
    const found = new Set(
      sources
        .flatMap((topic) => recordsOf(deadLetterTopic(topic)))
        .map(({ headers = {} }) =>
          nameOf(
            headers[DEAD_LETTER_HEADERS.topic] ?? '',
            headers[DEAD_LETTER_HEADERS.partition] ?? '',
            headers[DEAD_LETTER_HEADERS.offset] ?? '',
          ),
        ),
    )
    for (const one of expected) {
      if (!found.has(one)) violations.add('a record that cannot be applied is no dead letter', one)
    }
    for (const one of found) if (!expected.has(one)) violations.add('a dead letter can be applied', one)
  }

  /** Applies all records again to empty tables, the log before the lanes. */
  const rebuild = (): MemoryStore => {
    const rebuilt = new MemoryStore({ now: () => world.now(), isSubscribed: () => false })
    const buffer = new RecordBuffer()
    for (const topic of sources.toReversed()) {
      for (let partition = 0; partition < broker.partitions; partition++) {
        buffer.addPartition(topic, { topic, partition, position: 0, epoch: 1, fence: 0 }, 0)
        buffer.ingest(topic, partition, broker.fetch(topic, partition, 0, Number.POSITIVE_INFINITY))
      }
    }
    const shape = rebuilt.shape()
    const rejected = new Map(
      sources
        .flatMap(recordsOf)
        .filter(isPoison)
        .map((record) => [record, 'rejected']),
    )
    Effect.runSync(shape.acquire(buffer.partitions))
    for (;;) {
      const batch = buffer.takeBatch(REBUILD_BATCH)
      if (recordCount(batch) === 0) return rebuilt
      const decoded = decodeBatch(batch, rejected)
      Effect.runSync(
        applyBatch(topics, { ...decoded, personalData: new Map() }).pipe(
          Effect.provideService(ProjectionStore, shape),
        ),
      )
      movePositions(decoded.advances)
    }
  }

  const checkRebuild = () => {
    const none = new Map<string, number>()
    const live = liveTablesOf(store, none)
    const rebuilt = liveTablesOf(rebuild(), none)
    for (const name of TABLES) {
      if (name === 'personal_data') continue
      for (const difference of compareTable(name, rebuilt.tables[name], live.tables[name])) {
        violations.add('a rebuild differs from the live tables', difference)
      }
    }
  }

  return {
    store,
    subscribedAfter,
    lookedUp: lookedUpModel(store),
    isDone,
    /** Call it when not all records were applied and published in time. */
    checkProgress: () => {
      const records = behind().reduce((sum, one) => sum + one, 0)
      if (records > 0) violations.add('records are not applied', `${records} records`)
      const rows = store.tables.outbox.size
      if (rows > 0) violations.add('an event is not published', `${rows} outbox rows`)
      const due = store.tables.outcomesDue.size
      if (due > 0) violations.add('an outcome stays due', `${due} rows`)
    },
    activity: {
      violation: 'the projector is not idle',
      what: 'events and outcomes',
      count: () =>
        [...store.tables.journals.values()].reduce((sum, { events }) => sum + events.length, 0) +
        recordsOf(topics.webhooks).length +
        recordsOf(topics.outcomes).length,
    } satisfies Activity,
    check: () => {
      for (const journal of journals) while (readPage(journal) > 0);
      checkTopics()
      checkDeadLetters()
      checkRebuild()
    },
  }
}
