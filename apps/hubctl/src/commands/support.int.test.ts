/** The commands for support and billing: messages, deliveries, usage and hash, over PostgreSQL. */
import { randomBytes, randomUUID } from 'node:crypto'
import { decodeId, encodeId, eventIdOf, NEW_ID_RANDOM_BYTES, newUuid } from '@hub/domain'
import { uuidOf } from '@hub/store'
import { eventually } from '@hub/testkit'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import { makeTestHub, type TestHub } from '../testing/test-hub.ts'

const NUMBER = '+79001234567'

let hub: TestHub
let account: string
let uuid: string
let other: string

interface Listed<A> {
  readonly data: ReadonlyArray<A>
}
interface Shown {
  readonly id: string
  readonly status: string
  readonly recipient: string
}

/** Inserts a delivered message as the projector does. Returns `msg_…`. */
const insertMessage = async (
  owner: string,
  { at, clientRef = null, number = NUMBER }: { at: Date; clientRef?: string | null; number?: string },
): Promise<string> => {
  // Ids of messages are in the order of time.
  const id = newUuid(at.getTime(), randomBytes(NEW_ID_RANDOM_BYTES))
  const recipient = Buffer.from(hub.hashOf(number), 'hex')
  const owned = { account: owner, mode: 'live', client_ref: clientRef }
  const later = (seconds: number) => new Date(at.getTime() + seconds * 1000)
  await hub.sql`INSERT INTO read.messages ${hub.sql({
    id,
    ...owned,
    class: 'service',
    recipient,
    template: '=order, "new"',
    sender: 'SHOP',
    parts: 2,
    price: '5.50',
    currency: 'RUB',
    variables: [],
    created_at: at,
    updated_at: at,
    status: 'delivered',
    rank: 3,
    final: true,
    attempts: 1,
    sent_at: later(1),
    final_at: later(4),
  })}`
  await hub.sql`INSERT INTO read.personal_data (message_id, recipient, created_at, sealed)
    VALUES (${id}, ${recipient}, ${at}, 'encrypted')`
  await hub.sql`INSERT INTO read.operator_ids VALUES ('smpp', ${`part ${id}`}, ${id}, ${later(1)})`
  if (clientRef !== null) {
    await hub.sql`INSERT INTO command.client_refs (account, mode, client_ref, message_id, created_at)
      VALUES (${owner}, 'live', ${clientRef}, ${id}, ${at})`
  }
  return encodeId('msg', id)
}

let first: string
let second: string
let foreign: string
beforeAll(async () => {
  hub = await makeTestHub()
  account = (await hub.succeed<{ readonly id: string }>(['accounts', 'create', 'Online shop'])).id
  uuid = decodeId('acc', account) ?? ''
  other = (await hub.succeed<{ readonly id: string }>(['accounts', 'create', 'Bank'])).id
  const now = Date.now()
  first = await insertMessage(uuid, { at: new Date(now - 60_000), clientRef: 'order-7' })
  second = await insertMessage(uuid, { at: new Date(now - 30_000) })
  foreign = await insertMessage(decodeId('acc', other) ?? '', { at: new Date(now - 10_000) })
  await insertMessage(uuid, { at: new Date(now), number: '+79007654321' })
})
afterAll(() => hub.remove())

const idsOf = ({ data }: Listed<Shown>) => data.map(({ id }) => id)

describe('hubctl hash', () => {
  it('prints the hash by which the hub names a recipient', async () => {
    const ran = await hub.run(['hash', '-'], `${NUMBER}\n`)
    assert.deepStrictEqual([ran.code, ran.out], [0, hub.hashOf(NUMBER)])
    assert.strictEqual(await hub.refusal(['hash', '12345']), 'usage')
  })
})

