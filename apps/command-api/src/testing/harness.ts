/**
 * Starts command-api for tests: with its own database and topics on the servers of the test run,
 * and proxies that stall.
 */
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import net from 'node:net'
import type { Route } from '@hub/contract'
import { DEFAULT_LIFETIMES, encodeId, type Lifetimes, type MessageAccepted, type Mode } from '@hub/domain'
import {
  ConsumerGroups,
  createTopics,
  decodeFact,
  EventLog,
  type IncomingRecord,
  type KafkaConnection,
  layerConsumerGroups,
  layerEventLog,
  layerKeysAndErasures,
  topicCatalogue,
  topicNames,
} from '@hub/kafka'
import { Counters, makeRedisCounters } from '@hub/counters'
import type { KeyPairFiles } from '@hub/config'
import { makeSql, PayloadEncryption, Sql, MasterKeyEncryption } from '@hub/store'
import { Readiness } from '@hub/telemetry'
import { eventually, freshDatabase, testBrokers, testRedisUrl, topicPrefix } from '@hub/testkit'
import { AddressPolicy } from '@hub/webhooks'
import {
  ConfigProvider,
  Duration,
  Effect,
  Fiber,
  Layer,
  Logger,
  ManagedRuntime,
  Redacted,
  Result,
} from 'effect'
import { HttpServer } from 'effect/http'
import { afterAll, beforeAll } from 'vitest'
import { AdmissionControl, type AdmissionOptions } from '../accept/admission/admission-control.ts'
import { networkFrom } from '../access/client-address.ts'
import { commandApi } from '../app.ts'

const PARTITIONS = 3
const HASH_SECRET = 'a secret of at least 32 characters for tests'

export interface Account {
  readonly id: string
  readonly uuid: string
  readonly keys: Readonly<Record<Mode, string>>
}

