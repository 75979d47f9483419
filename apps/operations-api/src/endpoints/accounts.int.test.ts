/** Accounts, keys, the hub, dead letters and the audit trail over HTTP. */
import { encodeId } from '@hub/domain'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startOperationsApi, type TestOperationsApi, type TestSession } from '../testing/harness.ts'

let api: TestOperationsApi
let operator: TestSession
let viewer: TestSession

beforeAll(async () => {
  api = await startOperationsApi()
  operator = await api.signIn('Olga', 'operator')
  viewer = await api.signIn('Vera', 'viewer')
})
afterAll(() => api.stop())

describe('an account', () => {
  it('is created, changed and read', async () => {
    const created = await api.call('/v1/accounts', { as: operator, body: { name: 'Shop' } })
    expect(created.status).toBe(200)
    const { id } = created.body
    const changed = await api.call(`/v1/accounts/${id}/settings`, {
      as: operator,
      method: 'PATCH',
      body: { mode: 'live', changes: { api_rps: 7 } },
    })
    expect(changed.body.modes).toMatchObject([
      { mode: 'live', in_force: { api_rps: 7 }, overridden: ['api_rps'] },
    ])
    const read = await api.call(`/v1/accounts/${id}`, { as: viewer })
    expect(read.body).toMatchObject({ id, name: 'Shop', spending: { spent: '0.00' } })
    const list = await api.call('/v1/accounts?limit=1', { as: viewer })
    expect(list.body.data).toMatchObject([{ id, certified: false }])
    const certification = await api.call(`/v1/accounts/${id}/certification`, { as: viewer })
    expect(certification.body).toMatchObject({ account: id, certified: false })
  })

  it('is not changed by a viewer, or with a wrong setting', async () => {
    const id = encodeId('acc', await api.addAccount())
    const change = (as: TestSession, changes: object) =>
      api.call(`/v1/accounts/${id}/settings`, { as, method: 'PATCH', body: { mode: 'live', changes } })
    expect((await change(viewer, { api_rps: 7 })).status).toBe(403)
    const wrong = await change(operator, { api_rps: 0 })
    expect(wrong.body.error).toMatchObject({ code: 'invalid_parameter', param: 'changes.api_rps' })
    const unknown = await change(operator, { colour: 1 })
    expect(unknown.body.error).toMatchObject({ code: 'invalid_parameter', param: 'changes.colour' })
    expect((await change(operator, {})).status).toBe(422)
  })

  it('that does not exist is 404', async () => {
    const response = await api.call('/v1/accounts/acc_01m7yt89qhe54swwc8wkxj6n8e', { as: viewer })
    expect(response.status).toBe(404)
    expect(response.body.error).toMatchObject({ code: 'account_not_found', param: 'account' })
  })
})

describe('a key', () => {
  it('is shown once, and is not in the audit trail', async () => {
    const account = encodeId('acc', await api.addAccount())
    const issued = await api.call('/v1/keys', { as: operator, body: { account, mode: 'test' } })
    expect(issued.status).toBe(200)
    const { id, key } = issued.body
    expect(key).toMatch(/^hub_test_/u)
    const read = await api.call(`/v1/keys/${id}`, { as: viewer })
    expect(read.text).not.toContain(key)
    const revoked = await api.call(`/v1/keys/${id}/revoke`, { as: operator, method: 'POST' })
    expect(revoked.status).toBe(200)
    const again = await api.call(`/v1/keys/${id}/revoke`, { as: operator, method: 'POST' })
    expect(again.body.error).toMatchObject({ code: 'key_revoked', param: 'id' })
    const all = await api.call(`/v1/keys?account=${account}&ended=true`, { as: viewer })
    expect(all.body.data).toMatchObject([{ id }])
    expect((await api.call(`/v1/keys?account=${account}`, { as: viewer })).body.data).toEqual([])
    const trail = await api.call('/v1/audit?command=keys', { as: operator })
    expect(trail.body.data[0]).toMatchObject({
      actor: 'Olga',
      role: 'operator',
      command: 'keys revoke',
      arguments: { key: id },
      outcome: 'failed',
      detail: { code: 'key_revoked' },
    })
    expect(trail.text).not.toContain(key)
  })

  it('has the scopes that it was issued with', async () => {
    const account = encodeId('acc', await api.addAccount())
    const issue = (more: object) =>
      api.call('/v1/keys', { as: operator, body: { account, mode: 'test', ...more } })
    const sender = await issue({ scopes: ['send'] })
    expect(sender.body.scopes).toEqual(['send'])
    expect((await issue({})).body.scopes).toEqual(['send', 'read', 'manage'])
    const all = await api.call(`/v1/keys?account=${account}`, { as: viewer })
    expect(all.body.data).toMatchObject([{ scopes: ['send', 'read', 'manage'] }, { scopes: ['send'] }])
    const rotated = await api.call(`/v1/keys/${sender.body.id}/rotate`, {
      as: operator,
      body: { overlap_seconds: 0 },
    })
    expect(rotated.body.scopes).toEqual(['send'])
    const trail = await api.call('/v1/audit?command=keys%20issue', { as: operator })
    expect(trail.body.data.map((row: { arguments: object }) => row.arguments)).toContainEqual(
      expect.objectContaining({ account, scopes: ['send'] }),
    )
    for (const scopes of [[], ['write'], 'send']) {
      const refused = await issue({ scopes })
      expect([refused.status, refused.body.error.code]).toEqual([422, 'invalid_parameter'])
    }
  })

  it('for live messages requires a certified account', async () => {
    const account = encodeId('acc', await api.addAccount())
    const response = await api.call('/v1/keys', { as: operator, body: { account, mode: 'live' } })
    expect(response.status).toBe(422)
    expect(response.body.error.code).toBe('not_certified')
  })
})

