/** The store in PostgreSQL passes the contract suite. */
import { decodeId, encodeId, type Mode } from '@hub/domain'
import { makeSql, type Queries, Sql } from '@hub/store'
import { type FreshDatabase, freshDatabase } from '@hub/testkit'
import { Effect, Layer, Redacted } from 'effect'
import { afterAll, beforeAll } from 'vitest'
import { insertSubscription } from '../testing/harness.ts'
import { layerPostgresStore } from './postgres-store.ts'
import { projectionStoreContract, TestProjection } from './projection-store.contract.ts'

let database: FreshDatabase
beforeAll(async () => {
  database = await freshDatabase()
})
afterAll(() => database.drop())

/** A test machine may be very busy. The time limit of the test is the real bound. */
const GENEROUS = { deadline: '20 seconds' } as const

const layerTestProjection = Layer.effect(
  TestProjection,
  Effect.gen(function* () {
    const sql = yield* Sql
    const run = <A>(body: (q: Queries) => Promise<A>) => Effect.orDie(sql.run(body, GENEROUS))
    const uuid = (account: string) => decodeId('acc', account)
    const insertAccount = (q: Queries, account: string) =>
      q`INSERT INTO command.accounts (id, name) VALUES (${uuid(account)}, 'Shop') ON CONFLICT DO NOTHING`
    const sums = (q: Queries, table: string, account: string) =>
      q<{ sums: string }[]>`
        SELECT format('%s/%s/%s/%s %s %s', accepted, sent, delivered, rejected, parts, price) AS sums
          FROM ${q(table)} WHERE account = ${uuid(account)} AND accepted <> 0`
    return {
      subscribe: ({ account, mode }) =>
        run(async (q) => {
          await insertSubscription(q, account, mode)
        }),
      addToInbox: (entries) =>
        run(async (q) => {
          for (const { account, event, mode } of entries) {
            await insertAccount(q, account)
            await q`
              INSERT INTO command.event_inbox (id, account, mode, type, object)
              VALUES (${decodeId('evt', event.id)}, ${uuid(account)}, ${mode}, ${event.type},
                      ${JSON.stringify(event.object)}::text::json)`
          }
        }),
      spend: (account, spent, limit) =>
        run(async (q) => {
          await insertAccount(q, account)
          await q`INSERT INTO command.account_settings (account, mode, spend_limit) VALUES (${uuid(account)}, 'live', ${limit})`
          await q`INSERT INTO command.spend_periods (account, period, spent)
                  VALUES (${uuid(account)}, date_trunc('month', now() AT TIME ZONE 'UTC'), ${spent})`
        }),
      spent: (account) =>
        run(async (q) => {
          const [row] = await q<{ spent: string }[]>`
            SELECT spent::text FROM command.spend_periods WHERE account = ${uuid(account)}`
          return row?.spent ?? ''
        }),
      events: ({ account, mode }: { readonly account: string; readonly mode: Mode }) =>
        run(async (q) => {
          const rows = await q<{ sequence: number; type: string; id: string }[]>`
            SELECT sequence::float8 AS sequence, type, id FROM read.events
             WHERE account = ${uuid(account)} AND mode = ${mode} ORDER BY read.events.sequence`
          return rows.map(({ id, sequence, type }) => ({ id: encodeId('evt', id), sequence, type }))
        }),
      dailyStats: (account) =>
        run(async (q) => (await sums(q, 'read.daily_stats', account)).map((row) => row.sums)),
      hourlyStats: (account) =>
        run(async (q) => {
          const rows = await q<{ sums: string }[]>`
            SELECT format('%s %s/%s/%s/%s %s %s', reason_code, accepted, sent, delivered, rejected, parts, price) AS sums
              FROM read.hourly_stats WHERE account = ${uuid(account)} AND accepted <> 0`
          return rows.map((row) => row.sums)
        }),
      rangeStats: (account) =>
        run(async (q) => {
          const rows = await q<{ sums: string }[]>`
            SELECT format('%s %s %s %s/%s/%s/%s %s %s', class, number_range, reason_code, accepted, sent, delivered, rejected,
                          parts, price) AS sums
              FROM read.range_stats WHERE account = ${uuid(account)} AND accepted <> 0`
          return rows.map((row) => row.sums)
        }),
      charges: (account) =>
        run(async (q) => {
          const rows = await q<{ charge: string }[]>`
            SELECT kind || ' ' || amount AS charge FROM read.charges WHERE account = ${uuid(account)}`
          return rows.map(({ charge }) => charge)
        }),
      outcomesDue: run(async (q) => {
        const rows = await q<{ id: string }[]>`SELECT unnest(message_ids) AS id FROM read.outcomes_due`
        return rows.map(({ id }) => encodeId('msg', id))
      }),
      status: (messageId) =>
        run(async (q) => {
          const [row] = await q<{ status: string }[]>`
            SELECT status FROM read.messages WHERE id = ${decodeId('msg', messageId)}`
          return row?.status ?? null
        }),
    } satisfies TestProjection['Service']
  }),
)

const layerSql = Layer.unwrap(
  Effect.sync(() => Layer.effect(Sql, makeSql(Redacted.make(database.url), 4, 'projection-store-test'))),
)

projectionStoreContract(
  'PostgreSQL',
  Layer.merge(Layer.fresh(layerPostgresStore), layerTestProjection).pipe(
    Layer.provide(Layer.fresh(layerSql)),
  ),
)
