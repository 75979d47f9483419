/** The insights over PostgreSQL. */
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import { list } from '../messages/index.ts'
import { makeTestHub, type TestHub } from '../testing/test-hub.ts'
import { read } from './read.ts'

const HOUR = 3_600_000
const WEEK = 168 * HOUR
/** The last hour of the period. */
const LAST = Date.UTC(2026, 10, 21, 14)
const UNTIL = new Date(LAST + HOUR / 2).toISOString()

let hub: TestHub
let shop: { readonly uuid: string; readonly id: string }
let bank: typeof shop

const ANY = {
  account: null,
  mode: null,
  class: null,
  range: null,
  by: null,
  until: UNTIL,
  split: null,
} as const

interface Counted {
  readonly account: string
  readonly at: number
  readonly class?: 'otp' | 'service'
  readonly range: string | null
  readonly reason?: string
  readonly accepted: number
  readonly delivered?: number
  readonly undelivered?: number
}

/** Writes what the projector counts for messages with the same key, in all tables of statistics. */
const count = async ({ account, at, range, reason = '', ...of }: Counted): Promise<void> => {
  const counts = {
    account,
    mode: 'live',
    currency: 'RUB',
    accepted: of.accepted,
    sent: of.accepted,
    delivered: of.delivered ?? 0,
    undelivered: of.undelivered ?? 0,
    rejected: 0,
    expired: 0,
    parts: of.accepted,
    price: '0',
  }
  const hour = new Date(at)
  const { sql } = hub
  await sql`
    INSERT INTO read.hourly_stats ${sql({ ...counts, hour, reason_code: reason })}
    ON CONFLICT (account, mode, hour, reason_code, currency) DO UPDATE
       SET accepted = hourly_stats.accepted + excluded.accepted, delivered = hourly_stats.delivered + excluded.delivered,
           undelivered = hourly_stats.undelivered + excluded.undelivered`
  if (range === null) return
  const key = { class: of.class ?? 'otp', number_range: range, reason_code: reason }
  await sql`INSERT INTO read.range_stats ${sql({ ...counts, hour, ...key })}`
}

beforeAll(async () => {
  hub = await makeTestHub()
  shop = await hub.account('Shop')
  bank = await hub.account('Bank')
  await count({ account: shop.uuid, at: LAST, range: '912', accepted: 100, delivered: 60 })
  await count({
    account: shop.uuid,
    at: LAST,
    range: '912',
    reason: 'recipient_unreachable',
    accepted: 30,
    undelivered: 30,
  })
  await count({ account: shop.uuid, at: LAST - HOUR, range: '977', accepted: 50, delivered: 50 })
  await count({
    account: bank.uuid,
    at: LAST - 23 * HOUR,
    range: '912',
    class: 'service',
    accepted: 8,
    delivered: 8,
  })
  // Accepted by an earlier version.
  await count({ account: bank.uuid, at: LAST - HOUR, range: null, accepted: 5, delivered: 5 })
  // The period before.
  await count({ account: shop.uuid, at: LAST - 24 * HOUR, range: '912', accepted: 40, delivered: 38 })
  await count({
    account: shop.uuid,
    at: LAST - 47 * HOUR,
    range: '912',
    reason: 'recipient_unreachable',
    accepted: 2,
    undelivered: 2,
  })
  // Before and after both.
  await count({ account: shop.uuid, at: LAST - 48 * HOUR, range: '912', accepted: 7, delivered: 7 })
  await count({ account: shop.uuid, at: LAST + HOUR, range: '912', accepted: 9, delivered: 9 })
})
afterAll(() => hub.remove())

