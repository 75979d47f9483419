/**
 * A hub whose master key is in a transit engine: messages and webhooks work, running processes go on while the
 * server is sealed, one that starts waits for it, and nothing shows the token.
 */
import { readFileSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { decodeId } from '@hub/domain'
import { eventually, openDatabase } from '@hub/testkit'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Client, client, send, sendUntilAccepted } from '../support/client.ts'
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
let sql: ReturnType<typeof openDatabase>
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
  const { base_url, database_url, keys } = hub.describe()
  sql = openDatabase(database_url)
  api = client(base_url, keys.test)
  live = client(base_url, keys.live)
})
afterAll(async () => {
  await sql?.end()
  await hub?.stop()
  await receiver?.close()
  await bao?.stop()
})

/** Far above every wait for a server. */
const ACCEPTED_WITHIN_MS = 120_000

let sent = 0
/** Sends a message to a number of its own. */
const accept = async (messageClass: 'otp' | 'service', from = api): Promise<string> => {
  sent++
  const to = `+7900123${String(sent).padStart(4, '0')}`
  return (await sendUntilAccepted(from, send(messageClass, to, `transit-${sent}`), ACCEPTED_WITHIN_MS)).id
}
const delivered = async (id: string, from = api): Promise<string> => {
  await eventually(async () => (await from.get(`/v1/messages/${id}`)).body.status === 'delivered')
  return id
}
const acceptBoth = async () => [await accept('otp'), await accept('service')]

/** The payload keys of messages. */
const keysOf = async (ids: ReadonlyArray<string>): Promise<ReadonlyArray<string>> => {
  const rows = await sql<{ sealing_key: string }[]>`
    SELECT sealing_key FROM command.acceptances WHERE message_id = ANY (${ids.map((id) => decodeId('msg', id)!)})`
  return rows.map(({ sealing_key }) => sealing_key).toSorted()
}

it('delivers messages and webhooks', async (context) => {
  if (bao === null) return context.skip()
  const subscription = await api.post('/v1/webhook_endpoints', {
    url: receiver.url('/hook'),
    headers: { Authorization: 'Bearer of the receiver' },
  })
  expect(subscription.status).toBe(201)
  for (const id of await acceptBoth()) await delivered(id)
  await eventually(() =>
    receiver.received.some(({ headers }) => headers['authorization'] === 'Bearer of the receiver'),
  )
})

it('goes on while the server is sealed', async (context) => {
  if (bao === null) return context.skip()
  for (;;) {
    const before = await acceptBoth()
    for (const id of before) await delivered(id)
    await bao.seal()
    try {
      const meanwhile = await acceptBoth()
      // Every five minutes there is another key for codes, which a process cannot open now. Then try again.
      if (!isDeepStrictEqual(await keysOf(before), await keysOf(meanwhile))) continue
      for (const id of meanwhile) await delivered(id)
      return
    } finally {
      await bao.unseal()
    }
  }
})

it('waits at its start until the server is unsealed, and says so', async (context) => {
  if (bao === null) return context.skip()
  const { logs, restart } = hub.app('dispatcher')
  const { unseal } = bao
  await bao.seal()
  const restarted = restart()
  try {
    await eventually(() => readFileSync(logs, 'utf8').includes('The server of the transit engine is sealed'))
  } finally {
    await unseal()
  }
  await restarted
  await delivered(await accept('otp'))
})

it('lets hubctl show what an operator sent', async (context) => {
  if (bao === null) return context.skip()
  const id = await delivered(await accept('service', live), live)
  const { database_url, kafka, redis_url } = hub.describe()
  const servers = { databaseUrl: database_url, brokers: kafka.brokers, redisUrl: redis_url }
  const raw = ['messages', 'raw', id, '--reason', 'a test']
  // What the operator sent: the answer, which the dispatcher keeps a moment later, and the report.
  const records = await eventually(async () => {
    const { data } = await hubctl(servers, hub, raw, { ...transit, HUB_MASTER_KEY: '' })
    return data.length === 2 ? data : null
  })
  expect(records[1].raw).toContain('stat:DELIVRD')
  const refused = await eventually(async () => {
    const output = await hubctl(servers, hub, raw).catch(String)
    // A busy server may be late.
    return /HUB_MASTER_KEY/u.test(output) ? output : null
  })
  expect(refused).toMatch(/HUB_MASTER_KEY is not a master key of this hub/u)
})

it('shows nobody its token', (context) => {
  if (bao === null) return context.skip()
  for (const app of APPS) {
    expect(readFileSync(hub.app(app).logs, 'utf8')).not.toContain(transit['HUB_TRANSIT_TOKEN'])
  }
})
