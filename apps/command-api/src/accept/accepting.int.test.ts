/** Batches, idempotency keys and limits over HTTP, against the real servers. */
import { decodeId, encodeId, factId } from '@hub/domain'
import { decodeBatchSealed } from '@hub/kafka'
import { eventually } from '@hub/testkit'
import { Result } from 'effect'
import { assert, describe, it } from 'vitest'
import { type Account, type Api, call, type Deployment, facts, startBeforeTests } from '../testing/harness.ts'

let deployment: Deployment
let api: Api
let account: Account
startBeforeTests((started) => ({ deployment, api, account } = started))

interface Shown {
  readonly id: string
  readonly duplicate?: true
  readonly error?: {
    readonly code: string
    readonly param?: string
    readonly retry_after?: number
    readonly window?: string
    readonly request_id?: string
  }
}
interface Counts {
  readonly total: number
  readonly accepted: number
  readonly duplicate: number
  readonly rejected: number
  readonly delivered: number
}
interface ShownBatch {
  readonly id: string | null
  readonly created_at: string | null
  readonly closed: boolean
  readonly counts: Counts
  readonly results: ReadonlyArray<{
    readonly index: number
    readonly client_ref: string | null
    readonly result: string
    readonly message?: Shown & { readonly batch: string }
    readonly message_id?: string
    readonly message_url?: string
    readonly error?: Shown['error']
  }>
}

/** The lock of a request whose process did not answer lasts for a minute. */
const REPEATED_WITHIN_MS = 120_000

let numbers = 1_000_000
/** A number that no other test uses, so that its flood windows are empty. */
const freshNumber = () => `+7901${String(++numbers)}`.slice(0, 12)

const service = (over: object = {}) => ({
  to: freshNumber(),
  class: 'service',
  template: 'order_ready',
  variables: { order: '17' },
  ...over,
})
const otp = (over: object = {}) => ({
  to: freshNumber(),
  class: 'otp',
  template: 'otp_code',
  variables: { code: '1234' },
  ...over,
})

const post = async (
  path: string,
  body: unknown,
  options: { readonly key?: string; readonly idempotencyKey?: string; readonly url?: string } = {},
) =>
  call(options.url ?? api.url, path, {
    key: options.key ?? account.keys.live,
    body,
    ...(options.idempotencyKey === undefined
      ? {}
      : { headers: { 'idempotency-key': options.idempotencyKey } }),
  })
const send = (body: unknown, options?: Parameters<typeof post>[2]) => post('/v1/messages', body, options)
const sendBatch = async (messages: ReadonlyArray<unknown>, options?: Parameters<typeof post>[2]) => {
  const answer = await post('/v1/messages/batch', { messages }, options)
  assert.strictEqual(answer.status, 202, JSON.stringify(answer.body))
  return answer.body as ShownBatch
}
const get = (path: string, key = account.keys.live) => call(api.url, path, { key })
const uuidOfBatch = (id: string | null): string => decodeId('bat', id ?? '') ?? ''
const words = (batch: ShownBatch) => batch.results.map(({ error, result }) => error?.code ?? result)
const codeOf = (answer: { readonly body: unknown }) => (answer.body as Shown).error?.code

const spentOf = async (of: Account) => {
  const [row] = await deployment.sql<{ spent: string }[]>(
    (q) => q`SELECT spent::text FROM command.spend_periods WHERE account = ${of.uuid}`,
  )
  return row?.spent ?? '0.00'
}

