/** The repair of a restored database from newer topics. */
import { randomBytes, randomUUID } from 'node:crypto'
import { assert, describe, it } from '@effect/vitest'
import { freshDatabase } from '@hub/testkit'
import { Effect, Layer, Redacted } from 'effect'
import { afterAll } from 'vitest'
import { makeSql, type ReadEvents, restoreEvents, restoreLedger, Sql } from './index.ts'

const { drop, url } = await freshDatabase()
afterAll(drop)

const sqlLayer = Layer.effect(Sql, makeSql(Redacted.make(url), 2, 'restore-test'))

const AT = Date.parse('2026-11-21T10:00:00.000Z')
const eventAt = (account: string, sequence: number): ReadEvents.JournalEvent => ({
  account,
  mode: 'test',
  sequence,
  id: randomUUID(),
  type: 'message.sent',
  createdAt: AT + sequence,
  body: `{"text":"a \\"word\\", and ${sequence}"}`,
})

describe('restore', () => {
  it.effect('appends events to their journals, up to the first gap', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const [first, second] = [randomUUID(), randomUUID()]
      const published = [1, 2, 3, 4].map((sequence) => eventAt(first, sequence))
      const others = [1, 2].map((sequence) => eventAt(second, sequence))
      const behindGap = eventAt(first, 6)

      // The content of the backup.
      assert.deepStrictEqual(yield* restoreEvents(published.slice(0, 2)), { restored: 2, afterGap: 0 })
      // The topic contains all events, some of them twice or behind later ones.
      const topic = [behindGap, published[3]!, ...published.slice(0, 3), ...others, ...published.slice(1)]
      assert.deepStrictEqual(yield* restoreEvents(topic), { restored: 4, afterGap: 1 })
      assert.deepStrictEqual(yield* restoreEvents(topic), { restored: 0, afterGap: 1 })

      const rows = yield* sql.run(
        (q) => q<{ sequence: number; id: string; at: number; body: string }[]>`
          SELECT sequence::int, id, (extract(epoch FROM created_at) * 1000)::float8 AS at, body
            FROM read.events WHERE account = ${first} ORDER BY read.events.sequence`,
      )
      assert.deepStrictEqual(
        rows.map((row) => ({ ...row })),
        published.map(({ body, createdAt, id, sequence }) => ({ sequence, id, at: createdAt, body })),
      )
      const heads = yield* sql.run(
        (q) => q<{ sequence: number; at: number }[]>`
          SELECT sequence::int, (extract(epoch FROM last_at) * 1000)::float8 AS at FROM read.event_heads
           WHERE account IN (${first}, ${second}) ORDER BY sequence`,
      )
      assert.deepStrictEqual(
        heads.map((row) => ({ ...row })),
        [
          { sequence: 2, at: AT + 2 },
          { sequence: 4, at: AT + 4 },
        ],
      )
    }).pipe(Effect.provide(sqlLayer)),
  )

  it.effect('restores used references, and the spend from the charges', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const account = randomUUID()
      const [known, missing] = yield* sql.run(
        (q) => q<{ id: string }[]>`
          SELECT (command.uuid_floor(${new Date(AT).toISOString()}::timestamptz + n * interval '1 second'))::text AS id
            FROM generate_series(1, 2) AS n`,
      )
      yield* sql.run(async (q) => {
        for (const [i, one] of [known!, missing!].entries()) {
          const at = new Date(AT + i * 1000)
          await q`INSERT INTO read.messages (id, account, mode, class, client_ref, created_at, updated_at, status, rank, final)
            VALUES (${one.id}, ${account}, 'live', 'service', ${`order-${i}`}, ${at}, ${at}, 'delivered', 3, true)`
          await q`INSERT INTO read.charges (message_id, kind, account, period, amount, currency, created_at)
            VALUES (${one.id}, 'charge', ${account}, '2026-11-01', 2.50, 'RUB', ${at})`
        }
        await q`INSERT INTO read.charges (message_id, kind, account, period, amount, currency, created_at)
          VALUES (${missing!.id}, 'reversal', ${account}, '2026-11-01', 1.00, 'RUB', ${new Date(AT)})`
        // The content of the backup: one reference and a lower spend.
        await q`INSERT INTO command.client_refs (account, mode, client_ref, message_id, created_at)
          VALUES (${account}, 'live', 'order-0', ${known!.id}, ${new Date(AT)})`
        await q`INSERT INTO command.spend_periods (account, period, spent) VALUES (${account}, '2026-11-01', 2.50)`
      })
      assert.deepStrictEqual(yield* restoreLedger(AT), { references: 1, periods: 1 })
      assert.deepStrictEqual(yield* restoreLedger(AT), { references: 0, periods: 1 })
      const [row] = yield* sql.run(
        (q) => q<{ message: string; spent: string }[]>`
          SELECT r.message_id AS message, p.spent::text FROM command.client_refs r JOIN command.spend_periods p USING (account)
           WHERE r.account = ${account} AND r.client_ref = 'order-1'`,
      )
      assert.deepStrictEqual({ ...row }, { message: missing!.id, spent: '4.00' })
    }).pipe(Effect.provide(sqlLayer)),
  )

  // Source: the rule of the reconciler, `apps/command-api/src/accept/recovery/reconciler.ts`.
  it.effect('leaves nothing for the reconciler to correct twice', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const account = randomUUID()
      const price = 2.5
      const acceptances = [
        { name: 'charged, in the read model', refunded: false, projected: true },
        { name: 'refunded, but in the read model', refunded: true, projected: true },
        { name: 'charged, not in the read model yet', refunded: false, projected: false },
        { name: 'refunded, not in the read model', refunded: true, projected: false },
      ]
      const ids = yield* sql.run(
        (q) => q<{ id: string }[]>`
          SELECT (command.uuid_floor(${new Date(AT).toISOString()}::timestamptz + n * interval '1 second'))::text AS id
            FROM generate_series(10, 13) AS n`,
      )
      yield* sql.run(async (q) => {
        for (const [i, { projected, refunded }] of acceptances.entries()) {
          const { id } = ids[i]!
          const at = new Date(AT + (10 + i) * 1000)
          await q`INSERT INTO command.acceptances (message_id, account, mode, class, recipient, to_masked, template, sender,
                                                   parts, price, currency, variables, created_at, expires_at, given_back)
            VALUES (${id}, ${account}, 'live', 'otp', ${randomBytes(32)}, '+7•••00', 'otp_code', 'Hub', 1, ${price},
                    'RUB', ${[]}::text[], ${at}, ${at}, ${refunded})`
          if (!projected) continue
          await q`INSERT INTO read.messages (id, account, mode, class, created_at, updated_at, status, rank, final)
            VALUES (${id}, ${account}, 'live', 'otp', ${at}, ${at}, 'delivered', 3, true)`
          await q`INSERT INTO read.charges (message_id, kind, account, period, amount, currency, created_at)
            VALUES (${id}, 'charge', ${account}, '2026-11-01', ${price}, 'RUB', ${at})`
        }
      })
      yield* restoreLedger(AT)
      const rows = yield* sql.run(
        (q) => q<{ refunded: boolean; projected: boolean; spent: string }[]>`
          SELECT a.given_back AS refunded, m.id IS NOT NULL AS projected, p.spent::text
            FROM command.acceptances a LEFT JOIN read.messages m ON m.id = a.message_id
            JOIN command.spend_periods p ON p.account = a.account
           WHERE a.account = ${account} ORDER BY a.message_id`,
      )
      // The reconciler charges a refunded acceptance of the read model: there is none.
      assert.deepStrictEqual(
        rows.map(({ projected, refunded }) => ({ projected, refunded })),
        acceptances.map(({ projected, refunded }) => ({ projected, refunded: refunded && !projected })),
      )
      // It refunds a missing acceptance that is charged, so its price is in the spend until then.
      assert.deepStrictEqual([...new Set(rows.map(({ spent }) => spent))], ['7.50'])
    }).pipe(Effect.provide(sqlLayer)),
  )
})
