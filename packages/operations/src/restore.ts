/** Steps after the restore of a database backup, which use data from Kafka. */
import { decodeId, fromTimestamp } from '@hub/domain'
import {
  decodeEventRecorded,
  describeGroup,
  type IncomingRecord,
  layerKeysAndErasures,
  topicNames,
} from '@hub/kafka'
import {
  acceptKafka,
  connectedDatabase,
  connectedKafka,
  missingErasures as readMissingErasures,
  recordDatabase,
  restoreErasures,
  restoreEvents,
  restoreLedger,
} from '@hub/store'
import { Effect, Result, Schema } from 'effect'
import { refused } from './failures.ts'
import { Timestamp } from './fields.ts'
import { CLIENT, kafkaConfig } from './kafka.ts'
import { readToEnd } from './read-topic.ts'
import { defineUseCase } from './use-case.ts'

/** The consumer group of the projectors, which record events. Without the prefix. */
const PROJECTORS = 'hub.projector'

/** The published event in a record. An empty list for other records. */
const publishedEvent = (record: IncomingRecord) => {
  const decoded = record.type === 'EventRecorded' ? decodeEventRecorded(record) : null
  if (decoded === null || Result.isFailure(decoded)) return []
  const { account, body, createdAt, event, eventType, mode, sequence } = decoded.success
  const ids = { account: decodeId('acc', account), id: decodeId('evt', event) }
  return ids.account === null || ids.id === null
    ? []
    : [{ account: ids.account, id: ids.id, mode, sequence, type: eventType, createdAt, body }]
}

/** Fails while a projector runs: it would record the events again with other sequence numbers. */
const requireNoProjector = Effect.gen(function* () {
  const [connection, { prefix }] = yield* kafkaConfig
  const { members } = yield* describeGroup(connection, `${prefix}${PROJECTORS}`)
  if (members > 0) {
    return yield* refused('projectors_run', `${members} projectors run and record events. Stop them first.`)
  }
})

/** Restores the events after the backup in the journals of accounts with webhooks. */
export const journal = defineUseCase({
  name: 'restore journal',
  permission: 'hub.change',
  input: Schema.Struct({}),
  output: Schema.Struct({
    object: Schema.Literal('restored_journal'),
    restored: Schema.Int,
    /** Events behind a gap, which are not restored. */
    after_gap: Schema.Int,
  }),
  audit: () => ({}),
  result: ({ after_gap, restored }) => ({ restored, after_gap }),
  run: Effect.fnUntraced(function* () {
    yield* requireNoProjector
    const [, { prefix }] = yield* kafkaConfig
    /** Reads the topic once. */
    const pass = Effect.gen(function* () {
      const counts = { restored: 0, after_gap: 0 }
      yield* readToEnd(
        topicNames(prefix).webhooks,
        Effect.fnUntraced(function* (records) {
          const { afterGap, restored } = yield* restoreEvents(records.flatMap(publishedEvent))
          counts.restored += restored
          counts.after_gap += afterGap
        }),
      )
      return counts
    })
    let restored = 0
    for (;;) {
      const counts = yield* pass
      restored += counts.restored
      // Events are published approximately in order: an event can be read before its predecessor.
      if (counts.restored === 0 || counts.after_gap === 0) {
        return { object: 'restored_journal' as const, restored, after_gap: counts.after_gap }
      }
    }
  }),
})

/** Marks references as used and calculates the spend again, for messages accepted since a time. */
export const ledger = defineUseCase({
  name: 'restore ledger',
  permission: 'hub.change',
  input: Schema.Struct({
    /** A time before the start of the backup. */
    since: Timestamp,
  }),
  output: Schema.Struct({
    object: Schema.Literal('restored_ledger'),
    references: Schema.Int,
    /** Months of accounts whose spend was calculated. */
    periods: Schema.Int,
  }),
  audit: ({ since }) => ({ since }),
  result: ({ periods, references }) => ({ references, periods }),
  run: ({ since }) =>
    Effect.map(restoreLedger(fromTimestamp(since) ?? 0), (counts) => ({
      object: 'restored_ledger' as const,
      ...counts,
    })),
})

const erasureTopic = Effect.map(kafkaConfig, ([connection, { prefix }]) =>
  layerKeysAndErasures(connection, topicNames(prefix)),
)

/** The number of erasures in Kafka that the database does not contain. */
export const missingErasures = defineUseCase({
  name: 'restore missing-erasures',
  permission: 'hub.read',
  input: Schema.Struct({}),
  output: Schema.Struct({ object: Schema.Literal('missing_erasures'), missing: Schema.Int }),
  audit: null,
  run: Effect.fnUntraced(function* () {
    const missing = yield* Effect.provide(readMissingErasures, yield* erasureTopic)
    return { object: 'missing_erasures' as const, missing: missing.length }
  }),
})

/** Applies the erasures after the backup again. It cannot be undone. */
export const erasures = defineUseCase({
  name: 'restore erasures',
  permission: 'hub.change',
  input: Schema.Struct({}),
  output: Schema.Struct({ object: Schema.Literal('restored_erasures'), restored: Schema.Int }),
  audit: () => ({}),
  result: ({ restored }) => ({ restored }),
  run: Effect.fnUntraced(function* () {
    const restored = yield* Effect.provide(restoreErasures(), yield* erasureTopic)
    return { object: 'restored_erasures' as const, restored }
  }),
})

/** Makes the Kafka cluster of the settings the one of the hub, after a restore into another cluster. */
export const kafka = defineUseCase({
  name: 'restore kafka',
  permission: 'hub.change',
  input: Schema.Struct({}),
  output: Schema.Struct({
    object: Schema.Literal('restored_kafka'),
    cluster: Schema.String,
    prefix: Schema.String,
    /** The cluster before; `null` if the hub had none. */
    before: Schema.NullOr(Schema.String),
  }),
  audit: () => ({}),
  result: ({ before, cluster }) => ({ cluster, before }),
  run: Effect.fnUntraced(function* () {
    const connected = yield* connectedKafka(CLIENT)
    const before = yield* acceptKafka(connected)
    return { object: 'restored_kafka' as const, ...connected, before: before?.cluster ?? null }
  }),
})

/** Makes the database of the settings the one of the hub, after a restore into another database. */
export const database = defineUseCase({
  name: 'restore database',
  permission: 'hub.change',
  input: Schema.Struct({}),
  output: Schema.Struct({
    object: Schema.Literal('restored_database'),
    database: Schema.String,
    /** The database before; `null` if the hub had none. */
    before: Schema.NullOr(Schema.String),
  }),
  audit: () => ({}),
  result: ({ before, database: now }) => ({ database: now, before }),
  run: Effect.fnUntraced(function* () {
    const connected = yield* connectedDatabase
    if (connected === null) {
      return yield* refused(
        'database_unknown',
        'The role of HUB_DATABASE_URL may not execute pg_control_system(), so the hub does not compare databases.',
      )
    }
    const { database: before } = yield* connectedKafka(CLIENT)
    if (!(yield* recordDatabase(CLIENT, connected))) {
      return yield* refused('topic_missing', 'A topic is missing. Run hubctl topics apply first.')
    }
    return { object: 'restored_database' as const, database: connected, before }
  }),
})
