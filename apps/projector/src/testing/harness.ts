/**
 * The environment of the projector in its integration tests: an own database and own topics on the
 * servers of the test run.
 */
import {
  acceptedRecord,
  ConsumerGroups,
  createTopics,
  EventLog,
  type IncomingRecord,
  type KafkaConnection,
  layerConsumerGroups,
  layerEventLog,
  layerTopicReader,
  logRecord,
  type OutgoingRecord,
  type Position,
  PayloadKeyTopics,
  topicCatalogue,
  topicNames,
} from '@hub/kafka'
import {
  decodeId,
  encodeId,
  type LogFact,
  type MessageAccepted,
  type Mode,
  newId,
  numberRangeOf,
  recipientHash,
} from '@hub/domain'
import { messageAccepted } from '@hub/domain/testing'
import { encodePayload, makeSql, MasterKeyEncryption, PayloadEncryption, type Queries, Sql } from '@hub/store'
import { ANSWERED_WITHIN_MS, freePort, freshDatabase, testBrokers } from '@hub/testkit'
import { ConfigProvider, Deferred, Effect, Fiber, Layer, Logger, Redacted, Schedule } from 'effect'
import { spawn } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import { layerEventOutboxStore } from '../events/event-outbox.ts'
import { makeProjector } from '../projection/projector.ts'
import { MAX_BATCH_RECORDS } from '../projection/worker.ts'
import { runRebuilds } from '../rebuild/runner.ts'
import { layerPostgresStore } from '../store/postgres-store.ts'

const MASTER_KEY = randomBytes(32).toString('base64')
const PARTITIONS = 3

/**
 * Creates a database, topics, and a folder for the data of processes. Call it at the top of a test
 * file: database and folder are removed after its tests.
 */
export const useTestEnvironment = async (name: string) => {
  const connection: KafkaConnection = { brokers: testBrokers(), clientId: `test-${name}` }
  const prefix = `${name}_${randomBytes(4).toString('hex')}.`
  const { drop, url } = await freshDatabase()
  await Effect.runPromise(
    createTopics(connection, topicCatalogue({ prefix, partitions: PARTITIONS, replicationFactor: 1 })),
  )
  const home = mkdtempSync(join(tmpdir(), 'hub-projector-'))
  afterAll(async () => {
    await drop()
    rmSync(home, { recursive: true, force: true })
  })
  return {
    home,
    prefix,
    url,
    brokers: connection.brokers.join(','),
    topics: topicNames(prefix),
    layer: layerOf(url, connection, prefix),
    /** The same layer with another address of the database. */
    layerThrough: (other: string) => layerOf(other, connection, prefix),
  }
}
type TestEnvironment = Awaited<ReturnType<typeof useTestEnvironment>>

/** The id of the n-th account of a test file. */
export const account = (n: number) =>
  encodeId('acc', `0193a1b2-0000-7000-8000-${n.toString(16).padStart(12, '0')}`)

/**
 * A test machine may be very busy. The time limit of the test is the real bound.
 */
const GENEROUS = { deadline: '20 seconds' } as const

/** Inserts a subscription as command-api does. */
export const insertSubscription = async (q: Queries, owner: string, mode: Mode = 'live') => {
  const accountUuid = decodeId('acc', owner)
  await q`INSERT INTO command.accounts (id, name) VALUES (${accountUuid}, 'Shop') ON CONFLICT DO NOTHING`
  const [row] = await q<{ id: string; after_sequence: string }[]>`
    INSERT INTO webhooks.endpoints (id, account, mode, url, secret)
    VALUES (${randomUUID()}, ${accountUuid}, ${mode}, 'https://receiver.test', '')
    RETURNING id, after_sequence`
  if (row === undefined) throw new Error('the subscription was not inserted')
  return { uuid: row.id, afterSequence: Number(row.after_sequence) }
}

/** Creates a subscription, so that the events of the account and mode are published. */
export const subscribe = (owner: string, mode: Mode = 'live') =>
  Effect.flatMap(Sql, (sql) => sql.transaction((q) => insertSubscription(q, owner, mode), GENEROUS))

/** Runs a projector in this process until the scope closes. */
export const startProjector = (
  { prefix }: TestEnvironment,
  maxBatchRecords = MAX_BATCH_RECORDS,
  outcomes = false,
) => makeProjector({ prefix, partitions: PARTITIONS, maxBatchRecords, outcomes })

