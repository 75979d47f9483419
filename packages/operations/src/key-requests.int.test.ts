/** Live keys by two persons, over PostgreSQL. */
import { uuidOf } from '@hub/store'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import type { Actor } from './actor.ts'
import * as KeyRequests from './key-requests.ts'
import * as Keys from './keys.ts'
import * as Certifications from './tables/certifications.ts'
import { makeTestDatabase, readPages, type TestDatabase } from './testing/test-database.ts'

const OLGA: Actor = { id: 'https://id.example|olga', name: 'olga', roles: ['operator'], via: 'api' }
const PAUL: Actor = { id: 'https://id.example|paul', name: 'paul', roles: ['operator'], via: 'api' }
const SUPPORT: Actor = { id: 'https://id.example|sam', name: 'sam', roles: ['support'], via: 'api' }

let database: TestDatabase
let account: { readonly id: string; readonly uuid: string }

beforeAll(async () => {
  database = await makeTestDatabase({ HUB_LIVE_KEY_PERSONS: '2' })
  account = await database.account('Shop')
  await Certifications.upsert(database.sql, account.uuid, 'olga', [])
})
afterAll(() => database.remove())

const wanted = (more: object = {}) => ({
  account: account.id,
  allowed_addresses: ['192.0.2.0/24'],
  expires_after_seconds: 3600,
  ...more,
})

const makeRequest = (more: object = {}) => database.run(OLGA, KeyRequests.request, wanted(more))

