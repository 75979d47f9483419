/** The store in PostgreSQL passes the contract suite, and what only its tables have. */
import { assert, describe, it } from '@effect/vitest'
import type { OptOut } from '@hub/domain'
import { CommandAccounts, CommandAccountSettings, CommandOptOuts, type Queries, Sql } from '@hub/store'
import { freshDatabase } from '@hub/testkit'
import { ConfigProvider, Effect, Layer } from 'effect'
import { afterAll, beforeAll } from 'vitest'
import { layerPostgresStore } from './postgres-store.ts'
import { dispatcherStoreContract, id, recipientOf, TestTables, uuid, word } from './store.contract.ts'
import { DispatcherStore } from './store.port.ts'

let database: Awaited<ReturnType<typeof freshDatabase>>
beforeAll(async () => {
  database = await freshDatabase()
})
afterAll(() => database.drop())

const testTables = Layer.effect(
  TestTables,
  Effect.map(Sql, (sql) => {
    const run = <A>(body: (q: Queries) => Promise<A>) => Effect.orDie(sql.run(body))
    return {
      addMessage: ({ reason, recipient, status, uuid: message }) =>
        run(async (q) => {
          await q`
            INSERT INTO read.messages (id, account, mode, class, recipient, status, rank, final, reason_code, updated_at, attempts)
            VALUES (${message}, ${uuid(1)}, 'live', 'otp', decode(${recipient}, 'hex'), ${status}, 0, ${status !== 'accepted'}, ${reason}, now(), 1)`
        }),
      addOperatorId: (operatorId, message) =>
        run(async (q) => {
          await q`INSERT INTO read.operator_ids VALUES ('http', ${operatorId}, ${message}, now())`
        }),
      setPosition: (topic, shard, position) =>
        run(async (q) => {
          await q`
            INSERT INTO read.checkpoints (projection, topic, partition, position, epoch)
            VALUES ('messages', ${topic}, ${shard}, ${position}, 1)
            ON CONFLICT (projection, topic, partition) DO UPDATE SET position = excluded.position`
        }),
      optOut: (recipient, at) =>
        run(async (q) => {
          await q`
            INSERT INTO command.opt_outs (recipient, source, created_at)
            VALUES (decode(${recipient}, 'hex'), 'operator', ${new Date(at)})`
        }),
      readOptOut: (recipient) =>
        run(async (q) => {
          const [row] = await q<{ source: OptOut['source']; created_at: Date }[]>`
            SELECT source, created_at FROM command.opt_outs WHERE recipient = decode(${recipient}, 'hex')`
          return row === undefined ? null : { source: row.source, createdAt: row.created_at.getTime() }
        }),
      setWeight: (account, mode, weight) =>
        run(async (q) => {
          await CommandAccounts.insert(q, { id: account, name: 'Online shop' })
          await CommandAccountSettings.update(q, account, mode, { weight })
        }),
      readInbound: (recipient) =>
        run(async (q) => {
          const rows = await q<{ id: string }[]>`
            SELECT id FROM command.inbound_messages WHERE recipient = decode(${recipient}, 'hex')`
          return rows.map((row) => row.id)
        }),
    }
  }),
)

const layer = Layer.unwrap(
  Effect.sync(() =>
    Layer.merge(layerPostgresStore, testTables).pipe(
      Layer.provideMerge(Sql.layer('dispatcher-store-int-test')),
      Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ HUB_DATABASE_URL: database.url }))),
    ),
  ),
)

dispatcherStoreContract('in PostgreSQL', layer)

describe('the tables of the dispatcher', () => {
  it.live('give the recipient of a message that is not projected yet', () =>
    Effect.gen(function* () {
      const store = yield* DispatcherStore
      const sql = yield* Sql
      yield* sql.run(
        (q) => q`
          INSERT INTO command.acceptances (message_id, account, mode, class, recipient, to_masked, template, sender,
                                           parts, price, currency, variables, created_at, expires_at)
          VALUES (${uuid(31)}, ${uuid(1)}, 'live', 'otp', decode(${recipientOf(7)}, 'hex'), '', 't', 's', 1, 0, 'RUB', '{}', now(), now())`,
      )
      const found = yield* store.recipients([
        { operator: 'http', operatorId: 'x', reference: id(31), recipient: null },
      ])
      assert.deepStrictEqual(found, [recipientOf(7)])
    }).pipe(Effect.provide(layer)),
  )

  it.live('keep an opt-out that hub staff confirmed after the hub received the start word', () =>
    Effect.gen(function* () {
      const store = yield* DispatcherStore
      const tables = yield* TestTables
      const sql = yield* Sql
      yield* store.applyWords([word(8, 'stop', 1)])
      const confirm = sql.run((q) => CommandOptOuts.insert(q, [recipientOf(8)], 'operator', 'sam'))
      assert.strictEqual(yield* confirm, 0)
      assert.deepStrictEqual(yield* store.applyWords([word(8, 'start', 2)]), ['unchanged'])
      assert.strictEqual((yield* tables.readOptOut(recipientOf(8)))?.source, 'operator')
      // Only the first opt-out is a change.
      assert.lengthOf(yield* sql.run((q) => CommandOptOuts.readHistory(q, recipientOf(8), 10)), 1)
    }).pipe(Effect.provide(layer)),
  )

  // Rules: OPT-4
  it.live('have a record of each change of an opt-out, which is never deleted', () =>
    Effect.gen(function* () {
      const store = yield* DispatcherStore
      const tables = yield* TestTables
      yield* store.applyWords([
        word(7, 'stop', 1),
        word(7, 'stop', 2),
        word(7, 'start', 3),
        word(7, 'stop', 4),
      ])
      yield* store.applyWords([word(7, 'stop', 4), word(7, 'start', 5)])
      assert.isNull(yield* tables.readOptOut(recipientOf(7)))
      const sql = yield* Sql
      const at = word(7, 'stop', 0).receivedAt
      assert.deepStrictEqual(
        yield* sql.run((q) => CommandOptOuts.readHistory(q, recipientOf(7), 10)),
        (
          [
            ['opted_out', 'stop', 1],
            ['opted_in', 'start', 3],
            ['opted_out', 'stop', 4],
            ['opted_in', 'start', 5],
          ] as const
        ).map(([change, keyword, after]) => ({
          change,
          at: new Date(at + after),
          source: 'inbound' as const,
          word: keyword,
          actor: null,
        })),
      )
    }).pipe(Effect.provide(layer)),
  )
})
