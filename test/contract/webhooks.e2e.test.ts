/**
 * Checks webhook subscriptions rule by rule over HTTP, with a whole hub and a real receiver. The
 * client package verifies the deliveries. Source: the pages subscriptions and deliveries of docs/contract.
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
import { judgeWithJava, questionsAbout } from '../interop/standard-webhooks.ts'
import { allEvents, type Client, send } from '../support/client.ts'
import { type ClientPackage, installClient } from '../support/client-package.ts'
import { orSkip } from '../support/external-tools.ts'
import { freshNumber, makeHubAdmin } from '../support/hub-admin.ts'

let hub: TestHub
let receiver: TlsReceiver
let admin: ReturnType<typeof makeHubAdmin>
let sql: ReturnType<typeof openDatabase>
let library: ClientPackage
const scope = Effect.runSync(Scope.make())

const EVERY = { everyMs: 50 } as const
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
    environment: {
      HUB_WEBHOOK_ALLOWED_HOSTS: '127.0.0.1',
      HUB_WEBHOOK_CA_FILE: caFile,
      HUB_WEBHOOK_DENIED_NETWORKS: '93.184.215.0/24',
    },
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

const patch = (apiClient: Client, path: string, body: object) =>
  apiClient.request('PATCH', path, {
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })

/** The entries of a delivery log that match a query, once there are `count` of them. */
const logOf = (apiClient: Client, at: string, query = '', count = 1): Promise<ReadonlyArray<any>> =>
  eventually(async () => {
    const { data } = (await apiClient.get(`${at}/deliveries?limit=100${query}`)).body
    return data.length >= count ? data : null
  }, EVERY)

const requestsTo = (path: string): ReadonlyArray<Received> =>
  receiver.received.filter((one) => one.path === path)

/** Returns the events of a request after verifying its signature with a secret. */
const eventsOf = (request: Received, secret: string | ReadonlyArray<string>): Promise<ReadonlyArray<any>> =>
  library.exports.readEvents(request.body, request.headers['hub-signature'], secret)

/** The ids of the events of these requests. */
const eventIdsOf = async (
  requests: ReadonlyArray<Received>,
  secret: string,
): Promise<ReadonlyArray<string>> =>
  (await Promise.all(requests.map((request) => eventsOf(request, secret)))).flat().map((event) => event.id)

const signaturesOf = (request: Received): number =>
  String(request.headers['hub-signature']).split(',v1=').length - 1

/** Sends a message and waits until its last event arrives at a path. */
const deliver = async (
  apiClient: Client,
  path: string,
  secret: string | ReadonlyArray<string>,
): Promise<Received> => {
  const { body } = await apiClient.post('/v1/messages', send('otp', freshNumber()))
  return eventually(async () => {
    for (const request of requestsTo(path)) {
      const events = await eventsOf(request, secret)
      if (events.some(({ data, type }) => type === 'message.delivered' && data.object.id === body.id)) {
        return request
      }
    }
    return null
  }, EVERY)
}

/** Sets up a subscription so that its next failure disables it. */
const nearlyDisable = (id: string) => sql`
  UPDATE webhooks.endpoints SET consecutive_failures = 19, first_failure_at = now() - interval '61 minutes'
   WHERE id = ${decodeId('we', id)}`

