/** Webhook subscriptions over HTTP. The tests act as the fan-out. */
import { randomUUID } from 'node:crypto'
import { decodeId, encodeId, eventBatchId } from '@hub/domain'
import { decodeSubscriptionChanged } from '@hub/kafka'
import { eventually } from '@hub/testkit'
import { Effect, Result } from 'effect'
import { describe, expect, it } from 'vitest'
import {
  type Account,
  type Api,
  call,
  type Deployment,
  isLate,
  startBeforeTests,
} from '../testing/harness.ts'

let deployment: Deployment
let api: Api
let account: Account

startBeforeTests((started) => ({ deployment, api, account } = started))

type Body = any

/** Repeats a check until it does not throw. */
const holds = (check: () => void | Promise<void>) =>
  eventually(async () => {
    await check()
    return true
  })

const as = (key: string) => ({
  get: (path: string) =>
    call(api.url, path, { key }) as Promise<{ status: number; body: Body; headers: Headers }>,
  post: (path: string, body?: unknown, headers?: Record<string, string>) =>
    call(api.url, path, {
      key,
      method: 'POST',
      body,
      ...(headers === undefined ? {} : { headers }),
    }) as Promise<{
      status: number
      body: Body
      headers: Headers
    }>,
  delete: (path: string) =>
    call(api.url, path, { key, method: 'DELETE' }) as Promise<{ status: number; body: Body }>,
})
const live = () => as(account.keys.live)

/** Creates a subscription. If a server is late, the idempotency key lets the request be repeated. */
const make = (key: string): Promise<{ status: number; body: Body }> => {
  const headers = { 'idempotency-key': randomUUID() }
  return eventually(async () => {
    const answer: { status: number; body: Body; headers: Headers } = await call(
      api.url,
      '/v1/webhook_endpoints',
      { key, body: { url: 'https://1.1.1.1/hooks' }, headers },
    )
    // The first request may still run.
    return isLate(answer) || answer.body.error?.code === 'idempotency_conflict' ? null : answer
  })
}

const create = async (): Promise<{
  readonly id: string
  readonly uuid: string
  readonly secret: string
  readonly path: string
}> => {
  const made = await make(account.keys.live)
  expect(made.status).toBe(201)
  const id: string = made.body.id
  return { id, uuid: decodeId('we', id)!, secret: made.body.secret, path: `/v1/webhook_endpoints/${id}` }
}

const rowOf = async (uuid: string): Promise<Body> =>
  (await deployment.sql<Body[]>((q) => q`SELECT * FROM webhooks.endpoints WHERE id = ${uuid}`))[0]

/** The decrypted secrets of a row, the current one first. */
const secretsOf = async (id: string): Promise<ReadonlyArray<string>> => {
  const masterKey = await deployment.masterKeyEncryption()
  const { older_secret: older, previous_secret: previous, secret } = await rowOf(decodeId('we', id)!)
  const open = (box: Buffer) => Effect.runPromise(masterKey.decrypt('webhook-secret', id, box)).then(String)
  return Promise.all([secret, previous, older].filter((box) => box !== null).map(open))
}

/** The changes of a subscription that were published to the fan-out. */
const changesOf = async (id: string): Promise<() => ReadonlyArray<string>> => {
  const records = await deployment.tail(deployment.topics.webhooks)
  return () =>
    records
      .map((record) => Result.getOrThrow(decodeSubscriptionChanged(record)))
      .filter(({ subscription }) => subscription === id)
      .map(({ change }) => change)
}

const disable = (uuid: string) =>
  deployment.sql(
    (q) => q`UPDATE webhooks.endpoints SET status = 'disabled_by_failures', consecutive_failures = 20,
                    first_failure_at = now() - interval '2 hours', disabled_at = now(), disabled_reason = 'timeout'
              WHERE id = ${uuid}`,
  )

