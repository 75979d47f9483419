import { describe, expect, it } from 'vitest'
import { type HubClient, HubError, makeHubClient } from './client.ts'

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
    await expect(broken.hub.delete('/v1/webhook_endpoints/{id}', { path: { id: 'we_1' } })).rejects.toThrow(
      'hang up',
    )
    const failed = hubOf([failing(500, 'internal_error')])
    await expect(
      failed.hub.delete('/v1/webhook_endpoints/{id}', { path: { id: 'we_1' } }),
    ).rejects.toBeInstanceOf(HubError)
    expect([long.seen, broken.seen, failed.seen].map(({ length }) => length)).toEqual([1, 1, 1])
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