describe('Webhook subscription endpoints', () => {
  // Rules: SUB-3, SUB-16
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

  // Rules: SUB-6, SUB-10
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

  // Rules: SUB-13, SUB-14
  it('are refused in denied networks, and alike for hosts that do not exist and are not public', async () => {
    const { test } = await admin.createAccount()
    const refusal = async (host: string) => {
      const { body, status } = await test.post(ENDPOINTS, { url: `https://${host}/` })
      return [status, body.error.code, body.error.param, body.error.message]
    }
    const notPublic = await refusal('10.0.0.1')
    expect(notPublic.slice(0, 3)).toEqual([422, 'webhook_url_invalid', 'url'])
    for (const host of ['93.184.215.14', 'localhost', 'no-such-host.invalid']) {
      expect(await refusal(host), host).toEqual(notPublic)
    }
    expect((await test.post(ENDPOINTS, { url: 'https://93.184.216.34/' })).status).toBe(201)
  })

  // Rules: SUB-9, GEN-4
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

  // Rules: IDEM-1, IDEM-5
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
      }, EVERY)
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
  // Rules: SUB-22, SUB-23, DEL-6, DEL-8
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
    const [event] = await eventsOf(request!, secret)
    expect(event).toMatchObject({
      id: body.event_ids[0],
      type: 'webhook.test',
      mode: 'test',
      data: { object: { id } },
    })
    expect((await test.get(`${at}/deliveries`)).body.data).toEqual([body])
    expect(await allEvents(test)).toEqual([])
  })

  // Rules: SUB-22, SUB-23
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

  // Rules: SUB-22
  it('works while the subscription is disabled', async () => {
    const { test } = await admin.createAccount()
    const path = freshPath()
    const { at, id, secret } = await subscribe(test, path)
    await sql`UPDATE webhooks.endpoints SET status = 'disabled_by_failures' WHERE id = ${decodeId('we', id)}`
    expect((await test.request('POST', `${at}/test`)).body.status).toBe('succeeded')
    const [told] = await eventsOf(requestsTo(path)[0]!, secret)
    expect(told.data.object.status).toBe('disabled_by_failures')
  })
})

describe('The delivery log', () => {
  // Rules: SUB-28, SUB-29
  it('contains each attempt with its events', async () => {
    const { test } = await admin.createAccount()
    const path = freshPath()
    const { at, secret } = await subscribe(test, path)
    const request = await deliver(test, path, secret)
    const line = await eventually(async () => {
      const { data } = (await test.get(`${at}/deliveries`)).body
      return data.find((one: any) => one.event_batch === request.headers['hub-event-id'])
    }, EVERY)
    expect(line).toMatchObject({
      status: 'succeeded',
      response_code: 204,
      attempt: 1,
      trial: false,
      next_attempt_at: null,
      event_ids: await eventIdsOf([request], secret),
    })
  })

  // Rules: SUB-29, SUB-30, DEL-16
  it('contains the time of the next attempt of a failed batch', async () => {
    const { test } = await admin.createAccount()
    const { at } = await subscribe(test, freshPath(500), { event_types: ['message.accepted'] })
    await test.post('/v1/messages', send('otp', freshNumber()))
    const [line] = await eventually(async () => {
      const { data } = (await test.get(`${at}/deliveries`)).body
      return data.length > 0 ? data : null
    }, EVERY)
    expect(line).toMatchObject({ status: 'failed', reason: 'http_status', response_code: 500, attempt: 1 })
    const wait = Date.parse(line.next_attempt_at) - (Date.parse(line.created_at) + line.duration_ms)
    // One minute with a jitter of a tenth. Both timestamps come from one process, but from two
    // clocks.
    expect(wait).toBeGreaterThan(50_000)
    expect(wait).toBeLessThan(70_000)
    expect((await test.get(at)).body).toMatchObject({ status: 'enabled', consecutive_failures: 1 })
  })
})

describe('The filters of the delivery log', () => {
  // Rules: SUB-31, LIST-8
  it('select by status, event and time, and are checked', async () => {
    const { test } = await admin.createAccount()
    const path = freshPath(500)
    const { at } = await subscribe(test, path, { event_types: ['message.accepted'] })
    const first = (await test.post('/v1/messages', send('otp', freshNumber()))).body
    const [failed] = await logOf(test, at)
    changedStatuses.set(path, 204)
    await test.post('/v1/messages', send('otp', freshNumber()))
    const all = await logOf(test, at, '', 3)
    const ids = async (query: string) =>
      (await test.get(`${at}/deliveries?${query}`)).body.data.map((one: any) => one.id)
    const idsOf = (lines: ReadonlyArray<any>) => lines.map((one) => one.id)
    expect(await ids('status=failed')).toEqual([failed.id])
    expect(await ids('status=succeeded')).toEqual(idsOf(all.filter((one) => one.status === 'succeeded')))
    const ofFirst = all.filter((one) => one.event_ids.includes(failed.event_ids[0]))
    expect(await ids(`event=${failed.event_ids[0]}`)).toEqual(idsOf(ofFirst))
    expect(await ids(`event=${failed.event_ids[0]}&status=failed`)).toEqual([failed.id])
    expect(await ids(`created_after=${failed.created_at}`)).toEqual(
      idsOf(all.filter((one) => one.created_at > failed.created_at)),
    )
    expect(await ids(`created_before=${failed.created_at}`)).toEqual([])
    expect(await ids(`created_before=${all[0].created_at}&limit=100`)).toEqual(
      idsOf(all.filter((one) => one.created_at < all[0].created_at)),
    )
    expect(await ids(`created_after=0001-01-01T00:00:00.000Z&limit=100`)).toEqual(idsOf(all))
    // A page continues under the same filter.
    expect(await ids(`status=succeeded&starting_after=${all[0].id}`)).toEqual(
      idsOf(all.slice(1).filter((one) => one.status === 'succeeded')),
    )
    for (const query of ['status=lost', `event=${first.id}`, 'created_after=now', 'created_before=now']) {
      const { body, status } = await test.get(`${at}/deliveries?${query}`)
      expect([status, body.error.code, body.error.param]).toEqual([
        422,
        'invalid_parameter',
        query.split('=')[0],
      ])
    }
  })
})

