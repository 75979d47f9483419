/** The search and the list of messages over PostgreSQL. */
import { randomUUID } from 'node:crypto'
import { encodeId, eventIdOf, type MessageAccepted, newId } from '@hub/domain'
import { messageAccepted } from '@hub/domain/testing'
import { acceptedRecord } from '@hub/kafka'
import { uuidOf } from '@hub/store'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import type { Actor } from '../actor.ts'
import { readNewest } from '../tables/audit.ts'
import { ANY_MESSAGE, makeTestHub, NUMBER, type TestHub } from '../testing/test-hub.ts'
import { find } from './find.ts'
import { get } from './get.ts'
import { list } from './list.ts'

const VIEWER: Actor = { id: 'https://id.example|vera', name: 'vera', roles: ['viewer'], via: 'api' }

let hub: TestHub
let shop: { readonly uuid: string; readonly id: string }
let bank: typeof shop
let first: string
let second: string
let foreign: string
let failed: string
const batch = randomUUID()

/** When the messages of the tests were made: the time that a test takes does not move it. */
const now = Date.now()

beforeAll(async () => {
  hub = await makeTestHub()
  shop = await hub.account('Online shop')
  bank = await hub.account('Bank')
  first = await hub.message({ account: shop.uuid, at: now - 60_000, clientRef: 'order-7' })
  second = await hub.message({ account: shop.uuid, at: now - 30_000, batch, class: 'otp', template: 'code' })
  foreign = await hub.message({ account: bank.uuid, at: now - 10_000, mode: 'test', clientRef: '9001234567' })
  failed = await hub.message({
    account: bank.uuid,
    at: now - 5000,
    number: '+79007654321',
    status: 'rejected',
    reason: 'spam_filter_content',
  })
  await hub.sql`INSERT INTO read.operator_ids VALUES ('smpp', '4711', ${uuidOf('msg', first)}, ${new Date(now)})`
})
afterAll(() => hub.remove())

const search = (q: string, account: string | null = null) => hub.run(find, { q, account }, VIEWER)
const idsIn = async (q: string, account: string | null = null) =>
  (await search(q, account)).data.map(({ id }) => id)

