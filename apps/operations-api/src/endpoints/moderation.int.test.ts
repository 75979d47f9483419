/** Moderation over HTTP: the first use cases of the API, from the request to the audit trail. */
import { randomUUID } from 'node:crypto'
import { decodeId, encodeId } from '@hub/domain'
import { CommandSenders, CommandTemplates } from '@hub/store'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startOperationsApi, type TestOperationsApi } from '../testing/harness.ts'

let api: TestOperationsApi
let account: string

beforeAll(async () => {
  api = await startOperationsApi()
  account = await api.addAccount()
  await CommandSenders.insert(api.sql, {
    id: randomUUID(),
    account,
    mode: 'live',
    name: 'SHOP',
    registration: '{"company": "Shop"}',
    status: 'pending',
  })
})
afterAll(() => api.stop())

const addTemplate = async (name: string): Promise<string> => {
  const id = randomUUID()
  await CommandTemplates.insert(api.sql, {
    id,
    account,
    mode: 'live',
    name,
    class: 'service',
    sender: 'SHOP',
    body: 'Order {{order}}',
    language: null,
    status: 'pending_moderation',
  })
  return encodeId('tpl', id)
}

describe('the moderation queue', () => {
  it('has pages', async () => {
    const anna = await api.signIn('Anna', 'viewer')
    const ids = [await addTemplate('a'), await addTemplate('b'), await addTemplate('c')]
    // The queue is ordered by this time, and then by the random id.
    for (const [index, id] of ids.entries()) {
      await api.sql`
        UPDATE command.templates SET created_at = ${new Date(Date.UTC(2026, 10, 21 + index))}
         WHERE id = ${decodeId('tpl', id)}`
    }
    const first = await api.call('/v1/moderation/queue/templates?limit=2', { as: anna })
    expect(first.status).toBe(200)
    expect(first.body).toMatchObject({ object: 'list', data: [{ id: ids[0] }, { id: ids[1] }] })
    const cursor = encodeURIComponent(first.body.next_cursor)
    const second = await api.call(`/v1/moderation/queue/templates?limit=2&cursor=${cursor}`, { as: anna })
    expect(second.body).toMatchObject({
      data: [{ id: ids[2], status: 'pending_moderation' }],
      next_cursor: null,
    })
    const senders = await api.call('/v1/moderation/queue/senders', { as: anna })
    expect(senders.body.data).toMatchObject([{ name: 'SHOP', registration: { company: 'Shop' } }])
  })
})

describe('a decision', () => {
  it('is recorded with the person, the role and the comment', async () => {
    const boris = await api.signIn('Boris', 'support', 'moderator')
    const id = await addTemplate('d')
    const declined = await api.call(`/v1/moderation/templates/${id}/decline`, {
      as: boris,
      body: { reason: 'It names no sender' },
    })
    expect(declined.status).toBe(200)
    expect(declined.body).toMatchObject({ id, status: 'declined', reason: 'It names no sender' })
    const approved = await api.call(`/v1/moderation/templates/${id}/approve`, { as: boris, method: 'POST' })
    expect(approved.body).toMatchObject({ id, status: 'approved', reason: null })
    const rows = await api.sql`
      SELECT actor, role, command, arguments, outcome FROM command.audit
       WHERE arguments->>'template' = ${id} ORDER BY place`
    expect(rows).toMatchObject([
      {
        actor: 'Boris',
        role: 'moderator',
        command: 'templates decline',
        arguments: { template: id, reason: 'It names no sender' },
        outcome: 'begun',
      },
      { outcome: 'done' },
      { command: 'templates approve', outcome: 'begun' },
      { outcome: 'done' },
    ])
  })

  it('that is made already is a conflict', async () => {
    const boris = await api.signIn('Boris', 'moderator')
    const id = await addTemplate('e')
    const approve = () => api.call(`/v1/moderation/templates/${id}/approve`, { as: boris, method: 'POST' })
    expect((await approve()).status).toBe(200)
    const second = await approve()
    expect(second.status).toBe(409)
    expect(second.body.error.code).toBe('already_decided')
  })

  it('of a person without the role changes nothing, and leaves one line in the audit trail', async () => {
    const id = await addTemplate('f')
    for (const role of ['viewer', 'support', 'operator']) {
      const session = await api.signIn('Carl', role)
      const response = await api.call(`/v1/moderation/templates/${id}/approve`, {
        as: session,
        method: 'POST',
      })
      expect(response.status).toBe(403)
    }
    const [row] = await api.sql<{ status: string }[]>`
      SELECT status FROM command.templates WHERE name = 'f'`
    expect(row?.status).toBe('pending_moderation')
    const lines = await api.sql`
      SELECT command, role, detail FROM command.audit WHERE actor = 'Carl' AND outcome <> 'begun'`
    expect([...lines]).toEqual([{ command: 'templates approve', role: null, detail: { code: 'forbidden' } }])
  })
})
