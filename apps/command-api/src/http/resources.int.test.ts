/**
 * Templates, senders, estimates, stats and spending over HTTP. Source: docs/contract.
 */
import { randomUUID } from 'node:crypto'
import { decodeId, encodeId, type Mode, spendThresholdEventId } from '@hub/domain'
import { assert, beforeAll, describe, it } from 'vitest'
import {
  type Account,
  type Api,
  call,
  type Deployment,
  startBeforeTests,
  type TestResponse,
} from '../testing/harness.ts'

let deployment: Deployment
let api: Api
let account: Account

startBeforeTests((started) => ({ deployment, api, account } = started))

interface Shown {
  readonly id: string
  readonly [name: string]: unknown
}
interface List {
  readonly data: ReadonlyArray<Shown>
  readonly has_more: boolean
  readonly next_cursor: string | null
}

const get = (path: string, key = account.keys.test) => call(api.url, path, { key })
const post = (path: string, body: unknown, key = account.keys.test) => call(api.url, path, { key, body })
const shown = (answer: TestResponse, status: number): Shown => {
  assert.strictEqual(answer.status, status, JSON.stringify(answer.body))
  return answer.body as Shown
}
const refusal = ({ body, status }: TestResponse) => {
  const { error } = body as { readonly error: { readonly code: string; readonly param?: string } }
  return [status, error.code, error.param]
}

const template = (over: object = {}) => ({
  name: `t.${randomUUID().slice(0, 8)}`,
  class: 'service',
  sender: 'HUB',
  body: 'Заказ {{ order }} готов',
  ...over,
})