/** A TCP proxy that can stall: it forwards and refuses nothing, like a process that was stopped. */
export const stallingProxy = async () => {
  const sockets = new Set<net.Socket>()
  const targets: Array<{ readonly host: string; readonly port: number }> = []
  let stalled = false
  const server = net.createServer((client) => {
    const target = targets.shift()
    if (target === undefined) return void client.destroy()
    const upstream = net.connect(target)
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from)
      from.on('data', (chunk) => to.write(chunk))
      from.on('error', () => to.destroy())
      from.on('close', () => {
        sockets.delete(from)
        to.destroy()
      })
      if (stalled) from.pause()
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as net.AddressInfo
  return {
    port,
    /** Connects a client through the proxy to a target that the server has announced. */
    connect: (
      target: { readonly host: string; readonly port: number },
      onConnect?: () => void,
    ): net.Socket => {
      targets.push(target)
      return net.connect({ host: '127.0.0.1', port }, onConnect)
    },
    /** Sets the target of the next connections. */
    forwardTo: (target: { readonly host: string; readonly port: number }, connections: number) => {
      for (let i = 0; i < connections; i++) targets.push(target)
    },
    stall: (on: boolean) => {
      stalled = on
      for (const socket of sockets) {
        if (on) socket.pause()
        else socket.resume()
      }
    },
    close: () => {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}

/** The servers, topics and keys that the processes of a test share. */
export const makeDeployment = async () => {
  const database = await freshDatabase()
  const prefix = topicPrefix()
  const topics = topicNames(prefix)
  const connection: KafkaConnection = { brokers: testBrokers(), clientId: 'command-api-test' }
  const masterKey = randomBytes(32).toString('base64')
  await Effect.runPromise(
    createTopics(connection, topicCatalogue({ prefix, partitions: PARTITIONS, replicationFactor: 1 })),
  )
  const masterKeyLayer = MasterKeyEncryption.layer.pipe(
    Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ HUB_MASTER_KEY: masterKey }))),
  )
  const stores = (url: string, log: Layer.Layer<EventLog>) =>
    PayloadEncryption.layer.pipe(
      Layer.provideMerge(layerKeysAndErasures(connection, topics)),
      Layer.provide(log),
      Layer.provideMerge(
        Layer.mergeAll(Layer.effect(Sql, makeSql(Redacted.make(url), 6, 'command-api-test')), masterKeyLayer),
      ),
    )
  /** Keys with a unique prefix on the shared Redis. */
  const counters = (url: string, deadlineMs?: number) =>
    Layer.effect(
      Counters,
      makeRedisCounters({
        url: Redacted.make(url),
        prefix: `${prefix}counters:`,
        name: 'command-api-test',
        ...(deadlineMs === undefined ? {} : { deadlineMs }),
      }),
    )
  const testRuntime = ManagedRuntime.make(
    Layer.mergeAll(
      stores(database.url, layerEventLog({ connection, partitions: PARTITIONS })),
      layerConsumerGroups({ connection }),
      Logger.layer([]),
    ),
  )
  // The deadline only ends a statement that hangs: a busy machine may need longer than a request may wait.
  const sql = <A>(body: Parameters<Sql['Service']['run']>[0]): Promise<A> =>
    testRuntime.runPromise(
      Effect.flatMap(Sql, (pool) => pool.run(body, { deadline: '60 seconds' })),
    ) as Promise<A>

  const readers: Array<Fiber.Fiber<unknown, unknown>> = []

  interface StartOptions {
    readonly databaseUrl?: string
    readonly kafka?: Partial<KafkaConnection>
    readonly log?: Layer.Layer<EventLog>
    readonly port?: number
    readonly redisUrl?: string
    /** Of a call of Redis: on a busy machine, a call that fails leaves the login gate open. */
    readonly redisDeadlineMs?: number
    /** In CIDR notation. */
    readonly trustedProxies?: ReadonlyArray<string>
    readonly tls?: KeyPairFiles
    readonly lifetimes?: Lifetimes
    /** Receives the log, which is discarded without it. */
    readonly logger?: Layer.Layer<never>
    readonly loggedShare?: number
    readonly admission?: AdmissionOptions
    readonly shutdownDelayMs?: number
    readonly routes?: ReadonlyArray<Route>
  }

  const startOnce = async (options: StartOptions) => {
    const log =
      options.log ??
      layerEventLog({ connection: { ...connection, ...options.kafka }, partitions: PARTITIONS })
    const runtime = ManagedRuntime.make(
      commandApi({
        port: options.port ?? 0,
        host: null,
        baseUrl: 'http://hub.test',
        topics,
        hashSecret: HASH_SECRET,
        kafka: connection,
        tls: options.tls ?? null,
        lifetimes: options.lifetimes ?? DEFAULT_LIFETIMES,
        loggedShare: options.loggedShare ?? 1,
        shutdownDelay: Duration.millis(options.shutdownDelayMs ?? 0),
        ...(options.routes === undefined ? {} : { routes: options.routes }),
        trustedProxies: (options.trustedProxies ?? []).map((text) => Result.getOrThrow(networkFrom(text))),
      }).pipe(
        Layer.provideMerge(AdmissionControl.layer(options.admission)),
        Layer.provideMerge(counters(options.redisUrl ?? testRedisUrl(), options.redisDeadlineMs)),
        Layer.provideMerge(stores(options.databaseUrl ?? database.url, log)),
        Layer.provideMerge(Readiness.layer),
        Layer.provide(log),
        Layer.provide(
          AddressPolicy.layer.pipe(Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({})))),
        ),
        Layer.provide(options.logger ?? Logger.layer([])),
      ),
    )
    const { address } = await runtime.runPromise(HttpServer.HttpServer).catch(async (error: unknown) => {
      await runtime.dispose()
      throw error
    })
    if (!('port' in address)) throw new Error('the HTTP server has no TCP port')
    const url = `${options.tls === undefined ? 'http' : 'https'}://127.0.0.1:${address.port}`
    return {
      url,
      port: address.port,
      admission: await runtime.runPromise(AdmissionControl),
      failing: () => runtime.runPromise(Effect.flatMap(Readiness, ({ failing }) => failing)),
      stop: () => runtime.dispose(),
    }
  }

  /** Starts one process. One that a late server refuses at its start is started again, as systemd does. */
  const start = (options: StartOptions = {}) => eventually(() => startOnce(options))

  return {
    databaseUrl: database.url,
    prefix,
    topics,
    connection,
    masterKey,
    hashSecret: HASH_SECRET,
    sql,
    start,
    masterKeyEncryption: () => testRuntime.runPromise(MasterKeyEncryption),

    /**
     * Adds an account with an API key, senders and templates in each mode. Its request rate is
     * high, because tests send as fast as they can. `apiRps`: another rate; `null`: the default.
     */
    addAccount: async (options: { readonly apiRps?: number | null } = {}): Promise<Account> => {
      const apiRps = options.apiRps === undefined ? 100_000 : options.apiRps
      const uuid = randomUUID()
      const keys = { live: '', test: '' }
      await sql((q) => q`INSERT INTO command.accounts (id, name) VALUES (${uuid}, 'Shop')`)
      for (const mode of ['live', 'test'] as const) {
        const key = `hub_${mode}_${randomBytes(32).toString('hex').slice(0, 43)}`
        keys[mode] = key
        await sql(
          (q) => q`INSERT INTO command.api_keys (id, account, mode, hash, last_four)
                   VALUES (${randomUUID()}, ${uuid}, ${mode}, ${createHash('sha256').update(key).digest()}, 'xxxx')`,
        )
        if (apiRps !== null) {
          await sql(
            (q) =>
              q`INSERT INTO command.account_settings (account, mode, api_rps) VALUES (${uuid}, ${mode}, ${apiRps})`,
          )
        }
        await sql(
          (q) => q`INSERT INTO command.senders (id, account, mode, name, status)
                   VALUES (${randomUUID()}, ${uuid}, ${mode}, 'HUB', 'registered'),
                          (${randomUUID()}, ${uuid}, ${mode}, 'NEW', 'pending')`,
        )
        await sql(
          (q) => q`INSERT INTO command.templates (id, account, mode, name, class, sender, body, status)
                   VALUES (${randomUUID()}, ${uuid}, ${mode}, 'otp_code', 'otp', 'HUB', 'Code {{code}}', 'approved'),
                          (${randomUUID()}, ${uuid}, ${mode}, 'order_ready', 'service', 'HUB', 'Заказ {{order}} готов', 'approved'),
                          (${randomUUID()}, ${uuid}, ${mode}, 'waiting', 'service', 'HUB', 'x', 'pending_moderation'),
                          (${randomUUID()}, ${uuid}, ${mode}, 'refused', 'service', 'HUB', 'x', 'declined'),
                          (${randomUUID()}, ${uuid}, ${mode}, 'unregistered', 'service', 'NEW', 'x', 'approved')`,
        )
      }
      return { id: encodeId('acc', uuid), uuid, keys }
    },

    /** Reads a topic from its beginning. The array grows with the topic. */
    tail: async (topic: string): Promise<ReadonlyArray<IncomingRecord>> => {
      const records: Array<IncomingRecord> = []
      const joined = Promise.withResolvers<void>()
      const reading = Effect.gen(function* () {
        const groups = yield* ConsumerGroups
        yield* groups.join(
          { group: `${prefix}${randomBytes(4).toString('hex')}`, topics: [topic] },
          {
            onAssigned: ({ shards }, control) => {
              for (const partition of shards) control.seek({ topic, partition, offset: 0 })
              joined.resolve()
            },
            onRevoking: Effect.void,
            onBatch: (_topic, _partition, batch) =>
              Effect.sync(() => {
                records.push(...batch)
              }),
          },
        )
        return yield* Effect.never
      })
      readers.push(testRuntime.runFork(Effect.scoped(reading)))
      await joined.promise
      return records
    },

    remove: async () => {
      await Effect.runPromise(Fiber.interruptAll(readers))
      await testRuntime.dispose()
      await database.drop()
    },
  }
}
export type Deployment = Awaited<ReturnType<typeof makeDeployment>>
export type Api = Awaited<ReturnType<Deployment['start']>>

