/** The metrics of unusual statistics, over PostgreSQL. */
import { randomUUID } from 'node:crypto'
import { encodeId } from '@hub/domain'
import { makeSql, Sql } from '@hub/store'
import { freshDatabase, openDatabase } from '@hub/testkit'
import { Effect, Layer, Logger, Metric, Redacted } from 'effect'
import { afterAll, assert, beforeEach, describe, it } from 'vitest'
import { observeStatistics } from './watch.ts'

const HOUR = 3_600_000
const WEEK = 168 * HOUR

const database = await freshDatabase()
const sql = openDatabase(database.url)

/** The last hour that is over and one before, with the same hours of five weeks; 97 of 100 are delivered. */
const writeHours = async (
  range: string,
  delivered: number,
  account: string = randomUUID(),
  factor = 1,
): Promise<void> => {
  const last = Math.floor(Date.now() / HOUR) * HOUR
  const rows = [0, 1, 2, 3, 4, 5].flatMap((week) =>
    [-1, 0, 1, 2].map((hours) => {
      const isNow = week === 0
      const times = isNow ? factor : 1
      const good = (isNow ? delivered : 97) * times
      return {
        hour: new Date(last - week * WEEK - hours * HOUR),
        account,
        mode: 'live',
        class: 'otp',
        number_range: range,
        reason_code: '',
        currency: 'RUB',
        accepted: 100 * times,
        sent: 100 * times,
        delivered: good,
        undelivered: 100 * times - good,
        rejected: 0,
        expired: 0,
        parts: 100 * times,
        price: '0',
      }
    }),
  )
  await sql`INSERT INTO read.range_stats ${sql(rows)}`
}

/** What `/metrics` shows after a run, by the labels. */
const measured = (metric: string) =>
  Effect.runPromise(
    observeStatistics.pipe(
      Effect.andThen(Metric.snapshot),
      Effect.map((all) =>
        Object.fromEntries(
          all.flatMap(({ attributes, id, state, type }) =>
            type === 'Gauge' && id === metric
              ? [[Object.values(attributes ?? {}).join(' '), Number(Number(state.value).toFixed(2))]]
              : [],
          ),
        ),
      ),
      Effect.provide(Layer.effect(Sql, makeSql(Redacted.make(database.url), 1, 'statistics-test'))),
      Effect.provide(Logger.layer([])),
    ),
  )

beforeEach(() => sql`TRUNCATE read.range_stats`)
afterAll(async () => {
  await sql.end()
  await database.drop()
})

describe('the metric of unusual delivery', () => {
  it('is the drop of each range, and 0 when it is over', async () => {
    await writeHours('912', 61)
    await writeHours('977', 97)
    assert.deepStrictEqual(await measured('hub_delivery_drop_ratio'), { all: 0, '912': 0.36 })
    await sql`UPDATE read.range_stats SET delivered = 97, undelivered = 3`
    assert.deepStrictEqual(await measured('hub_delivery_drop_ratio'), { all: 0, '912': 0 })
  })
})

describe('the metrics', () => {
  it('are 0 if the statistics cannot be read, so that one process does not keep an alert', async () => {
    await writeHours('912', 61)
    assert.include(await measured('hub_delivery_drop_ratio'), { '912': 0.36 })
    await sql`ALTER TABLE read.range_stats RENAME TO away`
    try {
      assert.include(await measured('hub_delivery_drop_ratio'), { '912': 0 })
    } finally {
      await sql`ALTER TABLE read.away RENAME TO range_stats`
    }
    assert.include(await measured('hub_delivery_drop_ratio'), { '912': 0.36 })
  })
})

describe('the metric of suspicious requests', () => {
  const METRIC = 'hub_suspicious_requests'
  const idOf = (account: string) => encodeId('acc', account)

  it('has the account and the range, and 0 when it is over', async () => {
    const account = randomUUID()
    for (const range of ['910', '911', '977']) await writeHours(range, 97, account)
    await writeHours('912', 97, account, 10)
    // In three hours 3000, and usually 300.
    assert.deepStrictEqual(await measured(METRIC), { [`${idOf(account)} 912`]: 2700 })
    await sql`TRUNCATE read.range_stats`
    assert.deepStrictEqual(await measured(METRIC), { [`${idOf(account)} 912`]: 0 })
  })

  it('has a hundred series at most, and one for all others', async () => {
    // Each run names ten.
    for (let run = 0; run < 11; run++) {
      await sql`TRUNCATE read.range_stats`
      for (let i = 0; i < 10; i++) await writeHours('912', 97, randomUUID(), 10)
      await measured(METRIC)
    }
    const series = await measured(METRIC)
    assert.isAtMost(Object.keys(series).length, 101)
    assert.isAbove(series['other other'] ?? 0, 0)
  })
})