describe('templates', () => {
  // Rules: TPL-1, TPL-8, TPL-11
  it('are approved at once in test mode and can be used', async () => {
    const made = shown(await post('/v1/templates', template({ name: 'fresh', language: 'ru' })), 201)
    assert.match(made.id, /^tpl_[0-9a-z]{26}$/u)
    assert.deepInclude(made, {
      object: 'template',
      name: 'fresh',
      class: 'service',
      sender: 'HUB',
      body: 'Заказ {{ order }} готов',
      language: 'ru',
      status: 'approved',
      reason: null,
      mode: 'test',
    })
    assert.deepStrictEqual(shown(await get(`/v1/templates/${made.id}`), 200), made)
    const sent = await post('/v1/messages', {
      to: '+79001234567',
      class: 'service',
      template: 'fresh',
      variables: { order: 7 },
    })
    assert.strictEqual(sent.status, 202, JSON.stringify(sent.body))
  })

  // Rules: TPL-8, TPL-16
  it('wait for moderation in live mode', async () => {
    const key = account.keys.live
    const made = shown(await post('/v1/templates', template({ name: 'fresh' }), key), 201)
    assert.deepInclude(made, { status: 'pending_moderation', reason: null, language: null, mode: 'live' })
    const send = () =>
      post(
        '/v1/messages',
        { to: '+79001234567', class: 'service', template: 'fresh', variables: { order: '1' } },
        key,
      )
    assert.strictEqual(refusal(await send())[1], 'template_not_approved')
    await deployment.sql(
      (q) => q`UPDATE command.templates SET status = 'declined', reason = 'advertising'
                WHERE account = ${account.uuid} AND mode = 'live' AND name = 'fresh'`,
    )
    assert.strictEqual(refusal(await send())[1], 'template_declined')
    assert.deepInclude(shown(await get(`/v1/templates/${made.id}`, key), 200), {
      status: 'declined',
      reason: 'advertising',
    })
    await deployment.sql(
      (q) => q`UPDATE command.templates SET status = 'approved', reason = NULL
                WHERE account = ${account.uuid} AND mode = 'live' AND name = 'fresh'`,
    )
    assert.strictEqual((await send()).status, 202)
  })

  // Rules: TPL-6
  it('have a unique name in an account and mode, also when created concurrently', async () => {
    const { keys } = await deployment.addAccount()
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => post('/v1/templates', template({ name: 'once' }), keys.test)),
    )
    assert.strictEqual(answers.filter(({ status }) => status === 201).length, 1)
    for (const answer of answers.filter(({ status }) => status !== 201)) {
      assert.deepStrictEqual(refusal(answer), [422, 'duplicate_rejected', 'name'])
    }
    assert.strictEqual((await post('/v1/templates', template({ name: 'once' }), keys.live)).status, 201)
    // A taken name is reported before an unknown sender.
    assert.deepStrictEqual(
      refusal(await post('/v1/templates', template({ name: 'once', sender: 'NOBODY' }), keys.test)),
      [422, 'duplicate_rejected', 'name'],
    )
  })

  // Rules: TPL-7
  it('must name a sender of the account, registered or not', async () => {
    for (const sender of ['NOBODY', 'hub', '', 'x'.repeat(5000)]) {
      assert.deepStrictEqual(
        refusal(await post('/v1/templates', template({ sender }))),
        [422, 'sender_not_registered', 'sender'],
        sender.slice(0, 10),
      )
    }
    const made = shown(
      await post('/v1/templates', template({ name: 'of.new', sender: 'NEW' }), account.keys.live),
      201,
    )
    assert.strictEqual(made['sender'], 'NEW')
  })

  // Rules: TPL-2, TPL-3, TPL-4
  it.for<readonly [string, object, string, string]>([
    ['a bad name', { name: 'Нет' }, 'invalid_parameter', 'name'],
    ['a long name', { name: 'x'.repeat(65) }, 'invalid_parameter', 'name'],
    ['no class', { class: undefined }, 'invalid_parameter', 'class'],
    ['a sender that is no string', { sender: 1 }, 'invalid_parameter', 'sender'],
    ['an empty body', { body: '' }, 'invalid_parameter', 'body'],
    ['a long body', { body: 'x'.repeat(2001) }, 'invalid_parameter', 'body'],
    ['a tab', { body: 'a\tb' }, 'invalid_parameter', 'body'],
    ['an open placeholder', { body: '{{name' }, 'template_invalid', 'body'],
    ['three braces', { body: '{{{name}}}' }, 'template_invalid', 'body'],
    ['a placeholder over two lines', { body: '{{a\n}}' }, 'template_invalid', 'body'],
    ['a placeholder with a bad name', { body: '{{1a}}' }, 'template_invalid', 'body'],
    ['no language', { language: 'x y' }, 'invalid_parameter', 'language'],
  ])('are refused with %s', async ([, over, code, param]) => {
    assert.deepStrictEqual(refusal(await post('/v1/templates', template(over))), [422, code, param])
  })

  // Rules: TPL-2
  it('may contain a line feed, braces and 2,000 characters', async () => {
    for (const body of ['one\ntwo', '{a} }} {b', '😀'.repeat(2000)]) {
      assert.strictEqual((await post('/v1/templates', template({ body }))).status, 201)
    }
  })

  // Rules: TPL-14, HTTP-27
  it('have a preview equal to the sent text', async () => {
    const { id } = shown(await post('/v1/templates', template({ body: 'Заказ {{order}}' })), 201)
    const render = (body: unknown, of = id, key?: string) => post(`/v1/templates/${of}/render`, body, key)
    assert.deepStrictEqual(shown(await render({ variables: { order: 17.5 } }), 200) as object, {
      text: 'Заказ 17.5',
      encoding: 'ucs2',
      parts: 1,
      characters: 10,
    })
    const latin = shown(await post('/v1/templates', template({ body: '{{a}}€' })), 201)
    assert.deepStrictEqual(
      shown(await render({ variables: { a: 'x'.repeat(159) } }, latin.id), 200)['parts'],
      2,
    )
    assert.deepStrictEqual(refusal(await render({})), [422, 'template_variable_missing', 'variables.order'])
    assert.deepStrictEqual(refusal(await render({ variables: { order: '1', x: '2' } })), [
      422,
      'template_variable_unknown',
      'variables.x',
    ])
    assert.deepStrictEqual(refusal(await render({ variables: { order: true } })), [
      422,
      'template_variable_invalid',
      'variables.order',
    ])
    assert.deepStrictEqual(refusal(await render({ variables: [] })), [422, 'invalid_parameter', 'variables'])
    const long = shown(await post('/v1/templates', template({ body: '{{a}}{{a}}' })), 201)
    assert.deepStrictEqual(refusal(await render({ variables: { a: 'я'.repeat(500) } }, long.id)), [
      422,
      'template_text_too_long',
      'variables',
    ])
    // An unknown template is reported before an invalid body.
    for (const [of, key] of [
      [id, account.keys.live],
      [encodeId('tpl', randomUUID()), account.keys.test],
      ['x', account.keys.test],
    ] as const) {
      assert.deepStrictEqual(refusal(await render('not json', of, key)), [404, 'not_found', undefined])
    }
  })
})