describe('POST /v1/messages', () => {
  // Rules: MSG-6
  it('shortens the lifetime of a message by its ttl_seconds, which it checks', async () => {
    const lane = await deployment.tail(deployment.topics.acceptedService)
    const { id } = (await send(service({ ttl_seconds: 45 }))).body as Shown
    await eventually(() => lane.some((record) => record.id === factId(id, 'accepted')))
    const [fact] = facts(lane.filter((record) => record.id === factId(id, 'accepted')))
    assert.strictEqual((fact?.expiresAt ?? 0) - (fact?.at ?? 0), 45_000)
    for (const wrong of [29, 86_401, 60.5, '60']) {
      const { error } = (await send(service({ ttl_seconds: wrong }))).body as Shown
      assert.deepInclude(error, { code: 'invalid_parameter', param: 'ttl_seconds' })
    }
    const batch = await sendBatch([
      otp({ client_ref: 'ttl-0', ttl_seconds: 301 }),
      otp({ client_ref: 'ttl-1', ttl_seconds: 300 }),
    ])
    assert.deepStrictEqual(words(batch), ['invalid_parameter', 'accepted'])
    assert.strictEqual(batch.results[0]?.error?.param, 'messages[0].ttl_seconds')
  })

  it('records the request id and the API key with each message', async () => {
    const lane = await deployment.tail(deployment.topics.acceptedService)
    const single = await send(service())
    const many = await post(
      '/v1/messages/batch',
      { messages: [service({ client_ref: 'origin-1' }), service({ client_ref: 'origin-2' })] },
      { idempotencyKey: 'origin' },
    )
    const ids = [
      (single.body as Shown).id,
      ...(many.body as ShownBatch).results.map(({ message }) => message?.id ?? ''),
    ]
    const found = () => ids.map((id) => lane.find((record) => record.id === factId(id, 'accepted')))
    await eventually(() => !found().includes(undefined))
    const [row] = await deployment.sql<{ id: string }[]>(
      (q) => q`SELECT id FROM command.api_keys WHERE account = ${account.uuid} AND mode = 'live'`,
    )
    const [ofSingle, ofMany] = [single, many].map(({ headers }) => headers.get('request-id'))
    assert.deepStrictEqual(
      facts(found().flatMap((record) => record ?? [])).map(({ apiKey, request }) => [request, apiKey]),
      [ofSingle, ofMany, ofMany].map((request) => [request, encodeId('key', row!.id)]),
    )
  })

  // Rules: MSG-13
  it('takes a client_ref again three years after its acceptance, also while its row exists', async () => {
    const age = (interval: string) =>
      deployment.sql(
        (q) => q`UPDATE command.client_refs SET created_at = now() - ${interval}::interval
                  WHERE account = ${account.uuid} AND client_ref = 'old'`,
      )
    const first = (await send(service({ client_ref: 'old' }))).body as Shown
    await age('2 years 364 days')
    const repeat = (await send(service({ client_ref: 'old' }))).body as Shown
    assert.deepInclude(repeat, { id: first.id, duplicate: true })
    await age('3 years 1 day')
    const second = (await send(service({ client_ref: 'old' }))).body as Shown
    assert.notStrictEqual(second.id, first.id)
    assert.notProperty(second, 'duplicate')
    // The reference protects the new message.
    assert.deepInclude((await send(service({ client_ref: 'old' }))).body as Shown, { id: second.id })
    await age('3 years 1 day')
    // With an idempotency key, the commit has several steps.
    const third = await send(service({ client_ref: 'old' }), { idempotencyKey: 'old-again' })
    assert.strictEqual(third.status, 202)
    assert.notInclude([first.id, second.id], (third.body as Shown).id)
  })
})

