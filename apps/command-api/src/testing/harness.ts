/** A command-api for its tests: a database and topics of its own on the servers of the test run, and ways to disturb them. */
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import net from 'node:net'
import { encodeId, type MessageAccepted, type Mode } from '@hub/domain'
import {
  ConsumerGroups,
  createTopics,
  decodeFact,
  EventLog,
  type IncomingRecord,
  type KafkaConnection,
  layerConsumerGroups,
  layerEventLog,
  topicCatalogue,
  topicNames,
} from '@hub/kafka'
import { Counters, makeRedisCounters } from '@hub/counters'
import { makeSql, PayloadEncryption, Sql, MasterKeyEncryption } from '@hub/store'
import { Readiness } from '@hub/telemetry'
import { freshDatabase, testBrokers, testRedisUrl, topicPrefix } from '@hub/testkit'
import { AddressPolicy } from '@hub/webhooks'
import { ConfigProvider, Effect, Fiber, Layer, Logger, ManagedRuntime, Redacted, Result } from 'effect'
import { HttpServer } from 'effect/http'
import { networkFrom } from '../access/client-address.ts'
import { commandApi } from '../app.ts'
import type { TlsFiles } from '../http/tls.ts'

const PARTITIONS = 3
const HASH_SECRET = 'a secret of at least 32 characters for tests'

export interface Account {
  readonly id: string
  readonly uuid: string
  readonly keys: Readonly<Record<Mode, string>>
}

/** A TCP way to a server that can be stalled: nothing passes, nothing is refused, as with a process that was stopped. */
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
    /** For clients that are told where to connect by the server itself. */
    connect: (
      target: { readonly host: string; readonly port: number },
      onConnect?: () => void,
    ): net.Socket => {
      targets.push(target)
      return net.connect({ host: '127.0.0.1', port }, onConnect)
    },
    /** What clients that come by themselves are led to. */
    leadTo: (target: { readonly host: string; readonly port: number }, connections: number) => {
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

/** The deployment that a test's processes share. */
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
  const stores = (url: string) =>
    PayloadEncryption.layer.pipe(
      Layer.provideMerge(
        Layer.mergeAll(Layer.effect(Sql, makeSql(Redacted.make(url), 6, 'command-api-test')), masterKeyLayer),
      ),
    )
  /** Keys of this deployment's own on the shared server. */
  const counters = (url: string) =>
    Layer.effect(
      Counters,
      makeRedisCounters({ url: Redacted.make(url), prefix: `${prefix}counters:`, name: 'command-api-test' }),
    )
  const own = ManagedRuntime.make(
    Layer.mergeAll(stores(database.url), layerConsumerGroups({ connection }), Logger.layer([])),
  )
  const sql = <A>(body: Parameters<Sql['Service']['run']>[0]): Promise<A> =>
    own.runPromise(Effect.flatMap(Sql, (pool) => pool.run(body))) as Promise<A>

  const readers: Array<Fiber.Fiber<unknown, unknown>> = []

  /** Starts one process. */
  const start = async (
    options: {
      readonly databaseUrl?: string
      readonly kafka?: Partial<KafkaConnection>
      readonly log?: Layer.Layer<EventLog>
      readonly port?: number
      readonly redisUrl?: string
      /** In CIDR notation. */
      readonly trustedProxies?: ReadonlyArray<string>
      readonly tls?: TlsFiles
    } = {},
  ) => {
    const log =
      options.log ??
      layerEventLog({ connection: { ...connection, ...options.kafka }, partitions: PARTITIONS })
    const runtime = ManagedRuntime.make(
      commandApi({
        port: options.port ?? 0,
        baseUrl: 'http://hub.test',
        topics,
        hashSecret: HASH_SECRET,
        kafka: connection,
        tls: options.tls ?? null,
        trustedProxies: (options.trustedProxies ?? []).map((text) => Result.getOrThrow(networkFrom(text))),
      }).pipe(
        Layer.provideMerge(counters(options.redisUrl ?? testRedisUrl())),
        Layer.provideMerge(stores(options.databaseUrl ?? database.url)),
        Layer.provideMerge(Readiness.layer),
        Layer.provide(log),
        Layer.provide(
          AddressPolicy.layer.pipe(Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({})))),
        ),
        Layer.provide(Logger.layer([])),
      ),
    )
    const { address } = await runtime.runPromise(
      Effect.gen(function* () {
        return yield* HttpServer.HttpServer
      }),
    )
    if (!('port' in address)) throw new Error('the server listens on no port')
    const url = `${options.tls === undefined ? 'http' : 'https'}://127.0.0.1:${address.port}`
    return {
      url,
      port: address.port,
      failing: () => runtime.runPromise(Effect.flatMap(Readiness, ({ failing }) => failing)),
      stop: () => runtime.dispose(),
    }
  }

  return {
    databaseUrl: database.url,
    prefix,
    topics,
    connection,
    masterKey,
    hashSecret: HASH_SECRET,
    sql,
    start,
    masterKeyEncryption: () => own.runPromise(MasterKeyEncryption),

    /**
     * An account with a key, the sender `HUB` and the two usual templates in each mode. Tests send as fast as they can, so its
     * request rate is out of their way, unless it is given: `null` is the default's.
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

    /** Reads a topic from its beginning; the array grows. */
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
      readers.push(own.runFork(Effect.scoped(reading)))
      await joined.promise
      return records
    },

    remove: async () => {
      await Effect.runPromise(Fiber.interruptAll(readers))
      await own.dispose()
      await database.drop()
    },
  }
}
export type Deployment = Awaited<ReturnType<typeof makeDeployment>>

/** The facts of a lane, in order. */
export const facts = (records: ReadonlyArray<IncomingRecord>): ReadonlyArray<MessageAccepted> =>
  records.flatMap((record) => {
    const decoded = decodeFact(record)
    if (Result.isFailure(decoded) || decoded.success.type !== 'MessageAccepted') {
      throw new Error('a lane holds something other than MessageAccepted')
    }
    return [decoded.success]
  })

export interface Answered {
  readonly status: number
  readonly headers: Headers
  readonly body: unknown
}

/** Sends a request as a client would. `body` is sent as it is when it is text, else as JSON. */
export const call = async (
  url: string,
  path: string,
  options: {
    readonly key?: string
    readonly method?: string
    readonly body?: unknown
    readonly headers?: Readonly<Record<string, string>>
  } = {},
): Promise<Answered> => {
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
