/**
 * The whole path of a message: HTTP, Kafka, operator, delivery report, PostgreSQL, signed webhook,
 * and every read.
 */
import { eventually } from '@hub/testkit'
import { startHub, type TestHub } from '../support/hub.ts'
import Stripe from 'stripe'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { allEvents, type Client, client, clientCountingUnknown, send } from '../support/client.ts'
import { startWebhookReceiver, type WebhookReceiver } from '../support/webhook-receiver.ts'

let hub: TestHub
let receiver: WebhookReceiver
let test: Client
let live: Client
let stranger: Client

beforeAll(async () => {
  receiver = await startWebhookReceiver(204)
  hub = await startHub({
    environment: receiver.environment,
    // The tests poll more often than clients would.
    apiRps: 10_000,
  })
  const { base_url, keys, other_keys } = hub.describe()
  test = client(base_url, keys.test)
  live = client(base_url, keys.live)
  stranger = client(base_url, other_keys.test)
})
afterAll(async () => {
  await hub?.stop()
  await receiver?.close()
})

/**
 * Waits until a message is final, and returns it. The unit test of the sandbox proves its times with a
 * virtual clock.
 */
const untilFinal = (apiClient: Client, id: string) =>
  eventually(async () => {
    const { body } = await apiClient.get(`/v1/messages/${id}`)
    return body.final === true ? body : null
  })

describe('a message with a test key', () => {
  // Rules: SBX-2, MSG-21, EVT-3
  it('is accepted, delivered, reported by webhook, and readable at every step', async () => {
    const subscription = await test.post('/v1/webhook_endpoints', { url: receiver.url('/hook') })
    expect(subscription.status).toBe(201)
    const secret: string = subscription.body.secret
    expect(secret).toMatch(/^whsec_/u)

    const accepted = await test.post('/v1/messages', send('otp', '+79001234567', 'main-path-1'))
    expect(accepted.status).toBe(202)
    expect(accepted.body).toMatchObject({
      object: 'message',
      status: 'accepted',
      final: false,
      to: '+7900***4567',
      class: 'otp',
      client_ref: 'main-path-1',
      template: 'otp_code',
      sender: 'HUB',
      mode: 'test',
      parts: 1,
    })
    expect(accepted.headers.get('request-id')).toMatch(/^req_/u)
    const { id } = accepted.body

    // Reads see the accepted message at once, independently of the projector.
    const early = await test.get(`/v1/messages/${id}`)
    expect(early.status).toBe(200)
    expect(early.body.id).toBe(id)

    const final = await untilFinal(test, id)
    expect(final.status).toBe('delivered')
    expect(final.history.map((change: any) => change.status)).toEqual(['accepted', 'sent', 'delivered'])
    expect(final.text).toBeNull()
    expect(final.variables).toEqual({ code: '***' })

    const types = ['message.accepted', 'message.sent', 'message.delivered']
    const events = (await allEvents(test)).filter((event) => event.data.object.id === id)
    expect(new Set(events.map((event) => event.type))).toEqual(new Set(types))
    expect(events).toHaveLength(types.length)

    // The events may arrive in several batches. The stripe library verifies each, independently of
    // our code.
    const told = await eventually(() => {
      const got = receiver.received.flatMap((request) => {
        const signature = request.headers['hub-signature']
        expect(typeof signature).toBe('string')
        expect(request.headers['hub-event-id']).toMatch(/^evb_/u)
        const stripe = new Stripe('sk_test_unused')
        // This verifies the signature and parses the body, which is an array.
        return stripe.webhooks.constructEvent(
          request.body,
          signature as string,
          secret,
        ) as unknown as Array<any>
      })
      return got.filter((event) => event.data.object.id === id).length >= 3 ? got : null
    })
    const mine = told.filter((event) => event.data.object.id === id)
    expect(new Set(mine.map((event) => event.id))).toEqual(new Set(events.map((event) => event.id)))
    for (const request of receiver.received) {
      const text = request.body.toString('utf8')
      expect(text.startsWith('[')).toBe(true)
      expect(text).not.toContain('4821')
      expect(text).not.toContain('9001234567')
    }
  })

  it('of class service shows its text and variables only in reads', async () => {
    const { body } = await test.post('/v1/messages', send('service', '+79001234568'))
    const before = await test.get(`/v1/messages/${body.id}`)
    expect(before.body).toMatchObject({ text: 'Заказ A-17 готов', variables: { order: 'A-17' } })
    const after = await untilFinal(test, body.id)
    expect(after).toMatchObject({
      text: 'Заказ A-17 готов',
      variables: { order: 'A-17' },
      to: '+7900***4568',
    })
    expect((await stranger.get(`/v1/messages/${body.id}`)).status).toBe(404)
    expect((await live.get(`/v1/messages/${body.id}`)).status).toBe(404)
  })

  it.each([
    ['+79000000002', 'undelivered', 'recipient_unreachable'],
    ['+79000000003', 'undelivered', 'recipient_nonexistent'],
    ['+79000000004', 'undelivered', 'recipient_blocked'],
    ['+79000000005', 'rejected', 'spam_filter_content'],
    ['+79000000006', 'rejected', 'spam_filter_sender'],
    ['+79000000007', 'expired', 'dlr_timeout'],
  ])('to %s ends %s with %s', async (to, status, reason) => {
    const { body } = await test.post('/v1/messages', send('service', to))
    expect(await untilFinal(test, body.id)).toMatchObject({ status, reason_code: reason, final: true })
  })

  it('to a silent operator expires by the local timeout, and a late report corrects it', async () => {
    const silent = await test.post('/v1/messages', send('service', '+79000000008'))
    const late = await test.post('/v1/messages', send('service', '+79000000012'))
    const never = await test.post('/v1/messages', send('service', '+79000000011'))
    expect(await untilFinal(test, silent.body.id)).toMatchObject({
      status: 'expired',
      reason_code: 'dlr_timeout_local',
    })
    expect(await untilFinal(test, never.body.id)).toMatchObject({
      status: 'expired',
      reason_code: 'ttl_expired_before_submit',
    })
    const corrected = await eventually(async () => {
      const { body } = await test.get(`/v1/messages/${late.body.id}`)
      return body.status === 'delivered' ? body : null
    })
    expect(corrected.reason_code).toBeNull()
    expect(corrected.history.map((change: any) => change.status)).toEqual([
      'accepted',
      'sent',
      'expired',
      'delivered',
    ])
  })

  it('is created once for concurrent sends with one client_ref', async () => {
    const { base_url, keys } = hub.describe()
    const { client: repeating, unknown } = clientCountingUnknown(base_url, keys.test)
    const answers = await Promise.all(
      Array.from({ length: 50 }, () =>
        repeating.post('/v1/messages', send('otp', '+79001230000', 'same-50')),
      ),
    )
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]))
    expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1)
    const first = answers.filter(({ body }) => body.duplicate === undefined)
    expect(first.length).toBeLessThanOrEqual(1)
    expect(first.length + unknown()).toBeGreaterThanOrEqual(1)
  })
})