describe('POST /v1/messages/batch', () => {
  // Rules: BAT-3, BAT-4, BAT-6
  it('answers each element with its own result, in order, and lists the accepted messages', async () => {
    const lane = await deployment.tail(deployment.topics.acceptedService)
    const log = await deployment.tail(deployment.topics.messages)
    const batch = await sendBatch([
      service({ client_ref: 'b1-0' }),
      otp({ client_ref: 'b1-1' }),
      service({ client_ref: 'b1-2', to: '+74951234567' }),
      service(),
      service({ client_ref: 'b1-4', template: 'nope' }),
      service({ client_ref: 'b1-0' }),
      { ...service({ client_ref: 'b1-6' }), send_at: null },
      service({ client_ref: 'b1-7' }),
    ])
    assert.deepStrictEqual(words(batch), [
      'accepted',
      'accepted',
      'recipient_invalid',
      'invalid_parameter',
      'template_not_found',
      'duplicate',
      'send_at_not_supported',
      'accepted',
    ])
    assert.deepStrictEqual(
      batch.results.map(({ index }) => index),
      [0, 1, 2, 3, 4, 5, 6, 7],
    )
    assert.deepInclude(batch.counts, { total: 8, accepted: 3, duplicate: 1, rejected: 4, delivered: 0 })
    assert.isFalse(batch.closed)
    const [first, , invalid] = batch.results
    assert.strictEqual(first?.message?.batch, batch.id)
    assert.strictEqual(invalid?.error?.param, 'messages[2].to')
    assert.match(invalid?.error?.request_id ?? '', /^req_/)
    assert.strictEqual(batch.results[3]?.client_ref, null)
    assert.deepInclude(batch.results[5] as object, {
      message_id: first?.message?.id,
      message_url: `/v1/messages/${first?.message?.id}`,
    })

    const read = await get(`/v1/batches/${batch.id}`)
    assert.deepEqual(read.body, {
      object: 'batch',
      id: batch.id,
      created_at: batch.created_at,
      closed: false,
      counts: batch.counts,
    })
    const ids = batch.results.flatMap(({ message }) => (message === undefined ? [] : [message.id]))
    const page = (await get(`/v1/messages?batch=${batch.id}&limit=2`)).body as {
      data: ReadonlyArray<Shown>
      has_more: boolean
      next_cursor: string
    }
    assert.deepStrictEqual([page.data.map(({ id }) => id), page.has_more], [ids.slice(0, 2), true])
    const rest = (await get(`/v1/messages?batch=${batch.id}&starting_after=${page.next_cursor}`)).body as {
      data: ReadonlyArray<Shown>
      has_more: boolean
    }
    assert.deepStrictEqual([rest.data.map(({ id }) => id), rest.has_more], [ids.slice(2), false])

    await eventually(() => facts(lane).some(({ messageId }) => messageId === ids[0]))
    await eventually(() => log.some(({ id }) => id === factId(batch.id ?? '', 'sealed')))
    const seal = Result.getOrThrow(
      decodeBatchSealed(log.find(({ id }) => id === factId(batch.id ?? '', 'sealed'))!),
    )
    assert.deepInclude(seal as object, { batch: batch.id, total: 8, accepted: 3, duplicate: 1, rejected: 4 })
  })

  // Rules: BAT-15, BAT-16
  it('creates nothing when it is repeated', async () => {
    const messages = [service({ client_ref: 'b2-0' }), service({ client_ref: 'b2-1' })]
    const first = await sendBatch(messages)
    const again = await sendBatch([...messages, service({ client_ref: 'b2-2', template: 'nope' })])
    assert.deepStrictEqual(words(again), ['duplicate', 'duplicate', 'template_not_found'])
    assert.deepInclude(again, { id: first.id, created_at: first.created_at, closed: false })
    assert.deepInclude(again.counts, { total: 3, accepted: 0, duplicate: 2, rejected: 1 })
    const other = await sendBatch([service({ client_ref: 'b2-3' })])
    const mixed = await sendBatch([messages[0], service({ client_ref: 'b2-3' })])
    assert.deepInclude(mixed, { id: null, created_at: null, closed: false })
    assert.notStrictEqual(other.id, first.id)
    const rows = await deployment.sql<{ count: number }[]>(
      (q) => q`SELECT count(*)::integer AS count FROM command.batches WHERE id = ANY (
        ${[first, again, other].map(({ id }) => uuidOfBatch(id))}::uuid[])`,
    )
    assert.strictEqual(rows[0]?.count, 2)
  })

  // Rules: BAT-10, BAT-12
  it('is closed at once when all elements are rejected', async () => {
    const log = await deployment.tail(deployment.topics.messages)
    const batch = await sendBatch([service({ client_ref: 'b3', template: 'nope' }), { client_ref: 'b3-1' }])
    assert.deepInclude(batch, { closed: true })
    assert.deepInclude(batch.counts, { total: 2, accepted: 0, rejected: 2 })
    const read = await get(`/v1/batches/${batch.id}`)
    assert.deepInclude(read.body as object, { closed: true })
    await eventually(() => log.some(({ id }) => id === factId(batch.id ?? '', 'sealed')))
  })

  // Rules: BAT-2
  it('is refused as a whole only for the form of the whole request', async () => {
    for (const [body, code, param] of [
      [{}, 'invalid_parameter', 'messages'],
      [{ messages: [] }, 'invalid_parameter', 'messages'],
      [{ messages: {} }, 'invalid_parameter', 'messages'],
      [{ messages: [1] }, 'invalid_parameter', 'messages[0]'],
      [{ messages: Array.from({ length: 1001 }, () => ({})) }, 'batch_too_large', 'messages'],
    ] as const) {
      const answer = await post('/v1/messages/batch', body)
      assert.deepStrictEqual(
        [answer.status, codeOf(answer), (answer.body as Shown).error?.param],
        [422, code, param],
      )
    }
  })

  // Rules: BAT-1
  it('accepts a thousand messages', async () => {
    const { test } = account.keys
    const messages = Array.from({ length: 1000 }, (_, i) => service({ client_ref: `b5-${i}` }))
    const batch = await sendBatch(messages, { key: test })
    assert.deepStrictEqual([...new Set(words(batch))], ['accepted'])
    assert.deepInclude(batch.counts, { total: 1000, accepted: 1000 })
    const listed: Array<string> = []
    let cursor = ''
    for (;;) {
      const page = (await get(`/v1/messages?batch=${batch.id}&limit=400${cursor}`, test)).body as {
        data: ReadonlyArray<Shown>
        has_more: boolean
        next_cursor: string
      }
      listed.push(...page.data.map(({ id }) => id))
      if (!page.has_more) break
      cursor = `&starting_after=${page.next_cursor}`
    }
    assert.strictEqual(new Set(listed).size, 1000)
    const [row] = await deployment.sql<{ accepted: number; sealed: boolean }[]>(
      (q) =>
        q`SELECT accepted, sealed_at IS NOT NULL AS sealed FROM command.batches WHERE id = ${uuidOfBatch(batch.id)}`,
    )
    assert.deepEqual({ ...row }, { accepted: 1000, sealed: true })
  })

  it('is sealed by the sweeper from the ledger when its process died', async () => {
    const left = await sendBatch([service({ client_ref: 'b7-0' }), otp({ client_ref: 'b7-1' })])
    const untouched = await sendBatch([service({ client_ref: 'b7-2' })])
    // The state after a process died between the acceptance batch and the seal: its code is refunded.
    await deployment.sql(
      (q) => q`UPDATE command.batches SET sealed_at = NULL, accepted = 0, total = 4, duplicate = 1,
                      created_at = now() - interval '59 minutes' WHERE id = ${uuidOfBatch(left.id)}`,
    )
    await deployment.sql(
      (q) => q`
      UPDATE command.acceptances SET given_back = true WHERE batch_id = ${uuidOfBatch(left.id)} AND class = 'otp'`,
    )
    const sealed = await eventually(async () => {
      const read = (await get(`/v1/batches/${left.id}`)).body as ShownBatch
      return read.counts.accepted === 1 && read.counts.rejected === 2 ? read : null
    })
    assert.deepInclude(sealed.counts, { total: 4, accepted: 1, duplicate: 1, rejected: 2 })
    const [row] = await deployment.sql<{ count: number }[]>(
      (q) => q`SELECT count(*)::integer AS count FROM command.batches WHERE sealed_at IS NULL`,
    )
    assert.strictEqual(row?.count, 0)
    assert.deepInclude((await get(`/v1/batches/${untouched.id}`)).body as object, { id: untouched.id })
  })

  // Rules: GEN-4, BAT-19
  it('is not found for other accounts and modes', async () => {
    const { id } = await sendBatch([service({ client_ref: 'b6' })])
    for (const path of [`/v1/batches/${id}`, `/v1/messages?batch=${id}`, '/v1/batches/bat_nope']) {
      assert.strictEqual((await get(path, account.keys.test)).status, 404, path)
    }
    const wrong = await get(`/v1/messages?batch=${id}&starting_after=msg_nope`)
    assert.strictEqual(wrong.status, 404)
    assert.strictEqual((await get('/v1/messages')).status, 200)
  })
})

