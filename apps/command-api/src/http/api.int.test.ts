import { createHash, randomUUID } from 'node:crypto'
import { decodeId, encodeId, factId } from '@hub/domain'
import { eventually } from '@hub/testkit'
import { assert, beforeAll, describe, it } from 'vitest'
import {
  type Account,
  type Api,
  callUntilAnswered as call,
  type Deployment,
  facts,
  startBeforeTests,
} from '../testing/harness.ts'

let deployment: Deployment
let api: Api
let account: Account
let other: Account

startBeforeTests((started) => ({ deployment, api, account } = started))
beforeAll(async () => {
  other = await deployment.addAccount()
})

interface Shown {
  readonly id: string
  readonly [name: string]: unknown
}
interface Failed {
  readonly error: { readonly code: string; readonly param?: string; readonly retry_after?: number }
}

const service = (over: object = {}) => ({
  to: '+79001234567',
  class: 'service',
  template: 'order_ready',
  variables: { order: '17' },
  ...over,
})
const otp = (over: object = {}) => ({
  to: '+79001234567',
  class: 'otp',
  template: 'otp_code',
  variables: { code: '1234' },
  ...over,
})
const send = (body: unknown, key = account.keys.test, url = api.url) =>
  call(url, '/v1/messages', { key, body })
const accepted = async (body: unknown, key?: string, url?: string): Promise<Shown> => {
  const answer = await send(body, key, url)
  assert.strictEqual(answer.status, 202, JSON.stringify(answer.body))
  return answer.body as Shown
}

