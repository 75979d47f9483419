/** The servers of a hub for tests of use cases: an own database and own topics, and rows of the apps. */
import { randomBytes, randomUUID } from 'node:crypto'
import { SharedTexts, sharedTextsLayer } from '@hub/counters'
import {
  encodeId,
  isFinal,
  type MessageClass,
  type Mode,
  newId,
  numberRangeOf,
  recipientHash,
  type Status,
} from '@hub/domain'
import {
  createTopics,
  EventLog,
  layerEventLog,
  layerTopicReader,
  type OutgoingRecord,
  PayloadKeyTopics,
  topicCatalogue,
  topicNames,
  TopicReader,
} from '@hub/kafka'
import {
  CommandAccounts,
  encodePayload,
  MasterKeyEncryption,
  PayloadEncryption,
  Sql,
  uuidOf,
} from '@hub/store'
import { freshDatabase, openDatabase, testBrokers, testRedisUrl, topicPrefix } from '@hub/testkit'
import { ConfigProvider, Effect, Layer, ManagedRuntime, Result, Schema } from 'effect'
import type { Actor } from '../actor.ts'
import { Forbidden, OperationRefused } from '../failures.ts'
import { perform } from '../perform.ts'
import type { UseCase } from '../use-case.ts'

const PARTITIONS = 2
const HASH_SECRET = 'a secret of at least 32 characters for tests'
/** Waits for a broker of a busy machine. */
const APPEND_DEADLINE_MS = 20_000

export const NUMBER = '+79001234567'
export const ADMIN: Actor = { id: 'https://id.example|ada', name: 'ada', roles: ['admin'], via: 'api' }

/** The input of `messages list` that lets every message pass. */
export const ANY_MESSAGE = {
  account: null,
  mode: null,
  class: null,
  template: null,
  status: null,
  reason: null,
  range: null,
  batch: null,
  created_after: null,
  created_before: null,
  limit: 50,
  cursor: null,
} as const

type Services = Sql | SharedTexts | EventLog | TopicReader | MasterKeyEncryption | PayloadEncryption

interface InsertedMessage {
  /** UUID. */
  readonly account: string
  readonly mode?: Mode
  readonly class?: MessageClass
  readonly status?: Status
  readonly reason?: string | null
  readonly template?: string
  readonly clientRef?: string | null
  readonly batch?: string | null
  readonly number?: string
  readonly at?: number
  readonly history?: ReadonlyArray<readonly [status: Status, at: number]>
  readonly text?: string
}