/** Only ends a wait that hangs: it takes less than a second. */
const OVER_SMPP_MS = 20_000

/** Reads how the SMSC simulator counted a text to a number. */
const readSubmission = async (to: string, text: string): Promise<unknown> =>
  (
    await fetch(`${hub.describe().operator_url}/submissions?${new URLSearchParams({ to, text }).toString()}`)
  ).json()

describe('a message with a live key', () => {
  it('is submitted once over SMPP, and a delivery receipt reports its status', async () => {
    const { body } = await live.post('/v1/messages', send('service', '+79005550001'))
    expect(await untilFinal(live, body.id)).toMatchObject({ status: 'delivered', mode: 'live' })
    expect(await readSubmission('+79005550001', 'Заказ A-17 готов')).toMatchObject({
      times: 1,
      status: 'accepted',
      reports: [{ status: 'delivered' }],
    })
  })

  it.each([
    ['+79000000003', { status: 'undelivered', reason_code: 'recipient_nonexistent' }],
    ['+79000000004', { status: 'undelivered', reason_code: 'recipient_blocked' }],
    ['+79000000005', { status: 'rejected', reason_code: 'spam_filter_content' }],
    ['+79000000006', { status: 'rejected', reason_code: 'spam_filter_sender' }],
    ['+79000000007', { status: 'expired', reason_code: 'dlr_timeout' }],
  ])('to %s gets the status of the operator code', async (to, outcome) => {
    const { body } = await live.post('/v1/messages', send('otp', to))
    expect(await untilFinal(live, body.id)).toMatchObject({ ...outcome, mode: 'live' })
  })

  it('of several parts is handed over completely, and delivered once all parts are', async () => {
    const order = 'A'.repeat(120)
    const { body } = await live.post('/v1/messages', {
      ...send('service', '+79005550002'),
      variables: { order },
    })
    expect(body.parts).toBe(2)
    expect(await untilFinal(live, body.id)).toMatchObject({ status: 'delivered' })
    // The receipts are stored before they are acknowledged, so the message may be final before
    // that.
    await eventually(
      async () => {
        expect(await readSubmission('+79005550002', `Заказ ${order} готов`)).toMatchObject({
          times: 1,
          reports: [{ acknowledged: true }, { acknowledged: true }],
        })
        return true
      },
      { withinMs: OVER_SMPP_MS, everyMs: 100 },
    )
  })

  it('emits message.seen when it is read', async () => {
    const { body } = await live.post('/v1/messages', send('service', '+79000000010'))
    await eventually(
      async () =>
        (await allEvents(live)).some(
          ({ data, type }) => type === 'message.seen' && data.object.id === body.id,
        ),
      { withinMs: OVER_SMPP_MS, everyMs: 100 },
    )
  })
})

