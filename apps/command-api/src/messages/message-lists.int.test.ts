/**
 * `GET /v1/messages` without a batch, with messages that the projector has applied and messages that
 * only the ledger contains. Source: MSG-36 to MSG-41.
 */
import { decodeId } from '@hub/domain'
import type { ReadMessages } from '@hub/store'
import { assert, beforeAll, describe, it } from 'vitest'
import {
  type Account,
  type Api,
  call,
  callUnlessLate,
  type Deployment,
  startBeforeTests,
} from '../testing/harness.ts'

let deployment: Deployment
let api: Api
let account: Account
startBeforeTests((started) => ({ deployment, api, account } = started))

let numbers = 3_000_000
const send = async (messageClass: 'otp' | 'service', more: object = {}, key = account.keys.live) => {
  const answer = await callUnlessLate(api.url, '/v1/messages', {
    key,
    body: {
      to: `+7903${++numbers}`,
      class: messageClass,
      ...(messageClass === 'otp'
        ? { template: 'otp_code', variables: { code: '1' } }
        : { template: 'order_ready', variables: { order: '1' } }),
      ...more,
    },
  })
  assert.strictEqual(answer.status, 202, JSON.stringify(answer.body))
  return answer.body as { readonly id: string; readonly created_at: string }
}

/** Projects a message with a status, as the projector would. */
const project = (id: string, status: string) =>
  deployment.sql(
    (q) => q`
      INSERT INTO read.messages (id, account, mode, class, recipient, template, sender, client_ref, batch_id, parts, price, currency,
                                 variables, created_at, updated_at, status, rank, final, attempts, handed_over)
      SELECT message_id, account, mode, class, recipient, template, sender, client_ref, batch_id, parts, price, currency,
             variables, created_at, created_at, ${status}, 3, true, 1, true
        FROM command.acceptances WHERE message_id = ${decodeId('msg', id)}`,
  )

interface List {
  readonly data: ReadonlyArray<{ readonly id: string; readonly status: string }>
  readonly has_more: boolean
  readonly next_cursor: string | null
}
const list = async (query = '', key = account.keys.live): Promise<List> => {
  const answer = await call(api.url, `/v1/messages${query}`, { key })
  assert.strictEqual(answer.status, 200, JSON.stringify(answer.body))
  return answer.body as List
}
const ids = ({ data }: List) => data.map(({ id }) => id)

/** All messages of a list, read page by page. */
const paged = async (query: string): Promise<ReadonlyArray<string>> => {
  const found: Array<string> = []
  for (let after = ''; ;) {
    const page = await list(`?limit=2${query}${after}`)
    found.push(...ids(page))
    if (!page.has_more) return found
    after = `&starting_after=${page.next_cursor}`
  }
}

