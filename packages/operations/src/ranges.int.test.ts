/** Suspicious requests of ranges, and blocks, over PostgreSQL. */
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import { block, list, suspicious, unblock } from './ranges.ts'
import { ADMIN, makeTestHub, type TestHub } from './testing/test-hub.ts'

const HOUR = 3_600_000
const WEEK = 168 * HOUR
const DAY_SECONDS = 86_400

let hub: TestHub
let shop: { readonly uuid: string; readonly id: string }
let bank: typeof shop

beforeAll(async () => {
  hub = await makeTestHub()
  shop = await hub.account('Shop')
  bank = await hub.account('Bank')
})
afterAll(() => hub.remove())

const all = { account: null, limit: 50 }
const reason = 'Attack on the sign-up form'
const ofShop = () => ({ account: shop.id, range: '912' })

describe('a block of a range', () => {
  it('is listed until it ends, with its end and who made it', async () => {
    const before = Date.now()
    const made = await hub.run(block, { ...ofShop(), seconds: DAY_SECONDS, reason })
    assert.deepInclude(made, {
      ...ofShop(),
      name: 'Shop',
      reason,
      blocked_by: ADMIN.name,
      replaced_until: null,
    })
    assert.isAtLeast(Date.parse(made.until), before + DAY_SECONDS * 1000 - HOUR)
    await hub.run(block, { account: bank.id, range: '977', seconds: 60, reason })
    const { replaced_until: _, ...listed } = made
    assert.deepStrictEqual(
      (await hub.run(list, all)).data.map(({ account, range }) => [account, range]),
      [
        [bank.id, '977'],
        [shop.id, '912'],
      ],
    )
    assert.deepStrictEqual((await hub.run(list, { ...all, account: shop.id })).data, [listed])
    await hub.sql`UPDATE command.range_blocks SET until = now() - interval '1 second' WHERE account = ${bank.uuid}`
    assert.lengthOf((await hub.run(list, all)).data, 1)
    assert.strictEqual(await hub.refusal(unblock, { account: bank.id, range: '977' }), 'range_not_blocked')
  })

  it('replaces the one in force, and says so', async () => {
    const [first] = (await hub.run(list, { ...all, account: shop.id })).data
    const second = await hub.run(block, { ...ofShop(), seconds: 60, reason: 'Shorter' })
    assert.strictEqual(second.replaced_until, first?.until)
    assert.isBelow(Date.parse(second.until), Date.parse(first?.until ?? ''))
    assert.deepStrictEqual(
      (await hub.run(list, all)).data.map((row) => row.reason),
      ['Shorter'],
    )
    // Rows that are over are gone.
    assert.deepStrictEqual(
      [...(await hub.sql`SELECT count(*)::integer AS rows FROM command.range_blocks`)],
      [{ rows: 1 }],
    )
  })

  it('is ended once, and has an audit trail', async () => {
    const ended = await hub.run(unblock, ofShop())
    assert.deepInclude(ended, ofShop())
    assert.strictEqual(await hub.refusal(unblock, ofShop()), 'range_not_blocked')
    const trail = await hub.sql`
      SELECT command, outcome, arguments, detail FROM command.audit
       WHERE arguments->>'account' = ${shop.id} AND outcome <> 'begun' ORDER BY place`
    assert.deepStrictEqual(
      trail.map(({ command, outcome }) => `${command} ${outcome}`),
      ['ranges block done', 'ranges block done', 'ranges unblock done', 'ranges unblock failed'],
    )
    assert.deepStrictEqual(trail[0]?.['arguments'], { ...ofShop(), seconds: DAY_SECONDS, reason })
  })

  it('needs an account', async () => {
    const input = { account: 'acc_00000000000000000000000000', range: '912' }
    assert.strictEqual(await hub.refusal(block, { ...input, seconds: 60, reason }), 'account_not_found')
    assert.strictEqual(await hub.refusal(unblock, input), 'account_not_found')
  })
})

describe('suspicious requests', () => {
  it('are named with what is expected, and with their block', async () => {
    const last = Math.floor(Date.now() / HOUR) * HOUR
    const row = {
      mode: 'live',
      class: 'otp',
      reason_code: '',
      currency: 'RUB',
      sent: 0,
      undelivered: 0,
      rejected: 0,
      expired: 0,
      parts: 0,
      price: '0',
    }
    const rows = [0, 1, 2, 3, 4, 5].flatMap((week) =>
      // The hour may end before the read.
      [-1, 0, 1, 2].flatMap((hours) =>
        ['910', '911', '912', '977'].map((range) => {
          const accepted = week === 0 && range === '912' ? 300 : 30
          const hour = new Date(last - week * WEEK - hours * HOUR)
          return { ...row, hour, account: shop.uuid, number_range: range, accepted, delivered: accepted / 2 }
        }),
      ),
    )
    await hub.sql`INSERT INTO read.range_stats ${hub.sql(rows.map((of) => ({ ...of, undelivered: of.delivered })))}`
    await hub.sql`INSERT INTO read.range_stats ${hub.sql({ ...row, hour: new Date(last), account: bank.uuid, number_range: '912', accepted: 50, delivered: 50 })}`
    const expected = {
      object: 'suspicious_range' as const,
      ...ofShop(),
      name: 'Shop',
      requests: 900,
      expected: 90,
      delivery_rate: 0.5,
      usual_rate: 0.5,
      blocked_until: null,
    }
    const found = async (account: string | null) =>
      (await hub.run(suspicious, { ...all, account })).data.map((one) => {
        const { since: _, ...others } = one
        return others
      })
    assert.deepStrictEqual(await found(null), [expected])
    assert.deepStrictEqual(await found(shop.id), [expected])
    assert.deepStrictEqual(await found(bank.id), [])
    const { until } = await hub.run(block, { ...ofShop(), seconds: 60, reason })
    assert.deepStrictEqual(await found(null), [{ ...expected, blocked_until: until }])
  })
})