describe('The filters of /v1/events', () => {
  // Rules: EVT-13, LIST-8
  it('select the events of a message or a batch, also by type and in pages', async () => {
    const { test } = await admin.createAccount()
    const single = (await test.post('/v1/messages', send('otp', freshNumber()))).body
    const batch = (
      await test.post('/v1/messages/batch', {
        messages: [send('otp', freshNumber(), 'one'), send('service', freshNumber(), 'two')],
      })
    ).body
    await eventually(
      async () => (await test.get('/v1/events?type=batch.completed')).body.data.length === 1,
      EVERY,
    )
    await eventually(
      async () => (await test.get('/v1/events?type=message.delivered')).body.data.length === 3,
      EVERY,
    )
    const { data: all } = (await test.get('/v1/events?limit=1000')).body
    const read = async (query: string) => (await test.get(`/v1/events?${query}`)).body
    expect((await read(`message=${single.id}`)).data).toEqual(
      all.filter((event: any) => event.data.object.id === single.id),
    )
    const ofBatch = all.filter(
      (event: any) => event.data.object.batch === batch.id || event.data.object.id === batch.id,
    )
    expect(ofBatch.length).toBeGreaterThanOrEqual(7)
    expect((await read(`batch=${batch.id}`)).data).toEqual(ofBatch)
    expect((await read(`batch=${batch.id}&type=batch.completed`)).data).toHaveLength(1)
    const pages: Array<any> = []
    for (let cursor = ''; ;) {
      const page = await read(`batch=${batch.id}&limit=3${cursor}`)
      pages.push(...page.data)
      if (!page.has_more) break
      cursor = `&starting_after=${page.next_cursor}`
    }
    expect(pages).toEqual(ofBatch)
    // A batch of another account or of nobody has no events here.
    const stranger = await admin.createAccount()
    expect((await stranger.test.get(`/v1/events?batch=${batch.id}`)).body.data).toEqual([])
    expect((await stranger.test.get(`/v1/events?message=${single.id}`)).body.data).toEqual([])
    for (const [query, param] of [
      [`message=${batch.id}`, 'message'],
      ['batch=', 'batch'],
      [`message=${single.id}&batch=${batch.id}`, 'batch'],
    ]) {
      const { body, status } = await test.get(`/v1/events?${query}`)
      expect([status, body.error.code, body.error.param]).toEqual([422, 'invalid_parameter', param])
    }
  })
})