describe('insights', () => {
  it('compare 24 hours with the 24 hours before, with a part for each hour', async () => {
    const { before, by, now, reasons } = await hub.run(read, ANY)
    assert.strictEqual(by, 'hour')
    assert.deepInclude(now, {
      from: new Date(LAST - 23 * HOUR).toISOString(),
      to: new Date(LAST + HOUR).toISOString(),
      accepted: 193,
      delivered: 123,
      undelivered: 30,
      delivery_rate: 123 / 153,
    })
    assert.lengthOf(now.parts, 24)
    assert.deepInclude(now.parts[0], { accepted: 8, delivery_rate: 1 })
    assert.deepInclude(now.parts[1], { accepted: 0, delivery_rate: null })
    assert.deepInclude(now.parts[22], { accepted: 55 })
    assert.deepInclude(now.parts[23], { at: new Date(LAST).toISOString(), accepted: 130 })
    assert.deepInclude(before, { to: now.from, accepted: 42, delivery_rate: 38 / 40 })
    assert.deepStrictEqual(reasons, [{ reason_code: 'recipient_unreachable', messages: 30, before: 2 }])
  })

  it('filter by account, class and range', async () => {
    const accepted = async (filter: object) => (await hub.run(read, { ...ANY, ...filter })).now.accepted
    assert.strictEqual(await accepted({ account: bank.id }), 13)
    assert.strictEqual(await accepted({ class: 'otp' }), 180)
    assert.strictEqual(await accepted({ range: '912' }), 138)
    assert.strictEqual(await accepted({ range: '912', class: 'service' }), 8)
    assert.strictEqual(await accepted({ mode: 'test' }), 0)
    assert.deepInclude((await hub.run(read, { ...ANY, range: '999' })).now, {
      accepted: 0,
      delivery_rate: null,
    })
  })

  it('split by range, class and account, each against the period before', async () => {
    const groups = async (split: 'range' | 'class' | 'account') =>
      (await hub.run(read, { ...ANY, split })).groups.map(({ accepted, before, name, value }) => [
        value,
        name,
        accepted,
        before.accepted,
      ])
    assert.deepStrictEqual(await groups('range'), [
      ['912', null, 138, 42],
      ['977', null, 50, 0],
    ])
    assert.deepStrictEqual(await groups('class'), [
      ['otp', null, 180, 42],
      ['service', null, 8, 0],
    ])
    assert.deepStrictEqual(await groups('account'), [
      [shop.id, 'Shop', 180, 42],
      [bank.id, 'Bank', 13, 0],
    ])
  })

  it('split 30 days by template, and refuse it where the statistics have no templates', async () => {
    const row = {
      account: shop.uuid,
      mode: 'live',
      class: 'otp',
      currency: 'RUB',
      sent: 0,
      undelivered: 0,
      rejected: 0,
      expired: 0,
      parts: 0,
      price: '0',
    }
    await hub.sql`INSERT INTO read.daily_stats ${hub.sql([
      { ...row, day: '2026-11-21', template: 'code', accepted: 4, delivered: 3 },
      { ...row, day: '2026-10-23', template: 'code', accepted: 6, delivered: 6 },
      { ...row, day: '2026-10-22', template: 'code', accepted: 5, delivered: 5 },
    ])}`
    const { groups, now } = await hub.run(read, { ...ANY, by: 'day', split: 'template' })
    assert.deepInclude(now, { from: '2026-10-23T00:00:00.000Z', to: '2026-11-22T00:00:00.000Z' })
    assert.lengthOf(now.parts, 30)
    assert.deepStrictEqual(
      groups.map(({ accepted, before, value }) => [value, accepted, before.accepted]),
      [['code', 10, 5]],
    )
    for (const wrong of [{ by: 'hour' }, { by: 'day', range: '912' }] as const) {
      assert.strictEqual(await hub.refusal(read, { ...ANY, split: 'template', ...wrong }), 'input_invalid')
    }
  })

  it('have the messages of each range in each hour', async () => {
    const { ranges } = await hub.run(read, ANY)
    assert.deepStrictEqual(
      ranges.map(({ accepted, at, delivered, final, range }) => [
        range,
        Date.parse(at),
        accepted,
        delivered,
        final,
      ]),
      [
        ['912', LAST - 23 * HOUR, 8, 8, 8],
        ['912', LAST, 130, 60, 90],
        ['977', LAST - HOUR, 50, 50, 50],
      ],
    )
  })

  it('name a range whose delivery rate is unusually low, at any time that is asked for', async () => {
    const mail = await hub.account('Mail')
    const at = Date.UTC(2026, 5, 10, 9)
    for (const week of [0, 1, 2, 3, 4, 5]) {
      for (const hour of [0, 1, 2]) {
        const isBad = week === 0 && hour < 2
        await count({
          account: mail.uuid,
          at: at - week * WEEK - hour * HOUR,
          range: '912',
          accepted: 100,
          delivered: isBad ? 61 : 97,
          undelivered: isBad ? 39 : 3,
        })
        await count({
          account: mail.uuid,
          at: at - week * WEEK - hour * HOUR,
          range: '977',
          accepted: 100,
          delivered: 90,
          undelivered: 10,
        })
      }
    }
    const unusual = async (filter: object) =>
      (await hub.run(read, { ...ANY, until: new Date(at).toISOString(), ...filter })).unusual
    const found = [
      {
        range: '912',
        since: new Date(at - HOUR).toISOString(),
        delivered: 122,
        final: 200,
        delivery_rate: 0.61,
        usual_rate: 0.97,
      },
    ]
    for (const filter of [{}, { account: mail.id }, { range: '912' }, { by: 'day' }]) {
      assert.deepStrictEqual(await unusual(filter), found, JSON.stringify(filter))
    }
    for (const filter of [{ account: shop.id }, { range: '977' }, { class: 'service' }, { mode: 'test' }]) {
      assert.deepStrictEqual(await unusual(filter), [], JSON.stringify(filter))
    }
    assert.deepStrictEqual(await unusual({ until: new Date(at - 2 * HOUR).toISOString() }), [])
  })

  it('measure the times to the submit and to the final status', async () => {
    for (const [number, seconds] of [
      ['+79120000001', 2],
      ['+79120000002', 4],
      ['+79770000001', 60],
    ] as const) {
      const at = LAST + 1000
      await hub.message({
        account: shop.uuid,
        number,
        at,
        history: [
          ['accepted', at],
          ['sent', at + 100 * seconds],
          ['delivered', at + 1000 * seconds],
        ],
      })
    }
    await hub.message({ account: shop.uuid, number: '+79120000003', at: LAST + 500, status: 'accepted' })
    const { now } = await hub.run(read, { ...ANY, range: '912' })
    assert.deepStrictEqual(now.submit, { measured: 2, p50_ms: 200, p95_ms: 400, p99_ms: 400 })
    assert.deepStrictEqual(now.final, { measured: 2, p50_ms: 2000, p95_ms: 4000, p99_ms: 4000 })
    assert.deepStrictEqual(now.parts[23]?.final, now.final)
    assert.deepInclude(now.parts[22]?.final, { measured: 0, p50_ms: null })
    const all = await hub.run(read, ANY)
    assert.deepInclude(all.now.final, { measured: 3, p99_ms: 60_000 })
  })
})

describe('the list of messages', () => {
  it('can be limited to a range', async () => {
    const other = await hub.account('Ranges')
    const at = Date.UTC(2026, 9, 1)
    const [wanted] = [
      await hub.message({ account: other.uuid, number: '+79130000001', at }),
      await hub.message({ account: other.uuid, number: '+79140000001', at: at + 1 }),
    ]
    const input = {
      account: null,
      mode: null,
      class: null,
      template: null,
      status: null,
      reason: null,
      range: '913',
      batch: null,
      created_after: null,
      created_before: null,
      cursor: null,
      limit: 10,
    } as const
    for (const account of [null, other.id]) {
      const { data } = await hub.run(list, { ...input, account })
      assert.deepStrictEqual(
        data.map(({ id }) => id),
        [wanted],
      )
    }
  })
})
