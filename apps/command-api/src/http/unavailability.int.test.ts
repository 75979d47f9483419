/**
 * What clients see while Kafka, PostgreSQL or Redis is unavailable, and the state afterwards.
 * Source: AVL-13 to AVL-17.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import net from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { decodeId, factId } from '@hub/domain'
import { decodeSubscriptionChanged, type IncomingRecord } from '@hub/kafka'
import { ANSWERED_WITHIN_MS, eventually, freePort, testRedisUrl } from '@hub/testkit'
import { Result } from 'effect'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import {
  type Account,
  call,
  callUnlessLate,
  facts,
  makeDeployment,
  stallingProxy,
  type Deployment,
} from '../testing/harness.ts'

/** Only ends a wait that hangs. */
/** On a busy machine Redis answers late, and without its answer a service message is refused. */
const REDIS_DEADLINE = { redisDeadlineMs: 10_000 }

let deployment: Deployment
let account: Account
beforeAll(async () => {
  deployment = await makeDeployment()
  account = await deployment.addAccount()
})
afterAll(() => deployment.remove())

interface Shown {
  readonly id: string
  readonly status: string
  readonly duplicate?: true
  readonly error?: { readonly code: string; readonly retry_after?: number; readonly outcome?: string }
}

const service = (clientRef: string) => ({
  to: '+79001234567',
  class: 'service',
  template: 'order_ready',
  variables: { order: '17' },
  client_ref: clientRef,
})
const otp = (clientRef: string, to = '+79001234567') => ({
  to,
  class: 'otp',
  template: 'otp_code',
  variables: { code: '1234' },
  client_ref: clientRef,
})
const send = async (url: string, body: unknown) => {
  const from = performance.now()
  const answer = await call(url, '/v1/messages', { key: account.keys.test, body })
  return { ...answer, shown: answer.body as Shown, tookMs: performance.now() - from }
}
type Sent = Awaited<ReturnType<typeof send>>

/** Sends while the servers are available. */
const accept = async (url: string, body: unknown): Promise<Shown> => {
  const answer = await callUnlessLate(url, '/v1/messages', { key: account.keys.test, body })
  assert.strictEqual(answer.status, 202, JSON.stringify(answer.body))
  return answer.body as Shown
}

const refused = (answer: Sent, code: string) => {
  assert.deepStrictEqual([answer.status, answer.shown.error?.code], [503, code])
  assert.isAtLeast(answer.shown.error?.retry_after ?? 0, 1)
  assert.strictEqual(answer.headers.get('retry-after'), String(answer.shown.error?.retry_after))
  assert.isBelow(answer.tookMs, ANSWERED_WITHIN_MS)
}

const recordsOf = (lane: ReadonlyArray<IncomingRecord>, messageId: string) =>
  lane.filter(({ id }) => id === factId(messageId, 'accepted'))

const outboxIsEmpty = async () => {
  const [row] = await deployment.sql<{ count: number }[]>(
    (q) => q`SELECT count(*)::integer AS count FROM command.outbox`,
  )
  return row?.count === 0
}

