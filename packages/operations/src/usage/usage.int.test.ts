/** The usage reports over PostgreSQL. */
import { uuidOf } from '@hub/store'
import { Effect, Stream } from 'effect'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import { ADMIN, makeTestHub, type TestHub } from '../testing/test-hub.ts'
import { exportList } from '../export.ts'
import { charges } from './charges.ts'
import { days } from './days.ts'
import { templates } from './templates.ts'

let hub: TestHub
let shop: { readonly uuid: string; readonly id: string }
let bank: typeof shop
beforeAll(async () => {
  hub = await makeTestHub()
  shop = await hub.account('=Shop, "new"')
  bank = await hub.account('Bank')
})
afterAll(() => hub.remove())

const charge = (account: string, message: string, kind: string, period: string, amount: string) =>
  hub.sql`INSERT INTO read.charges (message_id, kind, account, period, amount, currency, created_at)
    VALUES (${uuidOf('msg', message)}, ${kind}, ${account}, ${period}, ${amount}, 'RUB', now())`

describe('the charges of a month', () => {
  it('are summed up exactly by account, class and template, with returns in the month of acceptance', async () => {
    const first = Date.UTC(2026, 9, 1)
    const last = Date.UTC(2026, 10, 1) - 1
    const before = await hub.message({ account: shop.uuid, at: first - 1 })
    const begin = await hub.message({ account: shop.uuid, at: first })
    const end = await hub.message({ account: shop.uuid, at: last })
    const code = await hub.message({ account: shop.uuid, at: last - 1, class: 'otp', template: 'code' })
    const other = await hub.message({ account: bank.uuid, at: first + 5 })
    await charge(shop.uuid, before, 'charge', '2026-09-01', '9.99')
    // A code that was accepted in October under an id of September.
    const late = await hub.message({ account: shop.uuid, at: first - 86_400_000 })
    await charge(shop.uuid, late, 'charge', '2026-10-01', '0.10')
    await charge(shop.uuid, begin, 'charge', '2026-10-01', '0.10')
    await charge(shop.uuid, end, 'charge', '2026-10-01', '0.20')
    await charge(shop.uuid, end, 'reversal', '2026-10-01', '0.20')
    await charge(shop.uuid, code, 'charge', '2026-10-01', '1000000.01')
    await charge(bank.uuid, other, 'charge', '2026-10-01', '3.00')
    const report = await hub.run(charges, { month: '2026-10', account: null })
    assert.deepStrictEqual(
      report.data.map(({ charged, messages, name, parts, price, returned, reversals, template }) => [
        name,
        template,
        messages,
        parts,
        charged,
        reversals,
        returned,
        price,
      ]),
      [
        ['=Shop, "new"', 'code', 1, 2, '1000000.01', 0, '0.00', '1000000.01'],
        ['=Shop, "new"', 'order_ready', 3, 6, '0.40', 1, '0.20', '0.20'],
        ['Bank', 'order_ready', 1, 2, '3.00', 0, '0.00', '3.00'],
      ],
    )
    const own = await hub.run(charges, { month: '2026-10', account: bank.id })
    assert.lengthOf(own.data, 1)
    const text = await hub.runtime.runPromise(
      exportList(ADMIN, { useCase: charges, leading: ['month'] }, { month: '2026-10', account: null }).pipe(
        Effect.flatMap(Stream.mkString),
      ),
    )
    const [headings, line] = text.split('\n')
    assert.strictEqual(
      headings,
      'month,account,name,class,template,messages,parts,charged,reversals,returned,price,currency',
    )
    assert.strictEqual(
      line,
      `2026-10,${shop.id},"'=Shop, ""new""",otp,code,1,2,1000000.01,0,0.00,1000000.01,RUB`,
    )
    assert.deepStrictEqual((await hub.run(charges, { month: '2026-08', account: null })).data, [])
  })
})