describe('A rotation', () => {
  // Rules: SUB-17, SUB-18, DEL-9
  it('signs with up to three secrets, and refuses a fourth one within the day', async () => {
    const { test } = await admin.createAccount()
    const path = freshPath()
    const { at, secret: first } = await subscribe(test, path)
    expect(signaturesOf(await deliver(test, path, first))).toBe(1)
    const second: string = (await test.request('POST', `${at}/rotate_secret`)).body.secret
    const during = await deliver(test, path, [first, second])
    expect(signaturesOf(during)).toBe(2)
    expect(await eventsOf(during, first)).toEqual(await eventsOf(during, second))
    const third: string = (await test.request('POST', `${at}/rotate_secret`)).body.secret
    const after = await deliver(test, path, [first, second, third])
    expect(signaturesOf(after)).toBe(3)
    for (const secret of [first, second]) {
      expect(await eventsOf(after, secret)).toEqual(await eventsOf(after, third))
    }
    const refused = await test.request('POST', `${at}/rotate_secret`)
    expect([refused.status, refused.body.error.code]).toEqual([409, 'rotation_in_progress'])
    const { retry_after: retryAfter } = refused.body.error
    expect(refused.headers.get('retry-after')).toBe(String(retryAfter))
    // The transition of the first secret began less than an hour ago and takes a day.
    expect(retryAfter).toBeGreaterThan(23 * 3600)
    expect(retryAfter).toBeLessThanOrEqual(24 * 3600)
  })

  // Rules: SUB-17, DEL-25, DEL-26
  it('is followed by the Java library of Standard Webhooks', async (context) => {
    const { test } = await admin.createAccount()
    const path = freshPath()
    const { at, secret } = await subscribe(test, path)
    const next: string = (await test.request('POST', `${at}/rotate_secret`)).body.secret
    const asked = questionsAbout(await deliver(test, path, [secret, next]), [next, secret])
    const { right } = await orSkip(context, judgeWithJava(asked))
    // Two secrets, and five changed copies.
    expect(right).toBe(7)
  })

  // Rules: SUB-16, SUB-19
  it('with expire_previous ends all earlier secrets at once, also where a fourth one would be refused', async () => {
    const { test } = await admin.createAccount()
    const path = freshPath()
    const { at, secret: first } = await subscribe(test, path)
    const second: string = (await test.request('POST', `${at}/rotate_secret`)).body.secret
    const third: string = (await test.request('POST', `${at}/rotate_secret`)).body.secret
    const { body } = await test.post(`${at}/rotate_secret`, { expire_previous: true })
    expect(body.secret_rotation_ends_at).toBeNull()
    const request = await deliver(test, path, body.secret)
    expect(signaturesOf(request)).toBe(1)
    for (const earlier of [first, second, third]) {
      await expect(eventsOf(request, earlier)).rejects.toThrow(library.exports.WebhookSignatureError)
    }
    const refused = await test.post(`${at}/rotate_secret`, { expire_previous: 'yes' })
    expect([refused.status, refused.body.error.param]).toEqual([422, 'expire_previous'])
  })
})

describe('A change', () => {
  // Rules: SUB-7, SUB-8
  it('of the address sends what waits to the new one, with the same batch and secret', async () => {
    const { test } = await admin.createAccount()
    const [before, after] = [freshPath(500), freshPath()]
    const { at, id, secret } = await subscribe(test, before, { event_types: ['message.accepted'] })
    await test.post('/v1/messages', send('otp', freshNumber()))
    const [failed] = await logOf(test, at)
    const changed = await patch(test, at, { url: receiver.url(after), description: 'the new shop' })
    expect(changed.status, changed.text).toBe(200)
    expect(changed.body).toMatchObject({ id, url: receiver.url(after), description: 'the new shop' })
    expect(changed.body.event_types).toEqual(['message.accepted'])
    expect(changed.text).not.toContain('whsec_')
    expect((await test.get(at)).body).toEqual(changed.body)
    // The first success releases the backlog, so the waiting batch does not wait for its minute.
    await test.post('/v1/messages', send('otp', freshNumber()))
    const again = await eventually(
      () => requestsTo(after).find((request) => request.headers['hub-event-id'] === failed.event_batch),
      EVERY,
    )
    expect(await eventIdsOf([again], secret)).toEqual(failed.event_ids)
    await logOf(test, at, `&event=${failed.event_ids[0]}`, 2)
  })

  // Rules: SUB-8
  it('of the types applies to the events after it', async () => {
    const { test } = await admin.createAccount()
    const path = freshPath()
    const { at, secret } = await subscribe(test, path, { event_types: ['message.rejected'] })
    expect((await patch(test, at, { event_types: [] })).status).toBe(200)
    await deliver(test, path, secret)
  })

  // Rules: SUB-7
  it('is checked like a creation, and changes nothing when it is refused', async () => {
    const { live, test } = await admin.createAccount()
    const { at } = await subscribe(test, freshPath())
    const before = (await test.get(at)).body
    for (const [body, code, param] of [
      [{ url: 'http://1.1.1.1/' }, 'webhook_url_invalid', 'url'],
      [{ url: 'https://10.0.0.1/' }, 'webhook_url_invalid', 'url'],
      [{ url: null }, 'invalid_parameter', 'url'],
      [{ event_types: ['message.lost'] }, 'invalid_parameter', 'event_types[0]'],
      [{ description: 'a'.repeat(201) }, 'invalid_parameter', 'description'],
    ] as const) {
      const { body: refused, status } = await patch(test, at, body)
      expect([status, refused.error.code, refused.error.param], JSON.stringify(body)).toEqual([
        422,
        code,
        param,
      ])
    }
    expect((await patch(live, at, { url: null })).status).toBe(404)
    expect((await test.request('PATCH', at)).status).toBe(422)
    expect((await patch(test, at, {})).body).toEqual(before)
    expect((await test.get(at)).body).toEqual(before)
  })
})

