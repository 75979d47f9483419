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
