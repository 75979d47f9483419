/** Saved views over HTTP: the form of requests and answers. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startOperationsApi, type TestOperationsApi, type TestSession } from '../testing/harness.ts'

let api: TestOperationsApi
let viewer: TestSession
let support: TestSession
beforeAll(async () => {
  api = await startOperationsApi()
  viewer = await api.signIn('Vera', 'viewer')
  support = await api.signIn('Sam', 'support')
})
afterAll(() => api.stop())

const VIEW = { name: 'Failed today', list: 'messages', filters: { status: 'undelivered' } }

describe('saved views', () => {
  it('are saved, listed, renamed, shared and deleted', async () => {
    const made = await api.call('/v1/views', { as: support, body: VIEW })
    expect(made.body).toMatchObject({ object: 'saved_view', ...VIEW, shared: false, owner: 'Sam' })
    const path = `/v1/views/${made.body.id}`
    expect((await api.call('/v1/views?list=messages', { as: support })).body.data).toHaveLength(1)
    expect((await api.call(path, { as: viewer })).body.error.code).toBe('view_not_found')
    const shared = await api.call(path, { as: support, method: 'PATCH', body: { shared: true } })
    expect(shared.body).toMatchObject({ name: VIEW.name, shared: true })
    expect((await api.call(path, { as: viewer })).body).toMatchObject({ ...VIEW, problem: null })
    const refused = await api.call(path, { as: viewer, method: 'DELETE' })
    expect([refused.status, refused.body.error.details.permission]).toEqual([403, 'views.share'])
    expect((await api.call(path, { as: support, method: 'DELETE' })).body).toMatchObject(VIEW)
    expect((await api.call(path, { as: support })).status).toBe(404)
  })

  it.each([
    [{ ...VIEW, filters: { status: 'lost' } }, 'filters.status'],
    [{ ...VIEW, filters: { colour: 'red' } }, 'filters.colour'],
    [{ ...VIEW, filters: { status: 7 } }, 'filters.status'],
    [{ ...VIEW, list: 'insights' }, 'list'],
    [{ ...VIEW, name: '' }, 'name'],
    [{ ...VIEW, name: 'a'.repeat(81) }, 'name'],
    [{ ...VIEW, name: 'calls of +79001234567' }, 'name'],
    [{ ...VIEW, filters: { template: '8 (900) 123-45-67' } }, 'filters.template'],
  ])('of %j are refused with the name of what is wrong', async (body, param) => {
    const { body: answer, status } = await api.call('/v1/views', { as: support, body })
    expect([status, answer.error.param]).toEqual([422, param])
    expect(JSON.stringify(answer)).not.toMatch(/1234567|123-45-67/u)
  })
})
