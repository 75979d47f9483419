/**
 * Checks webhook subscriptions rule by rule over HTTP, with a whole hub and a real receiver. The
 * client package verifies the deliveries. Source: specification, Webhook subscription endpoints,
 * Webhook endpoint states, Events.
 */
import { randomUUID } from 'node:crypto'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  statusResponse,
  eventually,
  makeCertificateAuthority,
  openDatabase,
  type Received,
  tlsReceiver,
  type TlsReceiver,
} from '@hub/testkit'
import { startHub, type TestHub } from '../support/hub.ts'
import { decodeId } from '@hub/domain'
import { Effect, Exit, Scope } from 'effect'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { allEvents, type Client, send } from '../support/client.ts'
import { type ClientPackage, installClient } from '../support/client-package.ts'
import { freshNumber, makeHubAdmin } from '../support/hub-admin.ts'

let hub: TestHub
let receiver: TlsReceiver
let admin: ReturnType<typeof makeHubAdmin>
let sql: ReturnType<typeof openDatabase>
let library: ClientPackage
const scope = Effect.runSync(Scope.make())

const DELIVERED_WITHIN = { withinMs: 30_000, everyMs: 50 } as const
const ENDPOINTS = '/v1/webhook_endpoints'

beforeAll(async () => {
  library = await installClient()
  const authority = await makeCertificateAuthority()
  const caFile = join(mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'ca-')), 'ca.pem')
  writeFileSync(caFile, authority.pem)
  receiver = await Effect.runPromise(Scope.provide(tlsReceiver(await authority.issue(['127.0.0.1'])), scope))
  // Each path acts as a separate receiver. Its name contains the status of its responses.
  receiver.respondWith((received, response, request) => {
    const status = /\/answers-(?<status>\d+)/u.exec(received.path)?.groups?.['status']
    statusResponse(changedStatuses.get(received.path) ?? Number(status ?? 204))(received, response, request)
  })
  hub = await startHub({
    environment: { HUB_WEBHOOK_ALLOWED_HOSTS: '127.0.0.1', HUB_WEBHOOK_CA_FILE: caFile },
  })
  admin = makeHubAdmin(hub)
  sql = openDatabase(hub.describe().database_url)
})
afterAll(async () => {
  await sql?.end()
  await admin?.close()
  await hub?.stop()
  await Effect.runPromise(Scope.close(scope, Exit.void))
})

/** Response statuses that a test has changed, by path. */
const changedStatuses = new Map<string, number>()
let paths = 0
/** Returns a new path. */
const freshPath = (status = 204): string => `/answers-${status}/${++paths}`

const remove = (apiClient: Client, path: string) => apiClient.request('DELETE', path)

const subscribe = async (apiClient: Client, path: string, body: object = {}) => {
  const made = await apiClient.post(ENDPOINTS, { url: receiver.url(path), ...body })
  expect(made.status, made.text).toBe(201)
  return {
    id: made.body.id as string,
    secret: made.body.secret as string,
    at: `${ENDPOINTS}/${made.body.id}`,
  }
}

const requestsTo = (path: string): ReadonlyArray<Received> =>
  receiver.received.filter((one) => one.path === path)

/** Returns the events of a request after verifying its signature with a secret. */
const eventsOf = (request: Received, secret: string | ReadonlyArray<string>): ReadonlyArray<any> =>
  library.exports.readEvents(request.body, request.headers['hub-signature'], secret)

const signaturesOf = (request: Received): number =>
  String(request.headers['hub-signature']).split(',v1=').length - 1

/** Sends a message and waits until its last event arrives at a path. */
const deliver = async (
  apiClient: Client,
  path: string,
  secret: string | ReadonlyArray<string>,
): Promise<Received> => {
  const { body } = await apiClient.post('/v1/messages', send('otp', freshNumber()))
  return eventually(
    () =>
      requestsTo(path).find((request) =>
        eventsOf(request, secret).some(
          (event) => event.type === 'message.delivered' && event.data.object.id === body.id,
        ),
      ),
    DELIVERED_WITHIN,
  )
}

/** Sets up a subscription so that its next failure disables it. */
const nearlyDisable = (id: string) => sql`
  UPDATE webhooks.endpoints SET consecutive_failures = 19, first_failure_at = now() - interval '61 minutes'
   WHERE id = ${decodeId('we', id)}`

