/** Usage and stuck work over HTTP. */
import { randomUUID } from 'node:crypto'
import { encodeId } from '@hub/domain'
import { uuidFloor } from '@hub/store'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startOperationsApi, type TestOperationsApi, type TestSession } from '../testing/harness.ts'

let api: TestOperationsApi
let account: string
let viewer: TestSession
beforeAll(async () => {
  api = await startOperationsApi()
  viewer = await api.signIn('Vera', 'viewer')
  account = await api.addAccount('Shop')
  const message = uuidFloor(Date.UTC(2026, 9, 15)).replace('-0000-000000000000', '-8000-000000000001')
  await api.sql`INSERT INTO read.charges (message_id, kind, account, period, amount, currency, created_at)
    VALUES (${message}, 'charge', ${account}, '2026-10-01', '1.50', 'RUB', now())`
})
afterAll(() => api.stop())

describe('the charges of a month', () => {
  it('are JSON, or a CSV file', async () => {
    const report = await api.call('/v1/usage/charges?month=2026-10', { as: viewer })
    expect(report.body).toMatchObject({
      month: '2026-10',
      data: [{ name: 'Shop', messages: 1, price: '1.50' }],
    })
    const file = await api.call('/v1/usage/charges.csv?month=2026-10', { as: viewer })
    expect(file.headers.get('content-type')).toBe('text/csv; charset=utf-8')
    expect(file.headers.get('content-disposition')).toContain('charges-2026-10.csv')
    const [, line] = file.text.split('\n')
    expect(line).toBe(`2026-10,${encodeId('acc', account)},Shop,,,1,0,1.50,0,0.00,1.50,RUB`)
    expect((await api.call('/v1/usage/charges?month=October', { as: viewer })).status).toBe(422)
  })
})

describe('the spend by day', () => {
  it('is that of an account and a month', async () => {
    const path = `/v1/usage/days?account=${encodeId('acc', account)}&month=2026-10`
    const { body } = await api.call(path, { as: viewer })
    expect(body).toMatchObject({ month: '2026-10', data: [{ messages: 1, price: '1.50', currency: 'RUB' }] })
    const unknown = path.replace(/acc_[^&]+/u, 'acc_01m7yt89qhe54swwc8wkxj6n8e')
    expect((await api.call(unknown, { as: viewer })).status).toBe(404)
  })
})

describe('a day or a month that does not exist', () => {
  it.each([
    ['charges?month=0000-01', 'month'],
    ['charges.csv?month=0000-01', 'month'],
    ['days?month=0000-01', 'month'],
    ['templates?mode=live&from=0000-01-01&to=0000-01-02', 'from'],
    ['templates?mode=live&from=2026-02-28&to=2026-02-30', 'to'],
  ])('is refused, and never becomes another one: %s', async (path, param) => {
    const response = await api.call(`/v1/usage/${path}&account=${encodeId('acc', account)}`, { as: viewer })
    expect(response.status).toBe(422)
    expect(response.body.error).toMatchObject({ code: 'invalid_parameter', param })
  })
})

describe('the performance of templates', () => {
  it('is that of an account and a period', async () => {
    const path = `/v1/usage/templates?account=${encodeId('acc', account)}&mode=live&from=2026-10-01&to=2026-10-31`
    expect((await api.call(path, { as: viewer })).body).toEqual({ object: 'list', data: [] })
    const long = await api.call(path.replace('from=2026', 'from=2025'), { as: viewer })
    expect([long.status, long.body.error.code]).toEqual([422, 'period_invalid'])
  })
})

describe('stuck work', () => {
  it('shows what waits', async () => {
    await api.sql`INSERT INTO command.senders (id, account, mode, name, status)
      VALUES (${randomUUID()}, ${account}, 'live', 'SHOP', 'pending')`
    const stuck = await api.call('/v1/stuck', { as: viewer })
    expect(stuck.status).toBe(200)
    expect(stuck.body).toMatchObject({ object: 'stuck_work', moderation: { senders: { rows: 1 } } })
  })
})
