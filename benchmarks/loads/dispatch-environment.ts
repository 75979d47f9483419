/** The environment of the benchmarks: topics, a database, lane records, apps, an operator. */
import type { ChildProcess } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  decodeId,
  encodeId,
  type LogFact,
  type MessageAccepted,
  type MessageClass,
  type Mode,
  newId,
  recipientHash,
} from '@hub/domain'
import {
  acceptedRecord,
  ConsumerGroups,
  createTopics,
  EventLog,
  type IncomingRecord,
  layerConsumerGroups,
  layerEventLog,
  layerTopicReader,
  type OutgoingRecord,
  type Position,
  PayloadKeyTopics,
  topicCatalogue,
  topicNames,
} from '@hub/kafka'
import { nodeFlags } from '@hub/local-stack'
import { freePort, freshDatabase, openDatabase } from '@hub/testkit'
import { encodePayload, PayloadEncryption, type PayloadKey, Sql, MasterKeyEncryption } from '@hub/store'
import { ConfigProvider, Deferred, Effect, Layer, ManagedRuntime } from 'effect'
import { accepted, HASH_SECRET } from './bare-kafka.ts'
import { startProgram } from './child-process.ts'

export interface Servers {
  readonly brokers: ReadonlyArray<string>
  /** A database whose user may create other databases. */
  readonly adminDatabaseUrl: string
  readonly redisUrl: string
}

export interface MessageSpec {
  readonly to: string
  readonly class: MessageClass
  readonly mode: Mode
  /** `acc_…`. Without it, all messages share one account. */
  readonly account?: string
}

/** Reads a topic from its beginning, as a new consumer group, until the scope closes. */
const consume = (topic: string, group: string, onRecord: (record: IncomingRecord) => void) =>
  Effect.gen(function* () {
    const groups = yield* ConsumerGroups
    const assigned = yield* Deferred.make<void>()
    yield* groups.join(
      { group, topics: [topic] },
      {
        onAssigned: ({ shards }, control) => {
          for (const partition of shards) control.seek({ topic, partition, offset: 0 })
          Deferred.doneUnsafe(assigned, Effect.void)
        },
        onRevoking: Effect.void,
        onBatch: (_topic, _partition, records) => Effect.sync(() => records.forEach(onRecord)),
      },
    )
    yield* Deferred.await(assigned)
  })

/** The facts of a message from its handover claim to the operator's answer. */
export const submitFacts = (
  submit: Omit<Extract<LogFact, { type: 'MessageSent' }>, 'type'>,
): ReadonlyArray<LogFact> => {
  const { at, messageId, operator } = submit
  return [
    { type: 'HandoverStarted', messageId, at, epoch: 1, attempt: 1, operator },
    { type: 'MessageSent', ...submit },
  ]
}

export interface BenchProcess {
  readonly pid: number
  readonly metrics: () => Promise<string>
  readonly kill: (signal: NodeJS.Signals) => Promise<void>
}

