/** The metrics of unusual statistics, over PostgreSQL. */
import { randomUUID } from 'node:crypto'
import { makeSql, Sql } from '@hub/store'
import { freshDatabase, openDatabase } from '@hub/testkit'
import { Effect, Layer, Logger, Metric, Redacted } from 'effect'
import { assert, describe, it } from 'vitest'
import { observeStatistics } from './watch.ts'

const HOUR = 3_600_000
const WEEK = 168 * HOUR

const database = await freshDatabase()
const sql = openDatabase(database.url)

/** The last hour that is over and one before, with the same hours of five weeks; 97 of 100 are delivered. */
const writeHours = async (range: string, delivered: number): Promise<void> => {
  const last = Math.floor(Date.now() / HOUR) * HOUR
  const account = randomUUID()
  const rows = [0, 1, 2, 3, 4, 5].flatMap((week) =>
    [-1, 0, 1, 2].map((hours) => {
      const isNow = week === 0
      const good = isNow ? delivered : 97
      return {
        hour: new Date(last - week * WEEK - hours * HOUR),
        account,
        mode: 'live',
        class: 'otp',
        number_range: range,
        reason_code: '',
        currency: 'RUB',
        accepted: 100,
        sent: 100,
        delivered: good,
        undelivered: 100 - good,
        rejected: 0,
        expired: 0,
        parts: 100,
        price: '0',
      }
    }),
  )
  await sql`INSERT INTO read.range_stats ${sql(rows)}`
}

/** What `/metrics` shows after a run, by range. */
const measured = () =>
  Effect.runPromise(
    observeStatistics.pipe(
      Effect.andThen(Metric.snapshot),
      Effect.map((all) =>
        Object.fromEntries(
          all.flatMap(({ attributes, id, state, type }) =>
            type === 'Gauge' && id === 'hub_delivery_drop_ratio'
              ? [[attributes?.['range'], Number(Number(state.value).toFixed(2))]]
              : [],
          ),
        ),
      ),
      Effect.provide(Layer.effect(Sql, makeSql(Redacted.make(database.url), 1, 'statistics-test'))),
      Effect.provide(Logger.layer([])),
    ),
  )

describe('the metric of unusual delivery', () => {
  it('is the drop of each range, and 0 when it is over', async () => {
    await writeHours('912', 61)
    await writeHours('977', 97)
    assert.deepStrictEqual(await measured(), { all: 0, '912': 0.36 })
    await sql`UPDATE read.range_stats SET delivered = 97, undelivered = 3`
    assert.deepStrictEqual(await measured(), { all: 0, '912': 0 })
    await sql.end()
    await database.drop()
  })
})