describe('rotate_secret', () => {
  // Rules: SUB-16, SUB-17, SUB-18
  it('returns a new secret once; each replaced one stays valid for a day of its own; a fourth is refused', async () => {
    const { id, path, secret } = await create()
    const changes = await changesOf(id)
    const before = Date.now()
    const first = await live().post(`${path}/rotate_secret`)
    expect(first.status).toBe(200)
    expect(first.body).toMatchObject({ id, object: 'webhook_endpoint', status: 'enabled' })
    expect(first.body.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/u)
    expect(await secretsOf(id)).toEqual([first.body.secret, secret])
    const ends = Date.parse(first.body.secret_rotation_ends_at)
    expect(ends).toBeGreaterThanOrEqual(before + 86_400_000)
    expect(ends).toBeLessThanOrEqual(Date.now() + 86_400_000)
    const read = await live().get(path)
    expect(read.body.secret_rotation_ends_at).toBe(first.body.secret_rotation_ends_at)
    expect(read.body).not.toHaveProperty('secret')

    const second = await live().post(`${path}/rotate_secret`, {})
    expect(await secretsOf(id)).toEqual([second.body.secret, first.body.secret, secret])
    const row = await rowOf(decodeId('we', id)!)
    // The second rotation does not change the transition of the first one.
    expect(row.older_secret_ends_at.getTime()).toBe(ends)
    expect(row.secret_rotation_ends_at.getTime()).toBeGreaterThan(ends)
    expect(second.body.secret_rotation_ends_at).toBe(row.secret_rotation_ends_at.toISOString())

    const key = { 'idempotency-key': randomUUID() }
    const refused = await live().post(`${path}/rotate_secret`, undefined, key)
    expect([refused.status, refused.body.error.code]).toEqual([409, 'rotation_in_progress'])
    expect(refused.body.error.retry_after).toBeLessThanOrEqual(86_400)
    expect(await secretsOf(id)).toHaveLength(3)
    await holds(async () => expect(changes()).toEqual(['created', 'secret_rotated', 'secret_rotated']))

    // The transition of the oldest secret has ended, so there is room again, under the same key.
    await deployment.sql(
      (q) => q`UPDATE webhooks.endpoints SET older_secret_ends_at = now() WHERE id = ${row.id}`,
    )
    const third = await eventually(async () => {
      const answer = await live().post(`${path}/rotate_secret`, undefined, key)
      return answer.body.error?.code === 'idempotency_conflict' ? null : answer
    })
    expect(await secretsOf(id)).toEqual([third.body.secret, second.body.secret, first.body.secret])
  })

  // Rules: SUB-16
  it('ends after a day', async () => {
    const { path, uuid } = await create()
    await live().post(`${path}/rotate_secret`)
    await deployment.sql(
      (q) =>
        q`UPDATE webhooks.endpoints SET secret_rotation_ends_at = now() - interval '1 second' WHERE id = ${uuid}`,
    )
    expect((await live().get(path)).body.secret_rotation_ends_at).toBeNull()
  })

  // Rules: IDEM-5
  it('returns the same secret for the same idempotency key', async () => {
    const { id, path } = await create()
    const headers = { 'idempotency-key': randomUUID() }
    const first = await live().post(`${path}/rotate_secret`, undefined, headers)
    // The answer may be stored shortly after it was sent; until then a repeat is a conflict.
    const again = await eventually(async () => {
      const answer = await live().post(`${path}/rotate_secret`, undefined, headers)
      return answer.status === 409 ? null : answer
    })
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    expect(again.body).toEqual(first.body)
    expect((await secretsOf(id))[0]).toBe(first.body.secret)
  })

  it('is refused for an invalid body', async () => {
    const { path } = await create()
    for (const body of ['[]', '{', '"\\u0000"']) {
      const refused = await live().post(`${path}/rotate_secret`, body)
      expect([refused.status, refused.body.error.code]).toEqual([422, 'invalid_parameter'])
    }
  })
})

describe('a change', () => {
  const patch = (path: string, body: unknown) =>
    call(api.url, path, { key: account.keys.live, method: 'PATCH', body }) as Promise<{
      status: number
      body: Body
    }>

  // Rules: SUB-7, SUB-8
  it('is stored and published through the outbox, and keeps the secret and the health', async () => {
    const { id, path, secret, uuid } = await create()
    const changes = await changesOf(id)
    await disable(uuid)
    const before = await rowOf(uuid)
    const { body, status } = await patch(path, {
      url: 'https://1.1.1.1/other',
      event_types: ['message.seen'],
      description: 'Касса',
    })
    expect(status).toBe(200)
    const after = { url: 'https://1.1.1.1/other', event_types: ['message.seen'], description: 'Касса' }
    expect(body).toMatchObject({ id, status: 'disabled_by_failures', ...after })
    expect(await rowOf(uuid)).toEqual({ ...before, ...after })
    expect(await secretsOf(id)).toEqual([secret])
    expect(await deployment.sql((q) => q`SELECT 1 FROM command.outbox`)).toHaveLength(0)
    await holds(async () => expect(changes()).toEqual(['created', 'updated']))
  })

  it('of another account or mode is answered like an unknown one', async () => {
    const { path } = await create()
    const { status } = (await call(api.url, path, {
      key: account.keys.test,
      method: 'PATCH',
      body: { description: 'mine' },
    })) as { status: number }
    expect(status).toBe(404)
  })
})