export const makeDispatchEnvironment = async (servers: Servers, partitions: number) => {
  const prefix = `bench.${randomBytes(4).toString('hex')}.`
  const topics = topicNames(prefix)
  const connection = { brokers: servers.brokers, clientId: 'bench' }
  const { drop, url: databaseUrl } = await freshDatabase(servers.adminDatabaseUrl)
  const directory = mkdtempSync(join(tmpdir(), 'hub-bench-'))
  const environment: Record<string, string> = {
    HUB_DATABASE_URL: databaseUrl,
    HUB_KAFKA_BROKERS: servers.brokers.join(','),
    HUB_REDIS_URL: servers.redisUrl,
    HUB_REDIS_PREFIX: prefix,
    HUB_TOPIC_PREFIX: prefix,
    HUB_PARTITIONS: String(partitions),
    HUB_MASTER_KEY: randomBytes(32).toString('base64'),
    HUB_NUMBER_HASH_SECRET: HASH_SECRET,
  }
  await Effect.runPromise(
    createTopics(connection, topicCatalogue({ prefix, partitions, replicationFactor: 1 })),
  )
  const runtime = ManagedRuntime.make(
    PayloadEncryption.layer.pipe(
      Layer.provide(Layer.mergeAll(Sql.layer('bench'), MasterKeyEncryption.layer)),
      Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(environment))),
      Layer.provide(PayloadKeyTopics.layer(topics)),
      Layer.provide(layerTopicReader({ connection })),
      Layer.provideMerge(
        Layer.mergeAll(layerEventLog({ connection, partitions }), layerConsumerGroups({ connection })),
      ),
    ),
  )
  const sql = openDatabase(databaseUrl)
  const keys = new Map<MessageClass, PayloadKey>()
  for (const messageClass of ['otp', 'service'] as const) {
    keys.set(
      messageClass,
      await runtime.runPromise(
        Effect.flatMap(PayloadEncryption, (payloadEncryption) => payloadEncryption.currentKey(messageClass)),
      ),
    )
  }
  const ownAccount = encodeId('acc', randomUUID())
  const children: Array<ChildProcess> = []

  /** A message as command-api appends it. With `readable` false, the payload is random bytes. */
  const message = (
    { account = ownAccount, class: messageClass, mode, to }: MessageSpec,
    readable = true,
  ): MessageAccepted => {
    const now = Date.now()
    const messageId = newId('msg', now, randomBytes(10))
    const key = keys.get(messageClass)!
    const text = messageClass === 'otp' ? 'Code 1234' : 'Заказ 1234 готов, ждём вас до 20:00'
    return {
      ...accepted(0),
      messageId,
      at: now,
      account,
      mode,
      class: messageClass,
      recipient: recipientHash(HASH_SECRET, to),
      template: messageClass === 'otp' ? 'otp_code' : 'order_ready',
      clientRef: null,
      expiresAt: now + (messageClass === 'otp' ? 300_000 : 86_400_000),
      payloadKey: key.id,
      ciphertext: readable
        ? key.encrypt(messageId, encodePayload({ to, text, variables: {} }))
        : randomBytes(120),
    }
  }

  const append = (records: ReadonlyArray<OutgoingRecord>): Promise<ReadonlyArray<Position>> =>
    runtime.runPromise(Effect.flatMap(EventLog, (log) => log.append(records, { deadlineMs: 30_000 })))
  /** Appends accepted messages directly to the lanes. */
  const accept = async (messages: ReadonlyArray<MessageAccepted>): Promise<void> => {
    await append(messages.map((fact) => acceptedRecord(topics, fact)))
  }

  /** Starts an app and waits until it is ready. `more` adds settings. */
  const start = async (
    app: 'command-api' | 'dispatcher' | 'projector',
    more: Readonly<Record<string, string>> = {},
  ): Promise<BenchProcess> => {
    const port = await freePort()
    const child = await startProgram(`apps/${app}/src/main.ts`, {
      nodeFlags: nodeFlags(app),
      upAt: `http://127.0.0.1:${port}/readyz`,
      environment: {
        HUB_LOG_LEVEL: 'Warn',
        ...environment,
        HUB_DATA_DIR: join(directory, app),
        HUB_ADMIN_PORT: String(port),
        ...more,
      },
    })
    children.push(child)
    const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
    return {
      pid: child.pid!,
      metrics: async () => (await fetch(`http://127.0.0.1:${port}/metrics`)).text(),
      kill: async (signal) => {
        child.kill(signal)
        await ended
      },
    }
  }

  /** Reads a topic from its beginning until the environment closes. */
  const follow = (topic: string, onRecord: (record: IncomingRecord) => void) =>
    runtime.runFork(
      consume(topic, `${prefix}bench-${randomUUID()}`, onRecord).pipe(
        Effect.andThen(Effect.never),
        Effect.scoped,
      ),
    )

  return {
    prefix,
    topics,
    partitions,
    databaseUrl,
    sql,
    runtime,
    message,
    append,
    accept,
    start,
    follow,
    /** Creates a subscription of the shared account, so that the projector publishes its events. */
    subscribe: async (mode: Mode): Promise<void> => {
      const account = decodeId('acc', ownAccount)
      await sql`INSERT INTO command.accounts (id, name) VALUES (${account}, 'Bench') ON CONFLICT DO NOTHING`
      await sql`INSERT INTO webhooks.endpoints (id, account, mode, url, secret)
        VALUES (${randomUUID()}, ${account}, ${mode}, 'https://receiver.test', '')`
    },
    /** Moves all checkpoints far ahead, so that no look-up waits for a projector. */
    markAllProjected: async (): Promise<void> => {
      // Checkpoints contain topics without the prefix of the deployment.
      const { acceptedOtp, acceptedService, messages } = topicNames()
      await sql`
        INSERT INTO read.checkpoints (projection, topic, partition, position, epoch)
        SELECT 'messages', topic, partition, ${1e12}, 1
          FROM unnest(${[acceptedOtp, acceptedService, messages]}::text[]) AS topic,
               generate_series(0, ${partitions - 1}::integer) AS partition`
    },
    close: async (): Promise<void> => {
      for (const child of children) if (child.exitCode === null) child.kill('SIGKILL')
      await runtime.dispose()
      await sql.end()
      await drop()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}
export type DispatchEnvironment = Awaited<ReturnType<typeof makeDispatchEnvironment>>

/** An HTTP operator that answers with a delay and records when it received each message. */
export const slowOperator = async (delays: { readonly requestMs: number; readonly messageMs: number }) => {
  /** The time at which each reference was received, ms since the epoch. */
  const receivedAt = new Map<string, number>()
  let repeated = 0
  const server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.once('end', () => {
      const at = Date.now()
      const batch = JSON.parse(Buffer.concat(chunks).toString('utf8')) as ReadonlyArray<{
        readonly reference: string
      }>
      for (const { reference } of batch) {
        if (receivedAt.has(reference)) repeated++
        else receivedAt.set(reference, at)
      }
      setTimeout(
        () => {
          response.writeHead(200, { 'content-type': 'application/json' })
          response.end(
            JSON.stringify(
              batch.map(({ reference }) => ({
                reference,
                operator_ids: [`op-${reference}`],
                status: 'accepted',
              })),
            ),
          )
        },
        delays.requestMs + delays.messageMs * batch.length,
      )
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    receivedAt,
    repeated: () => repeated,
    environment: async (): Promise<Record<string, string>> => ({
      HUB_OPERATOR_HTTP_URL: `http://127.0.0.1:${port}`,
      HUB_OPERATOR_HTTP_SECRET: 'bench',
      HUB_OPERATOR_CALLBACK_PORT: String(await freePort()),
    }),
    close: (): void => {
      server.close()
      server.closeAllConnections()
    },
  }
}
