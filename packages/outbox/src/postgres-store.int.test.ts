/** The tables in PostgreSQL pass the contract suites, with Kafka. */
import { randomBytes } from 'node:crypto'
import {
  createTopics,
  encodeOutboxRow,
  EventLog,
  type KafkaConnection,
  layerEventLog,
  layerTopicReader,
  topicCatalogue,
  topicNames,
  TopicReader,
} from '@hub/kafka'
import { makeSql, Sql } from '@hub/store'
import { freshDatabase, testBrokers } from '@hub/testkit'
import { assert, it } from '@effect/vitest'
import { Effect, Layer, Logger, Redacted } from 'effect'
import { afterAll } from 'vitest'
import { outboxOrderContract, TestTopic } from './order.contract.ts'
import { makeOutbox } from './outbox.ts'
import { layerPostgresStore } from './postgres-store.ts'
import { compressRow, insertOutboxRow, type OutboxTable } from './rows.ts'
import { outboxStoreContract, TestOutbox } from './store.contract.ts'
import { OutboxStore } from './store.port.ts'

const PARTITIONS = 3
const connection: KafkaConnection = { brokers: testBrokers(), clientId: 'outbox-test' }
const prefix = `outbox_${randomBytes(4).toString('hex')}.`
const { drop, url } = await freshDatabase()
afterAll(drop)
await Effect.runPromise(
  createTopics(connection, topicCatalogue({ prefix, partitions: PARTITIONS, replicationFactor: 1 })),
)

const layerOf = (table: OutboxTable, encode: typeof encodeOutboxRow) =>
  Layer.merge(
    layerPostgresStore(table),
    Layer.effect(
      TestOutbox,
      Effect.map(Sql, (sql) => ({
        insert: (records) =>
          Effect.map(Effect.orDie(sql.run((q) => insertOutboxRow(q, table, encode(records)))), ([row]) =>
            Number(row?.id),
          ),
      })),
    ),
  ).pipe(Layer.provide(Layer.effect(Sql, makeSql(Redacted.make(url), 4, 'outbox-test'))))

const topicOf = (topic: string) =>
  Layer.effect(
    TestTopic,
    Effect.map(TopicReader, ({ readAll }) => ({
      name: topic,
      idsOf: (key) =>
        Effect.map(Effect.orDie(readAll(topic)), (records) =>
          records.filter((record) => record.key === key).map(({ id }) => id),
        ),
    })),
  ).pipe(
    Layer.provide(layerTopicReader({ connection })),
    Layer.provideMerge(layerEventLog({ connection, partitions: PARTITIONS })),
  )

const topics = topicNames(prefix)
const tables = {
  'command.outbox': layerOf('command.outbox', encodeOutboxRow),
  'read.event_outbox': layerOf('read.event_outbox', (records) => compressRow(encodeOutboxRow(records))),
}
for (const [table, layer] of Object.entries(tables)) outboxStoreContract(table, layer)
outboxOrderContract('command.outbox', Layer.merge(tables['command.outbox'], topicOf(topics.acceptedService)))
outboxOrderContract('read.event_outbox', Layer.merge(tables['read.event_outbox'], topicOf(topics.webhooks)))

// The produce queue of an event log has room for 20,000 records (event-log.ts). After an outage, a step of the
// relay may have more: a row contains the events of a transaction.
it.live(
  'the relay appends the records of a step in parts',
  () =>
    Effect.gen(function* () {
      const { append } = yield* EventLog
      const { insert } = yield* TestOutbox
      const store = yield* OutboxStore
      const records = Array.from({ length: 2000 }, (_, number) => ({
        topic: topics.webhooks,
        key: `part ${number % 10}`,
        type: 'Numbered',
        id: String(number),
        occurredAt: 0,
        value: Buffer.from(String(number)),
      }))
      for (let row = 0; row < 11; row++) yield* insert(records)
      const outbox = yield* makeOutbox({
        table: 'read.event_outbox',
        append,
        abandonedAfterMs: 10_000,
        relaysAtOnce: true,
        lookEveryMs: 5000,
        onStatus: () => Effect.void,
      })
      yield* Effect.repeat(Effect.sleep('50 millis'), { until: () => !outbox.isRelaying() })
      assert.strictEqual((yield* store.status(0)).rows, 0)
    }).pipe(
      Effect.scoped,
      Effect.provide(Layer.merge(tables['read.event_outbox'], topicOf(topics.webhooks))),
      Effect.provide(Logger.layer([])),
    ),
  60_000,
)