describe('while Kafka hangs', () => {
  // Rules: AVL-4, AVL-5, AVL-13, AVL-14, AVL-15, MSG-2, MSG-14
  it('refuses codes, accepts service messages, and publishes both when it is back', async () => {
    const proxy = await stallingProxy()
    const api = await deployment.start({
      ...REDIS_DEADLINE,
      kafka: {
        socketFactory: ({ host, port, onConnect }) => proxy.connect({ host, port }, onConnect),
      },
    })
    const otpLane = await deployment.tail(deployment.topics.acceptedOtp)
    const serviceLane = await deployment.tail(deployment.topics.acceptedService)
    try {
      await accept(api.url, otp('before'))
      proxy.stall(true)

      const code = await send(api.url, otp('hung'))
      refused(code, 'provider_unavailable')
      // The connection was open, so Kafka may get the record.
      assert.strictEqual(code.shown.error?.outcome, 'unknown')
      // A repeat is appended again, and waits for its own acknowledgement.
      refused(await send(api.url, otp('hung')), 'provider_unavailable')
      // The same client_ref with another recipient could reach both recipients.
      const elsewhere = await callUnlessLate(api.url, '/v1/messages', {
        key: account.keys.test,
        body: otp('hung', '+79007654321'),
      })
      const { error } = elsewhere.body as Shown
      assert.deepStrictEqual([elsewhere.status, error?.code], [422, 'invalid_parameter'])

      const messages: Array<Shown> = []
      for (let i = 0; i < 5; i++) {
        const answer = await send(api.url, service(`hung-${i}`))
        assert.strictEqual(answer.status, 202)
        assert.isBelow(answer.tookMs, ANSWERED_WITHIN_MS)
        messages.push(answer.shown)
      }
      assert.strictEqual((await send(api.url, service('hung-0'))).shown.duplicate, true)
      const read = await call(api.url, `/v1/messages/${messages[0]!.id}`, { key: account.keys.test })
      assert.strictEqual(read.status, 200)
      assert.notInclude(await api.failing(), 'kafka')

      proxy.stall(false)
      const again = await eventually(async () => {
        const answer = await send(api.url, otp('hung'))
        return answer.status === 202 ? answer : null
      })
      await eventually(outboxIsEmpty)
      await eventually(() => facts(recordsOf(otpLane, again.shown.id)).some(({ republished }) => republished))
      // The first append may have succeeded too. Later appends are flagged as republished, so that the
      // dispatcher looks them up.
      const published = facts(recordsOf(otpLane, again.shown.id))
      assert.isTrue(published.some(({ republished }) => republished))
      assert.isAtMost(published.filter(({ republished }) => !republished).length, 1)

      await eventually(() => messages.every(({ id }) => recordsOf(serviceLane, id).length > 0))
      // The messages of one recipient are in one partition, in the order of acceptance.
      const order = facts(serviceLane).map(({ messageId }) => messageId)
      const first = messages.map(({ id }) => order.indexOf(id))
      assert.deepStrictEqual(
        first,
        first.toSorted((a, b) => a - b),
      )
    } finally {
      proxy.stall(false)
      await api.stop()
      proxy.close()
    }
  })

  /**
   * A command-api process whose Kafka broker accepts connections and never answers. It stays
   * between the commit and the append until its append deadline of 1 s ends.
   */
  const spawnWithSilentKafka = async () => {
    const silent = net.createServer(() => {})
    silent.listen(0, '127.0.0.1')
    await once(silent, 'listening')
    const { port } = silent.address() as net.AddressInfo
    const apiPort = await freePort()
    const child: ChildProcess = spawn(
      process.execPath,
      [fileURLToPath(new URL('../main.ts', import.meta.url))],
      {
        env: {
          ...process.env,
          HUB_DATABASE_URL: deployment.databaseUrl,
          HUB_REDIS_URL: testRedisUrl(),
          HUB_REDIS_PREFIX: `${deployment.prefix}counters:`,
          HUB_KAFKA_BROKERS: `127.0.0.1:${port}`,
          HUB_TOPIC_PREFIX: deployment.prefix,
          HUB_PARTITIONS: '3',
          HUB_MASTER_KEY: deployment.masterKey,
          HUB_NUMBER_HASH_SECRET: deployment.hashSecret,
          HUB_PORT: String(apiPort),
          HUB_ADMIN_PORT: String(await freePort()),
          HUB_BASE_URL: 'http://hub.test',
          // The tests use servers without TLS.
          HUB_DEPLOYMENT: 'development',
        },
        stdio: 'ignore',
      },
    )
    const ended = once(child, 'exit')
    return {
      url: `http://127.0.0.1:${apiPort}`,
      kill: async () => {
        child.kill('SIGKILL')
        await ended
      },
      close: () => {
        child.kill('SIGKILL')
        silent.close()
      },
    }
  }

  // Rules: MSG-2, AVL-14, AVL-19
  it('the relay publishes a service message whose process ended before the append', async () => {
    const proxy = await stallingProxy()
    const ending = await deployment.start({
      ...REDIS_DEADLINE,
      kafka: {
        socketFactory: ({ host, port, onConnect }) => proxy.connect({ host, port }, onConnect),
      },
    })
    try {
      // A process without a payload key in Kafka accepts nothing.
      await accept(ending.url, service('before the outage'))
      proxy.stall(true)
      const answer = await send(ending.url, service('orphan'))
      assert.strictEqual(answer.status, 202)
      await ending.stop()
      assert.isFalse(await outboxIsEmpty())

      const lane = await deployment.tail(deployment.topics.acceptedService)
      const successor = await deployment.start(REDIS_DEADLINE)
      try {
        await eventually(() => recordsOf(lane, answer.shown.id).length > 0)
        await eventually(outboxIsEmpty)
        assert.strictEqual(recordsOf(lane, answer.shown.id).length, 1)
        const repeat = await send(successor.url, service('orphan'))
        assert.deepStrictEqual([repeat.status, repeat.shown.id], [202, answer.shown.id])
      } finally {
        await successor.stop()
      }
    } finally {
      await ending.stop()
      proxy.close()
    }
  })

  it('a process that has never reached Kafka refuses sends, because it cannot store a payload key', async () => {
    const silent = await spawnWithSilentKafka()
    try {
      const answer = await eventually(() => send(silent.url, service('without a key')).catch(() => null))
      refused(answer, 'internal_error')
      refused(await send(silent.url, otp('without a key')), 'provider_unavailable')
    } finally {
      silent.close()
    }
  })

  it('the relay announces a subscription whose process died before the append', async () => {
    const key = (await deployment.addAccount()).keys.test
    const create = (url: string) =>
      call(url, '/v1/webhook_endpoints', { key, body: { url: 'https://1.1.1.1/' } }).catch(() => null)
    const committed = () =>
      deployment.sql<{ id: string }[]>(
        (q) =>
          q`SELECT e.id FROM webhooks.endpoints e JOIN command.api_keys k USING (account, mode)
             WHERE k.hash = ${createHash('sha256').update(key).digest()}`,
      )
    const doomed = await spawnWithSilentKafka()
    let isAlive = true
    try {
      // Repeats the request until the kill: the process may not listen yet.
      const creating = (async () => {
        while (isAlive) {
          await create(doomed.url)
          await delay(20)
        }
      })()
      await eventually(async () => (await committed()).length > 0)
      isAlive = false
      await doomed.kill()
      await creating
      const rows = await committed()
      assert.lengthOf(rows, 1)

      const topic = await deployment.tail(deployment.topics.webhooks)
      const successor = await deployment.start(REDIS_DEADLINE)
      try {
        const changes = () =>
          topic
            .map((record) => Result.getOrThrow(decodeSubscriptionChanged(record)))
            .filter(({ subscription }) => decodeId('we', subscription) === rows[0]?.id)
            .map(({ change }) => change)
        await eventually(() => changes().length > 0)
        await eventually(outboxIsEmpty)
        assert.deepStrictEqual(changes(), ['created'])
      } finally {
        await successor.stop()
      }
    } finally {
      isAlive = false
      doomed.close()
    }
  })

  // Rules: AVL-20
  it('a failed creation of a webhook endpoint leaves nothing behind', async () => {
    const proxy = await stallingProxy()
    const api = await deployment.start({
      ...REDIS_DEADLINE,
      kafka: {
        socketFactory: ({ host, port, onConnect }) => proxy.connect({ host, port }, onConnect),
      },
    })
    try {
      proxy.stall(true)
      const from = performance.now()
      const answer = await call(api.url, '/v1/webhook_endpoints', {
        key: account.keys.test,
        body: { url: 'https://1.1.1.1/' },
      })
      assert.strictEqual(answer.status, 503)
      assert.isBelow(performance.now() - from, ANSWERED_WITHIN_MS)
      const list = await call(api.url, '/v1/webhook_endpoints', { key: account.keys.test })
      assert.deepInclude(list.body as object, { data: [] })
      assert.isTrue(await outboxIsEmpty())
    } finally {
      proxy.stall(false)
      await api.stop()
      proxy.close()
    }
  })
})