describe('POST /v1/messages', () => {
  // Rules: MSG-1, MSG-16
  it('accepts, answers with a masked number and without the text, and publishes an encrypted payload', async () => {
    const lane = await deployment.tail(deployment.topics.acceptedService)
    const message = await accepted(service({ client_ref: 'first' }), account.keys.live)
    assert.deepInclude(message, {
      object: 'message',
      status: 'accepted',
      final: false,
      to: '+7900***4567',
      class: 'service',
      client_ref: 'first',
      template: 'order_ready',
      sender: 'HUB',
      parts: 1,
      attempts: 0,
      price: { amount: '2.00', currency: 'RUB' },
      mode: 'live',
    })
    assert.notProperty(message, 'text')
    assert.notProperty(message, 'duplicate')

    await eventually(() => facts(lane).some((one) => one.messageId === message.id))
    const fact = facts(lane).find((one) => one.messageId === message.id)
    const record = lane.find(({ id }) => id === factId(message.id, 'accepted'))
    assert.strictEqual(record?.key, fact?.recipient)
    assert.strictEqual(fact?.republished, false)
    assert.deepStrictEqual(fact?.variables, ['order'])
    assert.strictEqual(fact?.numberRange, '900')
    // No personal data in clear text.
    const bytes = Buffer.from(record?.value ?? []).toString('utf8')
    assert.notInclude(bytes, '9001234567')
    assert.notInclude(bytes, 'Заказ')
  })

  // Rules: LIM-19
  it('charges nothing in test mode', async () => {
    const message = await accepted(otp())
    assert.deepInclude(message, {
      price: { amount: '0.00', currency: 'RUB' },
      mode: 'test',
      client_ref: null,
    })
  })

  // Rules: MSG-9, MSG-10
  it('answers a repeat with the earlier message, whatever its other fields', async () => {
    const first = await accepted(service({ client_ref: 'again' }))
    const repeat = await accepted(service({ client_ref: 'again', template: 'no_such', to: '+79007654321' }))
    assert.strictEqual(repeat.id, first.id)
    assert.deepInclude(repeat, { duplicate: true, to: '+7900***4567' })
  })

  // Rules: MSG-11
  it('separates the client_refs of accounts and modes', async () => {
    const ids = await Promise.all(
      [account.keys.test, account.keys.live, other.keys.test].map(
        async (key) => (await accepted(service({ client_ref: 'apart', to: '+79005550002' }), key)).id,
      ),
    )
    assert.strictEqual(new Set(ids).size, 3)
  })

  // Rules: MSG-12
  it('creates one message for 200 concurrent repeats in two processes', async () => {
    const second = await deployment.start()
    const lane = await deployment.tail(deployment.topics.acceptedOtp)
    try {
      const answers = await Promise.all(
        Array.from({ length: 200 }, (_, i) =>
          accepted(otp({ client_ref: 'at-once' }), account.keys.test, i % 2 === 0 ? api.url : second.url),
        ),
      )
      assert.strictEqual(new Set(answers.map(({ id }) => id)).size, 1)
      assert.isAtLeast(answers.filter((answer) => answer['duplicate'] === true).length, 198)
      const rows = await deployment.sql<{ count: number }[]>(
        (q) => q`SELECT count(*)::integer AS count FROM command.acceptances WHERE client_ref = 'at-once'`,
      )
      assert.strictEqual(rows[0]?.count, 1)
      // The other process does not know that a code is being appended, so it may append the same record
      // again, flagged as republished.
      const id = factId(answers[0]!.id, 'accepted')
      await eventually(() => lane.some((record) => record.id === id))
      const unmarked = facts(lane.filter((record) => record.id === id)).filter((fact) => !fact.republished)
      assert.strictEqual(unmarked.length, 1)
    } finally {
      await second.stop()
    }
  })

  it('leaves no outbox row behind', async () => {
    await accepted(service())
    await eventually(async () => {
      const [row] = await deployment.sql<{ count: number }[]>(
        (q) => q`SELECT count(*)::integer AS count FROM command.outbox`,
      )
      return row?.count === 0
    })
  })

  // Rules: MSG-21
  it('never stores the text of a code', async () => {
    const { id } = await accepted(otp({ client_ref: 'no-text' }))
    const [row] = await deployment.sql<{ sealed: unknown; sealing_key: unknown }[]>(
      (q) => q`SELECT sealed, sealing_key FROM command.acceptances WHERE message_id = ${decodeId('msg', id)}`,
    )
    assert.deepEqual({ ...row }, { sealed: null, sealing_key: null })
  })

  // Rules: MSG-7, SBX-12
  it('refuses an opted-out recipient for service only', async () => {
    await accepted(otp({ to: '+79000000013' }))
    const refused = await send(service({ to: '+79000000013' }))
    assert.strictEqual((refused.body as Failed).error.code, 'recipient_opted_out')
  })

  // Rules: MSG-7, SBX-12, LIM-9
  it('refuses an opted-out recipient of the live table', async () => {
    const message = await accepted(service({ to: '+79005550001' }), account.keys.live)
    await deployment.sql(
      (q) => q`INSERT INTO command.opt_outs (recipient, source)
               SELECT recipient, 'operator' FROM command.acceptances WHERE message_id = ${decodeId('msg', message.id)}`,
    )
    const refused = await send(service({ to: '+79005550001' }), account.keys.live)
    assert.strictEqual((refused.body as Failed).error.code, 'recipient_opted_out')
    // The pause counts accepted messages only. Another account has its own
    // flood windows.
    await accepted(otp({ to: '+79005550001' }), other.keys.live)
    await accepted(service({ to: '+79005550001' }), account.keys.test)
  })
})

describe('a range that hub staff have blocked', () => {
  const block = (seconds: number) =>
    deployment.sql(
      (q) => q`
        INSERT INTO command.range_blocks (account, number_range, until, reason, blocked_by)
        VALUES (${decodeId('acc', account.id)}, '912', now() + make_interval(secs => ${seconds}), 'An attack', 'Olga')
        ON CONFLICT (account, number_range) DO UPDATE SET until = excluded.until`,
    )
  let numbers = 0
  const number = (range: string) => `+7${range}${String(++numbers).padStart(7, '0')}`
  /** The code of the refusal, or the status. */
  const outcome = async (body: unknown, key = account.keys.live) => {
    const answer = (await send(body, key)).body as Partial<Failed> & { readonly status?: string }
    return answer.error === undefined ? answer.status : `${answer.error.code} ${answer.error.param}`
  }

  // Rules: MSG-42, MSG-9, BAT-6
  it('gets no live message of the account until the block ends', async () => {
    const earlier = { to: number('912'), client_ref: 'before the block' }
    await accepted(service(earlier), account.keys.live)
    await block(3600)
    // Running processes apply it within seconds.
    await eventually(async () => (await outcome(otp({ to: number('912') }))) === 'recipient_range_blocked to')
    assert.strictEqual(await outcome(service({ to: number('912') })), 'recipient_range_blocked to')
    assert.strictEqual(await outcome(otp({ to: number('913') })), 'accepted')
    assert.strictEqual(await outcome(otp({ to: number('912') }), account.keys.test), 'accepted')
    assert.strictEqual(await outcome(otp({ to: number('912') }), other.keys.live), 'accepted')
    assert.deepInclude(await accepted(service(earlier), account.keys.live), { duplicate: true })

    const batch = await call(api.url, '/v1/messages/batch', {
      key: account.keys.live,
      body: {
        messages: [number('912'), number('914')].map((to, i) => service({ to, client_ref: `blocked-${i}` })),
      },
    })
    const { results } = batch.body as {
      readonly results: ReadonlyArray<{ readonly result: string } & Partial<Failed>>
    }
    assert.deepStrictEqual(
      results.map(({ error, result }) => [result, error?.code, error?.param]),
      [
        ['rejected', 'recipient_range_blocked', 'messages[0].to'],
        ['accepted', undefined, undefined],
      ],
    )

    await block(-1)
    await eventually(async () => (await outcome(otp({ to: number('912') }))) === 'accepted')
  })
})

