import { readFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import manifest from '../package.json' with { type: 'json' }
import { createHubClient, type HubClient, makeHubClient } from './client.ts'
import {
  HubAuthenticationError,
  HubConflictError,
  HubConnectionError,
  HubError,
  HubInvalidRequestError,
  HubNotFoundError,
  HubOptionError,
  HubRateLimitError,
  HubUnavailableError,
} from './errors.ts'
import type { BatchMessage, SendResult } from './send-all.ts'

// Waits are the shortest ones, except where a test says otherwise.
beforeEach(() => {
  vi.spyOn(Math, 'random').mockReturnValue(0)
})
afterEach(() => {
  vi.restoreAllMocks()
})

interface Seen {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
}
type Answer = Response | Error

/** A fake hub that returns the answers in order, and then repeats the last one. */
const hubOf = (
  answers: ReadonlyArray<() => Answer>,
  maxRetries?: number,
): { hub: HubClient; seen: Array<Seen>; waits: Array<number> } => {
  const seen: Array<Seen> = []
  const send = ((url: string, init: RequestInit) => {
    const next = answers[Math.min(seen.length, answers.length - 1)]!
    seen.push({
      method: init.method ?? '',
      url,
      headers: init.headers as Record<string, string>,
      body: init.body as string | undefined,
    })
    const answer = next()
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer)
  }) as unknown as typeof fetch
  const waits: Array<number> = []
  const hub = makeHubClient(
    {
      baseUrl: 'https://hub.example.com/',
      apiKey: 'hub_test_x',
      fetch: send,
      ...(maxRetries === undefined ? {} : { maxRetries }),
    },
    async (ms) => {
      waits.push(ms)
    },
  )
  return { hub, seen, waits }
}

const json =
  (status: number, body: unknown, headers: Record<string, string> = {}) =>
  () =>
    new Response(JSON.stringify(body), { status, headers })
const failing = (status: number, code: string, retryAfter?: number) =>
  json(status, {
    error: {
      code,
      message: 'words',
      request_id: 'req_1',
      doc_url: 'https://hub.example.com/docs/errors',
      ...(retryAfter === undefined ? {} : { retry_after: retryAfter }),
    },
  })
const SEND = { to: '+79000000001', class: 'otp', template: 'otp_code', variables: { code: '1' } } as const

describe('a call', () => {
  it('sends the key, path, query and body', async () => {
    const { hub, seen } = hubOf([json(200, { object: 'list', data: [], has_more: false, next_cursor: null })])
    await hub.get('/v1/webhook_endpoints/{id}/deliveries', { path: { id: 'we_/?' }, query: { limit: 5 } })
    await hub.get('/v1/events', { query: { type: ['message.sent', 'message.seen'] } })
    await hub.post('/v1/messages', { body: SEND, idempotencyKey: 'k' })
    await hub.delete('/v1/webhook_endpoints/{id}', { path: { id: 'we_1' } })
    await hub.patch('/v1/webhook_endpoints/{id}', { path: { id: 'we_1' }, body: { description: null } })
    expect(seen.map(({ method, url }) => `${method} ${url}`)).toEqual([
      'GET https://hub.example.com/v1/webhook_endpoints/we_%2F%3F/deliveries?limit=5',
      'GET https://hub.example.com/v1/events?type=message.sent&type=message.seen',
      'POST https://hub.example.com/v1/messages',
      'DELETE https://hub.example.com/v1/webhook_endpoints/we_1',
      'PATCH https://hub.example.com/v1/webhook_endpoints/we_1',
    ])
    expect(seen.every(({ headers }) => headers['authorization'] === 'Bearer hub_test_x')).toBe(true)
    expect(seen[2]).toMatchObject({
      headers: { 'idempotency-key': 'k', 'content-type': 'application/json' },
      body: JSON.stringify(SEND),
    })
    expect(seen[3]!.headers).not.toHaveProperty('idempotency-key')
    expect(seen[4]).toMatchObject({ body: '{"description":null}' })
  })

  it('names the client and its version', async () => {
    const { hub, seen } = hubOf([json(200, {})])
    await hub.account.get()
    expect(seen[0]?.headers['user-agent']).toBe(`sms-delivery-hub-client/${manifest.version}`)
  })

  it('asks for JSON and has its type where the hub also answers in another media type', async () => {
    const counts = { accepted: 1, price: { amount: '2.00', currency: 'RUB' } }
    const { hub, seen } = hubOf([json(200, { object: 'stats', totals: counts, data: [] })])
    const stats = await hub.get('/v1/stats', { query: { group_by: 'hour' } })
    expect([stats.totals.accepted, stats.totals.price.amount]).toEqual([1, '2.00'])
    expect(seen[0]?.headers['accept']).toBe('application/json')
  })

  it('that is refused fails with the error of the hub', async () => {
    const { hub, seen } = hubOf([
      json(422, {
        error: {
          code: 'recipient_invalid',
          message: 'words',
          param: 'to',
          request_id: 'req_1',
          doc_url: 'https://d',
        },
      }),
    ])
    const error: unknown = await hub.post('/v1/messages', { body: SEND }).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(HubError)
    expect(error).toMatchObject({
      status: 422,
      code: 'recipient_invalid',
      param: 'to',
      requestId: 'req_1',
      retryAfter: null,
      docUrl: 'https://d',
      message: 'words',
    })
    expect(seen).toHaveLength(1)
  })

  it('that another server answers fails with the status', async () => {
    const { hub } = hubOf([() => new Response('<html>', { status: 404, headers: { 'request-id': 'req_2' } })])
    await expect(hub.get('/v1/account')).rejects.toMatchObject({
      status: 404,
      code: 'unknown',
      requestId: 'req_2',
    })
  })
})