describe('while PostgreSQL hangs', () => {
  // Rules: AVL-4, AVL-16
  it('answers 503 in time, leaves nothing half done, and recovers', async () => {
    const proxy = await stallingProxy()
    const real = new URL(deployment.databaseUrl)
    proxy.forwardTo({ host: real.hostname, port: Number(real.port) }, 1000)
    const through = Object.assign(new URL(deployment.databaseUrl), { port: String(proxy.port) }).toString()
    const api = await deployment.start({ ...REDIS_DEADLINE, databaseUrl: through })
    try {
      const before = await accept(api.url, service('pg-before'))
      // A load balancer sends nothing before the process was ready.
      await eventually(async () => (await api.failing()).length === 0)
      proxy.stall(true)
      const answers = await Promise.all([
        send(api.url, service('pg-1')),
        send(api.url, otp('pg-2')),
        send(api.url, service('pg-before')),
      ])
      for (const answer of answers) refused(answer, 'internal_error')
      const from = performance.now()
      const read = await call(api.url, `/v1/messages/${before.id}`, { key: account.keys.test })
      assert.strictEqual(read.status, 503)
      assert.isBelow(performance.now() - from, ANSWERED_WITHIN_MS)
      // Ready: it answers with retry_after, which a load balancer without a ready process would not.
      assert.deepStrictEqual(await api.failing(), [])

      proxy.stall(false)
      const lane = await deployment.tail(deployment.topics.acceptedService)
      const after = await eventually(async () => {
        const answer = await send(api.url, service('pg-1'))
        return answer.status === 202 ? answer : null
      })
      await eventually(() => recordsOf(lane, after.shown.id).length > 0)
      const rows = await deployment.sql<unknown[]>(
        (q) => q`SELECT 1 FROM command.acceptances WHERE message_id = ${decodeId('msg', after.shown.id)}`,
      )
      assert.strictEqual(rows.length, 1)
      assert.deepStrictEqual(await api.failing(), [])
    } finally {
      proxy.stall(false)
      await api.stop()
      proxy.close()
    }
  })
})