describe('hubctl messages', () => {
  it('finds the messages to a recipient by number and by hash, newest first', async () => {
    const find = (...words: ReadonlyArray<string>) =>
      hub.succeed<Listed<Shown>>(['messages', 'find', '--recipient', ...words])
    assert.deepStrictEqual(idsOf(await find(NUMBER)), [foreign, second, first])
    const own = await find(hub.hashOf(NUMBER), '--account', account)
    assert.deepStrictEqual(idsOf(own), [second, first])
    assert.deepStrictEqual(idsOf(await find(NUMBER, '--account', account, '--limit', '1')), [second])
    assert.deepStrictEqual(idsOf(await find(NUMBER, '--mode', 'test')), [])
    assert.notInclude(JSON.stringify(own), NUMBER)
  })

  it('finds a message by client_ref and by the id at the operator', async () => {
    const byRef = ['messages', 'find', '--client-ref', 'order-7']
    assert.deepStrictEqual(idsOf(await hub.succeed([...byRef, '--account', account])), [first])
    assert.deepStrictEqual(idsOf(await hub.succeed([...byRef, '--account', other])), [])
    const byId = ['messages', 'find', '--operator-id', `part ${uuidOf('msg', second)}`]
    assert.deepStrictEqual(idsOf(await hub.succeed([...byId, '--operator', 'smpp'])), [second])
    for (const wrong of [['messages', 'find'], byRef, byId, [...byRef, '--recipient', NUMBER]]) {
      assert.strictEqual(await hub.refusal(wrong), 'usage')
    }
  })

  it('shows a message without number and text, and records the reader in the audit trail', async () => {
    const shown = await hub.succeed<object>(['messages', 'show', first])
    assert.deepInclude(shown, {
      id: first,
      account,
      status: 'delivered',
      client_ref: 'order-7',
      recipient: hub.hashOf(NUMBER),
      operator: 'smpp',
      operator_ids: [`part ${uuidOf('msg', first)}`],
    })
    assert.strictEqual(
      await hub.refusal(['messages', 'show', encodeId('msg', randomUUID())]),
      'message_not_found',
    )
    const { data } = await hub.succeed<Listed<{ readonly command: string }>>(['audit', 'list'])
    const commands = data.map(({ command }) => command)
    assert.includeMembers(commands, ['messages find', 'messages show'])
    assert.notInclude(JSON.stringify(data), NUMBER)
    assert.notInclude(JSON.stringify(data), 'order-7')
  })
})

/** Inserts a subscription with one failed attempt to deliver an event of the message. */
const insertDelivery = async (message: string) => {
  const [subscriptionId, attempt, batch] = [randomUUID(), randomUUID(), randomUUID()]
  const event = eventIdOf(message, 'message.delivered')
  const at = new Date()
  await hub.sql`INSERT INTO webhooks.endpoints (id, account, mode, url, secret)
    VALUES (${subscriptionId}, ${uuid}, 'live', 'https://shop.example/hook', '')`
  const body = JSON.stringify({ id: event, type: 'message.delivered', created_at: at.toISOString() })
  await hub.sql`INSERT INTO read.events (account, mode, sequence, id, type, created_at, body)
    VALUES (${uuid}, 'live', 1, ${uuidOf('evt', event)}, 'message.delivered', ${at}, ${body})`
  await hub.sql`INSERT INTO webhooks.attempts
    (id, endpoint_id, batch_id, attempt, status, response_code, duration_ms, reason, created_at)
    VALUES (${attempt}, ${subscriptionId}, ${batch}, 1, 'failed', 500, 12, 'http_error', ${at})`
  await hub.sql`INSERT INTO webhooks.batch_events (endpoint_id, event_id, batch_id, position)
    VALUES (${subscriptionId}, ${uuidOf('evt', event)}, ${batch}, 0)`
  return { subscriptionId, attempt, batch, event }
}