describe('the search', () => {
  it('finds the messages to a number, newest first, and one whose client_ref has its digits', async () => {
    assert.deepStrictEqual(await idsIn(NUMBER), [foreign, second, first])
    assert.deepStrictEqual(await idsIn('8 (900) 123-45-67'), [foreign, second, first])
    assert.deepStrictEqual(await idsIn(hub.hashOf(NUMBER)), [foreign, second, first])
    assert.deepStrictEqual(await idsIn(NUMBER, shop.id), [second, first])
    assert.deepStrictEqual(await idsIn('9001234567', bank.id), [foreign])
    assert.deepStrictEqual(await idsIn('9001234567'), [foreign, second, first])
    const unknown = await search('+79990000000')
    assert.deepStrictEqual([unknown.kind, unknown.data], ['number', []])
    assert.include(unknown.explanation, 'erased')
  })

  it('shows and records no phone number', async () => {
    const answer = JSON.stringify(await search(NUMBER))
    assert.notInclude(answer, NUMBER.slice(1))
    const audit = await readNewest(hub.sql, {
      actor: null,
      command: 'messages search',
      before: null,
      limit: 1,
    })
    assert.deepInclude(audit[0], { actor: 'vera', role: 'viewer', outcome: 'done', detail: { found: 3 } })
    assert.notInclude(
      JSON.stringify(await readNewest(hub.sql, { actor: null, command: null, before: null, limit: 100 })),
      NUMBER.slice(1),
    )
  })

  it('finds a message by its id, by client_ref in all accounts, and by the id at an operator', async () => {
    assert.deepStrictEqual(await idsIn(first), [first])
    assert.deepStrictEqual(await idsIn(first.toUpperCase()), [first])
    assert.deepStrictEqual(await idsIn('order-7'), [first])
    assert.deepStrictEqual(await idsIn('order-7', bank.id), [])
    assert.deepStrictEqual(await idsIn('4711'), [first])
  })

  it('finds events with their message, webhook batches, deliveries and other resources', async () => {
    const event = eventIdOf(first, 'message.delivered')
    const [subscriptionId, attempt, webhookBatch, template, sender] = Array.from({ length: 5 }, () =>
      randomUUID(),
    )
    const at = new Date()
    const body = JSON.stringify({ id: event, data: { object: { id: first, object: 'message' } } })
    await hub.sql`INSERT INTO webhooks.endpoints (id, account, mode, url, secret)
      VALUES (${subscriptionId!}, ${shop.uuid}, 'live', 'https://shop.example/hook', '')`
    await hub.sql`INSERT INTO read.events (account, mode, sequence, id, type, created_at, body)
      VALUES (${shop.uuid}, 'live', 1, ${uuidOf('evt', event)}, 'message.delivered', ${at}, ${body})`
    await hub.sql`INSERT INTO webhooks.attempts (id, endpoint_id, batch_id, attempt, status, duration_ms, created_at)
      VALUES (${attempt!}, ${subscriptionId!}, ${webhookBatch!}, 1, 'succeeded', 12, ${at})`
    await hub.sql`INSERT INTO webhooks.batch_events (endpoint_id, event_id, batch_id, position)
      VALUES (${subscriptionId!}, ${uuidOf('evt', event)}, ${webhookBatch!}, 0)`
    await hub.sql`INSERT INTO read.batches (id, account, mode) VALUES (${batch}, ${shop.uuid}, 'live')`
    await hub.sql`INSERT INTO command.senders (id, account, mode, name, status)
      VALUES (${sender!}, ${shop.uuid}, 'live', 'SHOP', 'registered')`
    await hub.sql`INSERT INTO command.templates (id, account, mode, name, class, sender, body, status)
      VALUES (${template!}, ${shop.uuid}, 'live', 'order_ready', 'service', 'SHOP', 'Ready', 'approved')`
    const apiId = encodeId('we', subscriptionId!)
    const [ofEvent] = (await search(event)).data
    assert.deepInclude(ofEvent, { type: 'event', id: event, account: shop.id })
    assert.strictEqual(ofEvent?.message?.id, first)
    for (const [id, expected] of [
      [encodeId('evb', webhookBatch!), { type: 'webhook_batch', webhook_endpoint: apiId }],
      [encodeId('whd', attempt!), { type: 'webhook_delivery', webhook_endpoint: apiId }],
      [apiId, { type: 'webhook_endpoint', account: shop.id }],
      [encodeId('bat', batch), { type: 'batch', account: shop.id }],
      [encodeId('tpl', template!), { type: 'template', account: shop.id }],
      [encodeId('snd', sender!), { type: 'sender', account: shop.id }],
      [shop.id, { type: 'account', account: shop.id }],
    ] as const) {
      const { data, explanation } = await search(id)
      assert.lengthOf(data, 1, id)
      assert.deepInclude(data[0], { ...expected, id })
      assert.isNull(explanation)
    }
  })

  it('explains where to look for a request without messages, and what ids look like', async () => {
    const at = Date.now() - 1000
    const request = newId('req', at, Buffer.alloc(10))
    const found = await search(request)
    assert.deepInclude(found.data[0], { type: 'request', at: new Date(at).toISOString() })
    assert.include(found.explanation, 'hub.request_id')
    assert.include((await search(first.slice(0, -1))).explanation, 'msg_ and 26 characters')
    assert.include((await search(encodeId('msg', randomUUID()))).explanation, 'nothing with this id')
    assert.include((await search('nothing-like-this')).explanation, 'client_ref')
  })
})

const listed = async (filter: Partial<Parameters<typeof list.run>[0]>) =>
  (await hub.run(list, { ...ANY_MESSAGE, ...filter }, VIEWER)).data.map(({ id }) => id)

describe('a message', () => {
  it('is shown with its ids at the operator, and the reader is in the audit trail', async () => {
    const shown = await hub.run(get, { id: first }, VIEWER)
    assert.deepInclude(shown, { id: first, status: 'delivered', operator: 'smpp', operator_ids: ['4711'] })
    const [row] = await readNewest(hub.sql, {
      actor: 'vera',
      command: 'messages show',
      before: null,
      limit: 1,
    })
    assert.deepInclude(row, { arguments: { message: first }, outcome: 'done' })
    const unknown = encodeId('msg', randomUUID())
    assert.strictEqual(await hub.refusal(get, { id: unknown }), 'message_not_found')
  })
})

