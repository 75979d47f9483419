/**
 * The hub emits each type of event, and a receiver gets them as webhooks. A foreign validator (Ajv, JSON
 * Schema 2020-12, which OpenAPI 3.1 uses) judges the events and the examples of the API description by the
 * schema of their type. Source: VER-5.
 */
import { decodeId, EVENT_TYPES } from '@hub/domain'
import { eventually, openDatabase, statusResponse } from '@hub/testkit'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Client, send } from '../support/client.ts'
import { type Account, freshNumber, makeHubAdmin } from '../support/hub-admin.ts'
import { startHub, type TestHub } from '../support/hub.ts'
import { hubctl } from '../support/hubctl.ts'
import { eventsIn, startWebhookReceiver, type WebhookReceiver } from '../support/webhook-receiver.ts'

const EVERY = { everyMs: 200 } as const

let hub: TestHub
let receiver: WebhookReceiver
let admin: ReturnType<typeof makeHubAdmin>
let sql: ReturnType<typeof openDatabase>
let account: Account
let document: any
let validators: ReadonlyMap<string, ValidateFunction>

beforeAll(async () => {
  receiver = await startWebhookReceiver(204)
  receiver.respondWith((received, response, request) =>
    statusResponse(received.path === '/broken' ? 500 : 204)(received, response, request),
  )
  hub = await startHub({ environment: receiver.environment })
  admin = makeHubAdmin(hub)
  sql = openDatabase(hub.describe().database_url)
  account = await admin.createAccount({
    live: {
      spend_limit: '20.00',
      soft_threshold_percent: 40,
      flood_pause_seconds: 0,
      flood_per_hour: 100,
      flood_per_day: 100,
    },
  })
  document = (await account.test.get('/v1/openapi.json')).body
  // The document contains keywords of OpenAPI, such as `discriminator`. Formats only state the size of numbers.
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true })
  ajv.addSchema(document, 'hub')
  const { mapping } = document.components.schemas.KnownEvent.discriminator
  validators = new Map(
    Object.entries(mapping).map(([type, target]) => [type, ajv.compile({ $ref: `hub${String(target)}` })]),
  )
})
afterAll(async () => {
  await sql?.end()
  await admin?.close()
  await hub?.stop()
  await receiver?.close()
})

const subscribe = async (client: Client, path: string, body: object = {}): Promise<string> => {
  const made = await client.post('/v1/webhook_endpoints', { url: receiver.url(path), ...body })
  expect(made.status, made.text).toBe(201)
  return made.body.id
}

const accepted = async (client: Client, body: object): Promise<string> => {
  const answer = await client.post('/v1/messages', body)
  expect(answer.status, answer.text).toBe(202)
  return answer.body.id
}

/** Numbers of the sandbox (docs/contract/sandbox.md): delivered, undelivered, rejected, expired, seen. */
const SANDBOX = ['01', '02', '05', '08', '10'].map((last) => `+790000000${last}`)

const emitMessages = async (): Promise<void> => {
  for (const number of SANDBOX) await accepted(account.test, send('otp', number))
  const batch = { messages: [send('otp', SANDBOX[0]!, 'events-1')] }
  expect((await account.test.post('/v1/messages/batch', batch)).status).toBe(202)
}

const emitModeration = async (): Promise<void> => {
  const { database_url: databaseUrl, kafka, redis_url: redisUrl } = hub.describe()
  const staff = (...args: ReadonlyArray<string>) =>
    hubctl({ brokers: kafka.brokers, databaseUrl, redisUrl }, hub, args)
  const { body: sender } = await account.live.post('/v1/senders', { name: 'Events' })
  const { body: template } = await account.live.post('/v1/templates', {
    name: 'events',
    class: 'service',
    sender: 'Events',
    body: 'Заказ {{order}} готов',
  })
  await staff('senders', 'decline', sender.id, '--reason', 'The name belongs to another company.')
  await staff('senders', 'approve', sender.id)
  await staff('templates', 'decline', template.id, '--reason', 'The text has no opt-out.')
  await staff('templates', 'approve', template.id)
}

