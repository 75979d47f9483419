/**
 * What messages of one and of three years look like through every endpoint, a day before each limit
 * and a day after it, whether retention has come to them or not. Source: RET-1 to RET-6.
 */
import { randomUUID } from 'node:crypto'
import { assert, describe, it } from '@effect/vitest'
import { encodeId, NEW_ID_RANDOM_BYTES, newId, decodeId, recipientHash } from '@hub/domain'
import { beforeAll } from 'vitest'
import { type Account, type Api, call, type Deployment, startBeforeTests } from '../testing/harness.ts'

const NUMBER = '+79001234567'
const DAY = 24 * 3_600_000

let deployment: Deployment
let api: Api
let account: Account
startBeforeTests((started) => ({ deployment, api, account } = started))

const yearsAgo = (years: number, ms: number): Date => {
  const date = new Date(Date.now())
  date.setUTCFullYear(date.getUTCFullYear() - years)
  return new Date(date.getTime() + ms)
}

let places = 0
interface Old {
  readonly id: string
  readonly event: string
  readonly batch: string
  readonly ref: string
  readonly at: Date
}
/** A message as everything that stores it leaves it, before retention has been there. */
const old = async (at: Date, messageClass: 'otp' | 'service' = 'service'): Promise<Old> => {
  const random = (seed: number) => new Uint8Array(NEW_ID_RANDOM_BYTES).fill(seed)
  const place = ++places
  const id = newId('msg', at.getTime(), random(place))
  const batch = newId('bat', at.getTime(), random(place))
  const uuid = decodeId('msg', id)!
  const batchUuid = decodeId('bat', batch)!
  const event = randomUUID()
  const ref = `ref-${place}`
  const recipient = Buffer.from(recipientHash(deployment.hashSecret, NUMBER), 'hex')
  const masterKey = await deployment.masterKeyEncryption()
  const content = messageClass === 'otp' ? {} : { text: 'Заказ 17 готов', variables: { order: '17' } }
  const box = masterKey.encrypt('personal-data', id, Buffer.from(JSON.stringify({ to: NUMBER, ...content })))
  const [template, variable] = messageClass === 'otp' ? ['otp_code', 'code'] : ['order_ready', 'order']
  await deployment.sql(async (q) => {
    await q`INSERT INTO command.client_refs VALUES (${account.uuid}, 'live', ${ref}, ${uuid}, ${at})`
    await q`
      INSERT INTO read.messages (id, account, mode, class, recipient, template, sender, client_ref, batch_id, parts, price, currency,
                                 variables, created_at, updated_at, status, rank, final, attempts, handed_over, final_at)
      VALUES (${uuid}, ${account.uuid}, 'live', ${messageClass}, ${recipient}, ${template}, 'HUB', ${ref}, ${batchUuid}, 1, 2, 'RUB',
              ${[variable]}, ${at}, ${at}, 'delivered', 3, true, 1, true, ${at})`
    await q`INSERT INTO read.personal_data (message_id, recipient, created_at, sealed) VALUES (${uuid}, ${recipient}, ${at}, ${box})`
    await q`
      INSERT INTO read.batches (id, account, mode, created_at, sealed_at, total, accepted, duplicate, rejected, members, final,
                                delivered, closed)
      VALUES (${batchUuid}, ${account.uuid}, 'live', ${at}, ${at}, 1, 1, 0, 0, 1, 1, 1, true)`
    await q`
      INSERT INTO read.daily_stats VALUES (${at}::timestamptz::date, ${account.uuid}, 'live', ${messageClass}, ${template}, 'RUB',
                                           1, 1, 1, 0, 0, 0, 1, 2)`
    await q`
      INSERT INTO read.hourly_stats VALUES (date_trunc('hour', ${at}::timestamptz, 'UTC'), ${account.uuid}, 'live', '', 'RUB',
                                            1, 1, 1, 0, 0, 0, 1, 2)`
  })
  return { id, event, batch, ref, at }
}

/** An event of each of them, in the order of their moments. */
const journal = async (messages: ReadonlyArray<Old>) => {
  const ordered = messages.toSorted((a, b) => a.at.getTime() - b.at.getTime())
  for (const [index, { at, event }] of ordered.entries()) {
    await deployment.sql(
      (q) => q`
        INSERT INTO read.events VALUES (${account.uuid}, 'live', ${index + 1}, ${event}, 'message.delivered', ${at},
                                        ${JSON.stringify({ id: encodeId('evt', event) })})`,
    )
  }
}

const get = (path: string) => call(api.url, path, { key: account.keys.live })
const idsOf = (body: unknown) => (body as { data: ReadonlyArray<{ id: string }> }).data.map(({ id }) => id)
const dayOf = (at: Date) => at.toISOString().slice(0, 10)