/** Starts one process and adds an account before the tests of a file, and stops it after them. */
export const startBeforeTests = (
  onStarted: (started: {
    readonly deployment: Deployment
    readonly api: Api
    readonly account: Account
  }) => void,
  options?: Parameters<Deployment['start']>[0],
): void => {
  let deployment: Deployment | undefined
  let api: Api | undefined
  beforeAll(async () => {
    deployment = await makeDeployment()
    api = await deployment.start(options)
    onStarted({ deployment, api, account: await deployment.addAccount() })
  })
  afterAll(async () => {
    await api?.stop()
    await deployment?.remove()
  })
}

/** The facts of a lane's records, in order. */
export const facts = (records: ReadonlyArray<IncomingRecord>): ReadonlyArray<MessageAccepted> =>
  records.flatMap((record) => {
    const decoded = decodeFact(record)
    if (Result.isFailure(decoded) || decoded.success.type !== 'MessageAccepted') {
      throw new Error('a lane contains a record that is not MessageAccepted')
    }
    return [decoded.success]
  })

export interface TestResponse {
  readonly status: number
  readonly headers: Headers
  readonly body: unknown
}

/** Sends a request like a client. A `body` that is no string is sent as JSON. */
export const call = async (
  url: string,
  path: string,
  options: {
    readonly key?: string
    readonly method?: string
    readonly body?: unknown
    readonly headers?: Readonly<Record<string, string>>
  } = {},
): Promise<TestResponse> => {
  const { body, headers, key } = options
  const response = await fetch(url + path, {
    method: options.method ?? (body === undefined ? 'GET' : 'POST'),
    headers: {
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  const text = await response.text()
  const isJson = response.headers.get('content-type')?.includes('json') === true && text !== ''
  return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text }
}

/** Whether a server was late, as on a busy machine: the process did not refuse the request because of its own load. */
export const isLate = ({ body, status }: TestResponse): boolean =>
  status === 503 && (body as { readonly error?: { readonly code: string } }).error?.code !== 'overloaded'

/** Like `call`. It repeats a request while a server is late, but not one that was refused because of load. */
export const callUnlessLate = (...request: Parameters<typeof call>): Promise<TestResponse> =>
  eventually(async () => {
    const answer = await call(...request)
    return isLate(answer) ? null : answer
  })

/** Repetitions of a request that was answered 503, on a busy machine. */
const REPETITIONS = 20
const REPEAT_AFTER_MS = 500

/**
 * Like `call`, for tests whose servers are available: it repeats a request that a busy machine could
 * not answer in time. The last answer is returned, whatever it is.
 */
export const callUntilAnswered = async (...request: Parameters<typeof call>): Promise<TestResponse> => {
  let response = await call(...request)
  for (let repetition = 0; response.status === 503 && repetition < REPETITIONS; repetition += 1) {
    await new Promise((resolve) => setTimeout(resolve, REPEAT_AFTER_MS))
    response = await call(...request)
  }
  return response
}