export const makeTestHub = async (settings: Readonly<Record<string, string>> = {}) => {
  const prefix = topicPrefix()
  const topics = topicNames(prefix)
  const connection = { brokers: testBrokers(), clientId: 'operations-test' }
  const [database] = await Promise.all([
    freshDatabase(),
    Effect.runPromise(
      createTopics(connection, topicCatalogue({ prefix, partitions: PARTITIONS, replicationFactor: 1 })),
    ),
  ])
  const environment = ConfigProvider.layer(
    ConfigProvider.fromUnknown({
      HUB_DATABASE_URL: database.url,
      HUB_KAFKA_BROKERS: connection.brokers.join(','),
      HUB_TOPIC_PREFIX: prefix,
      HUB_PARTITIONS: String(PARTITIONS),
      HUB_NUMBER_HASH_SECRET: HASH_SECRET,
      HUB_MASTER_KEY: randomBytes(32).toString('base64'),
      HUB_REDIS_URL: testRedisUrl(),
      HUB_REDIS_PREFIX: prefix,
      ...settings,
    }),
  )
  const kafka = Layer.mergeAll(
    layerEventLog({ connection, partitions: PARTITIONS }),
    layerTopicReader({ connection, deadlineMs: APPEND_DEADLINE_MS }),
  )
  const layer: Layer.Layer<Services, unknown> = PayloadEncryption.layer.pipe(
    Layer.provide(PayloadKeyTopics.layer(topics)),
    Layer.provideMerge(
      Layer.mergeAll(
        kafka,
        sharedTextsLayer('operations-test'),
        Sql.layer('operations-test'),
        MasterKeyEncryption.layer,
      ),
    ),
    Layer.provideMerge(environment),
  )
  const runtime = ManagedRuntime.make(layer)
  const sql = openDatabase(database.url)
  const hashOf = (number: string): string => recipientHash(HASH_SECRET, number)

  /** Performs a use case with decoded input, and checks that its output matches the schema. */
  const run = async <Input, Output, E>(
    useCase: UseCase<Input, Output, E, Services>,
    input: Input,
    actor: Actor = ADMIN,
  ): Promise<Output> => {
    const result = await runtime.runPromise(Effect.result(perform(actor, useCase, input)))
    if (Result.isFailure(result)) throw new Error(JSON.stringify(result.failure))
    return Schema.decodeUnknownSync(useCase.output)(JSON.parse(JSON.stringify(result.success)))
  }

  /** Performs a use case that must be refused, and returns the code. */
  const refusal = async <Input, Output, E>(
    useCase: UseCase<Input, Output, E, Services>,
    input: Input,
    actor: Actor = ADMIN,
  ): Promise<string> => {
    const result = await runtime.runPromise(Effect.result(perform(actor, useCase, input)))
    if (Result.isSuccess(result)) throw new Error(`not refused: ${JSON.stringify(result.success)}`)
    const failure: unknown = result.failure
    if (failure instanceof OperationRefused) return failure.code
    return failure instanceof Forbidden ? failure.permission : JSON.stringify(failure)
  }

  return {
    sql,
    topics,
    runtime,
    run,
    refusal,
    hashOf,

    /** Inserts an account. Returns its UUID and its id (`acc_…`). */
    account: async (name: string) => {
      const uuid = randomUUID()
      await CommandAccounts.insert(sql, { id: uuid, name })
      return { uuid, id: encodeId('acc', uuid) }
    },

    /** Inserts a message as the projector does, with its encrypted number. Returns its id (`msg_…`). */
    message: async (message: InsertedMessage): Promise<string> => {
      const at = message.at ?? Date.now()
      const id = newId('msg', at, randomBytes(10))
      const uuid = uuidOf('msg', id)
      const status = message.status ?? 'delivered'
      const history = message.history ?? []
      const timeOf = (passes: (status: Status) => boolean): Date | null => {
        const change = history.find(([changed]) => passes(changed))
        return change === undefined ? null : new Date(change[1])
      }
      const timedOut = message.reason === 'dlr_timeout_local'
      const recipient = Buffer.from(hashOf(message.number ?? NUMBER), 'hex')
      const clientRef = message.clientRef ?? null
      await sql`INSERT INTO read.messages ${sql({
        id: uuid,
        account: message.account,
        mode: message.mode ?? 'live',
        class: message.class ?? 'service',
        recipient,
        template: message.template ?? 'order_ready',
        sender: 'SHOP',
        client_ref: clientRef,
        batch_id: message.batch ?? null,
        parts: 2,
        price: '5.50',
        currency: 'RUB',
        variables: ['order'],
        created_at: new Date(at),
        updated_at: new Date(history.at(-1)?.[1] ?? at),
        status,
        rank: isFinal(status) ? 3 : 0,
        final: isFinal(status),
        reason_code: message.reason ?? null,
        attempts: 1,
        number_range: numberRangeOf(message.number ?? NUMBER),
        sent_at: timeOf((changed) => changed === 'sent'),
        timed_out_at: timedOut ? timeOf(isFinal) : null,
        final_at: timedOut ? null : timeOf(isFinal),
      })}`
      if (clientRef !== null) {
        await sql`INSERT INTO command.client_refs (account, mode, client_ref, message_id, created_at)
          VALUES (${message.account}, ${message.mode ?? 'live'}, ${clientRef}, ${uuid}, ${new Date(at)})`
      }
      const key = await runtime.runPromise(
        Effect.flatMap(PayloadEncryption, (encryption) => encryption.keyOfDay(at)),
      )
      const payload = encodePayload({
        to: message.number ?? NUMBER,
        text: message.text ?? 'Order 7 is ready',
        variables: { order: '7' },
      })
      await sql`INSERT INTO read.personal_data (message_id, recipient, created_at, sealing_key, sealed)
        VALUES (${uuid}, ${recipient}, ${new Date(at)}, ${key?.id ?? null}, ${key?.encrypt(id, payload) ?? null})`
      return id
    },

    append: (records: ReadonlyArray<OutgoingRecord>) =>
      runtime.runPromise(
        Effect.flatMap(EventLog, (log) => log.append(records, { deadlineMs: APPEND_DEADLINE_MS })),
      ),

    remove: async () => {
      await runtime.dispose()
      await sql.end()
      await database.drop()
    },
  }
}
export type TestHub = Awaited<ReturnType<typeof makeTestHub>>