describe('a retry', () => {
  it('of a POST has the same idempotency key after every kind of failure', async () => {
    for (const [trouble, waited] of [
      [failing(409, 'idempotency_conflict', 1), [1000, 1000]],
      [failing(429, 'rate_limited', 1), [1000, 1000]],
      [failing(503, 'provider_unavailable', 2), [2000, 2000]],
      [failing(500, 'internal_error'), [500, 1000]],
      [() => new Error('socket hang up'), [500, 1000]],
    ] as const) {
      const { hub, seen, waits } = hubOf([trouble, trouble, json(202, { id: 'msg_1' })])
      expect(await hub.post('/v1/messages', { body: SEND })).toEqual({ id: 'msg_1' })
      expect(seen).toHaveLength(3)
      expect(waits).toEqual(waited)
      const keys = new Set(seen.map(({ headers }) => headers['idempotency-key']))
      expect(keys.size).toBe(1)
      expect([...keys][0]).toMatch(/^[0-9a-f-]{36}$/u)
    }
  })

  it('waits up to half as long again at random, and never longer than 30 s', async () => {
    const waitsAt = async (part: number, answer: () => Answer): Promise<ReadonlyArray<number>> => {
      vi.mocked(Math.random).mockReturnValue(part)
      const { hub, waits } = hubOf([answer], 8)
      await expect(hub.account.get()).rejects.toBeInstanceOf(HubError)
      return waits
    }
    const shortest = [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]
    expect(await waitsAt(0, failing(500, 'internal_error'))).toEqual(shortest)
    const middle = [625, 1250, 2500, 5000, 10_000, 20_000, 30_000, 30_000]
    expect(await waitsAt(0.5, failing(500, 'internal_error'))).toEqual(middle)
    // Never earlier than the hub asks for.
    expect(new Set(await waitsAt(0.5, failing(503, 'overloaded', 8)))).toEqual(new Set([10_000]))
    expect(new Set(await waitsAt(0.5, failing(503, 'overloaded', 29)))).toEqual(new Set([30_000]))
  })

  it('is limited, and then the call fails with the last error', async () => {
    const { hub, seen } = hubOf([failing(503, 'internal_error', 1)], 1)
    await expect(hub.get('/v1/account')).rejects.toMatchObject({
      status: 503,
      retryAfter: 1,
    })
    expect(seen).toHaveLength(2)
  })

  it('is not made after a long retry_after, nor for a deletion that may have happened', async () => {
    const long = hubOf([failing(429, 'hub_daily_limit_reached', 3600)])
    await expect(long.hub.post('/v1/messages', { body: SEND })).rejects.toMatchObject({ retryAfter: 3600 })
    const broken = hubOf([() => new Error('socket hang up')])
    await expect(
      broken.hub.delete('/v1/webhook_endpoints/{id}', { path: { id: 'we_1' } }),
    ).rejects.toMatchObject({ code: 'connection_failed', cause: new Error('socket hang up') })
    const failed = hubOf([failing(500, 'internal_error')])
    await expect(
      failed.hub.delete('/v1/webhook_endpoints/{id}', { path: { id: 'we_1' } }),
    ).rejects.toBeInstanceOf(HubError)
    expect([long.seen, broken.seen, failed.seen].map(({ length }) => length)).toEqual([1, 1, 1])
  })
})