/** Service messages for 8.00 with the default price of 2.00, which is the threshold. */
const emitSpending = async (): Promise<void> => {
  for (let n = 0; n < 4; n++) await accepted(account.live, send('service', freshNumber()))
}

const received = () => eventsIn(receiver.received.filter(({ path }) => path === '/events'))

const emitOptOut = async (): Promise<void> => {
  const number = freshNumber()
  await accepted(account.live, send('otp', number))
  for (const text of ['STOP', 'START']) {
    await eventually(async () => {
      const response = await fetch(`${hub.describe().operator_url}/inbound`, {
        method: 'POST',
        body: JSON.stringify({ from: number, to: 'HUB', text }),
      })
      await response.arrayBuffer()
      return response.status === 202
    }, EVERY)
    // The operator may deliver two messages at the same time, and the hub applies the one that arrives last.
    if (text === 'STOP')
      await eventually(() => received().some(({ type }) => type === 'recipient.opted_out'), EVERY)
  }
}

const emitWebhooks = async (tested: string, broken: string): Promise<void> => {
  expect((await account.test.request('POST', `/v1/webhook_endpoints/${tested}/test`)).status).toBe(200)
  // The next failure disables it.
  await sql`
    UPDATE webhooks.endpoints SET consecutive_failures = 19, first_failure_at = now() - interval '61 minutes'
     WHERE id = ${decodeId('we', broken)}`
  await accepted(account.test, send('otp', SANDBOX[0]!))
  await eventually(() => received().some(({ type }) => type === 'webhook.endpoint_disabled'), EVERY)
  expect((await account.test.request('POST', `/v1/webhook_endpoints/${broken}/enable`)).status).toBe(200)
}

/** The same fields, each with the same type where both have a value. */
const expectSameShape = (example: any, event: any, where: string): void => {
  expect(Object.keys(example).toSorted(), where).toEqual(Object.keys(event).toSorted())
  for (const [name, value] of Object.entries(example)) {
    const real = event[name]
    if (value === null || real === null) continue
    expect([where, name, Array.isArray(value), typeof value]).toEqual([
      where,
      name,
      Array.isArray(real),
      typeof real,
    ])
    if (typeof value === 'object' && !Array.isArray(value)) expectSameShape(value, real, `${where}.${name}`)
  }
}

describe('a running hub', () => {
  // Rules: VER-5, EVT-1, EVT-2, EVT-7, DEL-1
  it('sends each type of event as its schema and its example say', async () => {
    const tested = await subscribe(account.test, '/events')
    await subscribe(account.live, '/events')
    const broken = await subscribe(account.test, '/broken', { event_types: ['message.accepted'] })
    await Promise.all([emitMessages(), emitModeration(), emitSpending(), emitOptOut()])
    await emitWebhooks(tested, broken)

    await eventually(() => {
      const types = new Set(received().map(({ type }) => type))
      const missing = EVENT_TYPES.filter((type) => !types.has(type))
      if (missing.length > 0) throw new Error(`not received: ${missing.join(', ')}`)
      return true
    }, EVERY)

    for (const event of received()) {
      const validate = validators.get(event.type)
      expect([event.type, validate?.(event), validate?.errors]).toEqual([event.type, true, null])
    }
    for (const type of EVENT_TYPES) {
      const content = document.webhooks[type].post.requestBody.content['application/json']
      const [example] = content.examples[type].value
      const validate = validators.get(type)
      expect([type, validate?.(example), validate?.errors]).toEqual([type, true, null])
      for (const event of received().filter((one) => one.type === type)) {
        expectSameShape(example, event, type)
      }
    }
  })

  // Rules: VER-5
  it('has schemas that refuse an event without one of its fields, and with another type of value', () => {
    for (const type of EVENT_TYPES) {
      const content = document.webhooks[type].post.requestBody.content['application/json']
      const [example] = content.examples[type].value
      const { object } = example.data
      for (const field of Object.keys(object)) {
        const { [field]: _, ...less } = object
        for (const wrong of [less, { ...object, [field]: { wrong: true } }]) {
          const isValid = validators.get(type)?.({ ...example, data: { object: wrong } })
          expect([type, field, isValid]).toEqual([type, field, false])
        }
      }
    }
  })
})