describe('the list of messages', () => {
  it('filters by account, mode, class, template, status, reason, batch and time', async () => {
    assert.deepStrictEqual(await listed({}), [failed, foreign, second, first])
    assert.deepStrictEqual(await listed({ account: shop.id }), [second, first])
    assert.deepStrictEqual(await listed({ mode: 'test' }), [foreign])
    assert.deepStrictEqual(await listed({ account: bank.id, mode: 'test' }), [foreign])
    assert.deepStrictEqual(await listed({ class: 'otp' }), [second])
    assert.deepStrictEqual(await listed({ template: 'code' }), [second])
    assert.deepStrictEqual(await listed({ account: shop.id, template: 'code' }), [second])
    assert.deepStrictEqual(await listed({ status: 'rejected' }), [failed])
    assert.deepStrictEqual(await listed({ status: 'expired' }), [])
    assert.deepStrictEqual(await listed({ reason: 'spam_filter_content' }), [failed])
    assert.deepStrictEqual(await listed({ reason: 'spam_filter_content', account: shop.id }), [])
    assert.deepStrictEqual(await listed({ batch: encodeId('bat', batch) }), [second])
    const middle = new Date(now - 20_000).toISOString()
    assert.deepStrictEqual(await listed({ created_after: middle }), [failed, foreign])
    assert.deepStrictEqual(await listed({ created_before: middle }), [second, first])
    assert.deepStrictEqual(await listed({ created_before: middle, account: shop.id }), [second, first])
  })

  it('reads page after page to the end', async () => {
    for (const [filter, expected] of [
      [{}, [failed, foreign, second, first]],
      [{ account: shop.id }, [second, first]],
    ] as const) {
      const seen: Array<string> = []
      let cursor: string | null = null
      do {
        const page: Awaited<ReturnType<typeof pageOf>> = await pageOf({
          ...ANY_MESSAGE,
          ...filter,
          limit: 1,
          cursor,
        })
        seen.push(...page.data.map(({ id }) => id))
        cursor = page.next_cursor
        assert.strictEqual(page.searched_until === null, cursor === null)
      } while (cursor !== null)
      assert.deepStrictEqual(seen, [...expected])
    }
    assert.strictEqual(await hub.refusal(list, { ...ANY_MESSAGE, cursor: 'nonsense' }), 'cursor_invalid')
  })
})

const pageOf = (input: Parameters<typeof list.run>[0]) => hub.run(list, input, VIEWER)

// Last: the tests of lists know all messages.
describe('the search by a request', () => {
  it('explains an id whose time is in the future, or before all records', async () => {
    const future = await search(`req_${'7'.padEnd(26, 'z')}`)
    assert.deepStrictEqual([future.kind, future.data], ['id', []])
    assert.include(future.explanation, 'in the future')
    const past = await search(`req_${'0'.repeat(26)}`)
    assert.deepInclude(past.data[0], { type: 'request', at: '1970-01-01T00:00:00.000Z' })
    assert.include(past.explanation, 'No message has this request id')
  })

  it('finds the batch and the messages of a request, also before the projectors have recorded them', async () => {
    const at = Date.now()
    const request = newId('req', at, Buffer.alloc(10, 1))
    const projected = await hub.message({ account: shop.uuid, at, batch })
    const [waiting, ofOther] = [0, 1].map((n) => newId('msg', at + 1, Buffer.alloc(10, n)))
    const accepted = (messageId: string, over: Partial<MessageAccepted> = {}) =>
      acceptedRecord(
        hub.topics,
        messageAccepted({
          messageId,
          at,
          account: shop.id,
          recipient: hub.hashOf(NUMBER),
          batch: encodeId('bat', batch),
          request,
          ...over,
        }),
      )
    await hub.append([
      accepted(projected),
      // An append whose answer was lost is repeated.
      accepted(projected),
      accepted(waiting!, { class: 'otp', recipient: hub.hashOf('+79007654321') }),
      // The client_ref of another send is no request id.
      accepted(ofOther!, { request: newId('req', at, Buffer.alloc(10, 2)), clientRef: request }),
    ])
    const found = await search(request)
    assert.isNull(found.explanation)
    assert.deepStrictEqual(
      found.data.map(({ account, id, message, type }) => [type, id, account, message?.id ?? null]),
      [
        ['batch', encodeId('bat', batch), shop.id, null],
        ['message', projected, shop.id, projected],
        ['message', waiting, shop.id, null],
      ],
    )
    assert.strictEqual((await search(request, bank.id)).data[0]?.type, 'request')
  })
})