describe('an error', () => {
  it.each([
    [401, 'invalid_api_key', HubAuthenticationError],
    [404, 'not_found', HubNotFoundError],
    [409, 'idempotency_conflict', HubConflictError],
    [413, 'payload_too_large', HubInvalidRequestError],
    [422, 'recipient_invalid', HubInvalidRequestError],
    [429, 'rate_limited', HubRateLimitError],
    [500, 'internal_error', HubUnavailableError],
    [503, 'overloaded', HubUnavailableError],
  ])('of status %d with code %s has a class of its own', async (status, code, expected) => {
    const { hub } = hubOf([failing(status, code)], 0)
    const error: unknown = await hub.account.get().catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(expected)
    expect(error).toBeInstanceOf(HubError)
    expect(error).toMatchObject({ name: expected.name, status, code, isOutcomeUnknown: false })
  })

  it('without an answer says that the outcome is unknown, and has the cause', async () => {
    const cause = new Error('socket hang up')
    const { hub } = hubOf([() => cause], 0)
    const error: unknown = await hub.messages.send(SEND).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(HubConnectionError)
    expect(error).toMatchObject({ status: null, code: 'connection_failed', isOutcomeUnknown: true, cause })
  })

  it.each([
    ['', 'must be the URL of the hub'],
    ['hub.example.com', 'must be the URL of the hub'],
    ['ftp://hub.example.com', 'must begin with https://'],
    ['https://user:word@hub.example.com', 'must not contain a user'],
    ['https://hub.example.com/?a=b', 'must not contain a query'],
    ['https://hub.example.com/#a', 'must not contain a query'],
    ['https://hub.example.com/v1', 'must not end with /v1'],
    ['https://hub.example.com/sms/v1/', 'must not end with /v1'],
  ])('refuses the base URL "%s" at once', (baseUrl, reason) => {
    const make = () => createHubClient({ baseUrl, apiKey: 'hub_test_x' })
    expect(make).toThrow(HubOptionError)
    expect(make).toThrow(reason)
  })

  it.each([
    { maxRetries: Number.NaN },
    { maxRetries: -1 },
    { maxRetries: 1.5 },
    { timeoutMs: 0 },
    { timeoutMs: Number.NaN },
    { timeoutMs: 2 ** 31 },
  ])('refuses the option %o at once', (option) => {
    const make = () =>
      createHubClient({ baseUrl: 'https://hub.example.com', apiKey: 'hub_test_x', ...option })
    expect(make).toThrow(expect.objectContaining({ code: 'invalid_option', param: Object.keys(option)[0] }))
  })

  it('refuses an API key that cannot be a header, without repeating it', () => {
    for (const apiKey of ['', 'hub_test_x\n', 'hub test', 'ключ']) {
      const make = () => createHubClient({ baseUrl: 'https://hub.example.com', apiKey })
      expect(make).toThrow(expect.objectContaining({ code: 'invalid_option', param: 'apiKey' }))
      expect(make).not.toThrow(apiKey === '' ? 'hub test' : apiKey)
    }
  })

  // The types allow only paths of the API. Programs in JavaScript have none.
  it('refuses a path that is none, and sends nothing', async () => {
    const { hub, seen, waits } = hubOf([json(200, { data: [] })])
    const untyped = hub as unknown as Record<string, (path: string, options?: object) => Promise<unknown>>
    const calls = [
      ...['get', 'post', 'patch', 'delete'].map((method) => untyped[method]!),
      (path: string) => (hub.list as (path: string) => AsyncGenerator)(path).next(),
    ]
    // Behind the host of the hub, they would be another host, or no URL.
    for (const path of [
      '',
      'v1/messages',
      '@other.example/x',
      '.other.example',
      ':81/x',
      '/v1/a b',
      '/v1/я',
      '/v1\n',
    ]) {
      for (const call of calls) {
        const error = { name: 'HubOptionError', code: 'invalid_option', param: 'path' }
        await expect(call(path), path).rejects.toMatchObject(error)
      }
    }
    await expect(untyped['get']!('{id}', { path: { id: '.other.example' } })).rejects.toMatchObject({
      param: 'path',
    })
    expect([seen, waits]).toEqual([[], []])
    await untyped['get']!('/v1/messages?limit=1')
    expect(seen[0]?.url).toBe('https://hub.example.com/v1/messages?limit=1')
  })

  it('refuses other options that no request can have', async () => {
    const { hub, seen, waits } = hubOf([json(200, {})])
    for (const id of ['', undefined as unknown as string]) {
      await expect(hub.messages.get(id)).rejects.toMatchObject({ name: 'HubOptionError', param: 'id' })
    }
    for (const idempotencyKey of ['a\nb', 'ключ']) {
      const sending = hub.messages.send(SEND, { idempotencyKey })
      await expect(sending).rejects.toMatchObject({ name: 'HubOptionError', param: 'idempotencyKey' })
    }
    expect([seen, waits]).toEqual([[], []])
  })
})