/** Executes rebuilds in this process until the scope closes. */
export const startRebuilds = (
  { prefix }: TestEnvironment,
  maxBatchRecords = MAX_BATCH_RECORDS,
  outcomes = false,
) => runRebuilds({ prefix, partitions: PARTITIONS, maxBatchRecords, outcomes })

const layerOf = (url: string, connection: KafkaConnection, prefix: string) =>
  // Fresh: a layer with another address of the database has another store.
  Layer.mergeAll(
    PayloadEncryption.layer,
    Layer.fresh(layerPostgresStore),
    Layer.fresh(layerEventOutboxStore),
  ).pipe(
    Layer.provideMerge(
      Layer.mergeAll(
        Layer.effect(Sql, makeSql(Redacted.make(url), 6, 'projector-test')),
        MasterKeyEncryption.layer.pipe(
          Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ HUB_MASTER_KEY: MASTER_KEY }))),
        ),
        PayloadKeyTopics.layer(topicNames(prefix)).pipe(Layer.provideMerge(layerTopicReader({ connection }))),
        layerConsumerGroups({ connection }),
        Logger.layer([]),
      ),
    ),
    Layer.provideMerge(layerEventLog({ connection, partitions: PARTITIONS })),
  )

/** Waits for a condition of the database. The time limit of the test bounds the wait. */
export const until = (condition: (q: Queries) => Promise<boolean>) =>
  Effect.flatMap(Sql, (sql) =>
    Effect.repeat(sql.run(condition, GENEROUS), {
      until: (met) => met,
      schedule: Schedule.spaced('20 millis'),
    }),
  )

/** Executes `body` in a transaction, and keeps it open until the returned effect runs. */
export const openTransaction = Effect.fnUntraced(function* <A>(body: (q: Queries) => Promise<A>) {
  const sql = yield* Sql
  const begun = yield* Deferred.make<void>()
  const over = Promise.withResolvers<void>()
  const fiber = yield* Effect.forkScoped(
    sql.transaction(
      async (q) => {
        await q`SELECT set_config('idle_in_transaction_session_timeout', '0', true)`
        const result = await body(q)
        Deferred.doneUnsafe(begun, Effect.void)
        await over.promise
        return result
      },
      { deadline: '2 minutes' },
    ),
  )
  yield* Effect.raceFirst(Deferred.await(begun), Fiber.join(fiber))
  return Effect.suspend(() => {
    over.resolve()
    return Fiber.join(fiber)
  })
})

/** Waits until projectors have applied all appended records. */
export const applied = (prefix: string, positions: ReadonlyArray<Position>) => {
  const ends = new Map<string, Position>()
  for (const position of positions) {
    const key = `${position.topic}/${position.partition}`
    if ((ends.get(key)?.offset ?? -1) < position.offset) ends.set(key, position)
  }
  const wanted = [...ends.values()]
  return until(async (q) => {
    const rows = await q<{ topic: string; partition: number; position: string }[]>`
      SELECT topic, partition, position FROM read.checkpoints`
    return wanted.every((end) =>
      rows.some(
        (row) =>
          prefix + row.topic === end.topic &&
          row.partition === end.partition &&
          Number(row.position) > end.offset,
      ),
    )
  })
}

export interface MessageOptions {
  readonly account: string
  readonly mode?: Mode
  readonly class?: 'otp' | 'service'
  readonly at?: number
  readonly number?: string
  readonly batch?: string | null
  readonly template?: string
}

/** An acceptance with an encrypted payload. */
export const acceptanceOf = Effect.fnUntraced(function* (options: MessageOptions) {
  const payloadEncryption = yield* PayloadEncryption
  const at = options.at ?? Date.now()
  const messageId = newId('msg', at, randomBytes(10))
  const messageClass = options.class ?? 'service'
  const number =
    options.number ?? `+79${String(randomBytes(4).readUInt32BE() % 1_000_000_000).padStart(9, '0')}`
  const key = yield* payloadEncryption.currentKey(messageClass)
  const payload = encodePayload({
    to: number,
    text: `Заказ ${messageId} готов`,
    variables: { order: messageId },
  })
  return messageAccepted({
    messageId,
    at,
    account: options.account,
    mode: options.mode ?? 'live',
    class: messageClass,
    recipient: recipientHash('a secret of thirty-two characters', number),
    numberRange: numberRangeOf(number),
    template: options.template ?? 'order_ready',
    clientRef: `ref-${messageId}`,
    batch: options.batch ?? null,
    price: { amount: options.mode === 'test' ? '0.00' : '2.00', currency: 'RUB' },
    payloadKey: key.id,
    ciphertext: key.encrypt(messageId, payload),
  })
})

