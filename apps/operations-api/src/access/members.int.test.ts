/** Members over HTTP: whose accounts they see, by an assignment or by the identity provider, and what stays closed. */
import { randomUUID } from 'node:crypto'
import { encodeId } from '@hub/domain'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { endpoints } from '../endpoints/index.ts'
import { startOperationsApi, type TestOperationsApi, type TestSession } from '../testing/harness.ts'
import { type OidcDouble, startOidcDouble } from '../testing/oidc-double.ts'

let provider: OidcDouble
let api: TestOperationsApi
let shop: string
let bank: string
let staff: TestSession

const MAX = 'link|max'

beforeAll(async () => {
  provider = await startOidcDouble()
  api = await startOperationsApi({
    provider: {
      ...provider.settings,
      HUB_OIDC_ROLES: '{"engineers": "member", "support": "support"}',
      HUB_OIDC_ACCOUNTS_CLAIM: 'hub.accounts',
    },
  })
  shop = encodeId('acc', await api.addAccount('Shop'))
  bank = encodeId('acc', await api.addAccount('Bank'))
  staff = await api.signIn('olga', 'operator')
})
afterAll(async () => {
  await api.stop()
  await provider.stop()
})

const add = (account: string, person: string) =>
  api.call('/v1/members', { as: staff, body: { account, person, name: 'Max of the shop' } })
const remove = (account: string, person: string) =>
  api.call('/v1/members/remove', { as: staff, body: { account, person } })

const messagesOf = (account: string) => `/v1/messages?account=${account}`

describe('a member', () => {
  it('sees an account from the request after the assignment until its end, in the same session', async () => {
    const max = await api.signIn('max', 'member')
    const before = await api.call('/v1/me', { as: max })
    expect(before.body).toMatchObject({ id: MAX, roles: ['member'], accounts: [] })
    expect((await api.call('/v1/messages', { as: max })).body.error).toMatchObject({
      code: 'no_account',
      param: 'account',
    })

    expect((await add(shop, MAX)).body).toMatchObject({ account: shop, person: MAX, changed: true })
    expect((await add(shop, MAX)).body).toMatchObject({ changed: false })
    expect((await api.call('/v1/me', { as: max })).body.accounts).toEqual([shop])
    expect((await api.call(`/v1/accounts/${shop}`, { as: max })).body).toMatchObject({ name: 'Shop' })
    expect((await api.call('/v1/accounts', { as: max })).body.data).toMatchObject([{ id: shop }])
    expect((await api.call('/v1/messages', { as: max })).status).toBe(200)
    const listed = await api.call('/v1/members', { as: staff })
    expect(listed.body.data).toMatchObject([{ account: shop, person: MAX, name: 'Max of the shop' }])

    // The account of another client is like one that does not exist.
    const unknown = encodeId('acc', randomUUID())
    const [foreign, none] = [
      await api.call(`/v1/accounts/${bank}`, { as: max }),
      await api.call(`/v1/accounts/${unknown}`, { as: max }),
    ]
    expect(foreign.status).toBe(404)
    expect(foreign.text.replaceAll(bank, unknown).replaceAll(/req_\w+/gu, '')).toBe(
      none.text.replaceAll(/req_\w+/gu, ''),
    )

    expect((await remove(shop, MAX)).status).toBe(200)
    expect((await remove(shop, MAX)).body.error).toMatchObject({ code: 'member_not_found', param: 'person' })
    expect((await api.call(messagesOf(shop), { as: max })).body.data).toEqual([])
    expect((await api.call(`/v1/accounts/${shop}`, { as: max })).status).toBe(404)
    expect((await api.call('/v1/me', { as: max })).body.accounts).toEqual([])
  })

  it('sees the accounts that the identity provider names, beside those of an assignment', async () => {
    const person = `${provider.issuer}|u-7`
    const token = await provider.accessToken({
      sub: 'u-7',
      preferred_username: 'mia',
      groups: ['engineers'],
      hub: { accounts: [bank, 'acc_no_id', 7] },
    })
    const as = { headers: { authorization: `Bearer ${token}` } }
    expect((await api.call('/v1/me', as)).body).toMatchObject({ id: person, accounts: [bank] })
    expect((await api.call('/v1/messages', as)).status).toBe(200)
    await add(shop, person)
    expect((await api.call('/v1/me', as)).body.accounts).toEqual([shop, bank])
    // Now a list needs the choice.
    expect((await api.call('/v1/messages', as)).body.error).toMatchObject({
      code: 'account_required',
      param: 'account',
    })
    expect((await api.call(messagesOf(bank), as)).status).toBe(200)
  })

  it('is hub staff with a role of hub staff, whatever accounts are named', async () => {
    const token = await provider.accessToken({
      sub: 'u-8',
      preferred_username: 'sam',
      groups: ['engineers', 'support'],
      hub: { accounts: [bank] },
    })
    const as = { headers: { authorization: `Bearer ${token}` } }
    expect((await api.call('/v1/me', as)).body.accounts).toBeNull()
    expect((await api.call(`/v1/accounts/${shop}`, as)).status).toBe(200)
  })

  it('is added only to an account that exists, by an identity, and by who may', async () => {
    expect((await add(encodeId('acc', randomUUID()), MAX)).body.error).toMatchObject({
      code: 'account_not_found',
    })
    for (const person of [
      'max',
      'https://login.example.com|+79001234567',
      'a b|c',
      '|',
      `x|${'y'.repeat(1000)}`,
    ]) {
      expect((await add(shop, person)).body.error, person).toMatchObject({ param: 'person' })
    }
    const viewer = await api.signIn('vera', 'viewer')
    const refused = await api.call('/v1/members', {
      as: viewer,
      body: { account: shop, person: MAX, name: 'Max' },
    })
    expect(refused.status).toBe(403)
  })

  it.each(
    endpoints
      .filter(({ roles }) => roles !== null && !roles.includes('member'))
      .map((one) => [one.operation, one] as const),
  )('may not use %s', async (_, { method, path }) => {
    await add(shop, MAX)
    const max = await api.signIn('max', 'member')
    const refused = await api.call(path.replaceAll(/:\w+/gu, 'x'), {
      as: max,
      method,
      ...(method === 'GET' ? {} : { body: {} }),
    })
    expect(refused.status).toBe(403)
    expect(refused.body.error.code).toBe('forbidden')
  })
})