describe('hubctl deliveries', () => {
  let made: Awaited<ReturnType<typeof insertDelivery>>
  let subscription: string
  beforeAll(async () => {
    made = await insertDelivery(first)
    subscription = encodeId('we', made.subscriptionId)
  })

  it('lists the log of a subscription with filters', async () => {
    const list = async (...words: ReadonlyArray<string>) =>
      idsOf(await hub.succeed<Listed<Shown>>(['deliveries', 'list', subscription, ...words]))
    const delivery = encodeId('whd', made.attempt)
    assert.deepStrictEqual(await list(), [delivery])
    assert.deepStrictEqual(await list('--status', 'failed', '--event', made.event), [delivery])
    assert.deepStrictEqual(await list('--status', 'succeeded'), [])
    assert.deepStrictEqual(await list('--before', '2020-01-01'), [])
  })

  it('show in the timeline of a message, in the order of time', async () => {
    const { data } = await hub.succeed<Listed<{ readonly what: string; readonly detail: string | null }>>([
      'messages',
      'timeline',
      first,
    ])
    assert.deepStrictEqual(
      data.map(({ what }) => what),
      ['accepted', 'sent', 'delivered', 'event', 'webhook failed'],
    )
    assert.include(data[4]?.detail, `${encodeId('whd', made.attempt)}, attempt 1, HTTP 500`)
  })

  it('are sent again on request, and the answer is shown', async () => {
    const resend = ['deliveries', 'resend', subscription]
    const unknown = encodeId('whd', randomUUID())
    assert.strictEqual(await hub.refusal([...resend, unknown]), 'delivery_not_found')
    // In place of the fan-out, which takes the request and replaces it by the attempt.
    const fanOut = async () => {
      const request = await eventually(async () => {
        const [row] = await hub.sql<{ id: string; batch_id: string }[]>`
          UPDATE webhooks.resends SET claimed_at = now() RETURNING id, batch_id`
        return row
      })
      await hub.sql.begin(async (q) => {
        await q`INSERT INTO webhooks.attempts
          (id, endpoint_id, batch_id, attempt, status, response_code, duration_ms, resend_of, created_at)
          VALUES (${request.id}, ${made.subscriptionId}, ${request.batch_id}, 1, 'succeeded', 204, 7, ${made.attempt}, now())`
        await q`DELETE FROM webhooks.resends WHERE id = ${request.id}`
      })
      return request
    }
    const [sent, request] = await Promise.all([
      hub.succeed<object>([...resend, encodeId('whd', made.attempt)]),
      fanOut(),
    ])
    assert.strictEqual(request.batch_id, made.batch)
    assert.deepInclude(sent, {
      id: encodeId('whd', request.id),
      status: 'succeeded',
      response_code: 204,
      resend: true,
      event_ids: [made.event],
    })
  })
})

describe('hubctl usage', () => {
  const insertDay = (day: string, template: string, delivered: number, price: string) =>
    hub.sql`INSERT INTO read.daily_stats ${hub.sql({
      day,
      account: uuid,
      mode: 'live',
      class: 'service',
      template,
      currency: 'RUB',
      accepted: delivered,
      sent: delivered,
      delivered,
      undelivered: 0,
      rejected: 0,
      expired: 0,
      parts: delivered,
      price,
    })}`

  it('prints the sums of a month as CSV that a spreadsheet reads as data', async () => {
    await insertDay('2026-09-30', 'order', 100, '100.00')
    await insertDay('2026-10-01', 'order', 3, '7.50')
    await insertDay('2026-10-31', 'order', 1, '9000000000000000.10')
    await insertDay('2026-10-31', '=1, "x"', 1, '2.00')
    await insertDay('2026-11-01', 'order', 100, '100.00')
    const ran = await hub.run(['usage', '--month', '2026-10'])
    assert.strictEqual(ran.code, 0, ran.err)
    const before = `2026-10,${account},Online shop,live,service`
    assert.deepStrictEqual(ran.out.split('\n'), [
      'month,account,name,mode,class,template,accepted,sent,delivered,undelivered,rejected,expired,parts,price,currency',
      `${before},"'=1, ""x""",1,1,1,0,0,0,1,2.00,RUB`,
      `${before},order,4,4,4,0,0,0,4,9000000000000007.60,RUB`,
    ])
    const none = await hub.run(['usage', '--month', '2026-10', '--mode', 'test'])
    assert.lengthOf(none.out.split('\n'), 1)
    assert.strictEqual(await hub.refusal(['usage', '--month', '2026-13']), 'usage')
  })
})
