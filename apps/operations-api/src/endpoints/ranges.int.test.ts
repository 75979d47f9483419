/** Blocks of number ranges over HTTP: roles, refusals and the audit trail. */
import { encodeId } from '@hub/domain'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startOperationsApi, type TestOperationsApi } from '../testing/harness.ts'

let api: TestOperationsApi
let account: string

beforeAll(async () => {
  api = await startOperationsApi()
  account = encodeId('acc', await api.addAccount())
})
afterAll(() => api.stop())

const path = (action: string, range = '912') => `/v1/accounts/${account}/ranges/${range}/${action}`
const body = { seconds: 3600, reason: 'Attack on the sign-up form' }

describe('a block of a range', () => {
  it('is made and ended by an operator, and read by all', async () => {
    const operator = await api.signIn('Olga', 'operator')
    const viewer = await api.signIn('Vera', 'viewer')
    const made = await api.call(path('block'), { as: operator, body })
    expect(made.status).toBe(200)
    expect(made.body).toMatchObject({ account, range: '912', blocked_by: 'Olga', replaced_until: null })
    const again = await api.call(path('block'), { as: operator, body })
    expect(again.body).toMatchObject({ replaced_until: made.body.until })
    const listed = await api.call('/v1/ranges/blocks', { as: viewer })
    expect(listed.body.data).toMatchObject([{ account, range: '912', reason: body.reason }])
    const suspicious = await api.call('/v1/ranges/suspicious', { as: viewer })
    expect(suspicious.body).toEqual({ object: 'list', data: [] })
    const ended = await api.call(path('unblock'), { as: operator, method: 'POST' })
    expect(ended.body).toMatchObject({ account, range: '912', ended_before: again.body.until })
    const missing = await api.call(path('unblock'), { as: operator, method: 'POST' })
    expect(missing.status).toBe(409)
    expect(missing.body.error).toMatchObject({ code: 'range_not_blocked' })
    const rows = await api.sql`
      SELECT actor, role, command, outcome FROM command.audit
       WHERE arguments->>'range' = '912' AND outcome <> 'begun' ORDER BY place`
    expect(rows.map(({ command, outcome }) => `${command} ${outcome}`)).toEqual([
      'ranges block done',
      'ranges block done',
      'ranges unblock done',
      'ranges unblock failed',
    ])
    expect(rows[0]).toMatchObject({ actor: 'Olga', role: 'operator' })
  })

  it('is not made by other roles, or with a wrong input', async () => {
    for (const role of ['viewer', 'support', 'moderator'] as const) {
      const session = await api.signIn(role, role)
      expect((await api.call(path('block'), { as: session, body })).status).toBe(403)
      expect((await api.call(path('unblock'), { as: session, method: 'POST' })).status).toBe(403)
    }
    const admin = await api.signIn('Ada', 'admin')
    const wrong = await api.call(path('block', '12'), { as: admin, body })
    expect(wrong.body.error).toMatchObject({ code: 'invalid_parameter', param: 'range' })
    for (const [change, param] of [
      [{ reason: undefined }, 'reason'],
      [{ reason: 'Attack of +79121234567' }, 'reason'],
      [{ seconds: 59 }, 'seconds'],
      [{ seconds: 30 * 86_400 + 1 }, 'seconds'],
    ] as const) {
      const refused = await api.call(path('block'), { as: admin, body: { ...body, ...change } })
      expect(refused.body.error).toMatchObject({ code: 'invalid_parameter', param })
    }
    expect((await api.call('/v1/ranges/blocks', { as: admin })).body.data).toEqual([])
  })
})
