/** Messages over HTTP: search, lists, timelines, and what is revealed. */
import { randomUUID } from 'node:crypto'
import { encodeId, recipientHash } from '@hub/domain'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  HASH_SECRET,
  startOperationsApi,
  type TestOperationsApi,
  type TestSession,
} from '../testing/harness.ts'

const NUMBER = '+79001234567'

let api: TestOperationsApi
let account: string
let viewer: TestSession
let support: TestSession
const message = randomUUID()
const id = encodeId('msg', message)

beforeAll(async () => {
  api = await startOperationsApi()
  account = await api.addAccount()
  viewer = await api.signIn('Vera', 'viewer')
  support = await api.signIn('Sam', 'support')
  const recipient = Buffer.from(recipientHash(HASH_SECRET, NUMBER), 'hex')
  const at = new Date()
  await api.sql`INSERT INTO read.messages ${api.sql({
    id: message,
    account,
    mode: 'live',
    class: 'service',
    recipient,
    template: '<script>alert(1)</script>',
    sender: 'SHOP',
    client_ref: 'order-7',
    parts: 1,
    price: '1.50',
    currency: 'RUB',
    variables: [],
    created_at: at,
    updated_at: at,
    status: 'rejected',
    reason_code: 'spam_filter_content',
    rank: 3,
    final: true,
    attempts: 1,
  })}`
  await api.sql`INSERT INTO read.personal_data (message_id, recipient, created_at, sealed)
    VALUES (${message}, ${recipient}, ${at}, '\\x00')`
})
afterAll(() => api.stop())

describe('the search', () => {
  it('finds messages by number in the body, and shows and logs no number', async () => {
    const found = await api.call('/v1/search', { as: viewer, body: { q: NUMBER } })
    expect(found.status).toBe(200)
    expect(found.body).toMatchObject({ kind: 'number', data: [{ type: 'message', id }] })
    expect(found.text).not.toContain(NUMBER.slice(1))
    const rows =
      await api.sql`SELECT arguments, detail, actor FROM command.audit WHERE command = 'messages search'`
    expect(rows).toHaveLength(2)
    expect(JSON.stringify(rows)).not.toContain(NUMBER.slice(1))
  })

  it('takes nothing from the URL, where a number would be in logs', async () => {
    expect((await api.call(`/v1/search?q=${encodeURIComponent(NUMBER)}`, { as: viewer })).status).toBe(405)
    const inQuery = await api.call(`/v1/search?q=${encodeURIComponent(NUMBER)}`, { as: viewer, body: {} })
    expect(inQuery.status).toBe(422)
    expect(inQuery.text).not.toContain(NUMBER.slice(1))
  })
})

describe('messages', () => {
  it('are listed by filters, and shown', async () => {
    const listed = await api.call('/v1/messages?status=rejected&reason=spam_filter_content', { as: viewer })
    expect(listed.body).toMatchObject({
      object: 'list',
      data: [{ id, template: '<script>alert(1)</script>' }],
      next_cursor: null,
      searched_until: null,
    })
    expect((await api.call('/v1/messages?status=sent', { as: viewer })).body.data).toEqual([])
    const wrong = await api.call('/v1/messages?status=lost', { as: viewer })
    expect([wrong.status, wrong.body.error.param]).toEqual([422, 'status'])
    const shown = await api.call(`/v1/messages/${id}`, { as: viewer })
    expect(shown.body).toMatchObject({ id, reason_code: 'spam_filter_content', operator_ids: [] })
    const unknown = await api.call(`/v1/messages/${encodeId('msg', randomUUID())}`, { as: viewer })
    expect([unknown.status, unknown.body.error.code]).toEqual([404, 'message_not_found'])
  })

  it('have a timeline', async () => {
    const timeline = await api.call(`/v1/messages/${id}/timeline`, { as: viewer })
    expect(timeline.status).toBe(200)
    expect(timeline.body).toMatchObject({ object: 'timeline', entries: [{ kind: 'accepted' }] })
    expect(timeline.body.missing).not.toHaveLength(0)
  })

  it('are revealed only to the roles for it, and only with a reason', async () => {
    const reveal = (as: TestSession, body: object) => api.call(`/v1/messages/${id}/reveal`, { as, body })
    expect((await reveal(viewer, { reason: 'Ticket 4711' })).status).toBe(403)
    const without = await reveal(support, {})
    expect([without.status, without.body.error.code]).toEqual([422, 'reason_required'])
    const withNumber = await reveal(support, { reason: `Asked by ${NUMBER}` })
    expect([withNumber.status, withNumber.body.error.param]).toEqual([422, 'reason'])
    expect(withNumber.text).not.toContain(NUMBER.slice(1))
    // Only the attempt of the viewer.
    const lines = await api.sql`SELECT DISTINCT actor FROM command.audit WHERE command = 'messages reveal'`
    expect(lines.map(({ actor }) => actor)).toEqual(['Vera'])
  })

  it('are not revealed after an erasure, also before it has removed the encrypted copy', async () => {
    await api.sql`
      INSERT INTO command.erasures (id, recipient, requested_at, before)
      VALUES (${randomUUID()}, ${Buffer.from(recipientHash(HASH_SECRET, NUMBER), 'hex')}, now(), now())`
    const shown = await api.call(`/v1/messages/${id}/reveal`, {
      as: support,
      body: { reason: 'Ticket 4711' },
    })
    expect([shown.status, shown.body]).toMatchObject([200, { to: null, text: null, variables: null }])
    expect(shown.body.explanation).toContain('erased')
    const [kept] = await api.sql`SELECT count(*)::integer AS rows FROM read.personal_data`
    expect(kept?.['rows']).toBe(1)
  })
})