describe('a named method', () => {
  it('exists for each operation, and calls its path', async () => {
    const { hub, seen } = hubOf([json(200, { data: [], has_more: false, next_cursor: null })])
    const id = 'id_1'
    await hub.messages.send(SEND, { idempotencyKey: 'k' })
    await hub.messages.sendBatch([{ ...SEND, client_ref: 'a' }])
    await hub.messages.estimate(SEND)
    await hub.messages.estimateBatch([SEND])
    await hub.messages.get(id)
    await hub.messages.list({ status: 'sent' }).next()
    await hub.batches.get(id)
    await hub.templates.create({ name: 'a', class: 'otp', sender: 'HUB', body: 'b' })
    await hub.templates.get(id)
    await hub.templates.list().next()
    await hub.templates.delete(id)
    await hub.templates.render(id, { variables: {} })
    await hub.senders.create({ name: 'HUB' })
    await hub.senders.get(id)
    await hub.senders.list().next()
    await hub.senders.delete(id)
    await hub.webhookEndpoints.create({ url: 'https://example.com/' })
    await hub.webhookEndpoints.get(id)
    await hub.webhookEndpoints.list().next()
    await hub.webhookEndpoints.update(id, { description: null })
    await hub.webhookEndpoints.delete(id)
    await hub.webhookEndpoints.rotateSecret(id, { expire_previous: true })
    await hub.webhookEndpoints.test(id)
    await hub.webhookEndpoints.enable(id)
    await hub.webhookEndpoints.deliveries(id).next()
    await hub.webhookEndpoints.resend(id, 'whd_1')
    await hub.events.list({ type: ['message.sent'] }).next()
    await hub.account.get()
    await hub.stats.get({ group_by: 'hour' })
    expect(seen.map(({ method, url }) => `${method} ${url.replace('https://hub.example.com', '')}`)).toEqual([
      'POST /v1/messages',
      'POST /v1/messages/batch',
      'POST /v1/messages/estimate',
      'POST /v1/messages/estimate',
      'GET /v1/messages/id_1',
      'GET /v1/messages?status=sent',
      'GET /v1/batches/id_1',
      'POST /v1/templates',
      'GET /v1/templates/id_1',
      'GET /v1/templates',
      'DELETE /v1/templates/id_1',
      'POST /v1/templates/id_1/render',
      'POST /v1/senders',
      'GET /v1/senders/id_1',
      'GET /v1/senders',
      'DELETE /v1/senders/id_1',
      'POST /v1/webhook_endpoints',
      'GET /v1/webhook_endpoints/id_1',
      'GET /v1/webhook_endpoints',
      'PATCH /v1/webhook_endpoints/id_1',
      'DELETE /v1/webhook_endpoints/id_1',
      'POST /v1/webhook_endpoints/id_1/rotate_secret',
      'POST /v1/webhook_endpoints/id_1/test',
      'POST /v1/webhook_endpoints/id_1/enable',
      'GET /v1/webhook_endpoints/id_1/deliveries',
      'POST /v1/webhook_endpoints/id_1/deliveries/whd_1/resend',
      'GET /v1/events?type=message.sent',
      'GET /v1/account',
      'GET /v1/stats?group_by=hour',
    ])
    expect(seen[0]!.headers['idempotency-key']).toBe('k')
    const withoutKey = seen.filter(
      ({ headers, method }) => method === 'POST' && headers['idempotency-key'] === undefined,
    )
    expect(withoutKey.map(({ url }) => new URL(url).pathname)).toEqual([
      '/v1/messages/estimate',
      '/v1/messages/estimate',
      '/v1/templates/id_1/render',
    ])
    const { paths } = JSON.parse(
      readFileSync(new URL('../../contract/openapi.json', import.meta.url), 'utf8'),
    ) as { readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>> }
    const operations = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods)
        .filter((method) => ['get', 'post', 'patch', 'delete', 'put'].includes(method))
        .map((method) => `${method.toUpperCase()} ${path}`),
    )
    const called = new Set(
      seen.map(({ method, url }) => {
        const path = new URL(url).pathname.replace('whd_1', '{delivery}').replace('id_1', '{id}')
        return `${method} ${path}`
      }),
    )
    expect(operations.filter((operation) => !called.has(operation))).toEqual(['GET /v1/openapi.json'])
  })
})

/** A fake hub whose answers depend on the request. */
const serving = (
  answer: (path: string, body: any, calls: number) => Answer | Promise<Answer>,
  waiting: (signal: AbortSignal | undefined) => Promise<void> = async () => {},
): ReturnType<typeof hubOf> => {
  const seen: Array<Seen> = []
  const waits: Array<number> = []
  const send = (async (url: string, init: RequestInit) => {
    const body = init.body as string | undefined
    seen.push({ method: init.method ?? '', url, headers: init.headers as Record<string, string>, body })
    const given = await answer(
      new URL(url).pathname + new URL(url).search,
      body === undefined ? null : JSON.parse(body),
      seen.length,
    )
    if (given instanceof Error) throw given
    return given
  }) as unknown as typeof fetch
  const hub = makeHubClient(
    { baseUrl: 'https://hub.example.com', apiKey: 'hub_test_x', fetch: send },
    async (ms, signal) => {
      signal?.throwIfAborted()
      waits.push(ms)
      await waiting(signal)
    },
  )
  return { hub, seen, waits }
}