describe('old messages', () => {
  let nearlyOne: Old
  let one: Old
  let code: Old
  let nearlyThree: Old
  let three: Old
  beforeAll(async () => {
    nearlyOne = await old(yearsAgo(1, DAY))
    one = await old(yearsAgo(1, -DAY))
    code = await old(yearsAgo(1, -2 * DAY), 'otp')
    nearlyThree = await old(yearsAgo(3, 2 * DAY))
    three = await old(yearsAgo(3, -DAY))
    await journal([nearlyOne, one, code, nearlyThree, three])
  })

  // Rules: RET-1
  it('have their number and text for a year, and everything else afterwards', async () => {
    const young = await get(`/v1/messages/${nearlyOne.id}`)
    assert.deepInclude(young.body as object, {
      to: '+7900***4567',
      text: 'Заказ 17 готов',
      variables: { order: '17' },
    })
    const seen = await get(`/v1/messages/${one.id}`)
    assert.strictEqual(seen.status, 200)
    assert.deepInclude(seen.body as object, {
      id: one.id,
      to: '',
      text: null,
      variables: null,
      status: 'delivered',
      final: true,
      client_ref: one.ref,
      batch: one.batch,
      template: 'order_ready',
      sender: 'HUB',
      attempts: 1,
      parts: 1,
      price: { amount: '2.00', currency: 'RUB' },
      created_at: one.at.toISOString(),
    })
    const { history } = seen.body as { history: ReadonlyArray<{ status: string }> }
    assert.deepStrictEqual(
      history.map(({ status }) => status),
      ['accepted', 'delivered'],
    )
    assert.deepInclude((await get(`/v1/messages/${code.id}`)).body as object, {
      to: '',
      text: null,
      variables: null,
    })
    assert.deepInclude((await get(`/v1/messages/${nearlyThree.id}`)).body as object, { to: '', text: null })
  })

  // Rules: RET-2, RET-3
  it('are listed without number and text after a year, and not after three years', async () => {
    const listed = await get(`/v1/messages?batch=${one.batch}`)
    assert.deepStrictEqual(idsOf(listed.body), [one.id])
    assert.deepInclude((listed.body as { data: ReadonlyArray<object> }).data[0] as object, {
      to: '',
      text: null,
    })
    assert.deepStrictEqual(idsOf((await get(`/v1/messages?batch=${nearlyThree.batch}`)).body), [
      nearlyThree.id,
    ])
    assert.strictEqual((await get(`/v1/messages?batch=${three.batch}`)).status, 404)
  })

  // Rules: RET-3
  it('are not found after three years, nor is their batch', async () => {
    for (const path of [`/v1/messages/${three.id}`, `/v1/batches/${three.batch}`]) {
      const { body, status } = await get(path)
      assert.strictEqual(status, 404, path)
      assert.deepInclude((body as { error: object }).error, { code: 'not_found' })
    }
    assert.strictEqual((await get(`/v1/batches/${nearlyThree.batch}`)).status, 200)
  })

  // Rules: MSG-13
  it('reserve their client_ref for three years', async () => {
    const repeat = async ({ ref }: Old) =>
      (
        await call(api.url, '/v1/messages', {
          key: account.keys.live,
          body: {
            to: NUMBER,
            class: 'service',
            template: 'order_ready',
            variables: { order: '17' },
            client_ref: ref,
          },
        })
      ).body
    assert.deepInclude(await repeat(nearlyThree), { id: nearlyThree.id, duplicate: true, to: '' })
    assert.deepInclude(await repeat(nearlyOne), {
      id: nearlyOne.id,
      duplicate: true,
      to: '+7900***4567',
    })
  })

  // Rules: RET-4
  it('count in the statistics for three years', async () => {
    for (const group of ['', '&group_by=reason_code']) {
      const totals = async ({ at }: Old) => {
        const { body } = await get(`/v1/stats?from=${dayOf(at)}&to=${dayOf(at)}${group}`)
        return (body as { totals: { accepted: number } }).totals.accepted
      }
      assert.strictEqual(await totals(one), 1)
      assert.strictEqual(await totals(nearlyThree), 1)
      assert.strictEqual(await totals(three), 0)
    }
  })

  // Rules: RET-5
  it('have events for three years, and older cursors are not found', async () => {
    const cursor = ({ event }: Old) => encodeId('evt', event)
    const young = [nearlyThree, code, one, nearlyOne].map(cursor)
    assert.deepStrictEqual(idsOf((await get('/v1/events')).body), young)
    assert.deepStrictEqual(idsOf((await get('/v1/events?type=message.delivered')).body), young)
    const missing = await get(`/v1/events?starting_after=${cursor(three)}`)
    assert.strictEqual(missing.status, 404)
    const moment = new Date(three.at.getTime() - 1).toISOString()
    assert.deepStrictEqual(idsOf((await get(`/v1/events?created_after=${moment}`)).body), young)
    assert.deepStrictEqual(
      idsOf((await get(`/v1/events?starting_after=${cursor(nearlyThree)}`)).body),
      young.slice(1),
    )
    assert.deepStrictEqual(
      idsOf((await get(`/v1/events?starting_after=${cursor(code)}&type=message.delivered`)).body),
      young.slice(2),
    )
  })

  // Rules: RET-6
  it('leave the delivery log after three years', async () => {
    const subscriptionId = randomUUID()
    const attempts = [yearsAgo(3, DAY), yearsAgo(3, -DAY)].map((at, index) => ({
      at,
      id: newId('whd', at.getTime(), new Uint8Array(NEW_ID_RANDOM_BYTES).fill(index)),
    }))
    await deployment.sql(async (q) => {
      await q`
        INSERT INTO webhooks.endpoints (id, account, mode, url, secret)
        VALUES (${subscriptionId}, ${account.uuid}, 'live', 'https://example.com', ''::bytea)`
      for (const { at, id } of attempts) {
        await q`
          INSERT INTO webhooks.attempts (id, endpoint_id, batch_id, attempt, status, duration_ms, created_at)
          VALUES (${decodeId('whd', id)}, ${subscriptionId}, ${randomUUID()}, 1, 'succeeded', 5, ${at})`
      }
    })
    const path = `/v1/webhook_endpoints/${encodeId('we', subscriptionId)}/deliveries`
    assert.deepStrictEqual(idsOf((await get(path)).body), [attempts[0]?.id])
    assert.strictEqual((await get(`${path}?starting_after=${attempts[0]?.id}`)).status, 200)
    assert.strictEqual((await get(`${path}?starting_after=${attempts[1]?.id}`)).status, 404)
  })
})
