/** Requests of recipients over HTTP: opt-outs, and erasures by two persons. */
import { recipientHash } from '@hub/domain'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  HASH_SECRET,
  startOperationsApi,
  type TestOperationsApi,
  type TestSession,
} from '../testing/harness.ts'

const NUMBER = '+79001234567'

let api: TestOperationsApi
beforeAll(async () => {
  api = await startOperationsApi({ settings: { HUB_ERASURE_PERSONS: '2' } })
})
afterAll(() => api.stop())

describe('the check of an opt-out', () => {
  it('takes the number in the body, and is for some roles only', async () => {
    const check = (as: TestSession) => api.call('/v1/opt_outs/check', { as, body: { recipient: NUMBER } })
    expect((await check(await api.signIn('Vera', 'viewer'))).status).toBe(403)
    const answer = await check(await api.signIn('Sam', 'support'))
    expect(answer.body).toMatchObject({
      opted_out: false,
      history: [],
      recipient: recipientHash(HASH_SECRET, NUMBER),
    })
    expect(answer.text).not.toContain(NUMBER.slice(1))
  })
})

describe('inbound messages', () => {
  it('are found by the number in the body, which nothing records', async () => {
    const sam = await api.signIn('Sam', 'support')
    const reveal = (recipient: string) =>
      api.call('/v1/inbound_messages/reveal', { as: sam, body: { recipient, reason: 'Ticket 7', limit: 1 } })
    const answer = await reveal(NUMBER)
    expect([answer.status, answer.body]).toEqual([200, { object: 'list', data: [] }])
    expect((await reveal('someone')).body).toMatchObject({ error: { code: 'recipient_invalid' } })
    const audit = await api.call('/v1/audit', { as: await api.signIn('Vera', 'admin') })
    expect(audit.text).toContain('inbound list')
    expect(audit.text).not.toContain(NUMBER.slice(1))
  })
})

describe('an opt-out', () => {
  it('is recorded, listed and lifted by the hash, with who did it', async () => {
    const sam = await api.signIn('Sam', 'support')
    const body = { recipient: recipientHash(HASH_SECRET, '+79000000046') }
    expect((await api.call('/v1/opt_outs', { as: sam, body })).body).toMatchObject({ added: true })
    const listed = await api.call('/v1/opt_outs?source=operator', { as: sam })
    expect(listed.body).toMatchObject({ total: 1, data: [{ ...body, source: 'operator' }] })
    expect((await api.call('/v1/opt_outs/lift', { as: sam, body })).body).toMatchObject({ opted_out: false })
    const again = await api.call('/v1/opt_outs/lift', { as: sam, body })
    expect([again.status, again.body.error.code]).toEqual([422, 'not_opted_out'])
    const { body: checked } = await api.call('/v1/opt_outs/check', { as: sam, body })
    expect(checked.history).toMatchObject([
      { change: 'opted_out', actor: 'Sam' },
      { change: 'opted_in', actor: 'Sam' },
    ])
  })
})

describe('an erasure', () => {
  it('is requested by one person, and confirmed by another', async () => {
    const anna = await api.signIn('Anna', 'operator')
    const boris = await api.signIn('Boris', 'operator')
    const support = await api.signIn('Sam', 'support')
    const body = { recipient: NUMBER, reason: 'Letter of 21 November' }
    expect((await api.call('/v1/erasures', { as: support, body })).status).toBe(403)
    const asked = await api.call('/v1/erasures', { as: anna, body })
    expect(asked.body).toMatchObject({ receipt: null, request: { status: 'waiting', requested_by: 'Anna' } })
    const { id } = asked.body.request
    const open = await api.call('/v1/erasures', { as: boris })
    expect(open.body.data).toMatchObject([{ id }])
    const confirm = (as: TestSession) => api.call(`/v1/erasures/${id}/confirm`, { as, method: 'POST' })
    const own = await confirm(anna)
    expect([own.status, own.body.error.code]).toEqual([409, 'same_person'])
    const done = await confirm(boris)
    expect(done.body).toMatchObject({ request: { confirmed_by: 'Boris' }, receipt: { object: 'erasure' } })
    expect((await api.call('/v1/erasures', { as: boris })).body.data).toEqual([])
    expect((await api.call('/v1/erasures?open=false', { as: boris })).body.data).toHaveLength(1)
    const receipts = await api.call('/v1/erasures/receipts', { as: anna, body: { recipient: NUMBER } })
    expect(receipts.body.data).toMatchObject([{ id: done.body.receipt.id }])
    const rows = await api.sql`SELECT * FROM command.audit`
    expect(JSON.stringify(rows)).not.toContain(NUMBER.slice(1))
  })
})