const messagesOf = (count: number): ReadonlyArray<BatchMessage> =>
  Array.from({ length: count }, (_, index) => ({ ...SEND, client_ref: `ref-${index}` }))

const acceptedBatch = (messages: ReadonlyArray<BatchMessage>): Response =>
  json(202, {
    results: messages.map(({ client_ref }, index) => ({ index, client_ref, result: 'accepted' })),
  })()

const collect = async <A>(all: AsyncIterable<A>): Promise<ReadonlyArray<A>> => {
  const found: Array<A> = []
  for await (const one of all) found.push(one)
  return found
}

const brief = (results: ReadonlyArray<SendResult>): ReadonlyArray<unknown> =>
  results.map(({ client_ref, index, result }) => [index, client_ref, result])

describe('sendAll', () => {
  it('sends batches of the size that the account allows, and yields the results in order', async () => {
    const { hub, seen } = serving(async (path, body, calls) => {
      if (path === '/v1/account') return json(200, { limits: { batch_max: 3 } })()
      // A later batch is answered before an earlier one.
      for (let turn = 0; turn < 10 - calls; turn++) await Promise.resolve()
      return acceptedBatch(body.messages)
    })
    const results = await collect(hub.messages.sendAll(messagesOf(7)))
    expect(brief(results)).toEqual(
      messagesOf(7).map(({ client_ref }, index) => [index, client_ref, 'accepted']),
    )
    const sizes = seen.slice(1).map(({ body }) => JSON.parse(body ?? '').messages.length)
    expect(sizes).toEqual([3, 3, 1])
  })

  it('reads a generator only as far as batches are in progress', async () => {
    let read = 0
    const source = function* () {
      for (const message of messagesOf(100)) {
        read += 1
        yield message
      }
    }
    const { hub } = serving((_path, body) => acceptedBatch(body.messages))
    const results = hub.messages.sendAll(source(), { batchSize: 5, concurrency: 2 })
    await results.next()
    // The results of at most sixteen batches wait, and one message begins the next batch.
    const most = read
    expect(most).toBeLessThanOrEqual(81)
    await results.return()
    expect(read).toBe(most)
  })

  it('continues behind a slow batch, and yields its results first', async () => {
    let answerFirst = (_answer: Response): void => {}
    const { hub, seen } = serving((_path, body, calls) => {
      // The first batch is answered when eight others have been sent.
      if (calls === 9) answerFirst(acceptedBatch(messagesOf(1)))
      if (calls > 1) return acceptedBatch(body.messages)
      return new Promise<Response>((resolve) => (answerFirst = resolve))
    })
    const results = await collect(hub.messages.sendAll(messagesOf(20), { batchSize: 1, concurrency: 4 }))
    expect(results.map(({ index }) => index)).toEqual(messagesOf(20).map((_, index) => index))
    expect(seen).toHaveLength(20)
  })

  it('splits batches that are too large for one request', async () => {
    const big = messagesOf(5).map((message) => ({ ...message, variables: { code: 'я'.repeat(500_000) } }))
    const { hub, seen } = serving((_path, body) => acceptedBatch(body.messages))
    expect(await collect(hub.messages.sendAll(big, { batchSize: 1000 }))).toHaveLength(5)
    expect(seen.map(({ body }) => JSON.parse(body ?? '').messages.length)).toEqual([4, 1])
    expect(Math.max(...seen.map(({ body }) => Buffer.byteLength(body ?? '')))).toBeLessThan(4 * 1024 * 1024)
  })

  it('retries a batch after retry_after, without an idempotency key', async () => {
    const { hub, seen, waits } = serving((_path, body, calls) =>
      calls < 4 ? failing(503, 'overloaded', 2)() : acceptedBatch(body.messages),
    )
    expect(await collect(hub.messages.sendAll(messagesOf(2), { batchSize: 2 }))).toHaveLength(2)
    expect(waits).toEqual([2000, 2000, 2000])
    expect(seen.map(({ headers }) => headers['idempotency-key'])).toEqual(Array(4).fill(undefined))
  })

  it('sends other batches while a refused one waits for its retry_after', async () => {
    const refused = new Set<string>()
    const order: Array<string> = []
    let endWait = (): void => {}
    const { hub } = serving(
      (_path, body) => {
        const [{ client_ref: first }] = body.messages
        order.push(first)
        if (first === 'ref-1' && !refused.has(first)) {
          refused.add(first)
          return failing(503, 'overloaded', 9)()
        }
        if (first === 'ref-5') endWait()
        return acceptedBatch(body.messages)
      },
      () => new Promise<void>((resolve) => (endWait = resolve)),
    )
    const results = await collect(hub.messages.sendAll(messagesOf(8), { batchSize: 1 }))
    expect(brief(results)).toEqual(
      messagesOf(8).map(({ client_ref }, index) => [index, client_ref, 'accepted']),
    )
    // The repeat comes before the batches that were not sent yet.
    expect(order).toEqual(['ref-0', 'ref-1', 'ref-2', 'ref-3', 'ref-4', 'ref-5', 'ref-1', 'ref-6', 'ref-7'])
  })

  it('repeats a refused batch before it sends the next one', async () => {
    const order: Array<string> = []
    const { hub } = serving((_path, body) => {
      const [{ client_ref: first }] = body.messages
      order.push(first)
      return first === 'ref-1' && order.length === 2
        ? failing(503, 'overloaded', 9)()
        : acceptedBatch(body.messages)
    })
    await collect(hub.messages.sendAll(messagesOf(4), { batchSize: 1, concurrency: 1 }))
    expect(order).toEqual(['ref-0', 'ref-1', 'ref-1', 'ref-2', 'ref-3'])
  })

  it('sends the next batch in the moment of an answer, also while the caller works with results', async () => {
    const answers: Array<() => void> = []
    const { hub, seen } = serving(
      (_path, body) =>
        new Promise<Response>((resolve) => answers.push(() => resolve(acceptedBatch(body.messages)))),
    )
    const turns = async (): Promise<void> => {
      for (let turn = 0; turn < 50; turn++) await Promise.resolve()
    }
    const results = hub.messages.sendAll(messagesOf(50), { batchSize: 10 })
    const first = results.next()
    await turns()
    expect(seen).toHaveLength(2)
    answers[0]!()
    await first
    await turns()
    // The caller has one result, and asks for no other one.
    expect(seen).toHaveLength(3)
    answers[1]!()
    await turns()
    expect(seen).toHaveLength(4)
    const ended = results.return()
    for (const answer of answers) answer()
    await ended
  })

  it('sends nothing while a hub refuses the only batch in progress', async () => {
    let inProgress = 0
    let accepts = false
    const waits: Array<() => void> = []
    const { hub, seen } = serving(
      async (_path, body) => {
        inProgress += 1
        await Promise.resolve()
        inProgress -= 1
        return accepts ? acceptedBatch(body.messages) : failing(503, 'overloaded', 5)()
      },
      () => new Promise<void>((resolve) => waits.push(resolve)),
    )
    const collected = collect(hub.messages.sendAll(messagesOf(100), { batchSize: 1 }))
    const turns = async (): Promise<void> => {
      for (let turn = 0; turn < 50; turn++) await Promise.resolve()
    }
    await turns()
    // The two first ones. Each end of a wait allows one attempt.
    expect([seen.length, inProgress]).toEqual([2, 0])
    waits.shift()?.()
    await turns()
    expect([seen.length, inProgress]).toEqual([3, 0])
    accepts = true
    for (const end of waits.splice(0)) end()
    expect(await collected).toHaveLength(100)
  })

  it('has as many batches in progress as the hub accepts, and four at most', async () => {
    for (const [room, expected] of [
      [3, 3],
      [1, 1],
      [9, 4],
    ] as const) {
      let inProgress = 0
      const seenInProgress: Array<number> = []
      const { hub } = serving(async (_path, body) => {
        if (inProgress >= room) return failing(503, 'overloaded', 1)()
        inProgress += 1
        seenInProgress.push(inProgress)
        for (let turn = 0; turn < 200; turn++) await Promise.resolve()
        inProgress -= 1
        return acceptedBatch(body.messages)
      })
      expect(await collect(hub.messages.sendAll(messagesOf(200), { batchSize: 1 }))).toHaveLength(200)
      expect(Math.max(...seenInProgress)).toBe(expected)
    }
  })

  it('ends when its signal aborts while one batch waits for its retry_after and another for its turn', async () => {
    const stop = new AbortController()
    let waits = 0
    const { hub } = serving(
      () => failing(503, 'overloaded', 9)(),
      (signal) => {
        waits += 1
        // Both were refused. The second attempt of the first one is refused too.
        if (waits < 3) return Promise.resolve()
        queueMicrotask(() => stop.abort(new Error('stopped')))
        return new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)))
      },
    )
    const sending = collect(hub.messages.sendAll(messagesOf(9), { batchSize: 1, signal: stop.signal }))
    await expect(sending).rejects.toThrow('stopped')
  })

  it('yields the results of earlier batches that were refused before it throws', async () => {
    const refused = new Set<string>()
    const { hub } = serving((_path, body) => {
      const [{ client_ref: first }] = body.messages
      if (first === 'ref-1') return failing(422, 'invalid_request')()
      if (refused.has(first)) return acceptedBatch(body.messages)
      refused.add(first)
      return failing(503, 'overloaded', 1)()
    })
    const yielded: Array<number> = []
    const sending = async () => {
      for await (const { index } of hub.messages.sendAll(messagesOf(3), { batchSize: 1 })) yielded.push(index)
    }
    await expect(sending()).rejects.toBeInstanceOf(HubInvalidRequestError)
    expect(yielded).toEqual([0])
  })

  it('repeats only the rejected messages that the hub may accept later', async () => {
    const { hub, seen, waits } = serving((_path, body, calls) => {
      const answer = body.messages.map(({ client_ref }: BatchMessage, index: number) => {
        const code = { 'ref-1': 'provider_unavailable', 'ref-2': 'recipient_invalid' }[client_ref]
        return code === undefined || (calls > 1 && code === 'provider_unavailable')
          ? { index, client_ref, result: 'accepted' }
          : { index, client_ref, result: 'rejected', error: { code, retry_after: 3 } }
      })
      return json(202, { results: answer })()
    })
    const results = await collect(hub.messages.sendAll(messagesOf(4), { batchSize: 4 }))
    expect(results.map(({ index, result }) => [index, result])).toEqual([
      [0, 'accepted'],
      [1, 'accepted'],
      [2, 'rejected'],
      [3, 'accepted'],
    ])
    expect(waits).toEqual([3000])
    expect(JSON.parse(seen[1]?.body ?? '').messages).toEqual([messagesOf(4)[1]])
  })

  it('repeats a message whose flood windows were not checked, and none that a window refuses', async () => {
    const { hub, seen, waits } = serving((_path, body, calls) => {
      const answer = body.messages.map(({ client_ref }: BatchMessage, index: number) => {
        const code = 'recipient_flood_limited'
        if (client_ref === 'ref-0') {
          const error = { code, window: 'pause', retry_after: 1 }
          return { index, client_ref, result: 'rejected', error }
        }
        return calls > 2
          ? { index, client_ref, result: 'accepted' }
          : { index, client_ref, result: 'rejected', error: { code } }
      })
      return json(202, { results: answer })()
    })
    const results = await collect(hub.messages.sendAll(messagesOf(2), { batchSize: 2 }))
    expect(results.map(({ result }) => result)).toEqual(['rejected', 'accepted'])
    expect(seen).toHaveLength(3)
    // The waits of a client without retry_after.
    expect(waits).toEqual([500, 1000])
    // An answer that is stored under a key would come again.
    expect(seen.map(({ headers }) => headers['idempotency-key'])).toEqual([undefined, undefined, undefined])
  })

  it('throws the error of a batch after the results of the earlier ones', async () => {
    const { hub } = serving((_path, body) =>
      body.messages[0].client_ref === 'ref-2'
        ? failing(401, 'invalid_api_key')()
        : acceptedBatch(body.messages),
    )
    const yielded: Array<number> = []
    const sending = async () => {
      for await (const { index } of hub.messages.sendAll(messagesOf(6), { batchSize: 2 })) yielded.push(index)
    }
    await expect(sending()).rejects.toBeInstanceOf(HubAuthenticationError)
    expect(yielded).toEqual([0, 1])
  })

  it('refuses options that are no count', async () => {
    const { hub } = hubOf([])
    for (const options of [{ batchSize: 0 }, { concurrency: 1.5 }, { maxRetries: Number.NaN }]) {
      await expect(hub.messages.sendAll([], options).next()).rejects.toBeInstanceOf(HubOptionError)
    }
  })
})

