/** Authentication, the failed-login gate, the request rate. */
import { describe, expect, it } from 'vitest'
import { eventually } from '@hub/testkit'
import { type Answer, type Client, send } from '../../support/client.ts'
import { freshNumber } from '../../support/hub-admin.ts'
import { anId, SETTINGS_APPLIED, errorOf, type Section } from './fixture.ts'

const RATE_HEADERS = ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset'] as const
const rateOf = (answer: Answer): ReadonlyArray<string | null> =>
  RATE_HEADERS.map((name) => answer.headers.get(name))
const ABSENT = [null, null, null]

let hosts = 0
/** Returns a client address without failed logins. It reaches the hub as a proxy reports it. */
const freshAddress = (): string => {
  hosts += 1
  return `203.0.${Math.floor(hosts / 250)}.${(hosts % 250) + 1}`
}
const from = (address: string): { readonly headers: Record<string, string> } => ({
  headers: { 'x-forwarded-for': address },
})

const WRONG = `hub_test_${'0'.repeat(43)}`

const expectSameError = (one: Answer, other: Answer): void => {
  const body = (answer: Answer) => ({ ...answer.body.error, request_id: '' })
  const names = (answer: Answer) =>
    [...answer.headers.keys()].filter((name) => !['date', 'request-id'].includes(name)).toSorted()
  expect([one.status, body(one), names(one)]).toEqual([other.status, body(other), names(other)])
}

/** Sends a number of requests that fail to log in. Returns their statuses. */
const fail = async (apiClient: Client, times: number): Promise<ReadonlyArray<number>> => {
  const statuses: Array<number> = []
  for (let index = 0; index < times; index += 1) statuses.push((await apiClient.get('/v1/account')).status)
  return statuses
}