describe('an invalid request is answered with its code and param', () => {
  const nul = String.raw`{"to":"+79001234567","class":"otp","template":"otp_code","variables":{"code":"\u0000"}}`
  type Case = readonly [name: string, body: unknown, status: number, code: string, param?: string]
  const cases: ReadonlyArray<Case> = [
    ['no JSON', 'not json', 422, 'invalid_parameter'],
    ['an array', '[]', 422, 'invalid_parameter'],
    ['an empty object', {}, 422, 'invalid_parameter', 'to'],
    ['no body', '', 422, 'invalid_parameter'],
    ['deep nesting', `${'{"a":'.repeat(17)}1${'}'.repeat(17)}`, 422, 'invalid_parameter'],
    ['a NUL', nul, 422, 'invalid_parameter', 'variables.code'],
    ['a lone surrogate', nul.replace('0000', 'd800'), 422, 'invalid_parameter', 'variables.code'],
    ['a number as recipient', service({ to: 79001234567 }), 422, 'invalid_parameter', 'to'],
    ['a landline', service({ to: '+74951234567' }), 422, 'recipient_invalid', 'to'],
    ['an unknown class', service({ class: 'promo' }), 422, 'invalid_parameter', 'class'],
    ['send_at', service({ send_at: null }), 422, 'send_at_not_supported', 'send_at'],
    ['send_at before all else', { send_at: 1 }, 422, 'send_at_not_supported', 'send_at'],
    ['a bad template name', service({ template: 'Nope!' }), 422, 'invalid_parameter', 'template'],
    ['variables that are a list', service({ variables: [] }), 422, 'invalid_parameter', 'variables'],
    ['an empty client_ref', service({ client_ref: '' }), 422, 'invalid_parameter', 'client_ref'],
    ['a long client_ref', service({ client_ref: 'x'.repeat(129) }), 422, 'invalid_parameter', 'client_ref'],
    ['an unknown template', service({ template: 'nope' }), 422, 'template_not_found', 'template'],
    [
      'a declined template',
      service({ template: 'refused', variables: {} }),
      422,
      'template_declined',
      'template',
    ],
    ['the other class', otp({ template: 'order_ready' }), 422, 'template_class_mismatch', 'class'],
    ['a missing variable', service({ variables: {} }), 422, 'template_variable_missing', 'variables.order'],
    [
      'an unknown variable',
      service({ variables: { order: '1', __proto__x: '2' } }),
      422,
      'template_variable_unknown',
      'variables.__proto__x',
    ],
    [
      'an object as a value',
      service({ variables: { order: {} } }),
      422,
      'template_variable_invalid',
      'variables.order',
    ],
    [
      'a long value',
      service({ variables: { order: 'x'.repeat(501) } }),
      422,
      'template_variable_invalid',
      'variables.order',
    ],
  ]
  // Rules: HTTP-10, HTTP-13, HTTP-14, HTTP-18, ERR-2, ERR-3, TPL-15, TPL-16, TPL-17, TPL-19, TPL-20
  it.for(cases)('%s', async ([, body, status, code, param]) => {
    const answer = await send(body)
    const { error } = answer.body as Failed
    assert.deepStrictEqual([answer.status, error.code, error.param], [status, code, param])
    assert.match(answer.headers.get('request-id') ?? '', /^req_[0-9a-z]{26}$/u)
    assert.propertyVal(error, 'request_id', answer.headers.get('request-id'))
    assert.propertyVal(error, 'doc_url', `http://hub.test/docs/errors#${code}`)
  })

  // Rules: TPL-8, TPL-16, SND-4, SND-10
  it('template and sender need approval in live mode only', async () => {
    for (const [template, code] of [
      ['waiting', 'template_not_approved'],
      ['unregistered', 'sender_not_registered'],
    ]) {
      const body = service({ template, variables: {} })
      assert.strictEqual(((await send(body, account.keys.live)).body as Failed).error.code, code)
      await accepted(body)
    }
  })

  // Rules: TPL-18
  it('a template can be used as soon as it is approved', async () => {
    const body = service({ to: '+79005550003', template: 'later', variables: {} })
    assert.strictEqual((await send(body, account.keys.live)).status, 422)
    await deployment.sql(
      (q) => q`INSERT INTO command.templates (id, account, mode, name, class, sender, body, status)
               VALUES (${randomUUID()}, ${account.uuid}, 'live', 'later', 'service', 'HUB', 'x', 'approved')`,
    )
    await accepted(body, account.keys.live)
  })
})

