/** The test environment of a dispatcher: own topics, an own database, and an operator simulator. */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { memorySharedTexts } from '@hub/counters'
import {
  decodeId,
  DEFAULT_LIFETIMES,
  DEFAULT_START_WORDS,
  DEFAULT_STOP_WORDS,
  type LogFact,
  type MessageClass,
  type Mode,
  newId,
  optOutVocabulary,
  recipientHash,
} from '@hub/domain'
import { messageAccepted } from '@hub/domain/testing'
import {
  acceptedRecord,
  ConsumerGroups,
  createTopics,
  decodeFact,
  EventLog,
  type IncomingRecord,
  isFactType,
  layerConsumerGroups,
  layerEventLog,
  layerTopicReader,
  type OutgoingRecord,
  PayloadKeyTopics,
  topicCatalogue,
  topicNames,
} from '@hub/kafka'
import { encodePayload, MasterKeyEncryption, PayloadEncryption, Sql } from '@hub/store'
import { ANSWERED_WITHIN_MS, freshDatabase, testBrokers, testRedisUrl, topicPrefix } from '@hub/testkit'
import { ConfigProvider, Effect, Layer, Redacted, Result } from 'effect'
import { layerPostgresStore } from '../store/postgres-store.ts'

/** With two shards, the order between them matters. */
export const PARTITIONS = 2
export const HASH_SECRET = 'a secret of the tests, long enough for it'

/** The settings of a dispatcher that all tests share. */
export const settingsIn = (hub: TestHub) => ({
  prefix: hub.prefix,
  topics: hub.topics,
  partitions: PARTITIONS,
  hashSecret: Redacted.make(HASH_SECRET),
  vocabulary: optOutVocabulary(DEFAULT_STOP_WORDS, DEFAULT_START_WORDS)!,
  lifetimes: DEFAULT_LIFETIMES,
})

export interface Outgoing {
  readonly to: string
  /** `acc_…`. Without it, all messages of the environment share one account. */
  readonly account?: string
  readonly class?: MessageClass
  readonly mode?: Mode
  readonly text?: string
  readonly parts?: number
  /** Milliseconds. */
  readonly lifetime?: number
}

/** Creates topics and a database. `remove` drops the database; the topics end with the broker. */
export const makeTestHub = async () => {
  const prefix = topicPrefix()
  const topics = topicNames(prefix)
  const database = await freshDatabase()
  const connection = { brokers: testBrokers(), clientId: 'dispatcher-int-test' }
  const masterKey = randomBytes(32).toString('base64')
  const directory = mkdtempSync(join(tmpdir(), 'hub-dispatcher-'))
  const environment: Record<string, string> = {
    HUB_DATABASE_URL: database.url,
    HUB_KAFKA_BROKERS: connection.brokers.join(','),
    HUB_REDIS_URL: testRedisUrl(),
    HUB_REDIS_PREFIX: prefix,
    HUB_TOPIC_PREFIX: prefix,
    HUB_PARTITIONS: String(PARTITIONS),
    HUB_MASTER_KEY: masterKey,
    HUB_NUMBER_HASH_SECRET: HASH_SECRET,
    HUB_DATA_DIR: directory,
  }
  await Effect.runPromise(
    createTopics(connection, topicCatalogue({ prefix, partitions: PARTITIONS, replicationFactor: 1 })),
  )
  const bus = Layer.merge(PayloadKeyTopics.layer(topics), layerConsumerGroups({ connection })).pipe(
    Layer.provide(layerTopicReader({ connection })),
    Layer.provideMerge(layerEventLog({ connection, partitions: PARTITIONS })),
  )
  /** All services of a dispatcher with a master key. */
  const layerUnder = (key: string) =>
    Layer.mergeAll(layerPostgresStore, PayloadEncryption.layer, memorySharedTexts).pipe(
      Layer.provideMerge(Layer.mergeAll(Sql.layer('dispatcher-int-test'), MasterKeyEncryption.layer)),
      Layer.provide(
        ConfigProvider.layer(ConfigProvider.fromUnknown({ ...environment, HUB_MASTER_KEY: key })),
      ),
      Layer.provideMerge(bus),
    )
  const layer = layerUnder(masterKey)

  const ownAccount = newId('acc', Date.now(), randomBytes(10))

  /** Creates a lane record in the way of command-api. */
  const encryptedMessage = (message: Outgoing) =>
    Effect.gen(function* () {
      const payloadEncryption = yield* PayloadEncryption
      const messageClass = message.class ?? 'otp'
      const mode = message.mode ?? 'test'
      const now = Date.now()
      const messageId = newId('msg', now, randomBytes(10))
      const key = yield* payloadEncryption.currentKey(messageClass)
      const payload = encodePayload({ to: message.to, text: message.text ?? 'Code 1234', variables: {} })
      return messageAccepted({
        messageId,
        at: now,
        account: message.account ?? ownAccount,
        mode,
        class: messageClass,
        recipient: recipientHash(HASH_SECRET, message.to),
        template: 'otp_code',
        variables: ['code'],
        parts: message.parts ?? 1,
        price: { amount: '0.00', currency: 'RUB' },
        expiresAt: now + (message.lifetime ?? 300_000),
        payloadKey: key.id,
        ciphertext: key.encrypt(messageId, payload),
      })
    })

  const append = (records: ReadonlyArray<OutgoingRecord>) =>
    Effect.flatMap(EventLog, (log) => log.append(records, { deadlineMs: ANSWERED_WITHIN_MS }))

  /** Appends messages to their lanes, and returns their ids in order. */
  const send = (messages: ReadonlyArray<Outgoing>) =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const accepted = yield* Effect.forEach(messages, encryptedMessage)
      // As in command-api, the ledger comes before the lane. It is the last resort to find a
      // recipient.
      const ids = accepted.map(({ messageId }) => decodeId('msg', messageId)!)
      yield* sql.run(
        (q) => q`
          INSERT INTO command.acceptances (message_id, account, mode, class, recipient, to_masked, template, sender,
                                           parts, price, currency, variables, created_at, expires_at)
          SELECT id, id, 'test', 'otp', decode(recipient, 'hex'), '', '', '', 1, 0, 'RUB', '{}', now(), now()
          FROM unnest(${ids}::uuid[], ${accepted.map(({ recipient }) => recipient)}::text[]) AS sent (id, recipient)`,
      )
      yield* append(accepted.map((fact) => acceptedRecord(topics, fact)))
      return accepted.map(({ messageId }) => messageId)
    })

  /** Collects the records of a topic from its start, until the scope closes. */
  const follow = (topic: string) =>
    Effect.gen(function* () {
      const groups = yield* ConsumerGroups
      const records: Array<IncomingRecord> = []
      /** The next offset of each partition. A busy machine may lose the session. Then the partitions come again. */
      const next = new Map<number, number>()
      yield* groups.join(
        { group: `follower-${randomUUID()}`, topics: [topic] },
        {
          onAssigned: ({ shards }, control) => {
            for (const partition of shards)
              control.seek({ topic, partition, offset: next.get(partition) ?? 0 })
          },
          onRevoking: Effect.void,
          onBatch: (_topic, partition, batch) =>
            Effect.sync(() => {
              records.push(...batch)
              const last = batch.at(-1)
              if (last !== undefined) next.set(partition, last.offset + 1)
            }),
        },
      )
      return records
    })

  interface Decoded {
    records: number
    readonly facts: Map<string, Array<LogFact>>
  }
  const decoded = new WeakMap<ReadonlyArray<IncomingRecord>, Decoded>()

  /**
   * The facts of each message, in log order. Each record is decoded once: tests ask again and again, in the
   * process of the dispatcher.
   */
  const factsOf = (records: ReadonlyArray<IncomingRecord>): ReadonlyMap<string, ReadonlyArray<LogFact>> => {
    const all = decoded.get(records) ?? { records: 0, facts: new Map() }
    decoded.set(records, all)
    for (; all.records < records.length; all.records++) {
      const record = records[all.records]!
      if (!isFactType(record.type)) continue
      const fact = decodeFact(record)
      if (Result.isFailure(fact) || fact.success.type === 'MessageAccepted') continue
      const { messageId } = fact.success
      const known = all.facts.get(messageId)
      if (known === undefined) all.facts.set(messageId, [fact.success])
      else known.push(fact.success)
    }
    return all.facts
  }

  return {
    prefix,
    topics,
    directory,
    environment,
    layer,
    layerUnder,
    encryptedMessage,
    append,
    send,
    follow,
    factsOf,
    remove: async () => {
      rmSync(directory, { recursive: true, force: true })
      await database.drop()
    },
  }
}
export type TestHub = Awaited<ReturnType<typeof makeTestHub>>