export const access: Section = (fixture) => {
  describe('Authentication', () => {
    // Rules: AUTH-1
    it('1: a request without a key is refused', async () => {
      const answer = await fixture().connect(null).get('/v1/account')
      expect(errorOf(answer)).toEqual([401, 'invalid_api_key', undefined])
    })

    // Rules: AUTH-3
    it('2: only the hash of a key is stored', async () => {
      const { admin } = fixture()
      const account = await admin.createAccount()
      const rows = await admin.sql`SELECT * FROM command.api_keys WHERE account = ${account.uuid}`
      expect(rows).toHaveLength(2)
      for (const key of Object.values(account.keys)) expect(JSON.stringify(rows)).not.toContain(key)
    })

    // Rules: AUTH-5
    it('2: a new key works at once beside the old one, and a revoked one no longer', async () => {
      const { admin, connect } = fixture()
      const account = await admin.createAccount()
      const address = freshAddress()
      const fresh = await admin.issueKey(account, 'test')
      expect((await connect(fresh).get('/v1/account')).body.id).toBe(account.id)
      expect((await account.test.get('/v1/account')).status).toBe(200)
      await admin.revokeKey(account.keys.test)
      const revoked = connect(account.keys.test, from(address))
      await eventually(async () => {
        expect(errorOf(await revoked.get('/v1/account'))).toEqual([401, 'invalid_api_key', undefined])
        return true
      }, SETTINGS_APPLIED)
      expect((await connect(fresh).get('/v1/account')).status).toBe(200)
    })

    // Rules: AUTH-7, HTTP-9
    it('3: an address outside the list of the key gets the same 401 as an invalid key', async () => {
      const { admin, connect } = fixture()
      const account = await admin.createAccount()
      const key = await admin.issueKey(account, 'test', ['203.0.113.0/28', '2001:db8:77::/48'])
      for (const address of ['203.0.113.3', '203.0.113.15', '2001:db8:77:1::5']) {
        expect((await connect(key, from(address)).get('/v1/account')).status, address).toBe(200)
      }
      const invalid = await connect(WRONG, from(freshAddress())).get('/v1/account')
      for (const address of ['203.0.113.16', '2001:db8:78::1', freshAddress()]) {
        expectSameError(await connect(key, from(address)).get('/v1/account'), invalid)
      }
      // Entries of the header before the one of the proxy come from the client and do not count.
      const spoofed = await connect(key, from(`203.0.113.3, ${freshAddress()}`)).get('/v1/account')
      expectSameError(spoofed, invalid)
    })

    // Rules: AUTH-16, AUTH-17, AUTH-18
    it('3: a key with scopes is refused for other operations, with the challenge of RFC 6750', async () => {
      const { admin, connect } = fixture()
      const account = await admin.createAccount()
      const keyWith = (...scopes: ReadonlyArray<string>) => admin.issueKey(account, 'test', null, scopes)
      const refused = (answer: Answer, scope: string): void => {
        expect(errorOf(answer)).toEqual([403, 'insufficient_scope', undefined])
        expect(answer.body.error.message).toContain(`"${scope}"`)
        expect(answer.headers.get('www-authenticate')).toBe(
          `Bearer realm="hub", error="insufficient_scope", scope="${scope}"`,
        )
      }
      const sender = connect(await keyWith('send'))
      expect((await sender.post('/v1/messages', send('otp', freshNumber()))).status).toBe(202)
      refused(await sender.get('/v1/account'), 'read')
      refused(await sender.post('/v1/senders', { name: 'SCOPES' }), 'manage')
      const reader = connect(await keyWith('read'))
      expect((await reader.get('/v1/account')).body.id).toBe(account.id)
      refused(await reader.post('/v1/messages', send('otp', freshNumber())), 'send')
      const manager = connect(await keyWith('manage', 'read'))
      expect((await manager.post('/v1/senders', { name: 'SCOPES' })).status).toBe(201)
      expect((await manager.get('/v1/account')).status).toBe(200)
      refused(await manager.post('/v1/messages', send('otp', freshNumber())), 'send')
    })

    // Rules: AUTH-4
    it.each(['Basic aHViOmh1Yg==', 'Bearer', 'Bearer ', WRONG, `bearer ${WRONG}`, 'Bearer hub_test_'])(
      '3: the authorization %j is refused',
      async (authorization) => {
        const { connect } = fixture()
        const answer = await connect(null, {
          headers: { authorization, ...from(freshAddress()).headers },
        }).get('/v1/account')
        expect(errorOf(answer)).toEqual([401, 'invalid_api_key', undefined])
      },
    )

    // Rules: AUTH-8, AUTH-9, AUTH-10, AUTH-11, AUTH-13, LIM-3
    it('4: the attempt after the 21st failure within a minute is 429, whatever its key', async () => {
      const { admin, connect } = fixture()
      const { keys } = await admin.createAccount()
      const address = freshAddress()
      const wrong = connect(WRONG, from(address))
      const right = connect(keys.test, from(address))
      // Requests without a key are not counted, and successes do not reset the window.
      for (let index = 0; index < 25; index += 1) {
        expect((await connect(null, from(address)).get('/v1/account')).status).toBe(401)
      }
      expect(new Set(await fail(wrong, 15))).toEqual(new Set([401]))
      expect((await right.get('/v1/account')).status).toBe(200)
      expect(new Set(await fail(wrong, 6))).toEqual(new Set([401]))
      for (const apiClient of [right, wrong]) {
        const answer = await apiClient.get('/v1/account')
        expect(errorOf(answer)).toEqual([429, 'rate_limited', undefined])
        expect(answer.body.error.retry_after).toBeLessThanOrEqual(60)
        expect(answer.body.error.retry_after).toBeGreaterThan(0)
        expect(rateOf(answer)).toEqual(ABSENT)
      }
      expect((await right.post('/v1/messages', send('otp', freshNumber()))).body.error.code).toBe(
        'rate_limited',
      )
      // Other addresses are not affected.
      expect((await connect(keys.test, from(freshAddress())).get('/v1/account')).status).toBe(200)
    })

    // Rules: AUTH-11
    it('4: any Authorization that is no known key counts, whatever its scheme', async () => {
      const { connect } = fixture()
      const address = from(freshAddress())
      const basic = connect(null, { headers: { ...address.headers, authorization: 'Basic aHViOmh1Yg==' } })
      const statuses = await fail(basic, 22)
      expect(statuses).toEqual([...Array.from({ length: 21 }, () => 401), 429])
    })

    // Rules: AUTH-12
    it('4: IPv6 counts by /64', async () => {
      const { connect } = fixture()
      for (let index = 1; index <= 21; index += 1) {
        const answer = await connect(WRONG, from(`2001:db8:5:6:${index}::${index}`)).get('/v1/account')
        expect(answer.status).toBe(401)
      }
      expect((await connect(WRONG, from('2001:db8:5:6:ffff::1')).get('/v1/account')).status).toBe(429)
      expect((await connect(WRONG, from('2001:db8:5:7::1')).get('/v1/account')).status).toBe(401)
    })

    // Rules: GEN-10, ACC-1
    it('6: account and mode are derived from the key', async () => {
      const { admin } = fixture()
      const account = await admin.createAccount()
      for (const mode of ['live', 'test'] as const) {
        const { body } = await account[mode].get('/v1/account')
        expect([body.id, body.mode]).toEqual([account.id, mode])
      }
    })
  })

  describe('Account (GET /v1/account)', () => {
    // Rules: ACC-1, ACC-2, ACC-3, ACC-5, LIM-19
    it('returns the current settings', async () => {
      const { admin } = fixture()
      const account = await admin.createAccount({
        live: {
          api_rps: 50,
          batch_max: 10,
          flood_pause_seconds: 7,
          flood_per_hour: 8,
          flood_per_day: 9,
          spend_limit: '100.00',
          soft_threshold_percent: 50,
        },
        test: { api_rps: 100 },
      })
      const live = (await account.live.get('/v1/account')).body
      expect(live).toEqual({
        id: anId('acc'),
        object: 'account',
        name: expect.any(String),
        mode: 'live',
        limits: { api_rps: 50, batch_max: 10 },
        flood_windows: { pause_seconds: 7, per_hour: 8, per_day: 9 },
        spend_limit: {
          limit: { amount: '100.00', currency: 'RUB' },
          spent: { amount: '0.00', currency: 'RUB' },
          period: {
            from: expect.stringMatching(/^\d{4}-\d\d-01T00:00:00\.000Z$/u),
            to: expect.stringMatching(/^\d{4}-\d\d-01T00:00:00\.000Z$/u),
          },
          soft_threshold_percent: 50,
          soft_threshold_reached_at: null,
        },
      })
      const test = (await account.test.get('/v1/account')).body
      expect(test).toEqual({
        id: account.id,
        object: 'account',
        name: live.name,
        mode: 'test',
        limits: { api_rps: 100, batch_max: 1000 },
        flood_windows: { pause_seconds: 300, per_hour: 12, per_day: 288 },
      })
      const without = await admin.createAccount()
      expect((await without.live.get('/v1/account')).body.spend_limit).toBeNull()
    })
  })

  describe('Request rate', () => {
    // Rules: LIM-1, LIM-2, ERR-4
    it('answers 429 rate_limited with Retry-After above api_rps, separately for each key', async () => {
      const { admin, connect } = fixture()
      const account = await admin.createAccount({ test: { api_rps: 3 } })
      const sibling = connect(await admin.issueKey(account, 'test'))
      const answers = await Promise.all(Array.from({ length: 15 }, () => account.test.get('/v1/account')))
      const refused = answers.filter(({ status }) => status === 429)
      expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(3)
      expect(refused.length).toBeGreaterThanOrEqual(6)
      for (const answer of refused) {
        expect(errorOf(answer)).toEqual([429, 'rate_limited', undefined])
        expect(answer.body.error.retry_after).toBe(1)
      }
      // Successes and refusals have the headers.
      for (const answer of answers) {
        const [limit, remaining, reset] = rateOf(answer)
        expect(limit).toBe('3')
        expect(remaining).toMatch(/^[0-3]$/u)
        expect(reset).toMatch(/^\d+(?:\.\d)?$/u)
        if (answer.status === 429) expect(remaining).toBe('0')
      }
      const other = await sibling.get('/v1/account')
      expect([other.status, rateOf(other)[1]]).toEqual([200, '2'])
    })

    // Rules: LIM-2, LIM-3
    it('adds the headers to every answer after the rate check and to none before it', async () => {
      const { admin, connect } = fixture()
      const { test } = await admin.createAccount()
      const counted = [
        await test.get('/v1/account'),
        await test.get('/v1/messages/msg_nothing'),
        await test.post('/v1/messages', {}),
        await test.post('/v1/messages', send('otp', freshNumber())),
        await test.post('/v1/messages', send('otp', freshNumber()), { 'idempotency-key': 'x'.repeat(256) }),
      ]
      expect(counted.map(({ status }) => status)).toEqual([200, 404, 422, 202, 422])
      for (const answer of counted) expect(rateOf(answer)).not.toContain(null)
      const uncounted = [
        await connect(WRONG, from(freshAddress())).get('/v1/account'),
        await connect(null).get('/v1/account'),
        await test.get('/v1/nothing'),
        await test.request('DELETE', '/v1/account'),
        await test.request('POST', '/v1/messages', { headers: { 'content-type': 'text/plain' }, body: 'x' }),
        await connect(null).get('/v1/openapi.json'),
      ]
      expect(uncounted.map(({ status }) => status)).toEqual([401, 401, 404, 405, 415, 200])
      for (const answer of uncounted) expect(rateOf(answer)).toEqual(ABSENT)
    })
  })
}