describe('the order of checks', () => {
  const at = (path: string, options: Parameters<typeof call>[2] = {}) => call(api.url, path, options)
  const big = 'x'.repeat(4 * 1024 * 1024 + 1)

  // Rules: HTTP-1, HTTP-25
  it('starts with an unknown path', async () => {
    assert.strictEqual((await at('/v1/nope', { body: big, method: 'POST' })).status, 404)
    for (const path of ['/v1/Messages', '/v1//messages', '/', '/v1/messages/a/b']) {
      assert.strictEqual((await at(path)).status, 404, path)
    }
  })
  // Rules: HTTP-2
  it('answers a wrong method with the allowed ones', async () => {
    for (const [method, path, allow] of [
      ['DELETE', '/v1/messages', 'POST, GET, HEAD'],
      ['OPTIONS', '/v1/webhook_endpoints', 'POST, GET, HEAD'],
      ['POST', '/v1/account', 'GET, HEAD'],
      ['PROPFIND', '/v1/events', 'GET, HEAD'],
    ] as const) {
      const answer = await at(path, { method })
      assert.deepStrictEqual([answer.status, answer.headers.get('allow')], [405, allow])
      assert.strictEqual((answer.body as Failed).error.code, 'method_not_allowed')
    }
  })
  // Rules: HTTP-3
  it('answers HEAD like GET without a body', async () => {
    const answer = await at('/v1/account', { method: 'HEAD', key: account.keys.test })
    assert.deepStrictEqual([answer.status, answer.body], [200, ''])
  })
  // Rules: HTTP-11, HTTP-25
  it('has the declared size of the body before the key, and reads no body without a key', async () => {
    assert.strictEqual((await at('/v1/messages', { body: big })).status, 413)
    const sendChunked = async (headers: Readonly<Record<string, string>>) => {
      const response = await fetch(`${api.url}/v1/messages`, {
        method: 'POST',
        headers,
        body: new Blob([big]).stream(),
        duplex: 'half',
      } as RequestInit)
      return response.status
    }
    assert.strictEqual(await sendChunked({}), 401)
    assert.strictEqual(await sendChunked({ authorization: `Bearer ${account.keys.test}` }), 413)
  })
  // Rules: HTTP-12, HTTP-25
  it('has the encoding of the body before the key', async () => {
    for (const headers of [
      { 'content-type': 'text/plain' },
      { 'content-encoding': 'gzip' },
      { 'content-type': 'application/json; charset=utf-16' },
    ] as const) {
      assert.strictEqual((await at('/v1/messages', { body: '{}', headers })).status, 415)
    }
  })
  // Rules: AUTH-1, AUTH-4, HTTP-26
  it('has the key before the resource and the body', async () => {
    for (const authorization of [
      undefined,
      '',
      'Bearer',
      'Basic abc',
      `Bearer hub_test_${'x'.repeat(43)}`,
      `Bearer ${'hub_test_'}`,
    ]) {
      const answer = await at('/v1/messages', {
        body: 'not json',
        headers: authorization === undefined ? {} : { authorization },
      })
      assert.deepStrictEqual([answer.status, (answer.body as Failed).error.code], [401, 'invalid_api_key'])
    }
    assert.strictEqual((await at('/v1/messages/msg_x')).status, 401)
  })
  // Rules: AUTH-5
  it('refuses a revoked key within seconds', async () => {
    const third = await deployment.addAccount()
    assert.strictEqual((await at('/v1/account', { key: third.keys.test })).status, 200)
    const hash = createHash('sha256').update(third.keys.test).digest()
    await deployment.sql((q) => q`UPDATE command.api_keys SET revoked_at = now() WHERE hash = ${hash}`)
    await eventually(async () => (await at('/v1/account', { key: third.keys.test })).status === 401)
  })
})