describe('the spend by day', () => {
  it('adds up to the bill of the month, with returns on the day of the charge', async () => {
    const { id, uuid } = await hub.account('Days')
    const other = await hub.account('Others')
    const row = (account: string, message: string, kind: string, at: string, amount: string) =>
      hub.sql`INSERT INTO read.charges (message_id, kind, account, period, amount, currency, created_at)
        VALUES (${uuidOf('msg', message)}, ${kind}, ${account}, '2026-10-01', ${amount}, 'RUB', ${at})`
    const day = (n: number, time: string) => `2026-10-${String(n).padStart(2, '0')}T${time}Z`
    const messageAt = (account: string, at: string) => hub.message({ account, at: Date.parse(at) })
    const late = await messageAt(uuid, day(1, '23:59:59.999'))
    const early = await messageAt(uuid, day(2, '00:00:00.000'))
    const returned = await messageAt(uuid, day(31, '12:00:00.000'))
    await row(uuid, late, 'charge', day(1, '23:59:59.999'), '0.10')
    await row(uuid, early, 'charge', day(2, '00:00:00.000'), '0.20')
    await row(uuid, returned, 'charge', day(31, '12:00:00.000'), '3.00')
    await row(uuid, returned, 'reversal', '2026-11-02T09:00:00.000Z', '3.00')
    const foreign = await messageAt(other.uuid, day(2, '00:00:00.000'))
    await row(other.uuid, foreign, 'charge', day(2, '00:00:00.000'), '9.00')
    const { data } = await hub.run(days, { account: id, month: '2026-10' })
    assert.deepStrictEqual(
      data.map((one) => [one.day, one.messages, one.charged, one.returned, one.price]),
      [
        ['2026-10-01', 1, '0.10', '0.00', '0.10'],
        ['2026-10-02', 1, '0.20', '0.00', '0.20'],
        ['2026-10-31', 1, '3.00', '3.00', '0.00'],
      ],
    )
    const bill = await hub.run(charges, { month: '2026-10', account: id })
    assert.deepStrictEqual(
      bill.data.map(({ price }) => price),
      ['0.30'],
    )
    assert.deepStrictEqual((await hub.run(days, { account: id, month: '2026-09' })).data, [])
  })
})

describe('the performance of templates', () => {
  it('has the failure rate and the latencies of delivered messages', async () => {
    const now = Date.now()
    const today = new Date(now).toISOString().slice(0, 10)
    const count = {
      sent: 0,
      parts: 1,
      price: '0',
      currency: 'RUB',
      day: today,
      account: bank.uuid,
      mode: 'live',
    }
    await hub.sql`INSERT INTO read.daily_stats ${hub.sql([
      {
        ...count,
        class: 'service',
        template: 'order_ready',
        accepted: 10,
        delivered: 6,
        undelivered: 1,
        rejected: 1,
        expired: 0,
      },
      {
        ...count,
        class: 'otp',
        template: 'unused',
        accepted: 1,
        delivered: 0,
        undelivered: 0,
        rejected: 0,
        expired: 0,
      },
    ])}`
    for (const ms of [1000, 2000, 3000]) {
      await hub.message({
        account: bank.uuid,
        at: now - 10_000,
        history: [
          ['sent', now - 10_000 + ms / 10],
          ['delivered', now - 10_000 + ms],
        ],
      })
    }
    await hub.message({ account: bank.uuid, at: now, template: 'another' })
    const input = { account: bank.id, mode: 'live', from: today, to: today } as const
    const { data } = await hub.run(templates, input)
    assert.deepStrictEqual(data, [
      {
        template: 'order_ready',
        class: 'service',
        accepted: 10,
        delivered: 6,
        failed: 2,
        failure_rate: 0.25,
        measured: 3,
        sent_p50_ms: 200,
        sent_p99_ms: 298,
        delivered_p50_ms: 2000,
        delivered_p99_ms: 2980,
      },
      {
        template: 'unused',
        class: 'otp',
        accepted: 1,
        delivered: 0,
        failed: 0,
        failure_rate: null,
        measured: 0,
        sent_p50_ms: null,
        sent_p99_ms: null,
        delivered_p50_ms: null,
        delivered_p99_ms: null,
      },
    ])
    const wrong = { ...input, from: '2026-01-01', to: '2025-01-01' }
    assert.strictEqual(await hub.refusal(templates, wrong), 'period_invalid')
  })
})
