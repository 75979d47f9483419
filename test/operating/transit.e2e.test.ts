/**
 * A hub whose master key is in a transit engine: messages and webhooks work, running processes go on while the
 * server is sealed, one that starts waits for it, and nothing shows the token.
 */
import { readFileSync } from 'node:fs'
import { eventually } from '@hub/testkit'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Client, client, send } from '../support/client.ts'
import { startHub, type TestHub } from '../support/hub.ts'
import { hubctl } from '../support/hubctl.ts'
import { type OpenBao, startOpenBao } from '../support/openbao.ts'
import { startWebhookReceiver, type WebhookReceiver } from '../support/webhook-receiver.ts'

const KEY = 'sms-hub'
const APPS = ['command-api', 'dispatcher', 'projector', 'webhook-fanout'] as const

let bao: OpenBao | null = null
let transit: Readonly<Record<string, string>>
let hub: TestHub
let receiver: WebhookReceiver
let api: Client
let live: Client
beforeAll(async () => {
  const found = await startOpenBao()
  if ('missing' in found) return console.log(`Skipped: ${found.missing}`)
  bao = found
  await bao.newKey(KEY)
  transit = {
    HUB_KEY_PROVIDER: 'transit',
    HUB_TRANSIT_URL: bao.url,
    HUB_TRANSIT_CA_FILE: bao.caFile,
    HUB_TRANSIT_KEY_NAME: KEY,
    HUB_TRANSIT_TOKEN: await bao.newToken(KEY, { period: '1h' }),
  }
  receiver = await startWebhookReceiver(204)
  hub = await startHub({
    apiRps: 10_000,
    environment: { ...receiver.environment, ...transit },
  })
  const { base_url, keys } = hub.describe()
  api = client(base_url, keys.test)
  live = client(base_url, keys.live)
})
afterAll(async () => {
  await hub?.stop()
  await receiver?.close()
  await bao?.stop()
})

/** Sends a message, and waits until it is delivered. */
const deliver = async (
  messageClass: 'otp' | 'service',
  to: string,
  reference: string,
  from = api,
): Promise<string> => {
  const accepted = await from.post('/v1/messages', send(messageClass, to, reference))
  expect(accepted.status).toBe(202)
  const { id } = accepted.body
  await eventually(async () => (await from.get(`/v1/messages/${id}`)).body.status === 'delivered')
  return id
}

it('works, goes on while the server is sealed, and shows nobody its token', async (context) => {
  if (bao === null) return context.skip()
  const subscription = await api.post('/v1/webhook_endpoints', {
    url: receiver.url('/hook'),
    headers: { Authorization: 'Bearer of the receiver' },
  })
  expect(subscription.status).toBe(201)
  await deliver('otp', '+79001230001', 'transit-1')
  await deliver('service', '+79001230002', 'transit-2')
  await eventually(() =>
    receiver.received.some(({ headers }) => headers['authorization'] === 'Bearer of the receiver'),
  )

  await bao.seal()
  await deliver('otp', '+79001230003', 'transit-3')
  await deliver('service', '+79001230004', 'transit-4')
  const dispatcher = hub.app('dispatcher')
  const restarted = dispatcher.restart()
  await eventually(() =>
    readFileSync(dispatcher.logs, 'utf8').includes('The server of the transit engine is sealed'),
  )
  await bao.unseal()
  await restarted
  await deliver('otp', '+79001230005', 'transit-5')

  const id = await deliver('service', '+79001230006', 'transit-6', live)
  const { database_url, kafka, redis_url } = hub.describe()
  const servers = { databaseUrl: database_url, brokers: kafka.brokers, redisUrl: redis_url }
  const raw = ['messages', 'raw', id, '--reason', 'a test']
  // What the operator sent: the answer, which the dispatcher keeps a moment later, and the report.
  const records = await eventually(async () => {
    const { data } = await hubctl(servers, hub, raw, { ...transit, HUB_MASTER_KEY: '' })
    return data.length === 2 ? data : null
  })
  expect(records[1].raw).toContain('stat:DELIVRD')
  await expect(hubctl(servers, hub, raw)).rejects.toThrow(/HUB_MASTER_KEY is not a master key of this hub/u)
  for (const app of APPS) {
    expect(readFileSync(hub.app(app).logs, 'utf8')).not.toContain(transit['HUB_TRANSIT_TOKEN'])
  }
})