describe('Webhook subscription endpoints', () => {
  it('show the secret only at creation and rotation', async () => {
    const { test } = await admin.createAccount()
    const { at, id, secret } = await subscribe(test, freshPath())
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/u)
    const rotated = await test.request('POST', `${at}/rotate_secret`)
    expect(rotated.body.secret).toMatch(/^whsec_/u)
    expect(rotated.body.secret).not.toBe(secret)
    for (const answer of [
      await test.get(at),
      await test.get(ENDPOINTS),
      await test.request('POST', `${at}/enable`),
      await test.get(`${at}/deliveries`),
      await test.request('POST', `${at}/test`),
      await remove(test, at),
    ]) {
      expect(answer.status).toBe(200)
      expect(answer.text).not.toContain('whsec_')
    }
    // The database stores the secret only encrypted.
    const [row] = await sql`SELECT * FROM webhooks.endpoints WHERE id = ${decodeId('we', id)}`
    expect(JSON.stringify(row)).not.toContain('whsec_')
  })

  it('are limited to twenty for an account and mode, and a deletion frees one', async () => {
    const { live, test } = await admin.createAccount()
    const made: Array<Awaited<ReturnType<typeof subscribe>>> = []
    for (let n = 1; n <= 20; n++) made.push(await subscribe(test, freshPath()))
    const refused = await test.post(ENDPOINTS, { url: receiver.url('/') })
    expect([refused.status, refused.body.error.code]).toEqual([422, 'webhook_endpoint_limit_reached'])
    await subscribe(live, freshPath())
    expect((await remove(test, made[0]!.at)).body).toEqual({
      id: made[0]!.id,
      object: 'webhook_endpoint',
      deleted: true,
    })
    await subscribe(test, freshPath())
  })

  it('of another account or mode get the same answer as missing ones', async () => {
    const { live, test } = await admin.createAccount()
    const stranger = await admin.createAccount()
    const { at } = await subscribe(test, freshPath())
    for (const apiClient of [live, stranger.test]) {
      const answers = [
        await apiClient.get(at),
        await apiClient.get(`${at}/deliveries`),
        await apiClient.request('POST', `${at}/test`),
        await apiClient.request('POST', `${at}/enable`),
        await apiClient.request('POST', `${at}/rotate_secret`),
        await remove(apiClient, at),
      ]
      expect(answers.map(({ body, status }) => [status, body.error?.code])).toEqual(
        answers.map(() => [404, 'not_found']),
      )
    }
    expect((await test.get(at)).status).toBe(200)
  })

  it('run a rotation and a test delivery once with one idempotency key', async () => {
    const { test } = await admin.createAccount()
    const path = freshPath()
    const { at } = await subscribe(test, path)
    for (const action of ['rotate_secret', 'test']) {
      const headers = { 'idempotency-key': randomUUID() }
      const first = await test.request('POST', `${at}/${action}`, { headers })
      // The answer may be stored shortly after it was sent. Until then a repeat is a conflict.
      const again = await eventually(async () => {
        const answer = await test.request('POST', `${at}/${action}`, { headers })
        return answer.status === 409 ? null : answer
      }, DELIVERED_WITHIN)
      expect(again.headers.get('idempotent-replayed')).toBe('true')
      expect(again.text).toBe(first.text)
    }
    expect(requestsTo(path)).toHaveLength(1)
    const reused = await test.request('POST', `${at}/enable`, {
      headers: { 'idempotency-key': 'x'.repeat(256) },
    })
    expect([reused.status, reused.body.error.code]).toEqual([422, 'idempotency_key_reused'])
  })
})