describe('GET /v1/messages/{id}', () => {
  const read = (id: string, key = account.keys.test) => call(api.url, `/v1/messages/${id}`, { key })

  // Rules: MSG-8, MSG-20, MSG-35
  it('returns a message right after its acceptance, with the text of a service message', async () => {
    const { id } = await accepted(service({ variables: { order: 42 } }))
    const answer = await read(id)
    assert.strictEqual(answer.status, 200)
    assert.deepInclude(answer.body as Shown, { id, text: 'Заказ 42 готов', variables: { order: '42' } })
  })
  // Rules: MSG-21
  it('never returns the text of a code', async () => {
    const { id } = await accepted(otp())
    assert.deepInclude((await read(id)).body as Shown, { text: null, variables: { code: '***' } })
  })
  // Rules: MSG-9, MSG-18, MSG-19, RET-1
  it('returns the read model as soon as the message is projected', async () => {
    const { id } = await accepted(service({ client_ref: 'projected' }))
    const uuid = decodeId('msg', id)!
    const masterKey = await deployment.masterKeyEncryption()
    const sealed = masterKey.encrypt(
      'personal-data',
      id,
      Buffer.from(JSON.stringify({ to: '+79001234567', text: 'Заказ 17 готов', variables: { order: '17' } })),
    )
    await deployment.sql(
      (
        q,
      ) => q`INSERT INTO read.messages (id, account, mode, class, recipient, template, sender, client_ref, parts, price, currency,
                                          variables, created_at, updated_at, status, rank, final, reason_code, attempts, sent_at,
                                          final_at)
               SELECT message_id, account, mode, class, recipient, template, sender, client_ref, parts, '2.00', currency,
                      variables, created_at, created_at + interval '1 second', 'rejected', 3, true, 'spam_filter_sender', 1,
                      created_at + interval '1 second', created_at + interval '2 seconds'
                 FROM command.acceptances WHERE message_id = ${uuid}`,
    )
    await deployment.sql(
      (q) => q`INSERT INTO read.personal_data (message_id, recipient, created_at, sealed)
               SELECT message_id, recipient, created_at, ${sealed} FROM command.acceptances WHERE message_id = ${uuid}`,
    )
    const { body } = await read(id)
    assert.deepInclude(body as Shown, {
      status: 'rejected',
      final: true,
      reason_code: 'spam_filter_sender',
      to: '+7900***4567',
      text: 'Заказ 17 готов',
      attempts: 1,
      // A message that was not billed has a price of zero.
      price: { amount: '0.00', currency: 'RUB' },
    })
    const { history } = body as { history: ReadonlyArray<{ status: string }> }
    assert.deepStrictEqual(
      history.map(({ status }) => status),
      ['accepted', 'sent', 'rejected'],
    )
    // A repeat returns the current state of the message.
    assert.deepInclude(await accepted(service({ client_ref: 'projected' })), {
      id,
      status: 'rejected',
      duplicate: true,
    })
    // After a year the number and the text are deleted; the rest stays.
    await deployment.sql((q) => q`DELETE FROM read.personal_data WHERE message_id = ${uuid}`)
    assert.deepInclude((await read(id)).body as Shown, {
      to: '',
      text: null,
      variables: null,
      status: 'rejected',
    })
  })
  // Rules: GEN-1, GEN-4
  it('answers ids of other accounts like unknown ones', async () => {
    const { id } = await accepted(service())
    for (const [path, key] of [
      [id, other.keys.test],
      [id, account.keys.live],
      [id.toUpperCase(), account.keys.test],
      [encodeId('msg', randomUUID()), account.keys.test],
      ['x', account.keys.test],
      ['%zz', account.keys.test],
      ['x'.repeat(500), account.keys.test],
    ] as const) {
      const answer = await read(path, key)
      assert.deepStrictEqual([answer.status, (answer.body as Failed).error.code], [404, 'not_found'])
    }
  })
})