describe('enable', () => {
  // Rules: SUB-20
  it('enables the subscription, resets the failure count and releases the backlog', async () => {
    const { id, path, uuid } = await create()
    const changes = await changesOf(id)
    await disable(uuid)
    const disabled = await live().get(path)
    expect(disabled.body).toMatchObject({
      status: 'disabled_by_failures',
      disabled_reason: 'timeout',
      consecutive_failures: 20,
    })
    const { body, status } = await live().post(`${path}/enable`)
    expect(status).toBe(200)
    expect(body).toMatchObject({
      id,
      status: 'enabled',
      consecutive_failures: 0,
      disabled_at: null,
      disabled_reason: null,
    })
    const row = await rowOf(uuid)
    expect(row.first_failure_at).toBeNull()
    expect(row.backlog_released_at).toBeInstanceOf(Date)
    await holds(async () => expect(changes()).toEqual(['created', 'enabled']))
  })

  // Rules: DEL-27
  it('inserts one event into the event inbox each time, and none for an enabled subscription', async () => {
    const { id, path, uuid } = await create()
    const inserted = () =>
      deployment.sql<Body[]>(
        (q) => q`SELECT account, mode, type, object FROM command.event_inbox
                  WHERE object ->> 'id' = ${id} ORDER BY place`,
      )
    await live().post(`${path}/enable`)
    expect(await inserted()).toEqual([])
    await disable(uuid)
    const { body } = await live().post(`${path}/enable`)
    await live().post(`${path}/enable`)
    const event = { account: decodeId('acc', account.id), mode: 'live', type: 'webhook.endpoint_enabled' }
    expect(await inserted()).toEqual([{ ...event, object: body }])
    expect(body).toMatchObject({ status: 'enabled', disabled_at: null, consecutive_failures: 0 })
    await disable(uuid)
    await live().post(`${path}/enable`)
    expect(await inserted()).toMatchObject([event, event])
  })

  // Rules: SUB-21
  it('changes nothing of an enabled subscription, not even its failure count', async () => {
    const { id, path, uuid } = await create()
    const changes = await changesOf(id)
    await deployment.sql((q) => q`UPDATE webhooks.endpoints SET consecutive_failures = 7 WHERE id = ${uuid}`)
    const before = await rowOf(uuid)
    const { body, status } = await live().post(`${path}/enable`)
    expect([status, body.consecutive_failures]).toEqual([200, 7])
    expect(await rowOf(uuid)).toEqual(before)
    // The next change shows that no change was published before it.
    await live().post(`${path}/rotate_secret`)
    await holds(async () => expect(changes()).toEqual(['created', 'secret_rotated']))
  })

  it('is published through the outbox, and answered once the fan-out has applied it', async () => {
    const { path, uuid } = await create()
    await disable(uuid)
    const records = await deployment.tail(deployment.topics.webhooks)
    for (const partition of [0, 1, 2]) {
      await deployment.sql(
        (q) => q`INSERT INTO webhooks.positions (partition, position, epoch) VALUES (${partition}, 0, 1)
                 ON CONFLICT (partition) DO UPDATE SET position = 0`,
      )
    }
    const answer = live().post(`${path}/enable`)
    const fact = await eventually(async () =>
      records.find(({ value }) => {
        const change = Result.getOrThrow(decodeSubscriptionChanged({ value }))
        return change.change === 'enabled' && decodeId('we', change.subscription) === uuid
      }),
    )
    // The row and the fact are stored, and the outbox row is deleted.
    await holds(async () =>
      expect(await deployment.sql((q) => q`SELECT 1 FROM command.outbox`)).toHaveLength(0),
    )
    expect((await rowOf(uuid)).status).toBe('enabled')
    await deployment.sql(
      (q) =>
        q`UPDATE webhooks.positions SET position = ${fact!.offset + 1} WHERE partition = ${fact!.partition}`,
    )
    expect((await answer).status).toBe(200)
    await deployment.sql((q) => q`DELETE FROM webhooks.positions`)
  })
})

