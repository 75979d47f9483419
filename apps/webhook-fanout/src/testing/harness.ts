/** Fixtures for integration tests, each with its own database, topics and consumer group. */
import { randomBytes, randomUUID } from 'node:crypto'
import { decodeId, encodeId, eventId, type Mode } from '@hub/domain'
import {
  ConsumerGroups,
  createTopics,
  describeGroup,
  EventLog,
  eventRecordedRecord,
  type KafkaConnection,
  layerConsumerGroups,
  layerEventLog,
  type SubscriptionChange,
  subscriptionChangedRecord,
  topicCatalogue,
  topicLogEnds,
  topicNames,
} from '@hub/kafka'
import { makeSql, type Queries, Sql, MasterKeyEncryption } from '@hub/store'
import { ANSWERED_WITHIN_MS, freshDatabase, makeCertificateAuthority, testBrokers } from '@hub/testkit'
import {
  AddressPolicy,
  type ClientCertificate,
  encryptClientCertificate,
  encryptHeaders,
  makeAddressPolicy,
  makeWebhookClient,
  WebhookClient,
} from '@hub/webhooks'
import { ConfigProvider, Context, Effect, Exit, Layer, Redacted, Schedule, Scope } from 'effect'
import { TestClock } from 'effect/testing'
import { makeFanout } from '../app.ts'
import { FANOUT_DEFAULTS, FanoutSettings, type Settings } from '../config.ts'
import { layerPostgresStore } from '../store/postgres-store.ts'
import { FanoutStore, type FanoutStoreShape } from '../store/store.port.ts'

/** Few, to spare the broker of the tests; enough for two members to share. */
export const PARTITIONS = 2

const connection: KafkaConnection = { brokers: testBrokers(), clientId: 'fanout-test' }

export const authority = await makeCertificateAuthority()
export const certificate = await authority.issue(['127.0.0.1'])

/** The wait before a retry, ms. */
export const RETRY_MS = 150

export interface Account {
  readonly id: string
  readonly uuid: string
  readonly mode: Mode
}

export interface TestSubscription {
  readonly id: string
  readonly uuid: string
  readonly secret: string
}

export interface PublishedEvent {
  readonly id: string
  readonly sequence: number
  readonly body: string
}

/** The real client, with an address policy that allows the loopback address. */
export const clientLayer = Layer.effect(WebhookClient, makeWebhookClient(authority.pem)).pipe(
  Layer.provide(Layer.succeed(AddressPolicy, makeAddressPolicy({ allowedHosts: new Set(['127.0.0.1']) }))),
)