describe('senders', () => {
  // Rules: SND-1, SND-3, SND-4, SND-5
  it('are registered at once in test mode, and pending in live mode', async () => {
    const registration = { legal_name: 'ООО «Магазин»', __proto__x: [1, { deep: null }], n: 1e21 }
    const made = shown(await post('/v1/senders', { name: 'Shop 1', registration }), 201)
    assert.match(made.id, /^snd_[0-9a-z]{26}$/u)
    assert.deepInclude(made, {
      object: 'sender',
      name: 'Shop 1',
      registration,
      status: 'registered',
      reason: null,
      mode: 'test',
    })
    assert.deepStrictEqual(shown(await get(`/v1/senders/${made.id}`), 200), made)
    const live = shown(await post('/v1/senders', { name: 'Shop 1' }, account.keys.live), 201)
    assert.deepInclude(live, { status: 'pending', registration: null, mode: 'live' })
    assert.deepStrictEqual(refusal(await post('/v1/senders', { name: 'Shop 1' })), [
      422,
      'duplicate_rejected',
      'name',
    ])
    assert.deepStrictEqual(refusal(await get(`/v1/senders/${made.id}`, account.keys.live)), [
      404,
      'not_found',
      undefined,
    ])
  })

  // Rules: SND-2, SND-3
  it.for<readonly [string, unknown, string]>([
    ['no name', {}, 'name'],
    ['an empty name', { name: '' }, 'name'],
    ['a long name', { name: 'ABCDEFGHIJKL' }, 'name'],
    ['no letter', { name: '123' }, 'name'],
    ['a letter that is not of GSM', { name: 'Магазин' }, 'name'],
    ['a sign', { name: 'A+B' }, 'name'],
    ['a registration that is no object', { name: 'OK', registration: 'x' }, 'registration'],
    ['a large registration', { name: 'OK', registration: { x: 'x'.repeat(8192) } }, 'registration'],
    ['a control character', { name: 'OK', registration: { x: 'a\u0007' } }, 'registration'],
  ])('are refused with %s', async ([, body, param]) => {
    assert.deepStrictEqual(refusal(await post('/v1/senders', body)), [422, 'invalid_parameter', param])
  })
})

describe('lists of templates and senders', () => {
  // Rules: LIST-4, LIST-5, LIST-6, LIST-9, LIST-10, TPL-11, SND-7
  it('are newest first, in pages, for their owner only', async () => {
    const { keys, uuid } = await deployment.addAccount()
    for (const [path, make] of [
      ['/v1/templates', (i: number) => template({ name: `page.${i}` })],
      ['/v1/senders', (i: number) => ({ name: `Page ${i}` })],
    ] as const) {
      const ids: Array<string> = []
      for (let i = 0; i < 5; i++) ids.unshift(shown(await post(path, make(i), keys.test), 201).id)
      const page = async (query: string) => shown(await get(path + query, keys.test), 200) as unknown as List
      const first = await page('?limit=2')
      assert.deepStrictEqual(
        [first.data.map(({ id }) => id), first.has_more, first.next_cursor],
        [ids.slice(0, 2), true, ids[1]],
      )
      const second = await page(`?limit=2&starting_after=${first.next_cursor}`)
      assert.deepStrictEqual(
        second.data.map(({ id }) => id),
        ids.slice(2, 4),
      )
      // The templates and senders of the fixture follow.
      const all = await page('?limit=100')
      assert.deepStrictEqual(
        all.data.slice(0, 5).map(({ id }) => id),
        ids,
      )
      const last = all.data.at(-1)?.id ?? ''
      const end = await page(`?starting_after=${last}`)
      assert.deepStrictEqual([end.data, end.has_more, end.next_cursor], [[], false, last])
      for (const [query, key, status] of [
        [`?starting_after=${ids[0]}`, keys.live, 404],
        [`?starting_after=${ids[0]}`, account.keys.test, 404],
        ['?starting_after=x', keys.test, 404],
        ['?limit=101', keys.test, 422],
        ['?limit=0', keys.test, 422],
      ] as const) {
        assert.strictEqual((await get(path + query, key)).status, status, path + query)
      }
    }
    // Rows with equal timestamps are ordered too.
    await deployment.sql((q) => q`UPDATE command.templates SET created_at = now() WHERE account = ${uuid}`)
    const seen: Array<string> = []
    for (let cursor = ''; ;) {
      const { body } = await get(`/v1/templates?limit=2${cursor}`, keys.test)
      const { data, has_more, next_cursor } = body as List
      seen.push(...data.map(({ id }) => id))
      if (!has_more) break
      cursor = `&starting_after=${next_cursor}`
    }
    assert.strictEqual(seen.length, 10)
    assert.strictEqual(new Set(seen).size, 10)
  })
})