describe('the messages of an account', () => {
  /** Oldest first. The projector has applied the first three. */
  let delivered: string
  let expired: string
  let code: string
  let openCode: string
  let open: string
  let middle: string
  beforeAll(async () => {
    delivered = (await send('service', { client_ref: 'order-1' })).id
    expired = (await send('service')).id
    const third = await send('otp')
    code = third.id
    middle = third.created_at
    // PostgreSQL's clock gives the times: the next message is at least a millisecond newer.
    while (Date.now() <= Date.parse(middle)) await new Promise(setImmediate)
    openCode = (await send('otp', { client_ref: 'order 2' })).id
    open = (await send('service')).id
    await project(delivered, 'delivered')
    await project(expired, 'expired')
    await project(code, 'delivered')
    await send('service', {}, (await deployment.addAccount()).keys.live)
  })

  // Rules: MSG-8, MSG-36, LIST-9
  it('are listed newest first, as soon as they are accepted', async () => {
    const all = await list()
    assert.deepStrictEqual(ids(all), [open, openCode, code, expired, delivered])
    assert.isFalse(all.has_more)
    const sent = await send('service', {}, account.keys.test)
    assert.deepStrictEqual(ids(await list('', account.keys.test)), [sent.id])
    assert.deepStrictEqual(ids(await list('?class=service', account.keys.test)), [sent.id])
  })

  /** For each filter a query and its messages, some of which the projector has not applied. */
  const FILTERED: Readonly<
    Record<keyof ReadMessages.ListFilter, () => readonly [query: string, found: ReadonlyArray<string>]>
  > = {
    status: () => ['status=accepted', [open, openCode]],
    class: () => ['class=otp', [openCode, code]],
    template: () => ['template=order_ready', [open, expired, delivered]],
    createdAfter: () => [`created_after=${middle}`, [open, openCode]],
    createdBefore: () => [`created_before=${middle}`, [expired, delivered]],
    before: () => [`starting_after=${open}`, [openCode, code, expired, delivered]],
  }
  // Rules: MSG-37
  it.each(Object.entries(FILTERED))('are filtered by %s, projected or not', async (_, filtered) => {
    const [query, found] = filtered()
    assert.deepStrictEqual(ids(await list(`?${query}`)), found)
  })

  // Rules: MSG-37
  it('are filtered by any two of them together', async () => {
    const filters = Object.values(FILTERED).map((filtered) => filtered())
    for (const [i, [query, found]] of filters.entries()) {
      for (const [other, others] of filters.slice(i + 1)) {
        assert.deepStrictEqual(
          ids(await list(`?${query}&${other}`)),
          found.filter((id) => others.includes(id)),
          `${query}&${other}`,
        )
      }
    }
  })

  // Rules: MSG-37
  it('are found by status, class, template, and time, and by all of them together', async () => {
    assert.deepStrictEqual(ids(await list('?status=delivered')), [code, delivered])
    assert.deepStrictEqual(ids(await list('?status=expired')), [expired])
    assert.deepStrictEqual(ids(await list('?status=sent')), [])
    assert.deepStrictEqual(ids(await list('?template=unknown')), [])
    assert.deepStrictEqual(ids(await list(`?status=delivered&class=service&created_before=${middle}`)), [
      delivered,
    ])
  })

  // Rules: LIST-4, LIST-10
  it('are read page by page, each once, across the read model and the ledger', async () => {
    assert.deepStrictEqual(await paged(''), [open, openCode, code, expired, delivered])
    assert.deepStrictEqual(await paged('&class=service'), [open, expired, delivered])
    assert.deepStrictEqual(await paged('&status=accepted'), [open, openCode])
    const last = await list(`?starting_after=${delivered}`)
    assert.deepStrictEqual(last.data, [])
    assert.strictEqual(last.next_cursor, delivered)
  })

  // Rules: MSG-38
  it('are found by client_ref, also before the projector has applied them', async () => {
    assert.deepStrictEqual(ids(await list('?client_ref=order-1')), [delivered])
    assert.deepStrictEqual(ids(await list('?client_ref=order%202')), [openCode])
    assert.deepStrictEqual(ids(await list('?client_ref=unknown')), [])
    assert.deepStrictEqual(ids(await list('?client_ref=order-1', account.keys.test)), [])
    assert.deepStrictEqual(ids(await list(`?client_ref=order-1&starting_after=${delivered}`)), [])
  })

  // Rules: MSG-41
  it('are not found by number', async () => {
    assert.lengthOf((await list(`?to=%2B7903${numbers}`)).data, 5)
  })

  // Rules: MSG-40, LIST-6
  it('answer a bad filter with its name, and a cursor without a message with not_found', async () => {
    for (const [query, param] of [
      ['status=open', 'status'],
      ['batch=bat_1&status=sent', 'status'],
      ['client_ref=a&class=otp', 'class'],
      ['limit=101', 'limit'],
    ] as const) {
      const answer = await call(api.url, `/v1/messages?${query}`, { key: account.keys.live })
      assert.strictEqual(answer.status, 422)
      assert.deepInclude((answer.body as { error: object }).error, { code: 'invalid_parameter', param })
    }
    const foreign = await call(api.url, `/v1/messages?starting_after=${open}`, { key: account.keys.test })
    assert.strictEqual(foreign.status, 404)
    const unknown = await call(api.url, '/v1/messages?starting_after=msg_1', { key: account.keys.live })
    assert.strictEqual(unknown.status, 404)
  })
})