describe('A resend', () => {
  // Rules: SUB-24
  it('sends a delivered batch again at once, with the same id and bytes, outside the failure count', async () => {
    const { test } = await admin.createAccount()
    const path = freshPath()
    const { at, id, secret } = await subscribe(test, path)
    const request = await deliver(test, path, secret)
    const batch = request.headers['hub-event-id']
    const line = (await logOf(test, at)).find((one) => one.event_batch === batch)
    const { body, status } = await test.request('POST', `${at}/deliveries/${line.id}/resend`)
    expect(status).toBe(200)
    expect(body).toMatchObject({
      event_batch: batch,
      event_ids: line.event_ids,
      attempt: 1,
      status: 'succeeded',
      trial: false,
      resend: true,
      next_attempt_at: null,
    })
    const sent = requestsTo(path).filter((one) => one.headers['hub-event-id'] === batch)
    expect(sent.map((one) => one.body.toString())).toEqual([request.body.toString(), request.body.toString()])
    expect(await eventsOf(sent[1]!, secret)).toEqual(await eventsOf(request, secret))

    await sql`UPDATE webhooks.endpoints SET status = 'disabled_by_failures' WHERE id = ${decodeId('we', id)}`
    changedStatuses.set(path, 500)
    const failed = await test.request('POST', `${at}/deliveries/${body.id}/resend`)
    expect(failed.body).toMatchObject({ event_batch: batch, status: 'failed', response_code: 500 })
    expect((await test.get(at)).body.consecutive_failures).toBe(0)
    const log = await logOf(test, at, `&event=${line.event_ids[0]}`, 3)
    expect(log.map((one) => one.id)).toEqual([failed.body.id, body.id, line.id])
  })

  // Rules: SUB-25
  it('of an unknown attempt or a test delivery is refused', async () => {
    const { live, test } = await admin.createAccount()
    const { at } = await subscribe(test, freshPath())
    const other = await subscribe(test, freshPath())
    const testDelivery = (await test.request('POST', `${at}/test`)).body
    const resend = async (apiClient: Client, path: string) => {
      const { body, status } = await apiClient.request('POST', path)
      return [status, body.error.code]
    }
    expect(await resend(test, `${at}/deliveries/${testDelivery.id}/resend`)).toEqual([
      422,
      'invalid_parameter',
    ])
    expect(await resend(test, `${other.at}/deliveries/${testDelivery.id}/resend`)).toEqual([404, 'not_found'])
    expect(await resend(live, `${at}/deliveries/${testDelivery.id}/resend`)).toEqual([404, 'not_found'])
    expect(await resend(test, `${at}/deliveries/whd_nothing/resend`)).toEqual([404, 'not_found'])
  })
})