describe('while Redis is unavailable', () => {
  // Rules: AVL-17, LIM-12, IDEM-6
  it('accepts codes, refuses service messages without retry_after, and serves everything else', async () => {
    const nobody = `redis://127.0.0.1:${await freePort()}`
    const api = await deployment.start({ redisUrl: nobody })
    try {
      for (const key of [account.keys.live, account.keys.test]) {
        const from = performance.now()
        const code = await callUnlessLate(api.url, '/v1/messages', {
          key,
          body: otp('redis', '+79005557001'),
        })
        assert.strictEqual(code.status, 202)
        assert.isNull(code.headers.get('x-ratelimit-limit'))
        const refused = await callUnlessLate(api.url, '/v1/messages', { key, body: service('redis-s') })
        const { error } = refused.body as Shown
        assert.deepStrictEqual([refused.status, error?.code], [422, 'recipient_flood_limited'])
        assert.notProperty(error, 'retry_after')
        assert.isNull(refused.headers.get('retry-after'))
        assert.isBelow(performance.now() - from, ANSWERED_WITHIN_MS)
        // It is stored like every 422, so a repeat with the same key needs no counter.
        const keyed = { key, body: service('redis-k'), headers: { 'idempotency-key': 'redis-k' } }
        const first = await callUnlessLate(api.url, '/v1/messages', keyed)
        const second = await callUnlessLate(api.url, '/v1/messages', keyed)
        assert.deepStrictEqual([second.status, second.body], [422, first.body])
        assert.strictEqual(second.headers.get('idempotent-replayed'), 'true')
        // A repeat needs no counter.
        const repeat = await callUnlessLate(api.url, '/v1/messages', {
          key,
          body: otp('redis', '+79005557001'),
        })
        assert.deepStrictEqual([repeat.status, (repeat.body as Shown).duplicate], [202, true])
        const read = await callUnlessLate(api.url, `/v1/messages/${(code.body as Shown).id}`, { key })
        assert.strictEqual(read.status, 200)
      }
      const batch = await callUnlessLate(api.url, '/v1/messages/batch', {
        key: account.keys.live,
        body: { messages: [service('redis-b0'), otp('redis-b1', '+79005557002')] },
      })
      const { results } = batch.body as {
        results: ReadonlyArray<{ result: string; error?: { code: string } }>
      }
      assert.deepStrictEqual(
        results.map(({ error, result }) => error?.code ?? result),
        ['recipient_flood_limited', 'accepted'],
      )
    } finally {
      await api.stop()
    }
    // Nobody has counted what passed, and the process is gone: the next one knows it from the
    // ledger.
    const next = await deployment.start(REDIS_DEADLINE)
    try {
      const answer = await callUnlessLate(next.url, '/v1/messages', {
        key: account.keys.live,
        body: otp('redis-next', '+79005557002'),
      })
      assert.strictEqual((answer.body as Shown).error?.code, 'recipient_flood_limited')
    } finally {
      await next.stop()
    }
  })
})