describe('a live key of a hub that needs two persons', () => {
  it('is not issued by one person, and a test key is', async () => {
    const issue = (mode: 'live' | 'test') => ({ ...wanted(), mode })
    assert.include(await database.refusal(OLGA, Keys.issue, issue('live')), {
      code: 'second_person_required',
    })
    assert.strictEqual((await database.run(OLGA, Keys.issue, issue('test'))).mode, 'test')
  })

  it('exists after another person has confirmed it, who gets it once', async () => {
    const made = await makeRequest()
    assert.include(made, { status: 'waiting', requested_by: 'olga', key: null, name: 'Shop' })
    const count = async () =>
      (await database.sql`SELECT 1 FROM command.api_keys WHERE account = ${account.uuid} AND mode = 'live'`)
        .length
    assert.strictEqual(await count(), 0)
    assert.include(await database.refusal(OLGA, KeyRequests.confirm, { id: made.id }), {
      code: 'same_person',
    })
    assert.include(await database.refusal(SUPPORT, KeyRequests.confirm, { id: made.id }), {
      _tag: 'Forbidden',
    })
    const issued = await database.run(PAUL, KeyRequests.confirm, { id: made.id })
    assert.match(issued.key, /^hub_live_/u)
    assert.deepStrictEqual(issued.allowed_addresses, ['192.0.2.0/24'])
    assert.isNotNull(issued.expires_at)
    assert.isTrue((await database.run(SUPPORT, Keys.get, { id: issued.id })).works)
    assert.include(await database.refusal(PAUL, KeyRequests.confirm, { id: made.id }), {
      code: 'already_confirmed',
    })
    assert.strictEqual(await count(), 1)
    const [row] = await database.auditRows('keys confirm')
    assert.include(row, { actor: 'paul' })
    for (const line of await database.auditRows('keys')) {
      assert.notInclude(JSON.stringify(line), issued.key)
    }
  })

  it('has the scopes of its request, which an earlier version cannot confirm', async () => {
    const made = await makeRequest({ scopes: ['read', 'send'] })
    assert.deepStrictEqual(made.scopes, ['send', 'read'])
    const asBefore = await database.sql`
      UPDATE command.key_requests SET confirmed_by = 'paul', confirmed_at = now() WHERE id = ${made.id}`.catch(
      (error: unknown) => error,
    )
    assert.include(asBefore, { constraint_name: 'key_requests_scopes' })
    const issued = await database.run(PAUL, KeyRequests.confirm, { id: made.id })
    assert.deepStrictEqual(issued.scopes, ['send', 'read'])
    assert.deepStrictEqual((await database.run(SUPPORT, Keys.get, { id: issued.id })).scopes, [
      'send',
      'read',
    ])
    const rotation = { id: issued.id, overlap_seconds: 0, expires_after_seconds: null, networks: null }
    const { id } = await database.run(OLGA, KeyRequests.requestRotation, rotation)
    // A request of an earlier version has no scopes.
    await database.sql`UPDATE command.key_requests SET scopes = NULL WHERE id = ${id}`
    const shown = await database.run(PAUL, KeyRequests.list, {
      account: account.id,
      open: true,
      limit: 1,
      cursor: null,
    })
    assert.deepStrictEqual(
      shown.data.map((request) => [request.id, request.scopes]),
      [[id, ['send', 'read']]],
    )
    assert.deepStrictEqual((await database.run(PAUL, KeyRequests.confirm, { id })).scopes, ['send', 'read'])
    await database.sql`DELETE FROM command.key_requests WHERE id IN (${made.id}, ${id})`
  })

  it('is issued once if two persons confirm it at the same time', async () => {
    const { id } = await makeRequest()
    const confirmed = await Promise.allSettled(
      ['paul', 'rosa'].map((name) =>
        database.run({ ...PAUL, id: `https://id.example|${name}`, name }, KeyRequests.confirm, { id }),
      ),
    )
    assert.deepStrictEqual(confirmed.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected'])
  })

  it('is not issued a week later, and never by the person of the request', async () => {
    const { id } = await makeRequest()
    await database.sql`UPDATE command.key_requests SET expires_at = now() WHERE id = ${id}`
    assert.include(await database.refusal(PAUL, KeyRequests.confirm, { id }), { code: 'key_request_expired' })
    const bypassed = await database.sql`
      UPDATE command.key_requests SET confirmed_by = 'olga' WHERE id = ${id}`.catch((error: unknown) => error)
    assert.include(bypassed, { constraint_name: 'key_requests_two_identities' })
  })

  it('needs a certified account at the request and at the confirmation', async () => {
    const other = await database.account('Bank')
    const input = wanted({ account: other.id })
    assert.include(await database.refusal(OLGA, KeyRequests.request, input), { code: 'not_certified' })
    await Certifications.upsert(database.sql, other.uuid, 'olga', [])
    const { id } = await database.run(OLGA, KeyRequests.request, input)
    await Certifications.remove(database.sql, uuidOf('acc', other.id))
    assert.include(await database.refusal(PAUL, KeyRequests.confirm, { id }), { code: 'not_certified' })
  })

  it('is in the list of the requests, page after page, newest first', async () => {
    const listed = await readPages((page) =>
      database.run(SUPPORT, KeyRequests.list, { account: account.id, open: false, ...page }),
    )
    assert.deepStrictEqual(
      listed.map(({ status }) => status),
      ['expired', 'confirmed', 'confirmed'],
    )
    const open = await makeRequest()
    const waiting = await database.run(SUPPORT, KeyRequests.list, {
      account: account.id,
      open: true,
      limit: 10,
      cursor: null,
    })
    assert.deepStrictEqual(
      waiting.data.map(({ id }) => id),
      [open.id],
    )
  })
})

describe('a rotation of a live key of a hub that needs two persons', () => {
  const issueLiveKey = async () => database.run(PAUL, KeyRequests.confirm, { id: (await makeRequest()).id })
  const rotation = (id: string, overlap_seconds = 3600) => ({
    id,
    overlap_seconds,
    expires_after_seconds: null,
    networks: null,
  })

  it('changes nothing before another person has confirmed it, who gets the new key once', async () => {
    const old = await issueLiveKey()
    assert.include(await database.refusal(OLGA, Keys.rotate, rotation(old.id)), {
      code: 'second_person_required',
    })
    const made = await database.run(OLGA, KeyRequests.requestRotation, rotation(old.id))
    assert.include(made, {
      status: 'waiting',
      account: account.id,
      key: null,
      replaces: old.id,
      overlap_seconds: 3600,
      // As long as the old key was meant to live.
      expires_after_seconds: 3600,
    })
    assert.deepStrictEqual(made.allowed_addresses, ['192.0.2.0/24'])
    assert.isNull((await database.run(SUPPORT, Keys.get, { id: old.id })).revoked_at)
    assert.include(await database.refusal(OLGA, KeyRequests.confirm, { id: made.id }), {
      code: 'same_person',
    })

    const issued = await database.run(PAUL, KeyRequests.confirm, { id: made.id })
    assert.match(issued.key, /^hub_live_/u)
    assert.notStrictEqual(issued.id, old.id)
    assert.deepStrictEqual(issued.allowed_addresses, ['192.0.2.0/24'])
    const ended = await database.run(SUPPORT, Keys.get, { id: old.id })
    assert.deepStrictEqual(issued.replaces, { id: old.id, revoked_at: ended.revoked_at })
    const hoursLeft = (Date.parse(ended.revoked_at ?? '') - Date.now()) / 3_600_000
    assert.closeTo(hoursLeft, 1, 0.1)
    assert.isTrue(ended.works)
    assert.include(await database.refusal(PAUL, KeyRequests.confirm, { id: made.id }), {
      code: 'already_confirmed',
    })
    const lines = await database.auditRows('keys')
    assert.include(JSON.stringify(lines), old.id)
    assert.notInclude(JSON.stringify(lines), issued.key)
  })

  it('does not issue a key if the old one has ended since the request', async () => {
    const old = await issueLiveKey()
    const { id } = await database.run(OLGA, KeyRequests.requestRotation, rotation(old.id))
    await database.run(OLGA, Keys.revoke, { id: old.id })
    assert.include(await database.refusal(PAUL, KeyRequests.confirm, { id }), { code: 'key_revoked' })
    const [row] = await database.sql`SELECT confirmed_at, key FROM command.key_requests WHERE id = ${id}`
    assert.deepStrictEqual({ ...row }, { confirmed_at: null, key: null })
    assert.include(await database.refusal(OLGA, KeyRequests.requestRotation, rotation(old.id)), {
      code: 'key_revoked',
    })
  })

  it('does not need a certified account, as the account gets no further key', async () => {
    const other = await database.account('Travel')
    await Certifications.upsert(database.sql, other.uuid, 'olga', [])
    const first = await database.run(OLGA, KeyRequests.request, wanted({ account: other.id }))
    const old = await database.run(PAUL, KeyRequests.confirm, { id: first.id })
    await Certifications.remove(database.sql, other.uuid)
    const { id } = await database.run(OLGA, KeyRequests.requestRotation, rotation(old.id, 0))
    const issued = await database.run(PAUL, KeyRequests.confirm, { id })
    assert.isFalse((await database.run(SUPPORT, Keys.get, { id: old.id })).works)
    assert.isTrue((await database.run(SUPPORT, Keys.get, { id: issued.id })).works)
  })

  it('of a test key is refused, because one person can rotate it', async () => {
    const key = await database.run(OLGA, Keys.issue, { ...wanted(), mode: 'test' as const })
    assert.include(await database.refusal(OLGA, KeyRequests.requestRotation, rotation(key.id)), {
      code: 'one_person_enough',
    })
  })

  it('cannot be confirmed by an earlier version, which would not end the old key', async () => {
    const old = await issueLiveKey()
    const { id } = await database.run(OLGA, KeyRequests.requestRotation, rotation(old.id))
    const bypassed = await database.sql`
      UPDATE command.key_requests SET confirmed_by = 'paul', confirmed_by_id = 'https://id.example|paul', confirmed_at = now()
       WHERE id = ${id}`.catch((error: unknown) => error)
    assert.include(bypassed, { constraint_name: 'key_requests_rotation' })
  })
})

describe('the networks of a live key of a hub that needs two persons', () => {
  const allow = (id: string, ...allowed_addresses: ReadonlyArray<string>) => ({ id, allowed_addresses })

  it('are narrowed by one person, and widened only by the rotation that another one confirms', async () => {
    const { id } = await database.run(PAUL, KeyRequests.confirm, { id: (await makeRequest()).id })
    // Of the key: 192.0.2.0/24.
    const narrowed = await database.run(OLGA, Keys.allow, allow(id, '192.0.2.0/25', '192.0.2.200/32'))
    assert.deepStrictEqual(narrowed.allowed_addresses, ['192.0.2.0/25', '192.0.2.200/32'])
    const widened = [['192.0.2.0/24'], ['192.0.2.0/25', '198.51.100.7/32'], ['::/0'], ['0.0.0.0/0'], null]
    for (const allowed_addresses of widened) {
      const failure = await database.refusal(OLGA, Keys.allow, { id, allowed_addresses })
      assert.include(failure, { code: 'second_person_required' })
    }
    const { allowed_addresses } = await database.run(SUPPORT, Keys.get, { id })
    assert.deepStrictEqual(allowed_addresses, ['192.0.2.0/25', '192.0.2.200/32'])

    const wider = { allowed_addresses: ['192.0.2.0/24', '198.51.100.7/32'] }
    const asked = { id, overlap_seconds: 0, expires_after_seconds: null, networks: wider }
    const made = await database.run(OLGA, KeyRequests.requestRotation, asked)
    assert.deepStrictEqual(made.allowed_addresses, wider.allowed_addresses)
    const issued = await database.run(PAUL, KeyRequests.confirm, { id: made.id })
    assert.deepStrictEqual(issued.allowed_addresses, wider.allowed_addresses)
  })

  it('can be any of one person, if the key is a test key or worked from anywhere', async () => {
    const test = await database.run(OLGA, Keys.issue, { ...wanted(), mode: 'test' as const })
    await database.run(OLGA, Keys.allow, { id: test.id, allowed_addresses: null })
    const { id } = await makeRequest({ allowed_addresses: null })
    const live = await database.run(PAUL, KeyRequests.confirm, { id })
    await database.run(OLGA, Keys.allow, allow(live.id, '203.0.113.0/24', '2001:db8::/32'))
    const failure = await database.refusal(OLGA, Keys.allow, { id: live.id, allowed_addresses: null })
    assert.include(failure, { code: 'second_person_required' })
  })
})
