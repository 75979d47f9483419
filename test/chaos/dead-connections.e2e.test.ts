/**
 * A hub whose connections to PostgreSQL or Redis die without a sign: it recovers by itself after new
 * connections work. Without PostgreSQL it refuses sends, and its
 * consumers are not ready. Source: AVL-13 to AVL-17.
 */
import { APPS, type App } from '@hub/config'
import { eventually, type FaultProxy, faultProxy, openDatabase, SILENT_FAULTS } from '@hub/testkit'
import { Effect, Exit, Scope } from 'effect'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Client, client, send } from '../support/client.ts'
import { freshNumber, makeHubAdmin } from '../support/hub-admin.ts'
import { borrowStack, startHub, type TestHub, type TestStack } from '../support/hub.ts'

/**
 * The hub recovers within five seconds. The rest of this time is for a busy machine: without the
 * recovery, no time would be enough.
 */
const RECOVERY = { everyMs: 100 } as const
const DELAY_MS = 60
/** So few that all of them are open: a pool with room would open further ones. */
const CONNECTIONS = 2
/** The sends that open all connections of a process. */
const CONCURRENT = 8

const scope = Effect.runSync(Scope.make())
let stack: TestStack
let proxy: FaultProxy
let redis: FaultProxy
let hub: TestHub
let live: Client

beforeAll(async () => {
  stack = await borrowStack()
  proxy = await Effect.runPromise(Scope.provide(faultProxy(stack.databaseUrl), scope))
  redis = await Effect.runPromise(Scope.provide(faultProxy(stack.redisUrl), scope))
  hub = await startHub({
    servers: { ...stack, databaseUrl: proxy.url, redisUrl: redis.url },
    environment: { HUB_DATABASE_POOL: String(CONNECTIONS) },
  })
  const { base_url } = hub.describe()
  const admin = makeHubAdmin(hub, { connect: (key) => client(base_url, key, { repeats: false }) })
  live = (await admin.createAccount()).live
  await admin.close()
})
afterEach(() => {
  for (const one of [proxy, redis]) {
    one.release()
    one.delay(0)
  }
})
afterAll(async () => {
  await hub?.stop()
  await Effect.runPromise(Scope.close(scope, Exit.void))
  await stack?.stop()
})

const adminPorts = (): Readonly<Record<App, number>> => ({
  'command-api': hub.ports.commandApiAdmin,
  dispatcher: hub.ports.dispatcherAdmin,
  projector: hub.ports.projectorAdmin,
  'webhook-fanout': hub.ports.webhookFanoutAdmin,
})
const isReady = async (app: App): Promise<boolean> =>
  (await fetch(`http://127.0.0.1:${adminPorts()[app]}/readyz`)).ok
const notReady = async (): Promise<ReadonlyArray<App>> => {
  const ready = await Promise.all(APPS.map(isReady))
  return APPS.filter((_app, i) => !ready[i])
}

const untilReady = () =>
  eventually(async () => {
    expect(await notReady()).toEqual([])
    return true
  }, RECOVERY)

/** Sends codes until one is accepted. Returns its id. */
const untilAccepted = (): Promise<string> =>
  eventually(async () => {
    const { body, status } = await live.post('/v1/messages', send('otp', freshNumber()))
    expect(status).toBe(202)
    return body.id as string
  }, RECOVERY)

const untilAllAccepted = () => Promise.all(Array.from({ length: CONCURRENT }, untilAccepted))

const untilDelivered = (id: string) =>
  eventually(async () => {
    const { body } = await live.get(`/v1/messages/${id}`)
    expect(body.status).toBe('delivered')
    return true
  }, RECOVERY)

describe('connections to PostgreSQL', () => {
  it.each(SILENT_FAULTS)(
    '%s: sends get 503, command-api is ready and no consumer is; afterwards codes are accepted and delivered again',
    async (_name, begin) => {
      for (const id of await untilAllAccepted()) await untilDelivered(id)
      await untilReady()
      const before = APPS.map((app) => hub.app(app).pid())
      proxy.hold()
      begin(proxy)
      expect((await live.post('/v1/messages', send('otp', freshNumber()))).status).toBe(503)
      await eventually(async () => {
        expect(await notReady()).toEqual(APPS.filter((app) => app !== 'command-api'))
        return true
      }, RECOVERY)
      proxy.release()
      const releasedAt = performance.now()
      const id = await untilAccepted()
      const acceptedMs = Math.round(performance.now() - releasedAt)
      await untilDelivered(id)
      console.log(
        `accepted after ${acceptedMs} ms, delivered after ${Math.round(performance.now() - releasedAt)} ms`,
      )
      await untilReady()
      expect(APPS.map((app) => hub.app(app).pid())).toEqual(before)
    },
  )

  it('terminated by PostgreSQL: codes are accepted and delivered again', async () => {
    await untilDelivered(await untilAccepted())
    const direct = openDatabase(stack.databaseUrl)
    await direct`
      SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE application_name LIKE 'hub-%' AND datname = current_database()`
    await direct.end()
    await untilDelivered(await untilAccepted())
    await untilReady()
  })

  it(`${DELAY_MS} ms slower in each direction: codes are accepted and delivered, and no connection is replaced`, async () => {
    await untilDelivered(await untilAccepted())
    await untilReady()
    proxy.delay(DELAY_MS)
    const replaced = async () =>
      (
        await Promise.all(
          APPS.map(async (app) => (await fetch(`http://127.0.0.1:${adminPorts()[app]}/metrics`)).text()),
        )
      ).flatMap((text) =>
        text.split('\n').filter((line) => line.startsWith('hub_postgresql_connections_replaced_total')),
      )
    const before = await replaced()
    expect(before).not.toEqual([])
    for (let i = 0; i < 5; i++) await untilDelivered(await untilAccepted())
    expect(await notReady()).toEqual([])
    expect(await replaced()).toEqual(before)
  })
})

describe('connections to Redis', () => {
  const untilServiceGets = (...statuses: ReadonlyArray<number>) =>
    eventually(async () => {
      const answer = await live.post('/v1/messages', send('service', freshNumber()))
      expect(statuses).toContain(answer.status)
      return answer
    }, RECOVERY)

  it.each(SILENT_FAULTS)(
    '%s: codes are accepted meanwhile, and service messages afterwards',
    async (_name, begin) => {
      await untilServiceGets(202)
      redis.hold()
      begin(redis)
      await untilServiceGets(422)
      await untilAccepted()
      redis.release()
      // The request rate is not counted before Redis answers as fast as usual.
      await eventually(async () => {
        const { headers } = await untilServiceGets(202)
        expect(headers.get('x-ratelimit-limit')).not.toBeNull()
        return true
      }, RECOVERY)
    },
  )

  it(`${DELAY_MS} ms slower in each direction: service messages are accepted`, async () => {
    await untilServiceGets(202)
    redis.delay(DELAY_MS)
    for (let i = 0; i < 5; i++) await untilServiceGets(202)
  })
})