describe('a deletion', () => {
  // Rules: SUB-10
  it('removes the subscription from all operations at once', async () => {
    const { id, path, uuid } = await create()
    const changes = await changesOf(id)
    expect(await live().delete(path)).toMatchObject({
      status: 200,
      body: { id, object: 'webhook_endpoint', deleted: true },
    })
    const { data } = (await live().get('/v1/webhook_endpoints?limit=100')).body
    expect(data.map((one: Body) => one.id)).not.toContain(id)
    const answers = await Promise.all([
      live().get(path),
      live().get(`${path}/deliveries`),
      live().delete(path),
      live().post(`${path}/enable`),
      live().post(`${path}/rotate_secret`),
      live().post(`${path}/test`),
    ])
    expect(answers.map(({ body, status }) => [status, body.error.code])).toEqual(
      answers.map(() => [404, 'not_found']),
    )
    // The row contains no secret any more.
    expect(await rowOf(uuid)).toMatchObject({ url: '', secret: Buffer.alloc(0), previous_secret: null })
    await holds(async () => expect(changes()).toEqual(['created', 'deleted']))
  })

  // Rules: SUB-6, SUB-10
  it('allows the creation of another subscription', async () => {
    const crowded = await deployment.addAccount()
    const client = as(crowded.keys.test)
    const makeOne = () => make(crowded.keys.test)
    const ids: Array<string> = []
    for (let n = 1; n <= 19; n++) {
      const { body, status } = await makeOne()
      expect(status).toBe(201)
      ids.push(body.id)
    }
    // Two concurrent creations for the last free place.
    const made = await Promise.all([makeOne(), makeOne()])
    expect(
      made.map(({ body, status }): string => (status === 201 ? 'made' : body.error.code)).toSorted(),
    ).toEqual(['made', 'webhook_endpoint_limit_reached'])
    expect((await make(crowded.keys.live)).status).toBe(201)
    expect((await client.delete(`/v1/webhook_endpoints/${ids[0]}`)).status).toBe(200)
    expect((await makeOne()).status).toBe(201)
    expect((await makeOne()).status).toBe(422)
  })
})

describe('a subscription of another account or mode', () => {
  // Rules: SUB-9, GEN-4, HTTP-27
  it('is answered like an unknown one by all operations', async () => {
    const { id, path } = await create()
    const stranger = await deployment.addAccount()
    const missing = `/v1/webhook_endpoints/${encodeId('we', randomUUID())}`
    for (const key of [stranger.keys.live, account.keys.test]) {
      const client = as(key)
      for (const target of [path, missing, '/v1/webhook_endpoints/nothing']) {
        const answers = await Promise.all([
          client.get(target),
          client.get(`${target}/deliveries`),
          client.get(`${target}/deliveries?limit=0`),
          client.post(`${target}/enable`),
          client.post(`${target}/rotate_secret`, '{'),
          client.post(`${target}/test`),
          client.delete(target),
        ])
        expect(answers.map(({ body, status }) => [status, body.error.code])).toEqual(
          answers.map(() => [404, 'not_found']),
        )
      }
    }
    expect((await live().get(path)).body).toMatchObject({ id, secret_rotation_ends_at: null })
  })
})