describe('webhook endpoints', () => {
  const path = '/v1/webhook_endpoints'
  const create = (body: unknown, key = account.keys.test) => call(api.url, path, { key, body })

  // Rules: SUB-1, SUB-2, SUB-3
  it('are created with a secret that is returned once, and announced', async () => {
    const topic = await deployment.tail(deployment.topics.webhooks)
    const answer = await create({ url: 'https://1.1.1.1/hook', event_types: ['message.delivered'] })
    assert.strictEqual(answer.status, 201)
    const made = answer.body as Shown
    assert.match(String(made['secret']), /^whsec_[A-Za-z0-9+/]{43}=$/u)
    const { body } = await call(api.url, `${path}/${made.id}`, { key: account.keys.test })
    const { secret: _, ...rest } = made
    assert.deepStrictEqual(body, rest)
    assert.hasAllKeys(rest, [
      'id',
      'object',
      'url',
      'description',
      'event_types',
      'status',
      'created_at',
      'disabled_at',
      'disabled_reason',
      'consecutive_failures',
      'secret_rotation_ends_at',
      'header_names',
      'client_certificate',
    ])
    await eventually(() => topic.some((record) => record.key === `${account.id}:test`))

    const [row] = await deployment.sql<{ secret: Buffer }[]>(
      (q) => q`SELECT secret FROM webhooks.endpoints WHERE id = ${decodeId('we', made.id)}`,
    )
    assert.notInclude(row?.secret.toString('latin1') ?? '', String(made['secret']))
  })

  // Rules: SUB-9, LIST-4, LIST-5, LIST-9
  it('are listed newest first, in pages, for their owner only', async () => {
    const fresh = await deployment.addAccount()
    const key = fresh.keys.test
    const ids: Array<string> = []
    for (let i = 0; i < 3; i++)
      ids.unshift(((await create({ url: `https://1.1.1.1/${i}` }, key)).body as Shown).id)
    interface List {
      readonly data: ReadonlyArray<Shown>
      readonly has_more: boolean
      readonly next_cursor: string | null
    }
    const list = async (query: string, as = key) =>
      (await call(api.url, `${path}${query}`, { key: as })).body as List
    const first = await list('?limit=2')
    assert.deepStrictEqual(
      [first.data.map(({ id }) => id), first.has_more, first.next_cursor],
      [ids.slice(0, 2), true, ids[1]],
    )
    const second = await list(`?limit=2&starting_after=${first.next_cursor}`)
    assert.deepStrictEqual(
      [second.data.map(({ id }) => id), second.has_more, second.next_cursor],
      [ids.slice(2), false, ids[2]],
    )
    assert.deepStrictEqual(await list('', fresh.keys.live), {
      object: 'list',
      data: [],
      has_more: false,
      next_cursor: null,
    } as never)
    const foreign = await call(api.url, `${path}?starting_after=${ids[0]}`, { key: fresh.keys.live })
    assert.strictEqual(foreign.status, 404)
    assert.strictEqual((await call(api.url, `${path}/${ids[0]}`, { key: other.keys.test })).status, 404)
    assert.strictEqual((await call(api.url, `${path}?limit=101`, { key })).status, 422)
  })

  // Rules: SUB-11, SUB-12, SUB-13
  it('are refused without a public https address', async () => {
    for (const url of [
      'http://1.1.1.1/',
      'https://10.0.0.1/',
      'https://localhost/',
      'https://user:password@1.1.1.1/',
      'https://[::1]/',
      'https://no-such-host.invalid/',
      `https://1.1.1.1/${'x'.repeat(1024)}`,
      'nonsense',
    ]) {
      const { body, status } = await create({ url })
      assert.deepStrictEqual(
        [status, (body as Failed).error.code, (body as Failed).error.param],
        [422, 'webhook_url_invalid', 'url'],
        url,
      )
    }
    assert.strictEqual(((await create({ url: 1 })).body as Failed).error.code, 'invalid_parameter')
  })

  // Rules: SUB-6
  it('are at most twenty, also when created concurrently', async () => {
    const { keys } = await deployment.addAccount()
    const answers = await Promise.all(
      Array.from({ length: 25 }, (_, i) =>
        call(api.url, path, { key: keys.test, body: { url: `https://1.1.1.1/${i}` } }),
      ),
    )
    const refused = answers.filter(({ status }) => status !== 201)
    for (const { body } of refused) {
      assert.strictEqual((body as Failed).error.code, 'webhook_endpoint_limit_reached')
    }
    const { body } = await call(api.url, `${path}?limit=100`, { key: keys.test })
    assert.lengthOf((body as { readonly data: ReadonlyArray<unknown> }).data, 20)
    assert.isAtLeast(refused.length, 5)
  })
})