describe('A deletion', () => {
  // Rules: SUB-10, RET-7
  it('ends deliveries and removes waiting batches', async () => {
    const { test } = await admin.createAccount()
    const [gone, stays] = [freshPath(500), freshPath()]
    const { at, id } = await subscribe(test, gone)
    const { secret } = await subscribe(test, stays)
    await deliver(test, stays, secret)
    // A deletion may end an attempt that is not in the log yet.
    await logOf(test, at)
    expect((await remove(test, at)).status).toBe(200)
    const last = await deliver(test, stays, secret)
    const told = new Set(await eventIdsOf([last], secret))
    for (const request of requestsTo(gone)) {
      for (const event of JSON.parse(request.body.toString())) expect(told).not.toContain(event.id)
    }
    expect((await test.get(`${at}/deliveries`)).status).toBe(404)
    await eventually(
      async () =>
        (await sql`SELECT 1 FROM webhooks.batches WHERE endpoint_id = ${decodeId('we', id)}`).length === 0,
      EVERY,
    )
    // The log stays for hub staff, with the events of its batches.
    const log = await sql`
      SELECT count(*)::integer AS lines,
             bool_and(EXISTS (SELECT 1 FROM webhooks.batch_events e WHERE e.batch_id = a.batch_id)) AS whole
        FROM webhooks.attempts a WHERE endpoint_id = ${decodeId('we', id)}`
    expect(log).toMatchObject([{ whole: true }])
    expect(log[0]?.['lines']).toBeGreaterThan(0)
  })
})

describe('Disabling and enabling', () => {
  // Rules: SUB-20, SUB-21, DEL-7, DEL-20, DEL-21, DEL-22, DEL-27
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
    }, EVERY)
    const shown = (await test.get(at)).body
    expect(shown).toMatchObject({ status: 'disabled_by_failures', disabled_reason: 'http_status' })
    expect(told.data.object).toMatchObject({
      id,
      object: 'webhook_endpoint',
      status: 'disabled_by_failures',
      disabled_at: shown.disabled_at,
    })
    await eventually(
      async () => (await eventIdsOf(requestsTo(healthy), other.secret)).includes(told.id),
      EVERY,
    )
    // From here on events only accumulate, also while no other subscription is left.
    await deliver(test, healthy, other.secret)
    expect((await remove(test, other.at)).status).toBe(200)
    const { body: alone } = await test.post('/v1/messages', send('otp', freshNumber()))
    await eventually(async () => {
      const events = await allEvents(test)
      return events.some(({ data, type }) => type === 'message.delivered' && data.object.id === alone.id)
    }, EVERY)
    const failed = requestsTo(broken)

    changedStatuses.set(broken, 204)
    const enabled = await test.request('POST', `${at}/enable`)
    expect(enabled.body).toMatchObject({ id, status: 'enabled', consecutive_failures: 0, disabled_at: null })
    const recovery = await eventually(async () => {
      const events = await allEvents(test)
      return events.find((event) => event.type === 'webhook.endpoint_enabled')
    }, EVERY)
    expect(recovery.data.object).toEqual(enabled.body)
    const aboutItself = [told.id, recovery.id]
    const { body: after } = await test.post('/v1/messages', send('otp', freshNumber()))
    await eventually(async () => {
      const events = await allEvents(test)
      return events.some(({ data, type }) => type === 'message.delivered' && data.object.id === after.id)
    }, EVERY)
    const wanted = (await allEvents(test))
      .map(({ id: event }) => event)
      .filter((event) => !aboutItself.includes(event))
    await eventually(async () => {
      const ids = new Set(await eventIdsOf(requestsTo(broken).slice(failed.length), secret))
      return wanted.every((event) => ids.has(event))
    }, EVERY)
    const again = requestsTo(broken).slice(failed.length)
    for (const request of failed) {
      const same = again.find((one) => one.headers['hub-event-id'] === request.headers['hub-event-id'])
      expect(same?.body).toEqual(request.body)
    }
    const receivedIds = await eventIdsOf(again, secret)
    for (const event of aboutItself) expect(receivedIds).not.toContain(event)
    // The subscription is enabled, and enabling it again changes nothing.
    expect((await test.request('POST', `${at}/enable`)).body).toMatchObject({ status: 'enabled' })
    const recoveries = (await allEvents(test)).filter(({ type }) => type === 'webhook.endpoint_enabled')
    expect(recoveries).toHaveLength(1)
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
    const [event] = await eventsOf(requestsTo(path)[0]!, made.secret)
    expect(event.type).toBe('webhook.test')
    const message = await api.post('/v1/messages', { body: send('otp', freshNumber()) })
    expect(message.status).toBe('accepted')
    const types = await eventually(async () => {
      const found: Array<string> = []
      for await (const event of api.list('/v1/events', { query: { limit: 1 } })) {
        if (event.data.object.id === message.id) found.push(event.type)
      }
      return found.length === 3 ? found : null
    }, EVERY)
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