describe('POST /v1/messages/estimate', () => {
  const send = (over: object = {}) => ({
    to: '+79001234567',
    class: 'service',
    template: 'order_ready',
    variables: { order: '17' },
    ...over,
  })
  const estimate = (body: unknown, key?: string) => post('/v1/messages/estimate', body, key)
  const two = { amount: '2.00', currency: 'RUB' }

  // Rules: EST-1, EST-5
  it('returns encoding, characters, parts and price in both modes', async () => {
    const expected = { object: 'estimate', encoding: 'ucs2', characters: 14, parts: 1, price: two }
    for (const mode of ['test', 'live'] as const satisfies ReadonlyArray<Mode>) {
      assert.deepStrictEqual(shown(await estimate(send(), account.keys[mode]), 200) as object, expected)
    }
    const long = shown(await estimate(send({ variables: { order: 'я'.repeat(100) } })), 200)
    assert.deepInclude(long, { parts: 2, price: { amount: '4.00', currency: 'RUB' } })
    const code = shown(
      await estimate(send({ class: 'otp', template: 'otp_code', variables: { code: '1234' } })),
      200,
    )
    assert.deepInclude(code, {
      encoding: 'gsm7',
      characters: 9,
      price: { amount: '2.50', currency: 'RUB' },
    })
  })
  // Rules: EST-3
  it('accepts nothing, and checks no limit, sender or recipient', async () => {
    const { keys, uuid } = await deployment.addAccount()
    for (let i = 0; i < 3; i++) await estimate(send({ to: '+79000000009' }), keys.test)
    assert.strictEqual((await estimate(send({ to: '+79000000013' }), keys.test)).status, 200)
    const unregistered = send({ template: 'unregistered', variables: {} })
    assert.strictEqual((await estimate(unregistered, keys.live)).status, 200)
    const rows = await deployment.sql<ReadonlyArray<unknown>>(
      (q) => q`SELECT 1 FROM command.acceptances WHERE account = ${uuid}`,
    )
    assert.lengthOf(rows, 0)
  })
  // Rules: EST-3, EST-4
  it('is refused for the same reasons as a send', async () => {
    for (const [body, code, param] of [
      [send({ send_at: null }), 'send_at_not_supported', 'send_at'],
      [send({ to: 'x' }), 'recipient_invalid', 'to'],
      [send({ template: 'nope' }), 'template_not_found', 'template'],
      [send({ class: 'otp' }), 'template_class_mismatch', 'class'],
      [send({ variables: {} }), 'template_variable_missing', 'variables.order'],
      [{ messages: [] }, 'invalid_parameter', 'messages'],
      [{ messages: [1] }, 'invalid_parameter', 'messages[0]'],
      ['not json', 'invalid_parameter', undefined],
    ] as const) {
      assert.deepStrictEqual(refusal(await estimate(body)), [422, code, param])
    }
    assert.strictEqual(
      refusal(await estimate(send({ template: 'waiting', variables: {} }), account.keys.live))[1],
      'template_not_approved',
    )
  })
  // Rules: EST-2, ERR-2
  it('accepts a list, and sums up its valid elements', async () => {
    const answer = await estimate({
      messages: [
        send(),
        send({ variables: {} }),
        send({ to: 'x' }),
        send({ variables: { order: 'я'.repeat(100) } }),
      ],
    })
    const body = shown(answer, 200) as unknown as {
      readonly data: ReadonlyArray<{
        readonly index: number
        readonly parts?: number
        readonly error?: Readonly<Record<string, unknown>>
      }>
      readonly totals: unknown
    }
    assert.deepStrictEqual(
      body.data.map(({ index }) => index),
      [0, 1, 2, 3],
    )
    assert.deepStrictEqual(
      body.data.map(({ parts }) => parts),
      [1, undefined, undefined, 2],
    )
    assert.deepInclude(body.data[1]?.error ?? {}, {
      code: 'template_variable_missing',
      param: 'messages[1].variables.order',
      request_id: answer.headers.get('request-id'),
      doc_url: 'http://hub.test/docs/errors#template_variable_missing',
    })
    assert.propertyVal(body.data[2]?.error ?? {}, 'param', 'messages[2].to')
    assert.deepStrictEqual(body.totals, { parts: 3, price: { amount: '6.00', currency: 'RUB' } })
  })
  // Rules: EST-4
  it('enforces batch_max', async () => {
    const { keys, uuid } = await deployment.addAccount()
    await deployment.sql(
      (q) => q`UPDATE command.account_settings SET batch_max = 3, price_service = 0.10
                WHERE account = ${uuid} AND mode = 'test'`,
    )
    const list = (count: number) => ({ messages: Array.from({ length: count }, () => send()) })
    assert.deepStrictEqual(refusal(await estimate(list(4), keys.test)), [422, 'batch_too_large', 'messages'])
    assert.deepInclude(shown(await estimate(list(3), keys.test), 200), {
      totals: { parts: 3, price: { amount: '0.30', currency: 'RUB' } },
    })
    assert.strictEqual((await estimate(list(1000), keys.live)).status, 200)
  })
})