describe('follow', () => {
  const page = (ids: ReadonlyArray<string>, more: boolean, cursor = ids.at(-1) ?? null) =>
    json(200, { data: ids.map((id) => ({ id })), has_more: more, next_cursor: cursor })

  it('yields the events after the cursor, waits for new ones, and ends when the signal aborts', async () => {
    const { hub, seen, waits } = hubOf([
      page(['evt_2', 'evt_3'], true),
      page(['evt_4'], false),
      page([], false, 'evt_4'),
      page(['evt_5'], false),
    ])
    const stop = new AbortController()
    const ids: Array<string> = []
    for await (const { id } of hub.events.follow('evt_1', { signal: stop.signal, pollMs: 70 })) {
      ids.push(id)
      if (id === 'evt_5') stop.abort()
    }
    expect(ids).toEqual(['evt_2', 'evt_3', 'evt_4', 'evt_5'])
    expect(seen.map(({ url }) => new URL(url).searchParams.get('starting_after'))).toEqual([
      'evt_1',
      'evt_3',
      'evt_4',
      'evt_4',
    ])
    expect(waits.slice(0, 2)).toEqual([70, 70])
  })

  it('without a cursor begins at the first event, or after a time', async () => {
    const { hub, seen } = hubOf([page(['evt_1'], true)])
    await hub.events.follow(null, { createdAfter: '2026-11-21T09:30:00.000Z' }).next()
    await hub.events.follow(null, { type: ['message.sent'] }).next()
    expect(seen.map(({ url }) => new URL(url).search)).toEqual([
      '?limit=100&created_after=2026-11-21T09%3A30%3A00.000Z',
      '?limit=100&type=message.sent',
    ])
  })

  it('waits while the hub is unavailable or cannot be reached, and yields each event once', async () => {
    const down = [
      failing(503, 'overloaded', 1),
      () => new Error('socket hang up'),
      failing(429, 'rate_limited', 2),
    ]
    const { hub } = hubOf([page(['evt_1'], true), ...down, ...down, ...down, page(['evt_2'], true)])
    const ids: Array<string> = []
    for await (const { id } of hub.events.follow()) {
      ids.push(id)
      if (id === 'evt_2') break
    }
    expect(ids).toEqual(['evt_1', 'evt_2'])
  })

  it('fails if a repeat would fail again', async () => {
    const { hub } = hubOf([failing(401, 'invalid_api_key')])
    await expect(hub.events.follow().next()).rejects.toBeInstanceOf(HubAuthenticationError)
  })
})