describe('Idempotency-Key', () => {
  // Rules: IDEM-5
  it('answers a repeat with the same bytes and a new request id', async () => {
    const body = service()
    const [first, second] = [
      await send(body, { idempotencyKey: 'i1' }),
      await send(body, { idempotencyKey: 'i1' }),
    ]
    assert.strictEqual(first.status, 202)
    assert.strictEqual(second.status, 202)
    assert.deepStrictEqual(second.body, first.body)
    assert.strictEqual(second.headers.get('idempotent-replayed'), 'true')
    assert.strictEqual(first.headers.get('idempotent-replayed'), null)
    assert.notStrictEqual(second.headers.get('request-id'), first.headers.get('request-id'))
    assert.isNotNull(second.headers.get('x-ratelimit-limit'))
  })

  // Rules: IDEM-6
  it('stores refusals too, with their headers', async () => {
    const body = service()
    await send(body)
    const first = await send(body, { idempotencyKey: 'i2' })
    assert.strictEqual(codeOf(first), 'recipient_flood_limited')
    const second = await send(body, { idempotencyKey: 'i2' })
    assert.deepStrictEqual([second.status, second.body], [first.status, first.body])
    assert.strictEqual(second.headers.get('retry-after'), first.headers.get('retry-after'))
    assert.strictEqual(second.headers.get('idempotent-replayed'), 'true')
  })

  // Rules: IDEM-3, IDEM-4
  it('belongs to one request of one account and mode', async () => {
    const body = service()
    await send(body, { idempotencyKey: 'i3' })
    for (const [path, other] of [
      ['/v1/messages', service()],
      ['/v1/messages?x=1', body],
      ['/v1/messages/estimate', body],
    ] as const) {
      const answer = await post(path, other, { idempotencyKey: 'i3' })
      assert.deepStrictEqual(
        [answer.status, codeOf(answer), (answer.body as Shown).error?.param],
        [422, 'idempotency_key_reused', 'Idempotency-Key'],
      )
    }
    const elsewhere = await send(service(), { idempotencyKey: 'i3', key: account.keys.test })
    assert.strictEqual(elsewhere.status, 202)
  })

  // Rules: IDEM-1, IDEM-2
  it('has 1 to 255 characters, and is ignored on GET', async () => {
    const long = await send(service(), { idempotencyKey: 'x'.repeat(256) })
    assert.deepStrictEqual([long.status, codeOf(long)], [422, 'idempotency_key_reused'])
    assert.strictEqual((await send(service(), { idempotencyKey: 'x'.repeat(255) })).status, 202)
    const empty = await send(service(), { idempotencyKey: '' })
    assert.deepStrictEqual([empty.status, codeOf(empty)], [422, 'invalid_parameter'])
    const read = await call(api.url, '/v1/account', {
      key: account.keys.live,
      headers: { 'idempotency-key': 'i3' },
    })
    assert.strictEqual(read.status, 200)
  })

  // Rules: IDEM-9
  it('returns a secret again, and stores it encrypted', async () => {
    const body = { url: 'https://1.1.1.1/hook' }
    const first = await post('/v1/webhook_endpoints', body, { idempotencyKey: 'i4' })
    assert.strictEqual(first.status, 201)
    const second = await post('/v1/webhook_endpoints', body, { idempotencyKey: 'i4' })
    assert.deepStrictEqual(second.body, first.body)
    const { secret } = first.body as { secret: string }
    const [row] = await deployment.sql<{ answer: Buffer }[]>(
      (q) => q`SELECT answer FROM command.idempotency_keys WHERE key = 'i4'`,
    )
    assert.isFalse(row?.answer.includes(secret))
  })

  // Rules: IDEM-5, IDEM-12
  it('creates one message for 300 concurrent repeats in two processes', async () => {
    const second = await deployment.start()
    const body = JSON.stringify(otp())
    try {
      const answers = await Promise.all(
        Array.from({ length: 300 }, (_, i) =>
          send(body, {
            idempotencyKey: 'i5',
            url: i % 2 === 0 ? api.url : second.url,
            key: account.keys.test,
          }),
        ),
      )
      // 503 on a machine that is too busy for 300 requests. The repeat then finds the message, or creates it.
      for (const answer of answers.filter(({ status }) => status !== 202)) {
        assert.include([409, 429, 503], answer.status)
        assert.isAtLeast((answer.body as Shown).error?.retry_after ?? 0, 1)
      }
      const last = await eventually(
        async () => {
          const answer = await send(body, { idempotencyKey: 'i5', key: account.keys.test })
          return answer.status === 202 ? answer : false
        },
        { withinMs: REPEATED_WITHIN_MS, everyMs: 500 },
      )
      const accepted = [...answers, last].filter(({ status }) => status === 202)
      assert.lengthOf(new Set(accepted.map(({ body: of }) => (of as Shown).id)), 1)
    } finally {
      await second.stop()
    }
  }, 150_000)

  // Rules: IDEM-14, IDEM-16
  it('of a process that died runs again after its lease, and finds the recorded message', async () => {
    const body = service()
    const first = await send(body, { idempotencyKey: 'i6' })
    // The row as it was before the answer was stored.
    await deployment.sql(
      (q) => q`UPDATE command.idempotency_keys
                  SET status = NULL, answer = NULL, lease_token = gen_random_uuid(), lease_until = now() + interval '30 seconds',
                      message_ids = ARRAY[${decodeId('msg', (first.body as Shown).id)}::uuid]
                WHERE key = 'i6'`,
    )
    const running = await send(body, { idempotencyKey: 'i6' })
    assert.deepStrictEqual([running.status, codeOf(running)], [409, 'idempotency_conflict'])
    assert.isAtLeast((running.body as Shown).error?.retry_after ?? 0, 20)
    await deployment.sql((q) => q`UPDATE command.idempotency_keys SET lease_until = now() WHERE key = 'i6'`)
    const again = await send(body, { idempotencyKey: 'i6' })
    assert.deepStrictEqual([again.status, again.body], [202, first.body])
    assert.isNull(again.headers.get('idempotent-replayed'))
    const replayed = await send(body, { idempotencyKey: 'i6' })
    assert.strictEqual(replayed.headers.get('idempotent-replayed'), 'true')
  })
})