describe('a rotation by two persons', () => {
  it('is requested by one and confirmed by another, who gets the key', async () => {
    const uuid = await api.addAccount()
    const account = encodeId('acc', uuid)
    await api.sql`INSERT INTO command.certifications (account, granted_by, confirmed) VALUES (${uuid}, 'a test', '{}')`
    const old = await api.call('/v1/keys', { as: operator, body: { account, mode: 'live' } })
    const request = (as: TestSession) =>
      api.call(`/v1/keys/${old.body.id}/request_rotation`, {
        as,
        body: { overlap_seconds: 60, expires_after_seconds: null },
      })
    expect((await request(viewer)).status).toBe(403)
    const made = await request(operator)
    expect(made.body).toMatchObject({ object: 'key_request', account, replaces: old.body.id, key: null })
    const confirm = (as: TestSession) =>
      api.call(`/v1/key_requests/${made.body.id}/confirm`, { as, method: 'POST' })
    expect((await confirm(operator)).body.error.code).toBe('same_person')
    const second = await confirm(await api.signIn('Otto', 'operator'))
    expect(second.body).toMatchObject({ account, mode: 'live', replaces: { id: old.body.id } })
    expect(second.body.key).toMatch(/^hub_live_/u)
    const requests = await api.call(`/v1/key_requests?account=${account}&open=false`, { as: viewer })
    expect(requests.body.data).toMatchObject([{ replaces: old.body.id, key: second.body.id }])
    expect(requests.text).not.toContain(second.body.key)
  })
})

describe('the hub', () => {
  it('is stopped and resumed', async () => {
    const stopped = await api.call('/v1/hub/stop', { as: operator, body: { seconds: 60 } })
    expect(stopped.body).toMatchObject({ object: 'hub', stopped: true })
    const resume = () => api.call('/v1/hub/resume', { as: operator, method: 'POST' })
    expect((await resume()).body).toMatchObject({ stopped: false, stopped_until: null })
    const again = await resume()
    expect(again.status).toBe(409)
    expect(again.body.error.code).toBe('not_stopped')
    expect((await api.call('/v1/hub', { as: viewer })).body).toMatchObject({
      stopped: false,
      accepted_today: 0,
    })
  })
})

describe('a dead letter', () => {
  it('that does not exist is refused with the reason', async () => {
    const unknown = await api.call('/v1/dead_letters?topic=hub.nothing', { as: viewer })
    expect(unknown.body.error).toMatchObject({ code: 'topic_not_found', param: 'topic' })
    const drop = await api.call('/v1/dead_letters/drop', { as: viewer, body: { id: 'a/1/1', reason: 'old' } })
    expect(drop.body.error.details.roles).toEqual(['operator', 'admin'])
    const wrong = await api.call('/v1/dead_letters/drop', { as: operator, body: { id: 'a', reason: 'old' } })
    expect(wrong.body.error).toMatchObject({ code: 'invalid_parameter', param: 'id' })
  })
})

describe('the audit trail', () => {
  it('is for operators and admins, and has pages', async () => {
    expect((await api.call('/v1/audit', { as: viewer })).status).toBe(403)
    // The attempts of the viewer in the tests above.
    const attempts = await api.call('/v1/audit?actor=Vera', { as: operator })
    expect(attempts.body.data).toMatchObject([
      { command: 'dead-letters drop', role: null, outcome: 'failed', detail: { code: 'forbidden' } },
      { command: 'keys request-rotation', role: null, outcome: 'failed', detail: { code: 'forbidden' } },
      { command: 'accounts set', role: null, outcome: 'failed', detail: { code: 'forbidden' } },
    ])
    const first = await api.call('/v1/audit?limit=1', { as: operator })
    const cursor = encodeURIComponent(first.body.next_cursor)
    const second = await api.call(`/v1/audit?limit=1&cursor=${cursor}`, { as: operator })
    expect(second.body.data).toHaveLength(1)
    expect(second.body.data[0]).not.toEqual(first.body.data[0])
  })
})