describe('a list', () => {
  it('reads all pages, with the cursor instead of created_after', async () => {
    const page = (ids: ReadonlyArray<string>, more: boolean) =>
      json(200, {
        object: 'list',
        data: ids.map((id) => ({ id })),
        has_more: more,
        next_cursor: ids.at(-1) ?? null,
      })
    const { hub, seen } = hubOf([page(['evt_1', 'evt_2'], true), page(['evt_3'], false)])
    const ids: Array<string> = []
    for await (const event of hub.list('/v1/events', {
      query: { created_after: '2026-11-21T09:30:00.000Z', limit: 2 },
    })) {
      ids.push(event.id)
    }
    expect(ids).toEqual(['evt_1', 'evt_2', 'evt_3'])
    expect(seen.map(({ url }) => new URL(url).search)).toEqual([
      '?created_after=2026-11-21T09%3A30%3A00.000Z&limit=2',
      '?limit=2&starting_after=evt_2',
    ])
  })

  // Rules: MSG-37, SUB-31
  it('keeps created_after on all pages where it is a filter', async () => {
    const page = (more: boolean) => json(200, { data: [{ id: 'id_1' }], has_more: more, next_cursor: 'id_1' })
    const { hub, seen } = hubOf([page(true), page(false), page(true), page(false)])
    const query = { created_after: '2026-11-21T09:30:00.000Z' }
    for (const list of [hub.messages.list(query), hub.webhookEndpoints.deliveries('we_1', query)]) {
      for await (const _ of list);
    }
    expect(seen.map(({ url }) => new URL(url).searchParams.get('created_after'))).toEqual(
      Array(4).fill('2026-11-21T09:30:00.000Z'),
    )
    expect(seen.map(({ url }) => new URL(url).searchParams.get('starting_after'))).toEqual([
      null,
      'id_1',
      null,
      'id_1',
    ])
  })
})