describe('the delivery log', () => {
  const addAttempt = (subscriptionId: string, over: Record<string, unknown> = {}) => {
    const id = decodeId('whd', encodeId('whd', randomUUID()))!
    return deployment.sql(
      (q) =>
        q`INSERT INTO webhooks.attempts ${q({
          id,
          endpoint_id: subscriptionId,
          batch_id: randomUUID(),
          attempt: 1,
          status: 'failed',
          response_code: 500,
          duration_ms: 12,
          reason: 'http_status',
          created_at: new Date('2026-11-21T09:30:00.000Z'),
          next_attempt_at: new Date('2026-11-21T09:31:00.000Z'),
          ...over,
        })}`,
    )
  }

  // Rules: SUB-28, LIST-9
  it('contains each attempt with the events of its batch, newest first', async () => {
    const { id, path, uuid } = await create()
    const [event, other] = [randomUUID(), randomUUID()]
    const batch = decodeId('evb', eventBatchId(id, encodeId('evt', event), 2))
    for (const [position, member] of [event, other].entries()) {
      await deployment.sql(
        (q) => q`INSERT INTO webhooks.batch_events (endpoint_id, event_id, batch_id, position)
                 VALUES (${uuid}, ${member}, ${batch}, ${position})`,
      )
    }
    const older = '0193a1b2-0000-7000-8000-000000000001'
    const newer = '0193a1b2-0000-7000-8000-000000000002'
    await addAttempt(uuid, { id: older, batch_id: batch })
    await addAttempt(uuid, {
      id: newer,
      batch_id: batch,
      attempt: 2,
      status: 'succeeded',
      response_code: 204,
      reason: null,
      next_attempt_at: null,
      redelivery: randomUUID(),
    })
    const { body, status } = await live().get(`${path}/deliveries`)
    expect(status).toBe(200)
    const shared = {
      object: 'webhook_delivery',
      event_batch: encodeId('evb', batch!),
      event_ids: [encodeId('evt', event), encodeId('evt', other)],
      duration_ms: 12,
      trial: false,
      resend: false,
      created_at: '2026-11-21T09:30:00.000Z',
    }
    expect(body).toEqual({
      object: 'list',
      data: [
        {
          ...shared,
          id: encodeId('whd', newer),
          attempt: 2,
          status: 'succeeded',
          response_code: 204,
          reason: null,
          next_attempt_at: null,
          redelivery: true,
        },
        {
          ...shared,
          id: encodeId('whd', older),
          attempt: 1,
          status: 'failed',
          response_code: 500,
          reason: 'http_status',
          next_attempt_at: '2026-11-21T09:31:00.000Z',
          redelivery: false,
        },
      ],
      has_more: false,
      next_cursor: encodeId('whd', older),
    })
  })

  // Rules: SUB-28, LIST-2, LIST-5, LIST-6, LIST-7
  it('is paged, and accepts only its own cursors', async () => {
    const { path, uuid } = await create()
    const elsewhere = await create()
    const idOf = (n: number) => `0193a1b2-0000-7000-8000-0000000001${String(n).padStart(2, '0')}`
    for (let n = 0; n < 7; n++) await addAttempt(uuid, { id: idOf(n) })
    const seen: Array<string> = []
    let cursor = ''
    for (let pages = 1; pages <= 3; pages++) {
      const { body } = await live().get(`${path}/deliveries?limit=3${cursor}`)
      seen.push(...body.data.map((one: Body) => one.id))
      expect(body.has_more).toBe(pages < 3)
      cursor = `&starting_after=${body.next_cursor}`
    }
    expect(seen).toEqual([6, 5, 4, 3, 2, 1, 0].map((n) => encodeId('whd', idOf(n))))
    const beyond = await live().get(`${path}/deliveries?limit=3${cursor}`)
    expect(beyond.body).toMatchObject({ data: [], has_more: false, next_cursor: encodeId('whd', idOf(0)) })
    for (const [query, code] of [
      [`starting_after=${encodeId('whd', randomUUID())}`, 'not_found'],
      ['starting_after=nothing', 'not_found'],
      ['limit=0', 'invalid_parameter'],
      ['limit=101', 'invalid_parameter'],
      ['starting_after=a&starting_after=b', 'invalid_parameter'],
    ]) {
      expect((await live().get(`${path}/deliveries?${query}`)).body.error.code, query).toBe(code)
    }
    const foreign = await live().get(
      `${elsewhere.path}/deliveries?starting_after=${encodeId('whd', idOf(1))}`,
    )
    expect(foreign.status).toBe(404)
  })
})