/** Creates a database, topics and a prefix for the consumer group. */
export const makeDeployment = Effect.gen(function* () {
  const { url } = yield* Effect.acquireRelease(
    Effect.promise(() => freshDatabase()),
    ({ drop }) => Effect.promise(drop),
  )
  const prefix = `fanout-${randomBytes(4).toString('hex')}.`
  const topics = topicNames(prefix)
  const catalogue = topicCatalogue({ prefix, partitions: PARTITIONS, replicationFactor: 1 }).filter(
    ({ topic }) => topic.includes('hub.webhooks'),
  )
  yield* createTopics(connection, catalogue)

  const sqlLayer = Layer.effect(Sql, makeSql(Redacted.make(url), 5, 'fanout-test'))
  const masterKeyLayer = MasterKeyEncryption.layer.pipe(
    Layer.provide(
      ConfigProvider.layer(
        ConfigProvider.fromUnknown({ HUB_MASTER_KEY: Buffer.alloc(32, 7).toString('base64') }),
      ),
    ),
  )
  const busLayer = Layer.mergeAll(
    layerEventLog({ connection, partitions: PARTITIONS }),
    layerConsumerGroups({ connection }),
  )
  const own = yield* Layer.build(Layer.mergeAll(sqlLayer, masterKeyLayer, busLayer))
  const sql = Context.get(own, Sql)
  const masterKey = Context.get(own, MasterKeyEncryption)
  const log = Context.get(own, EventLog)

  /** Starts the fan-out in this process. `stop` ends it like SIGTERM. */
  const start = (
    options: {
      readonly settings?: Partial<Settings>
      readonly store?: (real: FanoutStoreShape) => FanoutStoreShape
    } = {},
  ) =>
    Effect.gen(function* () {
      const settings: Settings = {
        ...FANOUT_DEFAULTS,
        batchWindowMs: 100,
        purgeEveryMs: 200,
        nextAttemptAt: ({ failedAt }) => failedAt + RETRY_MS,
        stopDrainMs: 300,
        revokeDrainMs: 300,
        ...options.settings,
      }
      const scope = yield* Scope.make()
      const storeLayer = layerPostgresStore.pipe(Layer.provide(Layer.mergeAll(sqlLayer, masterKeyLayer)))
      const context = yield* Layer.build(Layer.mergeAll(storeLayer, clientLayer, busLayer)).pipe(
        Effect.provideService(FanoutSettings, settings),
        Scope.provide(scope),
      )
      const real = Context.get(context, FanoutStore)
      const { failure } = yield* makeFanout({ prefix }).pipe(
        Effect.provideService(FanoutStore, options.store?.(real) ?? real),
        Effect.provideService(EventLog, Context.get(context, EventLog)),
        Effect.provideService(ConsumerGroups, Context.get(context, ConsumerGroups)),
        Effect.provideService(WebhookClient, Context.get(context, WebhookClient)),
        Effect.provideService(FanoutSettings, settings),
        Scope.provide(scope),
      )
      const stop = Scope.close(scope, Exit.void)
      yield* Effect.addFinalizer(() => stop)
      return { failure, stop }
    })

  const account = Effect.fnUntraced(function* (mode: Mode = 'live') {
    const uuid = randomUUID()
    yield* sql.run((q) => q`INSERT INTO command.accounts (id, name) VALUES (${uuid}, 'test')`)
    return { uuid, id: encodeId('acc', uuid), mode } satisfies Account
  })

  const change = (of: Account, subscription: TestSubscription, what: SubscriptionChange) =>
    log.append(
      [
        subscriptionChangedRecord(topics, {
          type: 'SubscriptionChanged',
          account: of.id,
          mode: of.mode,
          subscription: subscription.id,
          change: what,
          at: Date.now(),
        }),
      ],
      { deadlineMs: ANSWERED_WITHIN_MS },
    )

  /** Stores a subscription like command-api. `announce: false`: without its record. */
  const subscribe = Effect.fnUntraced(function* (
    of: Account,
    target: string,
    options: {
      readonly eventTypes?: ReadonlyArray<string>
      readonly announce?: boolean
      readonly headers?: ReadonlyArray<readonly [name: string, value: string]>
      readonly clientCertificate?: ClientCertificate
    } = {},
  ) {
    const uuid = randomUUID()
    const id = encodeId('we', uuid)
    const secret = `whsec_${randomBytes(32).toString('base64')}`
    const { clientCertificate, headers } = options
    const encrypted = {
      headers: headers === undefined ? null : encryptHeaders(masterKey, id, headers),
      certificate:
        clientCertificate === undefined ? null : encryptClientCertificate(masterKey, id, clientCertificate),
    }
    yield* sql.run(
      (q) => q`
        INSERT INTO webhooks.endpoints (id, account, mode, url, event_types, secret, headers, client_certificate)
        VALUES (${uuid}, ${of.uuid}, ${of.mode}, ${target}, ${[...(options.eventTypes ?? [])]}::text[],
                ${masterKey.encrypt('webhook-secret', id, Buffer.from(secret))}, ${encrypted.headers},
                ${encrypted.certificate})`,
    )
    const subscription: TestSubscription = { id, uuid, secret }
    if (options.announce !== false) yield* change(of, subscription, 'created')
    return subscription
  })

  /** Rotates a secret as command-api does. */
  const rotate = Effect.fnUntraced(function* (
    of: Account,
    subscription: TestSubscription,
    { endsInMs, secret }: { readonly secret: string; readonly endsInMs: number },
  ) {
    yield* sql.run(
      (q) => q`
        UPDATE webhooks.endpoints
           SET older_secret = previous_secret, older_secret_ends_at = secret_rotation_ends_at,
               previous_secret = secret, secret = ${masterKey.encrypt('webhook-secret', subscription.id, Buffer.from(secret))},
               secret_rotation_ends_at = ${new Date(Date.now() + endsInMs)}
         WHERE id = ${subscription.uuid}`,
    )
    yield* change(of, subscription, 'secret_rotated')
  })

  /** Inserts events into the journal as the projector does; `publish` appends them to the topic. */
  const record = Effect.fnUntraced(function* (
    of: Account,
    count: number,
    type = 'message.sent',
    object: object = {},
  ) {
    const first = yield* sql.transaction(async (q) => {
      const [head] = await q<{ sequence: string }[]>`
        INSERT INTO read.event_heads (account, mode, sequence, last_at)
        VALUES (${of.uuid}, ${of.mode}, ${count}, clock_timestamp())
        ON CONFLICT (account, mode) DO UPDATE SET sequence = read.event_heads.sequence + ${count}
        RETURNING sequence`
      return Number(head?.sequence) - count + 1
    })
    const createdAt = new Date().toISOString()
    const events = Array.from({ length: count }, (_, index): PublishedEvent => {
      const id = eventId(`${of.id} ${of.mode} ${first + index}`)
      const body = JSON.stringify({
        id,
        object: 'event',
        type,
        created_at: createdAt,
        mode: of.mode,
        data: { object: { sequence: first + index, note: 'Заказ готов ✓', ...object } },
      })
      return { id, sequence: first + index, body }
    })
    yield* sql.run(
      (q) => q`
        INSERT INTO read.events (account, mode, sequence, id, type, created_at, body)
        SELECT ${of.uuid}, ${of.mode}, e.sequence, e.id, ${type}, ${createdAt}, e.body
        FROM unnest(${events.map((event) => event.sequence)}::bigint[],
                    ${events.map((event) => decodeId('evt', event.id))}::uuid[],
                    ${events.map((event) => event.body)}::text[]) AS e (sequence, id, body)`,
    )
    return { createdAt: Date.parse(createdAt), type, events }
  })

  const publish = (of: Account, recorded: Effect.Success<ReturnType<typeof record>>) =>
    log.append(
      recorded.events.map((event) =>
        eventRecordedRecord(topics, {
          type: 'EventRecorded',
          event: event.id,
          account: of.id,
          mode: of.mode,
          sequence: event.sequence,
          eventType: recorded.type,
          createdAt: recorded.createdAt,
          body: event.body,
        }),
      ),
      { deadlineMs: ANSWERED_WITHIN_MS },
    )

  /** Records and publishes events. */
  const emit = Effect.fnUntraced(function* (of: Account, count: number, type?: string) {
    const recorded = yield* record(of, count, type)
    yield* publish(of, recorded)
    return recorded.events
  })

  /** Waits until a query returns true; the timeout of the test is the limit. */
  const eventually = (condition: (q: Queries) => Promise<boolean>) =>
    sql.run(condition).pipe(
      Effect.flatMap((met) => (met ? Effect.void : Effect.fail('not yet' as const))),
      Effect.retry({ while: (error) => error === 'not yet', schedule: Schedule.spaced('20 millis') }),
    )

  /**
   * The lag of each partition as tools of Kafka calculate it, from the position that the group has committed;
   * `null`: it has committed none.
   */
  const groupLag = Effect.gen(function* () {
    const { committed } = yield* describeGroup(connection, `${prefix}hub.webhook-fanout`)
    const positions = committed.get(topics.webhooks)
    const ends = yield* topicLogEnds(connection, topics.webhooks)
    return ends.map((end, partition) => {
      const position = positions?.get(partition)
      return position === undefined ? null : end - position
    })
  })

  const attemptsOf = (subscription: TestSubscription) =>
    sql.run(
      (q) =>
        q<
          {
            attempt: number
            status: string
            response_code: number | null
            reason: string | null
            next_attempt_at: Date | null
            created_at: Date
            batch_id: string
          }[]
        >`SELECT * FROM webhooks.attempts WHERE endpoint_id = ${subscription.uuid} ORDER BY id`,
    )

  return {
    account,
    attemptsOf,
    change,
    emit,
    eventually,
    groupLag,
    log,
    publish,
    record,
    rotate,
    sql,
    start,
    subscribe,
    storeLayer: layerPostgresStore.pipe(Layer.provide(Layer.mergeAll(sqlLayer, masterKeyLayer))),
    topics,
  }
})

/**
 * The same for a test that moves the clock. Topics are created again after a failure, which waits: under a clock that
 * stands still, it would wait for ever.
 */
export const makeDeploymentInRealTime = Effect.suspend(() => TestClock.withLive(makeDeployment))

export type Deployment = Effect.Success<typeof makeDeployment>