describe('the types', () => {
  it('contain the paths with their parameters and answers', () => {
    const never = (): boolean => false
    if (never()) {
      const { hub } = hubOf([])
      // @ts-expect-error there is no such path
      void hub.get('/v1/nothing')
      // @ts-expect-error this path cannot be deleted
      void hub.delete('/v1/messages')
      // @ts-expect-error the id is missing
      void hub.get('/v1/messages/{id}')
      // @ts-expect-error the body is missing
      void hub.post('/v1/messages')
      // @ts-expect-error there is no such class
      void hub.post('/v1/messages', { body: { ...SEND, class: 'voice' } })
      // @ts-expect-error there is no such status
      void hub.get('/v1/messages', { query: { status: 'lost' } })
      // @ts-expect-error an account is no list
      void hub.list('/v1/account')
      // @ts-expect-error this operation has no body
      void hub.post('/v1/webhook_endpoints/{id}/test', { path: { id: 'we_1' }, body: {} })
      const path = { id: 'we_1' }
      void hub.post('/v1/webhook_endpoints/{id}/rotate_secret', { path })
      void hub.post('/v1/webhook_endpoints/{id}/rotate_secret', { path, body: { expire_previous: true } })
      void hub
        .post('/v1/webhook_endpoints/{id}/test', { path: { id: 'we_1' } })
        .then((attempt) => attempt.trial)
      void hub.post('/v1/messages', { body: SEND }).then((message) => message.status === 'accepted')
    }
    expect(never()).toBe(false)
  })
})