describe('an unavailable operator', () => {
  it('is visible in the metrics, leaves all apps ready, and gets each waiting message once after its return', async () => {
    const { metrics_urls } = hub.describe()
    const binds = async (): Promise<string | undefined> => {
      const metrics = await (await fetch(metrics_urls.dispatcher)).text()
      return /^hub_smpp_binds_up\{role="transceiver"\} (\d+)/mu.exec(metrics)?.[1]
    }
    await eventually(async () => (await binds()) === '2', { withinMs: OVER_SMPP_MS })
    hub.operator.kill('SIGKILL')
    await hub.operator.exited()
    await eventually(async () => (await binds()) === '0', { withinMs: OVER_SMPP_MS })

    const waiting = await live.post('/v1/messages', send('service', '+79005550003'))
    expect(waiting.status).toBe(202)
    // The sandbox is another operator and does not wait.
    const other = await test.post('/v1/messages', send('service', '+79005550004'))
    expect(await untilFinal(test, other.body.id)).toMatchObject({ status: 'delivered' })
    expect((await fetch(metrics_urls.dispatcher.replace('/metrics', '/readyz'))).status).toBe(200)
    expect((await live.get(`/v1/messages/${waiting.body.id}`)).body.status).toBe('accepted')

    await hub.operator.restart()
    // The pause between reconnects grows to half a minute.
    expect(await untilFinal(live, waiting.body.id)).toMatchObject({ status: 'delivered' })
    expect(await readSubmission('+79005550003', 'Заказ A-17 готов')).toMatchObject({ times: 1 })
  })
})

describe('reads', () => {
  it('page through events in recording order, by cursor and by time', async () => {
    const all = await allEvents(test)
    expect(all.length).toBeGreaterThan(10)
    const first = await test.get('/v1/events?limit=5')
    expect(first.body).toMatchObject({ object: 'list', has_more: true, next_cursor: all[4].id })
    const second = await test.get(`/v1/events?limit=5&starting_after=${all[4].id}`)
    expect(second.body.data.map((event: any) => event.id)).toEqual(all.slice(5, 10).map((event) => event.id))
    const since = await test.get(`/v1/events?limit=1000&created_after=${all[4].created_at}`)
    expect(since.body.data.every((event: any) => event.created_at > all[4].created_at)).toBe(true)
    expect((await stranger.get('/v1/events')).body.data).toEqual([])
  })

  it('return the account', async () => {
    expect((await test.get('/v1/account')).body).toMatchObject({
      object: 'account',
      mode: 'test',
      limits: { api_rps: 10_000, batch_max: 1000 },
      flood_windows: { pause_seconds: 300, per_hour: 12, per_day: 288 },
    })
    expect((await live.get('/v1/account')).body.spend_limit).toBeNull()
  })

  it('of the OpenAPI description, the reference and the schemas need no key', async () => {
    const { base_url, schema_registry_url } = hub.describe()
    const anonymous = client(base_url, null)
    expect((await anonymous.get('/v1/openapi.json')).body.openapi).toMatch(/^3\.1/u)
    const docs = await anonymous.get('/docs')
    expect(docs.status).toBe(200)
    expect(docs.headers.get('content-type')).toContain('text/html')
    const subjects = (await (await fetch(`${schema_registry_url}/subjects`)).json()) as ReadonlyArray<string>
    expect(subjects.length).toBeGreaterThan(10)
  })
})