describe('GET /v1/stats', () => {
  const none = {
    accepted: 0,
    sent: 0,
    delivered: 0,
    undelivered: 0,
    rejected: 0,
    expired: 0,
    parts: 0,
    price: { amount: '0.00', currency: 'RUB' },
  }
  let fresh: Account
  const stats = (query: string, key = fresh.keys.live) => get(`/v1/stats${query}`, key)

  beforeAll(async () => {
    fresh = await deployment.addAccount()
    for (const [day, messageClass, name, accepted, price] of [
      ['2026-02-01', 'otp', 'otp_code', 3, '7.50'],
      ['2026-02-01', 'service', 'order_ready', 2, '4.00'],
      ['2026-02-28', 'service', 'order_ready', 2_000_000_000, '8000000000.10'],
      ['2026-02-28', 'service', 'other', 2_000_000_000, '0.20'],
      ['2026-03-01', 'otp', 'otp_code', 1, '2.50'],
      // Rows older than three years are not shown.
      ['2020-01-01', 'otp', 'otp_code', 5, '2.50'],
    ] as const) {
      await deployment.sql(
        (
          q,
        ) => q`INSERT INTO read.daily_stats (day, account, mode, class, template, currency, accepted, sent, delivered,
                                               undelivered, rejected, expired, parts, price)
                 VALUES (${day}, ${fresh.uuid}, 'live', ${messageClass}, ${name}, 'RUB', ${accepted}, 2, 1, 0, 1, 0, ${accepted},
                         ${price})`,
      )
    }
  })

  // Rules: STAT-2, STAT-4
  it('sums up a period, including both days', async () => {
    assert.deepStrictEqual(shown(await stats('?from=2026-02-01&to=2026-02-01'), 200) as object, {
      object: 'stats',
      from: '2026-02-01',
      to: '2026-02-01',
      totals: {
        ...none,
        accepted: 5,
        sent: 4,
        delivered: 2,
        rejected: 2,
        parts: 5,
        price: { amount: '11.50', currency: 'RUB' },
      },
      data: [],
    })
    assert.deepNestedInclude(shown(await stats('?from=2026-02-28&to=2026-03-01'), 200), {
      'totals.accepted': 4_000_000_001,
      'totals.price': { amount: '8000000002.80', currency: 'RUB' },
    })
  })
  // Rules: STAT-5
  it('has a row for each day, class or template', async () => {
    const rows = async (groupBy: string) =>
      (
        shown(await stats(`?from=2026-02-01&to=2026-03-31&group_by=${groupBy}`), 200) as unknown as {
          readonly data: ReadonlyArray<Readonly<Record<string, unknown>>>
        }
      ).data.map((row) => [row[groupBy], row['accepted']])
    assert.deepStrictEqual(await rows('day'), [
      ['2026-02-01', 5],
      ['2026-02-28', 4_000_000_000],
      ['2026-03-01', 1],
    ])
    assert.deepStrictEqual(await rows('class'), [
      ['otp', 4],
      ['service', 4_000_000_002],
    ])
    assert.deepStrictEqual(await rows('template'), [
      ['order_ready', 2_000_000_002],
      ['other', 2_000_000_000],
      ['otp_code', 4],
    ])
  })
  // Rules: STAT-5, STAT-7
  it('has a row for each day and template, and the same rows as CSV', async () => {
    const path = '?from=2026-02-01&to=2026-02-01&group_by=day,template'
    const { data } = shown(await stats(path), 200) as unknown as { data: ReadonlyArray<Shown> }
    assert.deepStrictEqual(
      data.map((row) => [row['day'], row['template'], row['accepted']]),
      [
        ['2026-02-01', 'order_ready', 2],
        ['2026-02-01', 'otp_code', 3],
      ],
    )
    const csv = await call(api.url, `/v1/stats${path}`, {
      key: fresh.keys.live,
      headers: { accept: 'text/csv' },
    })
    assert.strictEqual(csv.headers.get('content-type'), 'text/csv; charset=utf-8')
    const lines = String(csv.body).split('\r\n')
    assert.strictEqual(
      lines[0],
      'day,template,accepted,sent,delivered,undelivered,rejected,expired,parts,price,currency',
    )
    assert.match(lines[1] ?? '', /^2026-02-01,order_ready,2,/u)
    assert.lengthOf(lines, 4)
  })
  // Rules: STAT-5, RET-4
  it('has a row for each hour and for each reason code, for any number of messages', async () => {
    const { keys, uuid } = await deployment.addAccount()
    const many = 2_000_000_000
    for (const [hour, reason, accepted, price] of [
      ['2026-02-01T09:00:00Z', '', many, 2],
      ['2026-02-01T10:00:00Z', '', many, 2],
      ['2026-02-01T10:00:00Z', 'recipient_blocked', 3, 1],
      ['2026-02-02T23:00:00Z', 'recipient_blocked', 4, 1],
      // A row that counts no message, as after a late report.
      ['2026-02-02T23:00:00Z', 'dlr_timeout_local', 0, 0],
      ['2026-02-03T00:00:00Z', '', 5, 2],
      // Rows older than three years are not shown.
      ['2020-01-01T00:00:00Z', '', 6, 2],
    ] as const) {
      await deployment.sql(
        (q) => q`
          INSERT INTO read.hourly_stats (hour, account, mode, reason_code, currency, accepted, sent, delivered,
                                         undelivered, rejected, expired, parts, price)
          VALUES (${hour}, ${uuid}, 'live', ${reason}, 'RUB', ${accepted}, 1, 0, 0, 0, 0, ${accepted}, ${price})`,
      )
    }
    const summary = async (period: string, groupBy: string) => {
      const answer = await stats(`?${period}&group_by=${groupBy}`, keys.live)
      const { data, totals } = shown(answer, 200) as unknown as {
        readonly data: ReadonlyArray<Shown>
        readonly totals: Shown
      }
      return { totals, rows: data.map((row) => [row[groupBy], row['accepted']]) }
    }
    const period = 'from=2026-02-01&to=2026-02-02'
    const totals = { accepted: 2 * many + 7, parts: 2 * many + 7, price: { amount: '6.00', currency: 'RUB' } }
    const byHour = await summary(period, 'hour')
    assert.deepInclude(byHour.totals, totals)
    assert.deepStrictEqual(byHour.rows, [
      ['2026-02-01T09:00:00.000Z', many],
      ['2026-02-01T10:00:00.000Z', many + 3],
      ['2026-02-02T23:00:00.000Z', 4],
    ])
    const byReason = await summary(period, 'reason_code')
    assert.deepInclude(byReason.totals, totals)
    assert.deepStrictEqual(byReason.rows, [
      [null, 2 * many],
      ['recipient_blocked', 7],
    ])
    const old = await summary('from=2020-01-01&to=2020-01-31', 'hour')
    assert.deepStrictEqual([old.totals['accepted'], old.rows], [0, []])
  })
  // Rules: STAT-5, STAT-8, RET-4
  it('has a row for each number range, and one for messages without a range', async () => {
    const { keys, uuid } = await deployment.addAccount()
    await deployment.sql(async (q) => {
      for (const [hour, reason, accepted, price] of [
        ['2026-02-01T09:00:00Z', '', 10, 20],
        ['2026-02-01T10:00:00Z', 'recipient_blocked', 4, 8],
        ['2026-02-02T23:00:00Z', '', 3, 6],
        ['2026-02-03T00:00:00Z', '', 5, 10],
        // Rows older than three years are not shown.
        ['2020-01-01T00:00:00Z', '', 6, 12],
      ] as const) {
        await q`
          INSERT INTO read.hourly_stats (hour, account, mode, reason_code, currency, accepted, sent, delivered,
                                         undelivered, rejected, expired, parts, price)
          VALUES (${hour}, ${uuid}, 'live', ${reason}, 'RUB', ${accepted}, 0, 0, 0, 0, 0, ${accepted}, ${price})`
      }
      for (const [hour, kind, range, reason, accepted, price] of [
        ['2026-02-01T09:00:00Z', 'otp', '912', '', 4, 8],
        ['2026-02-01T09:00:00Z', 'service', '912', '', 1, 2],
        ['2026-02-01T10:00:00Z', 'otp', '912', 'recipient_blocked', 4, 8],
        ['2026-02-02T23:00:00Z', 'otp', '977', '', 3, 6],
        // A row that counts no message, as after a late report.
        ['2026-02-02T23:00:00Z', 'otp', '999', 'dlr_timeout_local', 0, 0],
        ['2026-02-03T00:00:00Z', 'otp', '900', '', 5, 10],
        ['2020-01-01T00:00:00Z', 'otp', '900', '', 6, 12],
      ] as const) {
        await q`
          INSERT INTO read.range_stats (hour, account, mode, class, number_range, reason_code, currency, accepted, sent,
                                        delivered, undelivered, rejected, expired, parts, price)
          VALUES (${hour}, ${uuid}, 'live', ${kind}, ${range}, ${reason}, 'RUB', ${accepted}, 0, 0, 0, 0, 0, ${accepted},
                  ${price})`
      }
      // A projector of an older version has counted the status that a newer one took back.
      await q`UPDATE read.range_stats SET expired = -1 WHERE account = ${uuid} AND number_range = '977'`
    })
    const query = '?from=2026-02-01&to=2026-02-02&group_by=range'
    const { data, totals } = shown(await stats(query, keys.live), 200) as unknown as {
      readonly data: ReadonlyArray<Shown>
      readonly totals: Shown
    }
    assert.deepInclude(totals, { accepted: 17, parts: 17, price: { amount: '34.00', currency: 'RUB' } })
    assert.deepStrictEqual(
      data.map(({ accepted, price, range }) => [range, accepted, (price as { amount: string }).amount]),
      [
        [null, 5, '10.00'],
        ['912', 9, '18.00'],
        ['977', 3, '6.00'],
      ],
    )
    assert.deepStrictEqual(
      data.map(({ expired }) => expired),
      [1, 0, 0],
    )
    const csv = await call(api.url, `/v1/stats${query}`, { key: keys.live, headers: { accept: 'text/csv' } })
    assert.match(String(csv.body), /^range,accepted,.*\r\n,5,.*\r\n912,9,/u)
    const old = shown(await stats('?from=2020-01-01&to=2020-01-31&group_by=range', keys.live), 200)
    assert.deepInclude(old, { data: [] })
    assert.deepInclude(shown(await stats(query, keys.test), 200), { totals: none, data: [] })
  })
  // Rules: STAT-1, STAT-2, RET-4
  it('covers this month by default, the own account and mode, and three years', async () => {
    const today = new Date().toISOString().slice(0, 10)
    const now = shown(await stats(''), 200)
    assert.deepInclude(now, { totals: none, data: [] })
    // The test may run across midnight.
    assert.isTrue(now['to'] === today || String(now['to']) > today)
    assert.strictEqual(now['from'], `${String(now['to']).slice(0, 8)}01`)
    assert.deepInclude(shown(await stats('?from=2026-02-01&to=2026-03-01', fresh.keys.test), 200), {
      totals: none,
    })
    assert.deepInclude(shown(await stats('?from=2020-01-01&to=2020-01-31&group_by=day'), 200), {
      totals: none,
      data: [],
    })
  })
  // Rules: STAT-3, STAT-5, STAT-6, LIST-7
  it.for<readonly [string, string]>([
    ['?from=2026-02-30', 'from'],
    ['?from=2026-2-1', 'from'],
    ['?to=yesterday', 'to'],
    ['?from=2026-03-01&to=2026-02-01', 'from'],
    ['?from=2025-01-01&to=2026-01-02', 'from'],
    ['?group_by=month', 'group_by'],
    ['?group_by=template,day', 'group_by'],
    ['?from=2026-01-01&to=2026-02-01&group_by=hour', 'from'],
    ['?from=2026-01-01&to=2026-02-01&group_by=range', 'from'],
    ['?group_by=day&group_by=class', 'group_by'],
  ])('refuses %s', async ([query, param]) => {
    assert.deepStrictEqual(refusal(await stats(query)), [422, 'invalid_parameter', param])
  })
})