const SIMULATOR = new URL('../../../../infra/local/operator-simulator/main.ts', import.meta.url)

/** Starts an operator simulator, which ends with the scope. */
export const simulator = (directory: string, callbackPort: number) =>
  Effect.gen(function* () {
    const password = randomBytes(4).toString('hex')
    const secret = randomBytes(24).toString('hex')
    const stop = (running: ChildProcess) =>
      Effect.promise(async () => {
        running.kill('SIGKILL')
        if (running.exitCode === null && running.signalCode === null) await once(running, 'exit')
      })
    const child = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn(process.execPath, [SIMULATOR.pathname], {
          stdio: ['ignore', 'pipe', 'inherit'],
          env: {
            PATH: process.env['PATH'],
            HUB_OPERATOR_SIMULATOR_PORT: '0',
            HUB_OPERATOR_SIMULATOR_SMPP_PORT: '0',
            HUB_OPERATOR_SIMULATOR_SMPP_SYSTEM_ID: 'hub',
            HUB_OPERATOR_SIMULATOR_SMPP_PASSWORD: password,
            HUB_OPERATOR_HTTP_SECRET: secret,
            HUB_OPERATOR_CALLBACK_URL: `http://127.0.0.1:${callbackPort}/reports`,
            HUB_OPERATOR_JOURNAL: join(directory, `simulator-${password}.jsonl`),
          },
        }),
      ),
      stop,
    )
    const ports = yield* Effect.promise(async () => {
      const first = once(createInterface({ input: child.stdout }), 'line')
      const ended = once(child, 'exit').then(([code]) => {
        throw new Error(`The operator simulator exited with code ${String(code)}.`)
      })
      const [line] = (await Promise.race([first, ended])) as [string]
      return JSON.parse(line) as { readonly smpp: number; readonly http: number }
    }).pipe(Effect.timeout('30 seconds'), Effect.orDie)
    const url = `http://127.0.0.1:${ports.http}`
    const json = (path: string, init?: RequestInit) =>
      Effect.promise(async () => {
        const response = await fetch(`${url}${path}`, init)
        return (await response.json()) as Record<string, number>
      })
    return {
      url: new URL(url),
      secret,
      /** The address and the password for an SMPP bind. */
      smpp: { url: new URL(`smpp://hub@127.0.0.1:${ports.smpp}`), password: Redacted.make(password) },
      /** Kills the simulator. */
      stop: stop(child),
      statistics: json('/statistics'),
      behave: (settings: Record<string, boolean | number | string | null>) =>
        json('/behaviour', {
          method: 'PUT',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(settings),
        }),
    }
  })