describe('limits', () => {
  // Rules: LIM-6, LIM-10
  it('enforce the flood windows of a number, and a repeat does not count', async () => {
    const to = freshNumber()
    const first = await send(service({ to, client_ref: 'l1' }))
    assert.strictEqual(first.status, 202)
    const refused = await send(otp({ to }))
    assert.deepInclude((refused.body as Shown).error, {
      code: 'recipient_flood_limited',
      window: 'pause',
      param: 'to',
    })
    assert.isAtMost((refused.body as Shown).error?.retry_after ?? 0, 60)
    assert.strictEqual(refused.headers.get('retry-after'), String((refused.body as Shown).error?.retry_after))
    const repeat = await send(service({ to, client_ref: 'l1' }))
    assert.deepStrictEqual([repeat.status, (repeat.body as Shown).id], [202, (first.body as Shown).id])
  })

  // Rules: SBX-8
  it('apply to a single number in the sandbox', async () => {
    const test = { key: account.keys.test }
    for (let i = 0; i < 3; i++)
      assert.strictEqual((await send(service({ to: '+79000000001' }), test)).status, 202)
    assert.strictEqual((await send(otp({ to: '+79000000009' }), test)).status, 202)
    const refused = await send(service({ to: '+79000000009' }), test)
    assert.deepInclude((refused.body as Shown).error, { code: 'recipient_flood_limited', window: 'pause' })
    assert.isAbove((refused.body as Shown).error?.retry_after ?? 0, 200)
  })

  // Rules: BAT-8
  it('count the messages of one batch to one number', async () => {
    const to = freshNumber()
    const batch = await sendBatch([service({ to, client_ref: 'l2-0' }), service({ to, client_ref: 'l2-1' })])
    assert.deepStrictEqual(words(batch), ['accepted', 'recipient_flood_limited'])
    assert.strictEqual(batch.results[1]?.error?.param, 'messages[1].to')
  })

  // Rules: LIM-13, LIM-16, BAT-8
  it('enforce the spend limit in order, and charge nothing for repeats', async () => {
    const poor = await deployment.addAccount()
    await deployment.sql(
      (q) =>
        q`INSERT INTO command.account_settings (account, mode, spend_limit) VALUES (${poor.uuid}, 'live', 5)
               ON CONFLICT (account, mode) DO UPDATE SET spend_limit = 5`,
    )
    const key = poor.keys.live
    const batch = await sendBatch(
      Array.from({ length: 4 }, (_, i) => service({ client_ref: `l3-${i}` })),
      { key },
    )
    assert.deepStrictEqual(words(batch), [
      'accepted',
      'accepted',
      'spend_limit_reached',
      'spend_limit_reached',
    ])
    assert.strictEqual(await spentOf(poor), '4.00')
    const to = freshNumber()
    assert.strictEqual(codeOf(await send(service({ to }), { key })), 'spend_limit_reached')
    await deployment.sql(
      (q) => q`UPDATE command.account_settings SET spend_limit = 6 WHERE account = ${poor.uuid}`,
    )
    // The refused send does not count in a flood window either.
    await eventually(async () => (await send(service({ to, client_ref: 'l3-last' }), { key })).status === 202)
    assert.strictEqual(await spentOf(poor), '6.00')
    assert.strictEqual((await send(service({ to, client_ref: 'l3-last' }), { key })).status, 202)
    assert.strictEqual(await spentOf(poor), '6.00')
    assert.strictEqual((await send(service(), { key: poor.keys.test })).status, 202)
  })

  // Rules: LIM-20, LIM-23
  it('stop the whole hub for the day, except for messages accepted before', async () => {
    const known = service({ client_ref: 'l4' })
    await send(known)
    const waiting = service({ client_ref: 'l4-1' })
    const settings = (limit: number | null) =>
      deployment.sql((q) => q`UPDATE command.hub_settings SET daily_limit = ${limit}`)
    await settings(1)
    try {
      const refused = await eventually(async () => {
        const answer = await send(otp(), { key: account.keys.test })
        return answer.status === 429 ? answer : null
      })
      assert.strictEqual(codeOf(refused), 'hub_daily_limit_reached')
      assert.isAtLeast((refused.body as Shown).error?.retry_after ?? 0, 60)
      assert.strictEqual((await send(waiting, { idempotencyKey: 'l4' })).status, 429)
      const batch = await post('/v1/messages/batch', { messages: [known, service({ client_ref: 'l4-2' })] })
      assert.deepStrictEqual([batch.status, codeOf(batch)], [429, 'hub_daily_limit_reached'])
      const repeat = await sendBatch([known])
      assert.deepStrictEqual(words(repeat), ['duplicate'])
    } finally {
      await settings(null)
    }
    // The idempotency key does not store the refusal.
    await eventually(async () => (await send(waiting, { idempotencyKey: 'l4' })).status === 202)
  })

  // Source: BAT-9: the limit is checked once for the whole batch, before any message is created.
  // Rules: BAT-9
  it('accept a batch that begins below the daily limit in whole, and nothing behind it', async () => {
    const settings = (limit: number | null) =>
      deployment.sql((q) => q`UPDATE command.hub_settings SET daily_limit = ${limit}`)
    const accepted = async () => {
      const [row] = await deployment.sql<[{ count: number }]>(
        (q) => q`SELECT count(*)::integer AS count FROM command.acceptances`,
      )
      return row.count
    }
    const before = await accepted()
    const messages = Array.from({ length: 5 }, (_, i) => service({ client_ref: `l5-${i}` }))
    try {
      // The limit is reached, so the batch is refused until the higher limit holds.
      await settings(before)
      await eventually(async () => (await send(otp())).status === 429)
      const limit = (await accepted()) + 2
      await settings(limit)
      const batch = await eventually(async () => {
        const answer = await post('/v1/messages/batch', { messages })
        return answer.status === 202 ? (answer.body as ShownBatch) : null
      })
      assert.deepStrictEqual(words(batch), Array(5).fill('accepted'))
      assert.strictEqual(await accepted(), limit + 3)
      for (const key of [account.keys.live, account.keys.test]) {
        const answer = await send(otp(), { key })
        assert.deepStrictEqual([answer.status, codeOf(answer)], [429, 'hub_daily_limit_reached'])
      }
      assert.deepStrictEqual(words(await sendBatch(messages)), Array(5).fill('duplicate'))
    } finally {
      await settings(null)
    }
    await eventually(async () => (await send(otp())).status === 202)
  })
})