/** The facts of a message that is submitted at the first attempt and delivered. */
export const deliveryOf = (fact: MessageAccepted, epoch = 1): ReadonlyArray<LogFact> => {
  const { at, messageId } = fact
  return [
    { type: 'HandoverStarted', messageId, at: at + 1, epoch, attempt: 1, operator: 'http' },
    {
      type: 'MessageSent',
      messageId,
      at: at + 2,
      operator: 'http',
      operatorIds: [`op-${messageId}`],
      reportDeadline: at + 1000,
    },
    { type: 'MessageDelivered', messageId, at: at + 3 },
  ]
}

export const laneRecord = (environment: TestEnvironment, fact: MessageAccepted): OutgoingRecord =>
  acceptedRecord(environment.topics, fact)
export const logRecords = (
  environment: TestEnvironment,
  fact: MessageAccepted,
  facts: ReadonlyArray<LogFact>,
): ReadonlyArray<OutgoingRecord> => facts.map((one) => logRecord(environment.topics, one, fact.recipient))

export const append = (records: ReadonlyArray<OutgoingRecord>) =>
  Effect.flatMap(EventLog, (log) => log.append(records, { deadlineMs: ANSWERED_WITHIN_MS }))

/** Reads topics from their beginning until the scope closes, into a growing array. */
export const follow = Effect.fnUntraced(function* (group: string, topics: ReadonlyArray<string>) {
  const groups = yield* ConsumerGroups
  const seen: Array<IncomingRecord> = []
  yield* groups.join(
    { group, topics },
    {
      onAssigned: ({ shards }, control) => {
        for (const topic of topics) {
          for (const partition of shards) control.seek({ topic, partition, offset: 0 })
        }
      },
      onRevoking: Effect.void,
      onBatch: (_topic, _partition, records) =>
        Effect.sync(() => {
          seen.push(...records)
        }),
    },
  )
  return seen
})

/** The content of the read models, without times of recording. */
export const snapshot = Effect.flatMap(Sql, (sql) =>
  sql.run(
    async (q) => ({
      messages: await q`SELECT * FROM read.messages ORDER BY id`,
      history: await q`SELECT * FROM read.message_history ORDER BY message_id, at, status`,
      operatorIds: await q`SELECT * FROM read.operator_ids ORDER BY operator, operator_id, message_id`,
      batches: await q`SELECT * FROM read.batches ORDER BY id`,
      dailyStats: await q`SELECT * FROM read.daily_stats ORDER BY account, mode, day, class, template`,
      hourlyStats: await q`
        SELECT * FROM read.hourly_stats WHERE accepted <> 0 ORDER BY account, mode, hour, reason_code`,
      rangeStats: await q`
        SELECT * FROM read.range_stats WHERE accepted <> 0
         ORDER BY account, mode, hour, class, number_range, reason_code`,
      charges: await q`SELECT * FROM read.charges ORDER BY message_id, kind`,
      personal: await q`SELECT * FROM read.personal_data ORDER BY message_id`,
      events: await q`SELECT * FROM read.events ORDER BY account, mode, sequence`,
      heads: await q`SELECT account, mode, sequence FROM read.event_heads ORDER BY account, mode`,
    }),
    GENEROUS,
  ),
)

/** Starts a projector in its own process. */
export const startProcess = Effect.fnUntraced(function* (of: TestEnvironment, name: string) {
  const child = spawn(process.execPath, [new URL('../main.ts', import.meta.url).pathname], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      PATH: process.env['PATH'],
      HUB_DATABASE_URL: of.url,
      HUB_KAFKA_BROKERS: of.brokers,
      HUB_TOPIC_PREFIX: of.prefix,
      HUB_PARTITIONS: String(PARTITIONS),
      HUB_MASTER_KEY: MASTER_KEY,
      HUB_ADMIN_PORT: String(yield* Effect.promise(freePort)),
      HUB_DATA_DIR: join(of.home, name),
    },
  })
  const ended = once(child, 'exit')
  const kill = (signal: NodeJS.Signals) =>
    Effect.promise(async () => {
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill(signal)
      await ended
    })
  yield* Effect.addFinalizer(() => kill('SIGTERM'))
  yield* Effect.promise(
    () =>
      new Promise<void>((resolve, reject) => {
        let text = ''
        child.stdout.on('data', (data: Buffer) => {
          text += data.toString()
          if (text.includes('"message":"projector: partitions acquired"')) resolve()
        })
        child.once('exit', () => reject(new Error(`The projector ended early: ${text}`)))
      }),
  )
  return { kill }
})