describe('a test delivery', () => {
  /** Claims the next test delivery of a subscription, like the fan-out. Returns the UUID of the attempt. */
  const take = (subscriptionId: string): Promise<string> =>
    eventually(async () => {
      const [row] = await deployment.sql<{ id: string }[]>(
        (q) =>
          q`UPDATE webhooks.trials SET claimed_at = now() WHERE endpoint_id = ${subscriptionId} AND claimed_at IS NULL RETURNING id`,
      )
      return row?.id
    })

  const finish = async (subscriptionId: string, id: string): Promise<void> => {
    await deployment.sql(async (q) => {
      await q`INSERT INTO webhooks.attempts (id, endpoint_id, batch_id, attempt, status, response_code, duration_ms, reason, trial, created_at)
              VALUES (${id}, ${subscriptionId}, ${randomUUID()}, 1, 'failed', 418, 7, 'http_status', true, now())`
      await q`DELETE FROM webhooks.trials WHERE id = ${id}`
    })
  }

  // Rules: SUB-22, SUB-23, SUB-26
  it('is answered with its logged attempt, and meanwhile another one is refused', async () => {
    const { path, uuid } = await create()
    const answer = live().post(`${path}/test`)
    const id = await take(uuid)
    const busy = await live().post(`${path}/test`, {})
    expect([busy.status, busy.body.error.code, busy.body.error.retry_after]).toEqual([429, 'rate_limited', 1])
    await finish(uuid, id)
    const { body, status } = await answer
    expect(status).toBe(200)
    expect(body).toMatchObject({
      id: encodeId('whd', id),
      object: 'webhook_delivery',
      trial: true,
      status: 'failed',
      response_code: 418,
      reason: 'http_status',
      next_attempt_at: null,
    })
    expect((await live().get(`${path}/deliveries`)).body.data).toEqual([body])
    // The next one may start.
    const next = live().post(`${path}/test`)
    await finish(uuid, await take(uuid))
    expect((await next).status).toBe(200)
  })

  // Rules: SUB-26
  it('and resends of one account are at most four at a time; others are not affected', async () => {
    const crowded = await deployment.addAccount()
    const client = as(crowded.keys.test)
    const paths: Array<string> = []
    for (let n = 1; n <= 5; n++) {
      const { body } = await make(crowded.keys.test)
      paths.push(`/v1/webhook_endpoints/${body.id}`)
    }
    const uuids = paths.map((path) => decodeId('we', path.split('/').at(-1)!)!)
    const waiting = paths.slice(0, 4).map((path) => client.post(`${path}/test`))
    const taken = await Promise.all(uuids.slice(0, 4).map((uuid) => take(uuid)))
    const refused = await client.post(`${paths[4]}/test`)
    expect([refused.status, refused.body.error.code]).toEqual([429, 'rate_limited'])
    const other = await create()
    const answer = live().post(`${other.path}/test`)
    await finish(other.uuid, await take(other.uuid))
    expect((await answer).status).toBe(200)
    for (const [index, id] of taken.entries()) await finish(uuids[index]!, id)
    for (const answered of await Promise.all(waiting)) expect(answered.status).toBe(200)
  })

  // Rules: SUB-27
  it('without a fan-out is answered with 503, and leaves no row', async () => {
    const { path } = await create()
    const { body, status } = await live().post(`${path}/test`)
    expect([status, body.error.code, typeof body.error.retry_after]).toEqual([
      503,
      'internal_error',
      'number',
    ])
    expect(await deployment.sql((q) => q`SELECT 1 FROM webhooks.trials`)).toHaveLength(0)
  })

  it('leaves no row when the client disconnects', async () => {
    const { path, uuid } = await create()
    const rows = () =>
      deployment.sql<unknown[]>((q) => q`SELECT 1 FROM webhooks.trials WHERE endpoint_id = ${uuid}`)
    const disconnect = new AbortController()
    const answer = fetch(`${api.url}${path}/test`, {
      method: 'POST',
      headers: { authorization: `Bearer ${account.keys.live}` },
      signal: disconnect.signal,
    }).catch(() => 'disconnected')
    await eventually(async () => (await rows()).length === 1)
    disconnect.abort()
    expect(await answer).toBe('disconnected')
    await eventually(async () => (await rows()).length === 0)
  })

  it('of a subscription that is deleted meanwhile is answered with 404', async () => {
    const { path, uuid } = await create()
    const answer = live().post(`${path}/test`)
    await take(uuid)
    await live().delete(path)
    expect((await answer).status).toBe(404)
  })

  it('that was abandoned does not block the next one', async () => {
    const { path, uuid } = await create()
    await deployment.sql(
      (q) => q`INSERT INTO webhooks.trials (endpoint_id, id, requested_at, claimed_at)
               VALUES (${uuid}, ${randomUUID()}, now() - interval '21 seconds', now())`,
    )
    const answer = live().post(`${path}/test`)
    await finish(uuid, await take(uuid))
    expect((await answer).status).toBe(200)
  })
})