describe('a request under an idempotency key', () => {
  const keyed = (url: string, key: string, path: string, body: unknown) =>
    call(url, path, { key: account.keys.test, body, headers: { 'idempotency-key': key } })

  // Rules: AVL-2, AVL-3, BAT-18, IDEM-7, IDEM-15, IDEM-16
  it('is not stored while Kafka hangs, and its repeat publishes the same message', async () => {
    const proxy = await stallingProxy()
    const api = await deployment.start({
      ...REDIS_DEADLINE,
      kafka: {
        socketFactory: ({ host, port, onConnect }) => proxy.connect({ host, port }, onConnect),
      },
    })
    const lane = await deployment.tail(deployment.topics.acceptedOtp)
    // Without a client_ref, only the idempotency key identifies the repeat.
    const { client_ref: _, ...code } = otp('none', '+79005557003')
    const messages = [service('key-b0'), otp('key-b1', '+79005557004')]
    try {
      await accept(api.url, otp('key-warm'))
      proxy.stall(true)
      const from = performance.now()
      const first = await keyed(api.url, 'down-1', '/v1/messages', code)
      assert.deepStrictEqual([first.status, (first.body as Shown).error?.code], [503, 'provider_unavailable'])
      assert.isBelow(performance.now() - from, ANSWERED_WITHIN_MS)
      const batch = await keyed(api.url, 'down-2', '/v1/messages/batch', { messages })
      assert.strictEqual(batch.status, 202)
      const resultsOf = (answer: { readonly body: unknown }) =>
        (answer.body as { results: ReadonlyArray<{ result: string; error?: { code: string } }> }).results.map(
          ({ error, result }) => error?.code ?? result,
        )
      assert.deepStrictEqual(resultsOf(batch), ['accepted', 'provider_unavailable'])

      proxy.stall(false)
      const again = await eventually(async () => {
        const answer = await keyed(api.url, 'down-1', '/v1/messages', code)
        return answer.status === 202 ? answer : null
      })
      assert.isNull(again.headers.get('idempotent-replayed'))
      assert.notProperty(again.body as object, 'duplicate')
      const rows = await deployment.sql<unknown[]>(
        (q) => q`SELECT 1 FROM command.acceptances WHERE to_masked = '+7900***7003'`,
      )
      assert.strictEqual(rows.length, 1)
      const { id } = again.body as Shown
      await eventually(() => recordsOf(lane, id).length > 0)
      const repeated = await keyed(api.url, 'down-2', '/v1/messages/batch', { messages })
      assert.deepStrictEqual(resultsOf(repeated), ['duplicate', 'accepted'])
      const replayed = await keyed(api.url, 'down-2', '/v1/messages/batch', { messages })
      assert.strictEqual(replayed.headers.get('idempotent-replayed'), 'true')
      assert.deepStrictEqual(replayed.body, repeated.body)
    } finally {
      proxy.stall(false)
      await api.stop()
      proxy.close()
    }
  })

  // Rules: AVL-16, IDEM-6, IDEM-15
  it('is not stored while PostgreSQL hangs, also for a batch', async () => {
    const proxy = await stallingProxy()
    const real = new URL(deployment.databaseUrl)
    proxy.forwardTo({ host: real.hostname, port: Number(real.port) }, 1000)
    const through = Object.assign(new URL(deployment.databaseUrl), { port: String(proxy.port) }).toString()
    const api = await deployment.start({ ...REDIS_DEADLINE, databaseUrl: through })
    const messages = [service('pgk-b0'), service('pgk-b1')]
    try {
      await accept(api.url, service('pgk-warm'))
      proxy.stall(true)
      for (const [key, path, body] of [
        ['pgk-1', '/v1/messages', service('pgk-1')],
        ['pgk-2', '/v1/messages/batch', { messages }],
      ] as const) {
        const from = performance.now()
        const answer = await keyed(api.url, key, path, body)
        assert.deepStrictEqual([answer.status, (answer.body as Shown).error?.code], [503, 'internal_error'])
        assert.isBelow(performance.now() - from, ANSWERED_WITHIN_MS)
      }
      proxy.stall(false)
      const single = await eventually(async () => {
        const answer = await keyed(api.url, 'pgk-1', '/v1/messages', service('pgk-1'))
        return answer.status === 202 ? answer : null
      })
      const batch = await eventually(async () => {
        const answer = await keyed(api.url, 'pgk-2', '/v1/messages/batch', { messages })
        return answer.status === 202 ? answer : null
      })
      assert.isString((single.body as Shown).id)
      assert.deepInclude((batch.body as { counts: object }).counts, { total: 2, rejected: 0 })
      const rows = await deployment.sql<{ count: number }[]>(
        (q) => q`SELECT count(*)::integer AS count FROM command.acceptances WHERE client_ref LIKE 'pgk-b%'`,
      )
      assert.strictEqual(rows[0]?.count, 2)
    } finally {
      proxy.stall(false)
      await api.stop()
      proxy.close()
    }
  })
})

describe('the shutdown of a process', () => {
  // Rules: HTTP-24, MSG-2
  it('answers requests in progress, and loses no recorded message', async () => {
    const api = await deployment.start(REDIS_DEADLINE)
    const lane = await deployment.tail(deployment.topics.acceptedService)
    const sends = Array.from({ length: 50 }, (_, i) => send(api.url, service(`drain-${i}`)))
    await Promise.race(sends)
    const stopped = api.stop()
    const answers = await Promise.all(sends.map((one) => one.catch(() => null)))
    await stopped
    const ids = answers.flatMap((answer) => (answer?.status === 202 ? [answer.shown.id] : []))
    assert.isAtLeast(ids.length, 1)
    // A process that ends before its relay has looked at the outbox for the first time leaves its
    // rows to the next one: they came behind whatever is there already.
    const heir = await deployment.start(REDIS_DEADLINE)
    try {
      await eventually(() => ids.every((id) => recordsOf(lane, id).length > 0))
      await eventually(outboxIsEmpty)
    } finally {
      await heir.stop()
    }
  })
})