describe('the hash of a number', () => {
  it('is for the roles that reveal numbers, and in the audit trail', async () => {
    const hash = (as: TestSession) => api.call('/v1/recipients/hash', { as, body: { recipient: NUMBER } })
    for (const role of ['viewer', 'moderator', 'operator']) {
      const refused = await hash(await api.signIn(`Rita ${role}`, role))
      expect([refused.status, refused.body.error.details.permission]).toEqual([403, 'messages.reveal'])
    }
    const answer = await hash(await api.signIn('Sam', 'support'))
    expect(answer.body).toMatchObject({ hash: recipientHash(HASH_SECRET, NUMBER) })
    const rows = await api.sql`SELECT * FROM command.audit WHERE command = 'hash' AND outcome = 'done'`
    expect(rows).toMatchObject([
      {
        actor: 'Sam',
        arguments: { by: 'number' },
        detail: { recipient: recipientHash(HASH_SECRET, NUMBER) },
      },
    ])
    expect(JSON.stringify(rows)).not.toContain(NUMBER.slice(1))
  })
})

describe('a recipient', () => {
  it.each([
    ['/v1/recipients/hash', (recipient: string) => ({ recipient })],
    ['/v1/messages/find', (recipient: string) => ({ by: { recipient }, account: null, mode: null })],
  ])('of %s is a text of 1 to 100 characters', async (path, bodyOf) => {
    const sam = await api.signIn('Sam', 'support')
    for (const [text, code] of [
      ['', 'invalid_parameter'],
      ['a'.repeat(101), 'invalid_parameter'],
      ['a'.repeat(100), 'recipient_invalid'],
    ] as const) {
      const refused = await api.call(path, { as: sam, body: bodyOf(text) })
      expect([refused.status, refused.body.error.code]).toEqual([422, code])
    }
  })
})

describe('the limit of look-ups', () => {
  const LIMIT = 3
  let limited: TestOperationsApi
  let sam: TestSession
  beforeAll(async () => {
    limited = await startOperationsApi({ settings: { HUB_LOOKUPS_PER_HOUR: String(LIMIT) } })
    sam = await limited.signIn('Sam', 'support')
  })
  afterAll(() => limited.stop())

  const message = 'msg_01m7yt89qhe54swwc8wkxj6n8e'
  const ways: ReadonlyArray<readonly [path: string, body: object]> = [
    ['/v1/recipients/hash', { recipient: NUMBER }],
    ['/v1/search', { q: NUMBER }],
    ['/v1/opt_outs/check', { recipient: NUMBER }],
    ['/v1/messages/find', { by: { recipient: NUMBER }, account: null, mode: null }],
    [`/v1/messages/${message}/reveal`, { reason: 'Ticket 7' }],
    [`/v1/messages/${message}/raw`, { reason: 'Ticket 7' }],
    ['/v1/inbound_messages/reveal', { reason: 'Ticket 7', limit: 1 }],
  ]

  it('is one for all ways to a person, and says when the next one is possible', async () => {
    for (const [path, body] of ways.slice(0, LIMIT)) {
      expect((await limited.call(path, { as: sam, body })).status).toBe(200)
    }
    for (const [path, body] of ways) {
      const refused = await limited.call(path, { as: sam, body })
      expect([refused.status, refused.body.error.code]).toEqual([429, 'lookup_limit_reached'])
      // RFC 6585, section 4, and RFC 9110, section 10.2.3: whole seconds.
      const wait = Number(refused.headers.get('retry-after'))
      expect(wait).toBe(refused.body.error.retry_after)
      expect(wait > 0 && wait <= 3600).toBe(true)
      expect(refused.text).not.toContain(NUMBER.slice(1))
    }
    // What is no look-up goes on, and so do other people.
    expect((await limited.call('/v1/search', { as: sam, body: { q: message } })).status).toBe(200)
    const other = await limited.signIn('Tom', 'support')
    expect((await limited.call('/v1/search', { as: other, body: { q: NUMBER } })).status).toBe(200)
  })

  it('is that of the person, in another session and by the name of the use case', async () => {
    const again = await limited.signIn('Sam', 'support')
    const body = { use_case: 'hash', input: { recipient: NUMBER } }
    const refused = await limited.call('/v1/perform', { as: again, body })
    expect([refused.status, refused.body.error.code]).toEqual([429, 'lookup_limit_reached'])
  })
})
