/** Idempotency: the eight rules and the lifecycle of a key. */
import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { eventually } from '@hub/testkit'
import { type Answer, type Client, send } from '../../support/client.ts'
import { type Account, freshNumber, type Mode } from '../../support/hub-admin.ts'
import { errorOf, type Section, whileStopped, type Fixture } from './fixture.ts'

const keyed = (key: string): Record<string, string> => ({ 'idempotency-key': key })
const replayed = (answer: Answer): boolean => answer.headers.get('idempotent-replayed') === 'true'

/** Sets a stored key back to in progress, as if the process of its request had just died. */
const setInProgress = async (
  { admin }: Fixture,
  account: Account,
  mode: Mode,
  key: string,
): Promise<void> => {
  const rows = await admin.sql`
    UPDATE command.idempotency_keys
       SET status = NULL, headers = NULL, answer = NULL, lease_token = ${randomUUID()},
           lease_until = now() + interval '1 minute'
     WHERE account = ${account.uuid} AND mode = ${mode} AND key = ${key} RETURNING 1`
  expect(rows).toHaveLength(1)
}

export const idempotency: Section = (fixture) => {
  describe('Idempotency', () => {
    // Rules: IDEM-1, IDEM-5
    it('1: the header is accepted on any POST', async () => {
      const { test } = await fixture().admin.createAccount()
      const template = await test.post('/v1/templates', {
        name: 'rendered',
        class: 'service',
        sender: 'HUB',
        body: 'x{{a}}',
      })
      const posts: ReadonlyArray<[string, unknown, number]> = [
        ['/v1/messages', send('otp', '+79000000001'), 202],
        ['/v1/messages', send('service', '+79000000001'), 202],
        ['/v1/messages/batch', { messages: [send('service', '+79000000001', 'one')] }, 202],
        ['/v1/messages/batch', { messages: [send('otp', '+79000000001', 'two')] }, 202],
        ['/v1/messages/estimate', send('otp', '+79000000001'), 200],
        ['/v1/templates', { name: 'made', class: 'otp', sender: 'HUB', body: 'x' }, 201],
        [`/v1/templates/${template.body.id}/render`, { variables: { a: 1 } }, 200],
        ['/v1/senders', { name: 'MADE' }, 201],
        ['/v1/webhook_endpoints', { url: 'https://93.184.216.34/hook' }, 201],
      ]
      for (const [index, [path, body, status]] of posts.entries()) {
        const first = await test.post(path, body, keyed(`any-${index}`))
        expect([path, first.status, replayed(first)]).toEqual([path, status, false])
        const second = await test.post(path, body, keyed(`any-${index}`))
        expect([path, second.status, second.text, replayed(second)]).toEqual([path, status, first.text, true])
        expect(second.headers.get('content-type')).toBe(first.headers.get('content-type'))
        expect(second.headers.get('request-id')).not.toBe(first.headers.get('request-id'))
      }
      expect((await test.get('/v1/senders')).body.data).toHaveLength(2)
      expect((await test.get('/v1/webhook_endpoints')).body.data).toHaveLength(1)
    })

    // Rules: IDEM-1
    it('1: on GET and other methods it is ignored', async () => {
      const { test } = await fixture().admin.createAccount()
      for (const key of ['got', 'x'.repeat(300)]) {
        const first = await test.request('GET', '/v1/account', { headers: keyed(key) })
        const second = await test.request('GET', '/v1/senders', { headers: keyed(key) })
        expect([first.status, second.status, replayed(second)]).toEqual([200, 200, false])
      }
    })

    // Rules: IDEM-2
    it('2: a key has up to 255 characters; a longer one is refused, not truncated', async () => {
      const { test } = await fixture().admin.createAccount()
      const longest = 'k'.repeat(255)
      const good = await test.post('/v1/messages', send('service', '+79000000001'), keyed(longest))
      expect(good.status).toBe(202)
      const long = await test.post('/v1/messages', send('service', '+79000000001'), keyed(`${longest}k`))
      expect(errorOf(long)).toEqual([422, 'idempotency_key_reused', 'Idempotency-Key'])
      const empty = await test.post('/v1/messages', send('service', '+79000000001'), keyed(''))
      expect(errorOf(empty)).toEqual([422, 'invalid_parameter', 'Idempotency-Key'])
    })

    // Rules: IDEM-3
    it('3: keys are separate per account and per mode', async () => {
      const { admin } = fixture()
      const one = await admin.createAccount()
      const two = await admin.createAccount()
      const ids = new Set<string>()
      for (const apiClient of [one.test, one.live, two.test, two.live]) {
        const answer = await apiClient.post('/v1/messages', send('service', freshNumber()), keyed('shared'))
        expect([answer.status, replayed(answer)]).toEqual([202, false])
        ids.add(answer.body.id)
      }
      expect(ids.size).toBe(4)
    })

    // Rules: IDEM-4
    it('4: the same key with another body, path or query is refused', async () => {
      const { test } = await fixture().admin.createAccount()
      const body = send('service', '+79000000001')
      expect((await test.post('/v1/messages', body, keyed('used'))).status).toBe(202)
      const others: ReadonlyArray<[string, unknown]> = [
        ['/v1/messages', send('service', '+79000000002')],
        // A body with other bytes counts as another body, also if it means the same.
        ['/v1/messages', { client_ref: undefined, ...body, unknown: 1 }],
        ['/v1/messages/estimate', body],
        ['/v1/messages?a=1', body],
      ]
      for (const [path, other] of others) {
        const answer = await test.post(path, other, keyed('used'))
        expect(errorOf(answer)).toEqual([422, 'idempotency_key_reused', 'Idempotency-Key'])
      }
      // The first request is unaffected.
      expect(replayed(await test.post('/v1/messages', body, keyed('used')))).toBe(true)
    })

    // Rules: IDEM-6
    it('5: a refusal is repeated as well', async () => {
      const { admin } = fixture()
      const account = await admin.createAccount()
      const body = { ...send('service', freshNumber()), template: 'later' }
      const first = await account.live.post('/v1/messages', body, keyed('refused'))
      expect(errorOf(first)).toEqual([422, 'template_not_found', 'template'])
      await admin.addTemplate(account, 'live', {
        name: 'later',
        class: 'service',
        body: 'Заказ {{order}}',
      })
      const second = await account.live.request('POST', '/v1/messages', {
        headers: { 'content-type': 'application/json', ...keyed('refused') },
        body: JSON.stringify(body),
      })
      expect([second.status, replayed(second), second.body.error.code]).toEqual([
        422,
        true,
        'template_not_found',
      ])
      expect((await account.live.post('/v1/messages', body, keyed('corrected'))).status).toBe(202)
      // A missing resource is an answer given after the idempotency lock was taken.
      const missing = await account.test.post('/v1/templates/tpl_nothing/render', {}, keyed('missing'))
      const again = await account.test.post('/v1/templates/tpl_nothing/render', {}, keyed('missing'))
      expect([missing.status, again.status, replayed(again)]).toEqual([404, 404, true])
      // So is the answer to a body that is not JSON.
      const garbage = () =>
        account.test.request('POST', '/v1/messages', {
          headers: { 'content-type': 'application/json', ...keyed('garbage') },
          body: '{',
        })
      expect([errorOf(await garbage())[1], replayed(await garbage())]).toEqual(['invalid_parameter', true])
    })

    // Rules: IDEM-8
    it('5: a refusal before the idempotency lock is not stored', async () => {
      const { test } = await fixture().admin.createAccount()
      for (const [status, method, path, type] of [
        [415, 'POST', '/v1/messages', 'text/plain'],
        [405, 'PUT', '/v1/messages', 'application/json'],
        [404, 'POST', '/v1/nothing', 'application/json'],
      ] as const) {
        const refused = await test.request(method, path, {
          headers: { 'content-type': type, ...keyed('early') },
          body: '{}',
        })
        expect([refused.status, replayed(refused)]).toEqual([status, false])
      }
      const good = await test.post('/v1/messages', send('service', '+79000000001'), keyed('early'))
      expect([good.status, replayed(good)]).toEqual([202, false])
    })

    // Rules: IDEM-5, IDEM-9, SUB-3
    it('5: secrets are repeated and stored encrypted', async () => {
      const { admin } = fixture()
      const account = await admin.createAccount()
      const create = () =>
        account.test.post('/v1/webhook_endpoints', { url: 'https://93.184.216.34/' }, keyed('secret'))
      const first = await create()
      const second = await create()
      expect(second.body.secret).toMatch(/^whsec_/u)
      expect([second.text, replayed(second)]).toEqual([first.text, true])
      const [row] = await admin.sql<{ answer: Buffer; headers: unknown }[]>`
        SELECT answer, headers FROM command.idempotency_keys WHERE account = ${account.uuid} AND key = 'secret'`
      expect(row!.answer.includes('whsec_')).toBe(false)
      expect(JSON.stringify(row!.headers)).not.toContain('whsec_')
    })

    // Rules: IDEM-12
    it('6: a repeat while the first request is in progress is 409 with retry_after', async () => {
      const { admin, hub } = fixture()
      const account = await admin.createAccount()
      const body = send('otp', freshNumber(), 'held')
      const post = () => account.live.post('/v1/messages', body, keyed('running'))
      const kafka = hub.server('kafka')
      let first: Promise<Answer>
      let second: Answer
      try {
        // A code waits for its confirmation by Kafka.
        kafka.kill('SIGSTOP')
        first = post()
        await eventually(
          async () => {
            const rows = await admin.sql`SELECT 1 FROM command.idempotency_keys
              WHERE account = ${account.uuid} AND key = 'running'`
            return rows.length === 1
          },
          { withinMs: 1000, everyMs: 5 },
        )
        second = await post()
      } finally {
        kafka.kill('SIGCONT')
      }
      expect(errorOf(second)).toEqual([409, 'idempotency_conflict', undefined])
      expect(second.body.error.retry_after).toBeGreaterThanOrEqual(1)
      expect(second.body.error.retry_after).toBeLessThanOrEqual(60)
      // If Kafka recovered in time, the repeat gets the answer of the first request. Otherwise it
      // runs as the first.
      const { status, text } = await first
      expect([202, 503]).toContain(status)
      const third = await eventually(
        async () => {
          const answer = await post()
          expect(answer.status).toBe(202)
          return answer
        },
        { everyMs: 200 },
      )
      if (status === 202) expect([third.text, replayed(third)]).toEqual([text, true])
      expect((await post()).body.id).toBe(third.body.id)
    })

    // Rules: IDEM-6, IDEM-15
    it('7: 429 is not stored for the key', async () => {
      const { admin } = fixture()
      const account = await admin.createAccount()
      const post = (apiClient: Client, path: string, body: unknown) =>
        apiClient.post(path, body, keyed('again'))
      const body = send('service', freshNumber())
      const batch = { messages: [send('service', freshNumber(), 'x')] }
      await whileStopped(fixture(), async () => {
        expect((await post(account.live, '/v1/messages', body)).status).toBe(429)
        expect((await post(account.test, '/v1/messages/batch', batch)).status).toBe(429)
      })
      const single = await post(account.live, '/v1/messages', body)
      expect([single.status, replayed(single)]).toEqual([202, false])
      const answer = await post(account.test, '/v1/messages/batch', batch)
      expect([answer.status, answer.body.counts?.accepted, replayed(answer)]).toEqual([202, 1, false])
    })

    // Rules: LIM-10, MSG-9
    it('8: a repeat by client_ref creates no message and spends no flood window', async () => {
      const { live } = await fixture().admin.createAccount({
        live: { flood_pause_seconds: 0, flood_per_hour: 2, flood_per_day: 20 },
      })
      const number = freshNumber()
      const first = await live.post('/v1/messages', send('service', number, 'ref-1'))
      for (let index = 0; index < 5; index += 1) {
        const again = await live.post('/v1/messages', send('service', number, 'ref-1'), keyed(`k-${index}`))
        expect([again.status, again.body.id, again.body.duplicate]).toEqual([202, first.body.id, true])
      }
      expect((await live.post('/v1/messages', send('service', number, 'ref-2'))).status).toBe(202)
      const full = await live.post('/v1/messages', send('service', number, 'ref-3'))
      expect(errorOf(full)[1]).toBe('recipient_flood_limited')
      // A repeat is a repeat also with a full window.
      expect((await live.post('/v1/messages', send('service', number, 'ref-1'))).body.duplicate).toBe(true)
    })

    // Rules: IDEM-10
    it('a replay costs a rate token', async () => {
      const { test } = await fixture().admin.createAccount({ test: { api_rps: 50 } })
      const post = () => test.post('/v1/messages', send('service', '+79000000001'), keyed('token'))
      const left = async () => Number((await post()).headers.get('x-ratelimit-remaining'))
      await left()
      // The bucket refills meanwhile, but more slowly than ten concurrent requests consume.
      const after = await Promise.all(Array.from({ length: 20 }, left))
      expect(Math.min(...after)).toBeLessThan(Math.max(...after))
      expect(Math.min(...after)).toBeLessThan(48)
    })
  })

  describe('Idempotency key lifecycle', () => {
    // Rules: IDEM-12, IDEM-14
    it.each(['otp', 'service'] as const)(
      'in progress when the process dies: 409 until the lock expires, then the repeat runs as the first (%s)',
      async (kind) => {
        const { admin } = fixture()
        const account = await admin.createAccount()
        const body = send(kind, '+79000000001', 'died')
        const post = () => account.test.post('/v1/messages', body, keyed('dies'))
        const first = await post()
        await setInProgress(fixture(), account, 'test', 'dies')
        const during = await post()
        expect(errorOf(during)).toEqual([409, 'idempotency_conflict', undefined])
        expect(during.body.error.retry_after).toBeLessThanOrEqual(60)
        expect(await admin.expireLock(account, 'test', 'dies')).toBe(1)
        const after = await post()
        expect([after.status, replayed(after)]).toEqual([202, false])
        // The message had been accepted, so the repeat returns it.
        expect(after.body.id).toBe(first.body.id)
        expect(replayed(await post())).toBe(true)
      },
    )

    it('a key with an expired lock still belongs to its request', async () => {
      const { admin } = fixture()
      const account = await admin.createAccount()
      await account.test.post('/v1/messages', send('service', '+79000000001'), keyed('mine'))
      await setInProgress(fixture(), account, 'test', 'mine')
      const other = await account.test.post('/v1/messages', send('service', '+79000000002'), keyed('mine'))
      expect([409, 422]).toContain(other.status)
      await admin.expireLock(account, 'test', 'mine')
    })

    // Rules: IDEM-11
    it('stored for 24 hours: the key is removed, and the request runs again', async () => {
      const { admin } = fixture()
      const account = await admin.createAccount()
      const post = () =>
        account.test.post('/v1/messages', send('service', '+79000000001'), keyed('yesterday'))
      const first = await post()
      const [row] = await admin.sql<{ hours: number }[]>`
        SELECT extract(epoch FROM expires_at - now())::float8 / 3600 AS hours
          FROM command.idempotency_keys WHERE account = ${account.uuid} AND key = 'yesterday'`
      expect(row!.hours).toBeGreaterThan(23.9)
      expect(row!.hours).toBeLessThanOrEqual(24)
      await admin.sql`UPDATE command.idempotency_keys SET expires_at = now() - interval '1 second'
        WHERE account = ${account.uuid} AND key = 'yesterday'`
      const second = await post()
      expect([second.status, replayed(second)]).toEqual([202, false])
      expect(second.body.id).not.toBe(first.body.id)
      expect(replayed(await post())).toBe(true)
    })
  })
}