describe('the spend limit', () => {
  // Rules: ACC-2, ACC-3, ACC-4
  it('is returned with the amount spent in this month', async () => {
    const { keys, uuid } = await deployment.addAccount()
    await deployment.sql(
      (q) => q`UPDATE command.account_settings SET spend_limit = 1000, soft_threshold_percent = 50
                WHERE account = ${uuid} AND mode = 'live'`,
    )
    await deployment.sql(
      (q) => q`INSERT INTO command.spend_periods (account, period, spent)
               VALUES (${uuid}, date_trunc('month', now() AT TIME ZONE 'UTC')::date, 412.50),
                      (${uuid}, (date_trunc('month', now() AT TIME ZONE 'UTC') - interval '1 month')::date, 77)`,
    )
    const body = shown(await get('/v1/account', keys.live), 200)
    const limit = body['spend_limit'] as Shown & {
      readonly period: { readonly from: string; readonly to: string }
    }
    assert.deepInclude(limit, {
      limit: { amount: '1000.00', currency: 'RUB' },
      spent: { amount: '412.50', currency: 'RUB' },
      soft_threshold_percent: 50,
      soft_threshold_reached_at: null,
    })
    const recorded = `${limit.period.from.slice(0, 8)}02T09:30:00.000Z`
    const event = spendThresholdEventId(encodeId('acc', uuid), limit.period.from.slice(0, 10))
    await deployment.sql(
      (q) => q`INSERT INTO read.events VALUES (${uuid}, 'live', 1, ${decodeId('evt', event)},
                                               'account.spend_threshold', ${recorded}, '{}')`,
    )
    assert.strictEqual(
      (shown(await get('/v1/account', keys.live), 200)['spend_limit'] as Shown)['soft_threshold_reached_at'],
      recorded,
    )
    assert.match(limit.period.from, /^\d{4}-\d{2}-01T00:00:00\.000Z$/u)
    assert.match(limit.period.to, /^\d{4}-\d{2}-01T00:00:00\.000Z$/u)
    assert.isBelow(Date.parse(limit.period.from), Date.parse(limit.period.to))
    assert.notProperty(shown(await get('/v1/account', keys.test), 200), 'spend_limit')
  })
})
