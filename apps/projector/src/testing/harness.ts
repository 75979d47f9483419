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
  logRecord,
  type OutgoingRecord,
  type Position,
  topicCatalogue,
  topicNames,
} from '@hub/kafka'
import { type LogFact, type MessageAccepted, type Mode, newId, recipientHash } from '@hub/domain'
import { makeSql, migrate, type Queries, PayloadEncryption, Sql, MasterKeyEncryption } from '@hub/store'
import { ConfigProvider, Effect, Layer, Logger, Redacted, Schedule } from 'effect'
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import net from 'node:net'
import { join } from 'node:path'

const setting = (name: string): string => {
  const value = process.env[name]
  if (value === undefined) throw new Error(`${name} is not set: run these tests with \`npm run test:int\`.`)
  return value
}

export const MASTER_KEY = randomBytes(32).toString('base64')
export const PARTITIONS = 3

/** Creates a database and topics. `remove` drops the database. */
export const makeTestEnvironment = async (name: string) => {
  const admin = setting('HUB_TEST_DATABASE_URL')
  const connection: KafkaConnection = {
    brokers: setting('HUB_TEST_KAFKA').split(','),
    clientId: `test-${name}`,
  }
  const unique = `${name}_${randomBytes(4).toString('hex')}`
  const prefix = `${unique}.`
  const url = Object.assign(new URL(admin), { pathname: `/${unique}` }).toString()
  const asAdmin = (text: string) =>
    Effect.runPromise(
      Effect.scoped(
        Effect.flatMap(makeSql(Redacted.make(admin), 1, name), (sql) =>
          sql.run((q) => q.unsafe(text), { deadline: '30 seconds' }),
        ),
      ),
    )
  await asAdmin(`CREATE DATABASE ${unique}`)
  await Effect.runPromise(
    Effect.all([
      migrate(url),
      createTopics(connection, topicCatalogue({ prefix, partitions: PARTITIONS, replicationFactor: 1 })),
    ]),
  )
  return {
    prefix,
    url,
    brokers: connection.brokers.join(','),
    topics: topicNames(prefix),
    layer: layerOf(url, connection),
    /** The same layer with another address of the database. */
    layerThrough: (other: string) => layerOf(other, connection),
    remove: () => asAdmin(`DROP DATABASE ${unique} WITH (FORCE)`),
  }
}
export type TestEnvironment = Awaited<ReturnType<typeof makeTestEnvironment>>

const layerOf = (url: string, connection: KafkaConnection) =>
  PayloadEncryption.layer.pipe(
    Layer.provideMerge(
      Layer.mergeAll(
        Layer.effect(Sql, makeSql(Redacted.make(url), 6, 'projector-test')),
        MasterKeyEncryption.layer.pipe(
          Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ HUB_MASTER_KEY: MASTER_KEY }))),
        ),
        layerEventLog({ connection, partitions: PARTITIONS }),
        layerConsumerGroups({ connection }),
        Logger.layer([]),
      ),
    ),
  )

/**
 * A test machine may be very busy. The time limit of the test is the real bound.
 */
const GENEROUS = { deadline: '20 seconds' } as const

/** Waits for a condition of the database. The time limit of the test bounds the wait. */
export const until = (condition: (q: Queries) => Promise<boolean>) =>
  Effect.flatMap(Sql, (sql) =>
    Effect.repeat(sql.run(condition, GENEROUS), {
      until: (met) => met,
      schedule: Schedule.spaced('20 millis'),
    }),
  )

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
  const payload = JSON.stringify({
    to: number,
    text: `Заказ ${messageId} готов`,
    variables: { order: messageId },
  })
  const fact: MessageAccepted = {
    type: 'MessageAccepted',
    messageId,
    at,
    account: options.account,
    mode: options.mode ?? 'live',
    class: messageClass,
    recipient: recipientHash('a secret of thirty-two characters', number),
    template: options.template ?? 'order_ready',
    sender: 'HUB',
    clientRef: `ref-${messageId}`,
    batch: options.batch ?? null,
    parts: 1,
    price: { amount: options.mode === 'test' ? '0.00' : '2.00', currency: 'RUB' },
    variables: ['order'],
    expiresAt: at + 86_400_000,
    sealingKey: key.id,
    sealed: key.encrypt(messageId, Buffer.from(payload)),
    republished: false,
  }
  return fact
})

/** The facts of a message that is handed over at the first attempt and delivered. */
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
  Effect.flatMap(EventLog, (log) => log.append(records, { deadlineMs: 10_000 }))

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
      history: await q`SELECT * FROM read.message_history ORDER BY message_id, fact_id`,
      operatorIds: await q`SELECT * FROM read.operator_ids ORDER BY operator, operator_id, message_id`,
      batches: await q`SELECT * FROM read.batches ORDER BY id`,
      stats: await q`SELECT * FROM read.daily_stats ORDER BY account, mode, day, class, template`,
      charges: await q`SELECT * FROM read.charges ORDER BY message_id, kind`,
      personal: await q`SELECT * FROM read.personal_data ORDER BY message_id`,
      events: await q`SELECT * FROM read.events ORDER BY account, mode, sequence`,
      heads: await q`SELECT account, mode, sequence FROM read.event_heads ORDER BY account, mode`,
    }),
    GENEROUS,
  ),
)

/** A port that was free at the time of the call. */
const freePort = Effect.promise(async () => {
  const server = net.createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as net.AddressInfo
  await new Promise<void>((resolve) => server.close(() => resolve()))
  return port
})

/** Starts a projector in its own process. */
export const startProcess = Effect.fnUntraced(function* (of: TestEnvironment, home: string, name: string) {
  const child = spawn(process.execPath, [new URL('../main.ts', import.meta.url).pathname], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      PATH: process.env['PATH'],
      HUB_DATABASE_URL: of.url,
      HUB_KAFKA_BROKERS: of.brokers,
      HUB_TOPIC_PREFIX: of.prefix,
      HUB_PARTITIONS: String(PARTITIONS),
      HUB_MASTER_KEY: MASTER_KEY,
      HUB_ADMIN_PORT: String(yield* freePort),
      HUB_DATA_DIR: join(home, name),
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