describe('GET /v1/events', () => {
  interface Page {
    readonly data: ReadonlyArray<{ readonly id: string }>
    readonly has_more: boolean
    readonly next_cursor: string | null
  }
  const read = (query: string, key = account.keys.test) => call(api.url, `/v1/events${query}`, { key })
  const page = async (query: string) => (await read(query)).body as Page
  let ids: ReadonlyArray<string>

  beforeAll(async () => {
    const uuids = Array.from({ length: 5 }, () => randomUUID())
    ids = uuids.map((uuid) => encodeId('evt', uuid))
    for (const [i, uuid] of uuids.entries()) {
      const type = i % 2 === 0 ? 'message.accepted' : 'message.sent'
      // Two of them share a millisecond.
      const at = new Date(Date.UTC(2026, 0, 1) + Math.max(1, i))
      const body = JSON.stringify({ id: ids[i], object: 'event', type })
      await deployment.sql(
        (q) => q`INSERT INTO read.events (account, mode, sequence, id, type, created_at, body)
                 VALUES (${account.uuid}, 'test', ${i + 1}, ${uuid}, ${type}, ${at}, ${body})`,
      )
    }
  })

  // Rules: EVT-10, LIST-4, LIST-5
  it('returns pages in the order of recording', async () => {
    const first = await page('?limit=3')
    assert.deepStrictEqual(
      [first.data.map(({ id }) => id), first.has_more, first.next_cursor],
      [ids.slice(0, 3), true, ids[2]],
    )
    const rest = await page(`?starting_after=${first.next_cursor}`)
    assert.deepStrictEqual([rest.data.map(({ id }) => id), rest.has_more], [ids.slice(3), false])
    const end = await page(`?starting_after=${ids[4]}`)
    assert.deepStrictEqual([end.data.length, end.next_cursor], [0, ids[4]])
  })
  // Rules: EVT-11, EVT-12
  it('filters strictly by time, and by type', async () => {
    const after = await page('?created_after=2026-01-01T00:00:00.001Z')
    assert.deepStrictEqual(
      after.data.map(({ id }) => id),
      ids.slice(2),
    )
    assert.strictEqual((await page('?created_after=0001-01-01T00:00:00.000Z')).data.length, 5)
    const sent = await page('?type=message.sent&type=message.delivered')
    assert.deepStrictEqual(
      sent.data.map(({ id }) => id),
      [ids[1], ids[3]],
    )
  })
  // Rules: LIST-3, LIST-6, LIST-7, ERR-17
  it('refuses unknown cursors and invalid parameters', async () => {
    for (const [query, status, param] of [
      ['?limit=0', 422, 'limit'],
      ['?limit=1001', 422, 'limit'],
      ['?type=message.nope', 422, 'type'],
      ['?created_after=yesterday', 422, 'created_after'],
      [`?starting_after=${ids[0]}&created_after=2026-01-01T00:00:00.000Z`, 422, 'created_after'],
      ['?starting_after=evt_nope', 404, 'starting_after'],
      [`?starting_after=${encodeId('evt', randomUUID())}`, 404, 'starting_after'],
    ] as const) {
      const answer = await read(query)
      assert.deepStrictEqual([answer.status, (answer.body as Failed).error.param], [status, param], query)
    }
    assert.strictEqual((await read(`?starting_after=${ids[0]}`, other.keys.test)).status, 404)
  })
})

