/** Starts operations-api in this process for tests, with an own database on the shared servers. */
import { randomBytes, randomUUID } from 'node:crypto'
import type { KafkaConnection } from '@hub/kafka'
import { localLoginUrl } from '@hub/local-login'
import { Readiness } from '@hub/telemetry'
import { freshDatabase, openDatabase, testBrokers, testRedisUrl, topicPrefix } from '@hub/testkit'
import { ConfigProvider, Duration, Effect, Layer, Logger, ManagedRuntime, Metric, Redacted } from 'effect'
import { HttpServer } from 'effect/http'
import { makeCookies } from '../access/cookies.ts'
import { IdentityProvider } from '../access/identity-provider.ts'
import { operationsApi } from '../app.ts'
import { overviewViewers } from '../metrics.ts'
import { storesLayer } from '../layers.ts'

export const LOCAL_SECRET = 'a secret of login links for tests only'

/** The address in links and redirects. Requests of tests go to the port that the app listens on. */
const OPERATIONS_URL = 'http://127.0.0.1:7305'

const PARTITIONS = 2

/** The secret of the recipient hash. */
export const HASH_SECRET = 'a secret of at least 32 characters for tests'

interface HarnessOptions {
  /** Settings of the identity provider. Default: there is none. */
  readonly provider?: Readonly<Record<string, string>>
  /** Settings that use cases read. */
  readonly settings?: Readonly<Record<string, string>>
  readonly operationsUrl?: string
  readonly port?: number
  readonly consoleDir?: string
  readonly localLogin?: boolean
  /** Receives the log, which is discarded without it. */
  readonly logger?: Layer.Layer<never>
  readonly shutdownDelayMs?: number
}

export interface TestResponse {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The parsed body; `null` if it is not JSON. */
  // oxlint-disable-next-line typescript/no-explicit-any -- each test knows the form of its answer
  readonly body: any
}

interface CallOptions {
  readonly method?: string
  /** Sent as JSON, except for a string. */
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** A session, as `signIn` returns it. */
  readonly as?: TestSession
}

export interface TestSession {
  readonly cookie: string
  readonly csrf: string
}

export const startOperationsApi = async (options: HarnessOptions = {}) => {
  const database = await freshDatabase()
  const sql = openDatabase(database.url)
  const kafka: KafkaConnection = { brokers: testBrokers(), clientId: 'operations-api-test' }
  const operationsUrl = options.operationsUrl ?? OPERATIONS_URL
  const { names } = makeCookies({ operationsUrl, hasLoginLinks: options.localLogin !== false })
  const prefix = topicPrefix()
  const environment = ConfigProvider.layer(
    ConfigProvider.fromUnknown({
      HUB_OPERATIONS_URL: operationsUrl,
      HUB_DATABASE_URL: database.url,
      HUB_DATABASE_POOL: '6',
      HUB_REDIS_URL: testRedisUrl(),
      HUB_REDIS_PREFIX: `${prefix}counters:`,
      HUB_KAFKA_BROKERS: testBrokers().join(','),
      HUB_TOPIC_PREFIX: prefix,
      HUB_PARTITIONS: String(PARTITIONS),
      HUB_MASTER_KEY: randomBytes(32).toString('base64'),
      HUB_NUMBER_HASH_SECRET: HASH_SECRET,
      ...options.provider,
      ...options.settings,
    }),
  )
  const runtime = ManagedRuntime.make(
    operationsApi({
      port: options.port ?? 0,
      host: '127.0.0.1',
      operationsUrl,
      consoleDir: options.consoleDir ?? '/nothing',
      localSecret: options.localLogin === false ? null : Redacted.make(LOCAL_SECRET),
      kafka,
      topicPrefix: prefix,
      shutdownDelay: Duration.millis(options.shutdownDelayMs ?? 0),
    }).pipe(
      Layer.provide(IdentityProvider.layer),
      Layer.provide(
        storesLayer('operations-api-test', { connection: kafka, partitions: PARTITIONS, prefix }),
      ),
      Layer.provideMerge(Readiness.layer),
      Layer.provide(options.logger ?? Logger.layer([])),
      // Use cases read settings while they run, too.
      Layer.provide(environment),
    ),
  )
  const { address } = await runtime.runPromise(
    Effect.gen(function* () {
      return yield* HttpServer.HttpServer
    }),
  )
  if (!('port' in address)) throw new Error('the HTTP server has no TCP port')
  const url = `http://127.0.0.1:${address.port}`

  const call = async (path: string, given: CallOptions = {}): Promise<TestResponse> => {
    const { as, body, headers, method = body === undefined ? 'GET' : 'POST' } = given
    const response = await fetch(url + path, {
      method,
      redirect: 'manual',
      headers: {
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(as === undefined ? {} : { cookie: as.cookie }),
        ...(as === undefined || method === 'GET' ? {} : { 'x-csrf-token': as.csrf }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    const text = await response.text()
    const isJson = response.headers.get('content-type')?.includes('json') === true
    return {
      status: response.status,
      headers: response.headers,
      text,
      body: isJson && text !== '' ? JSON.parse(text) : null,
    }
  }

  const linkFor = (name: string, roles: ReadonlyArray<string>, now = Date.now()): string => {
    const link = new URL(localLoginUrl(operationsUrl, LOCAL_SECRET, { name, roles }, now))
    return `${link.pathname}${link.search}`
  }

  /** The session cookie that a response sets; `null` if it sets none. */
  const sessionOf = (response: Pick<TestResponse, 'headers'>): string | null =>
    response.headers
      .getSetCookie()
      .map((cookie) => cookie.split(';', 1)[0] ?? '')
      .find((cookie) => cookie.startsWith(`${names.session}=`) && !cookie.endsWith('=')) ?? null

  const withCsrf = async (cookie: string): Promise<TestSession> => {
    const me = await call('/v1/me', { headers: { cookie } })
    return { cookie, csrf: String(me.body.csrf_token) }
  }

  return {
    url,
    databaseUrl: database.url,
    sql,
    call,
    linkFor,
    sessionOf,
    withCsrf,
    /** The connected viewers of the overview, as the metric says. */
    viewers: async () => (await runtime.runPromise(Metric.value(overviewViewers))).value,
    failing: () => runtime.runPromise(Effect.flatMap(Readiness, ({ failing }) => failing)),

    /** Signs a person in with a login link. */
    signIn: async (name: string, ...roles: ReadonlyArray<string>): Promise<TestSession> => {
      const cookie = sessionOf(await call(linkFor(name, roles)))
      if (cookie === null) throw new Error('the login link did not begin a session')
      return withCsrf(cookie)
    },

    addAccount: async (name = 'Shop'): Promise<string> => {
      const id = randomUUID()
      await sql`INSERT INTO command.accounts (id, name) VALUES (${id}, ${name})`
      return id
    },

    stop: async () => {
      await runtime.dispose()
      await sql.end()
      await database.drop()
    },
  }
}
export type TestOperationsApi = Awaited<ReturnType<typeof startOperationsApi>>