describe('POST …/test', () => {
  it('delivers one webhook.test at once for any event types, records no event, and returns the attempt', async () => {
    const { test } = await admin.createAccount()
    const path = freshPath()
    const { at, id, secret } = await subscribe(test, path, { event_types: ['message.seen'] })
    const { body, status } = await test.request('POST', `${at}/test`)
    expect(status).toBe(200)
    expect(body).toMatchObject({
      object: 'webhook_delivery',
      status: 'succeeded',
      response_code: 204,
      attempt: 1,
      reason: null,
      trial: true,
      next_attempt_at: null,
    })
    const [request, ...more] = requestsTo(path)
    expect(more).toEqual([])
    expect(request!.headers).toMatchObject({
      'content-type': 'application/json',
      'user-agent': expect.stringMatching(/^SMS-Delivery-Hub\//u),
      'hub-event-id': body.event_batch,
    })
    const [event] = eventsOf(request!, secret)
    expect(event).toMatchObject({
      id: body.event_ids[0],
      type: 'webhook.test',
      mode: 'test',
      data: { object: { id } },
    })
    expect((await test.get(`${at}/deliveries`)).body.data).toEqual([body])
    expect(await allEvents(test)).toEqual([])
  })

  it('returns the failure of a failing receiver, which does not count towards its health', async () => {
    const { test } = await admin.createAccount()
    const { at, id } = await subscribe(test, freshPath(503))
    await nearlyDisable(id)
    const { body, status } = await test.request('POST', `${at}/test`)
    expect([status, body.status, body.reason, body.response_code]).toEqual([
      200,
      'failed',
      'http_status',
      503,
    ])
    expect((await test.get(at)).body).toMatchObject({ status: 'enabled', consecutive_failures: 19 })
  })

  it('works while the subscription is disabled', async () => {
    const { test } = await admin.createAccount()
    const path = freshPath()
    const { at, id, secret } = await subscribe(test, path)
    await sql`UPDATE webhooks.endpoints SET status = 'disabled_by_failures' WHERE id = ${decodeId('we', id)}`
    expect((await test.request('POST', `${at}/test`)).body.status).toBe('succeeded')
    expect(eventsOf(requestsTo(path)[0]!, secret)[0].data.object.status).toBe('disabled_by_failures')
  })
})

describe('The delivery log', () => {
  it('contains each attempt with its events', async () => {
    const { test } = await admin.createAccount()
    const path = freshPath()
    const { at, secret } = await subscribe(test, path)
    const request = await deliver(test, path, secret)
    const line = await eventually(async () => {
      const { data } = (await test.get(`${at}/deliveries`)).body
      return data.find((one: any) => one.event_batch === request.headers['hub-event-id'])
    }, DELIVERED_WITHIN)
    expect(line).toMatchObject({
      status: 'succeeded',
      response_code: 204,
      attempt: 1,
      trial: false,
      next_attempt_at: null,
      event_ids: eventsOf(request, secret).map((event) => event.id),
    })
  })

  it('contains the time of the next attempt of a failed batch', async () => {
    const { test } = await admin.createAccount()
    const { at } = await subscribe(test, freshPath(500), { event_types: ['message.accepted'] })
    await test.post('/v1/messages', send('otp', freshNumber()))
    const [line] = await eventually(async () => {
      const { data } = (await test.get(`${at}/deliveries`)).body
      return data.length > 0 ? data : null
    }, DELIVERED_WITHIN)
    expect(line).toMatchObject({ status: 'failed', reason: 'http_status', response_code: 500, attempt: 1 })
    const wait = Date.parse(line.next_attempt_at) - (Date.parse(line.created_at) + line.duration_ms)
    // One minute with a jitter of a tenth. Both timestamps come from one process, but from two
    // clocks.
    expect(wait).toBeGreaterThan(50_000)
    expect(wait).toBeLessThan(70_000)
    expect((await test.get(at)).body).toMatchObject({ status: 'enabled', consecutive_failures: 1 })
  })
})

describe('A rotation', () => {
  it('signs with both secrets, and a second rotation within a day keeps the newest two', async () => {
    const { test } = await admin.createAccount()
    const path = freshPath()
    const { at, secret: first } = await subscribe(test, path)
    expect(signaturesOf(await deliver(test, path, first))).toBe(1)
    const second: string = (await test.request('POST', `${at}/rotate_secret`)).body.secret
    const during = await deliver(test, path, [first, second])
    expect(signaturesOf(during)).toBe(2)
    expect(eventsOf(during, first)).toEqual(eventsOf(during, second))
    const third: string = (await test.request('POST', `${at}/rotate_secret`)).body.secret
    const after = await deliver(test, path, [first, second, third])
    expect(signaturesOf(after)).toBe(2)
    expect(eventsOf(after, second)).toEqual(eventsOf(after, third))
    expect(() => eventsOf(after, first)).toThrow(library.exports.WebhookSignatureError)
  })
})

describe('A deletion', () => {
  it('ends deliveries and removes waiting batches', async () => {
    const { test } = await admin.createAccount()
    const [gone, stays] = [freshPath(500), freshPath()]
    const { at, id } = await subscribe(test, gone)
    const { secret } = await subscribe(test, stays)
    await deliver(test, stays, secret)
    await eventually(() => requestsTo(gone).length > 0, DELIVERED_WITHIN)
    expect((await remove(test, at)).status).toBe(200)
    const last = await deliver(test, stays, secret)
    const told = new Set(eventsOf(last, secret).map((event) => event.id))
    for (const request of requestsTo(gone)) {
      for (const event of JSON.parse(request.body.toString())) expect(told).not.toContain(event.id)
    }
    expect((await test.get(`${at}/deliveries`)).status).toBe(404)
    await eventually(
      async () =>
        (await sql`SELECT 1 FROM webhooks.batches WHERE endpoint_id = ${decodeId('we', id)}`).length === 0,
      DELIVERED_WITHIN,
    )
  })
})

describe('Disabling and enabling', () => {
  it('emits events to other subscriptions and /v1/events, and delivers the kept backlog in the same batches with the same ids', async () => {
    const { test } = await admin.createAccount()
    const [broken, healthy] = [freshPath(500), freshPath()]
    const { at, id, secret } = await subscribe(test, broken)
    const other = await subscribe(test, healthy)
    await nearlyDisable(id)
    await deliver(test, healthy, other.secret)

    const told = await eventually(async () => {
      const events = await allEvents(test)
      return events.find((event) => event.type === 'webhook.endpoint_disabled')
    }, DELIVERED_WITHIN)
    const shown = (await test.get(at)).body
    expect(shown).toMatchObject({ status: 'disabled_by_failures', disabled_reason: 'http_status' })
    expect(told.data.object).toMatchObject({
      id,
      object: 'webhook_endpoint',
      status: 'disabled_by_failures',
      disabled_at: shown.disabled_at,
    })
    await eventually(
      () =>
        requestsTo(healthy).some((request) =>
          eventsOf(request, other.secret).some((event) => event.id === told.id),
        ),
      DELIVERED_WITHIN,
    )
    // From here on events only accumulate.
    await deliver(test, healthy, other.secret)
    const failed = requestsTo(broken)

    changedStatuses.set(broken, 204)
    const enabled = await test.request('POST', `${at}/enable`)
    expect(enabled.body).toMatchObject({ id, status: 'enabled', consecutive_failures: 0, disabled_at: null })
    const wanted = (await allEvents(test)).filter((event) => event.id !== told.id).map((event) => event.id)
    await eventually(() => {
      const received = requestsTo(broken).slice(failed.length)
      const ids = new Set(received.flatMap((request) => eventsOf(request, secret)).map((event) => event.id))
      return wanted.every((event) => ids.has(event))
    }, DELIVERED_WITHIN)
    const again = requestsTo(broken).slice(failed.length)
    for (const request of failed) {
      const same = again.find((one) => one.headers['hub-event-id'] === request.headers['hub-event-id'])
      expect(same?.body).toEqual(request.body)
    }
    const ids = again.flatMap((request) => eventsOf(request, secret)).map((event) => event.id)
    expect(ids).not.toContain(told.id)
    // The subscription is enabled, and enabling it again changes nothing.
    expect((await test.request('POST', `${at}/enable`)).body).toMatchObject({ status: 'enabled' })
  })
})

describe('The typed client', () => {
  it('sends, subscribes, requests a test delivery, and reads events and errors', async () => {
    const { HubError, createHubClient } = library.exports
    const { base_url, keys } = hub.describe()
    const api = createHubClient({ baseUrl: base_url, apiKey: keys.test })
    const path = freshPath()
    const made = await api.post(ENDPOINTS, { body: { url: receiver.url(path) } })
    const attempt = await api.post('/v1/webhook_endpoints/{id}/test', { path: { id: made.id } })
    expect(attempt).toMatchObject({ trial: true, status: 'succeeded' })
    expect(eventsOf(requestsTo(path)[0]!, made.secret)[0].type).toBe('webhook.test')
    const message = await api.post('/v1/messages', { body: send('otp', freshNumber()) })
    expect(message.status).toBe('accepted')
    const types = await eventually(async () => {
      const found: Array<string> = []
      for await (const event of api.list('/v1/events', { query: { limit: 1 } })) {
        if (event.data.object.id === message.id) found.push(event.type)
      }
      return found.length === 3 ? found : null
    }, DELIVERED_WITHIN)
    expect(types).toEqual(expect.arrayContaining(['message.accepted', 'message.sent', 'message.delivered']))
    expect(await api.delete('/v1/webhook_endpoints/{id}', { path: { id: made.id } })).toMatchObject({
      deleted: true,
    })
    const error = await api
      .get('/v1/webhook_endpoints/{id}', { path: { id: made.id } })
      .catch((one: unknown) => one)
    expect(error).toBeInstanceOf(HubError)
    expect(error).toMatchObject({
      status: 404,
      code: 'not_found',
      requestId: expect.stringMatching(/^req_/u),
    })
  })
})