describe('GET /v1/account', () => {
  // Rules: ACC-1, ACC-2, ACC-5, LIM-1, LIM-6
  it('returns the limits in force', async () => {
    const fresh = await deployment.addAccount({ apiRps: null })
    const read = async (key: string) => (await call(api.url, '/v1/account', { key })).body
    const common = {
      id: fresh.id,
      object: 'account',
      name: 'Shop',
      limits: { api_rps: 100, batch_max: 1000 },
      flood_windows: { pause_seconds: 60, per_hour: 5, per_day: 20 },
    }
    // The windows of the only sandbox number that has any.
    const sandbox = { pause_seconds: 300, per_hour: 12, per_day: 288 }
    assert.deepStrictEqual(await read(fresh.keys.test), { ...common, mode: 'test', flood_windows: sandbox })
    assert.deepStrictEqual(await read(fresh.keys.live), { ...common, mode: 'live', spend_limit: null })
  })
  // Rules: ACC-1, ACC-3
  it('returns the settings of hub staff', async () => {
    const fresh = await deployment.addAccount({ apiRps: null })
    await deployment.sql(
      (
        q,
      ) => q`INSERT INTO command.account_settings (account, mode, api_rps, batch_max, flood_per_hour, spend_limit)
               VALUES (${fresh.uuid}, 'live', 7, 50, 3, 1000)`,
    )
    const { body } = await call(api.url, '/v1/account', { key: fresh.keys.live })
    assert.deepNestedInclude(body as object, {
      'limits.api_rps': 7,
      'limits.batch_max': 50,
      'flood_windows.per_hour': 3,
      'flood_windows.per_day': 20,
      'spend_limit.limit': { amount: '1000.00', currency: 'RUB' },
      'spend_limit.spent': { amount: '0.00', currency: 'RUB' },
      'spend_limit.soft_threshold_percent': 80,
    })
  })
})

describe('without a key', () => {
  // Rules: VER-1, VER-2
  it('clients can read the description, the reference and the schemas', async () => {
    const description = await call(api.url, '/v1/openapi.json')
    assert.propertyVal(description.body as object, 'openapi', '3.1.0')
    for (const path of ['/docs', '/docs/errors', '/docs/changelog']) {
      const answer = await call(api.url, path)
      assert.strictEqual(answer.status, 200)
      assert.include(String(answer.body), '<html')
      const etag = answer.headers.get('etag') ?? ''
      assert.strictEqual((await call(api.url, path, { headers: { 'if-none-match': etag } })).status, 304)
    }
    const subjects = await call(api.url, '/schema-registry/subjects')
    assert.include(subjects.body as ReadonlyArray<string>, 'hub.MessageAccepted')
    assert.strictEqual((await call(api.url, '/schema-registry/nope')).status, 404)
    const few = await call(api.url, '/schema-registry/subjects?subjectPrefix=hub.MessageAcc')
    assert.deepStrictEqual(few.body, ['hub.MessageAccepted'])
  })

  it('clients can check a schema against those of the hub', async () => {
    const path = '/schema-registry/compatibility/subjects/hub.MessageAccepted/versions/latest'
    const check = (schema: unknown, more: Readonly<Record<string, string>> = {}) =>
      call(api.url, path, {
        method: 'POST',
        headers: { 'content-type': 'application/vnd.schemaregistry.v1+json', ...more },
        body: JSON.stringify({ schema: JSON.stringify(schema) }),
      })
    assert.deepStrictEqual((await check('string')).body, { is_compatible: false })
    // The largest body that counts against no budget has 16 KiB.
    assert.strictEqual((await check('x'.repeat(16_384))).status, 413)
    assert.strictEqual((await check('string', { 'content-type': 'text/plain' })).status, 415)
  })

  it('clients cannot change the schemas', async () => {
    const refused = await call(api.url, '/schema-registry/config', {
      method: 'PUT',
      body: JSON.stringify({ compatibility: 'NONE' }),
    })
    assert.strictEqual(refused.status, 422)
    assert.propertyVal(refused.body as object, 'error_code', 42205)
    const { body } = await call(api.url, '/schema-registry/config')
    assert.deepStrictEqual(body, { compatibilityLevel: 'BACKWARD_TRANSITIVE' })
    assert.strictEqual((await call(api.url, '/docs', { method: 'POST' })).status, 405)
  })
})

describe('readiness', () => {
  it('is reported while all servers are available', async () => {
    assert.deepStrictEqual(await api.failing(), [])
  })
})
