/**
 * What clients see while Redis, PostgreSQL or Kafka answers late. The proxies delay the answers, so
 * each round trip takes longer by the delay. Nothing may be refused for good because of it. Source:
 * docs/decisions/servers.md; AVL-18.
 */
import net from 'node:net'
import { eventually, type FaultProxy, faultProxy, testRedisUrl } from '@hub/testkit'
import { Effect, Exit, Scope } from 'effect'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import { type Account, type Api, call, type Deployment, makeDeployment } from '../testing/harness.ts'

const BATCH = 400
const SINGLE_SENDS = 10
const EVERY = { everyMs: 100 } as const

let deployment: Deployment
let account: Account
const scope = Effect.runSync(Scope.make())
beforeAll(async () => {
  deployment = await makeDeployment()
  account = await deployment.addAccount()
})
afterAll(async () => {
  await Effect.runPromise(Scope.close(scope, Exit.void))
  await deployment.remove()
})

const proxyTo = (url: string): Promise<FaultProxy> => Effect.runPromise(Scope.provide(faultProxy(url), scope))

let sends = 0
const message = (messageClass: 'otp' | 'service') => {
  const n = (sends += 1)
  return {
    to: `+79${String(100_000_000 + n)}`,
    class: messageClass,
    ...(messageClass === 'otp'
      ? { template: 'otp_code', variables: { code: '1234' } }
      : { template: 'order_ready', variables: { order: '17' } }),
    client_ref: `slow-${n}`,
  }
}
const manySends = (count: number) =>
  Array.from({ length: count }, (_, i) => message(i % 2 === 0 ? 'otp' : 'service'))

/** The codes after which the contract tells clients to repeat a request. */
const TEMPORARY = new Set(['internal_error', 'overloaded', 'provider_unavailable', 'idempotency_conflict'])

interface ShownError {
  readonly code: string
  readonly retry_after?: number
  readonly window?: string
}

/**
 * Redis did not check the flood windows. The contract tells clients to repeat the send after an interval
 * of their own, with a new idempotency key. Source: LIM-12.
 */
const isUnchecked = ({ code, retry_after, window }: ShownError): boolean =>
  code === 'recipient_flood_limited' && window === undefined && retry_after === undefined

/** Fails if an answer refuses a send for good. Returns whether all sends of the request are accepted. */
const isAccepted = ({ body, headers, status }: Awaited<ReturnType<typeof call>>): boolean => {
  if (status === 503 || status === 409) {
    const { error } = body as { error: ShownError }
    assert.isTrue(TEMPORARY.has(error.code), error.code)
    assert.isAtLeast(error.retry_after ?? 0, 1)
    assert.strictEqual(headers.get('retry-after'), String(error.retry_after))
    return false
  }
  if (status === 422) {
    const { error } = body as { error: ShownError }
    assert.isTrue(isUnchecked(error), JSON.stringify(error))
    assert.isNull(headers.get('retry-after'))
    return false
  }
  assert.strictEqual(status, 202, JSON.stringify(body))
  const { results = [] } = body as {
    results?: ReadonlyArray<{ result: string; error?: ShownError }>
  }
  const errors = results.flatMap(({ error }) => (error === undefined ? [] : [error]))
  assert.isTrue(
    errors.every((error) => TEMPORARY.has(error.code) || isUnchecked(error)),
    [...new Set(errors.map(({ code }) => code))].join(),
  )
  return errors.length === 0
}

const post = async (api: Api, path: string, body: unknown) =>
  isAccepted(await call(api.url, path, { key: account.keys.live, body }))

/** Sends a message under an idempotency key. After a refusal that is stored, the repeat has a new key. */
const keyedPost = (api: Api, body: ReturnType<typeof message>) => {
  let keys = 1
  return async () => {
    const headers = { 'idempotency-key': `key-${body.client_ref}-${keys}` }
    const answer = await call(api.url, '/v1/messages', { key: account.keys.live, body, headers })
    if (answer.status === 422) keys++
    return isAccepted(answer)
  }
}

/** Sends messages alone, under an idempotency key and in a batch. Returns the requests that were refused. */
const sendMany = async (api: Api): Promise<ReadonlyArray<() => Promise<boolean>>> => {
  const batch = { messages: manySends(BATCH) }
  const requests = [
    ...manySends(SINGLE_SENDS).map((one) => () => post(api, '/v1/messages', one)),
    keyedPost(api, message('service')),
    () => post(api, '/v1/messages/batch', batch),
  ]
  const accepted = await Promise.all(requests.map((request) => request()))
  return requests.filter((_request, i) => accepted[i] !== true)
}

/** Repeats requests as their errors say, until all are accepted. */
const repeatAll = (requests: ReadonlyArray<() => Promise<boolean>>) =>
  Promise.all(requests.map((request) => eventually(request, EVERY)))

const redis = async () => {
  const proxy = await proxyTo(testRedisUrl())
  return { proxy, api: await deployment.start({ redisUrl: proxy.url }) }
}

const postgresql = async () => {
  const proxy = await proxyTo(deployment.databaseUrl)
  return { proxy, api: await deployment.start({ databaseUrl: proxy.url }) }
}

const kafka = async () => {
  const [broker] = deployment.connection.brokers
  const proxy = await proxyTo(`tcp://${broker}`)
  const api = await deployment.start({
    kafka: {
      socketFactory: ({ onConnect }) => net.connect({ host: '127.0.0.1', port: proxy.port }, onConnect),
    },
  })
  return { proxy, api }
}

/** A server, and two delays: with the first one everything is accepted, with the second one not. */
const SERVERS = [
  ['Redis', 500, 1000, redis],
  ['PostgreSQL', 200, 1000, postgresql],
  ['Kafka', 1000, 2000, kafka],
] as const

describe('no send is refused for good because of a delay', () => {
  // Rules: AVL-18, LIM-12
  it.each(SERVERS)('of %s (%i ms, then %i ms)', async (_name, slowMs, tooSlowMs, start) => {
    const { api, proxy } = await start()
    try {
      await repeatAll(await sendMany(api))

      proxy.delay(slowMs, 'to client')
      // The first sends meet a hub that does not know the delay, so some need their repeat.
      await repeatAll(await sendMany(api))

      proxy.delay(tooSlowMs, 'to client')
      const refused = await sendMany(api)

      proxy.delay(0)
      await repeatAll(refused)
      await repeatAll(await sendMany(api))
      await eventually(async () => (await api.failing()).length === 0, EVERY)
    } finally {
      proxy.delay(0)
      await api.stop()
    }
  })
})
