import { assert, describe, it } from '@effect/vitest'
import { encodeId, type Mode } from '@hub/domain'
import { CommandAccounts, CommandAccountSettings, Sql } from '@hub/store'
import { freshDatabase } from '@hub/testkit'
import { ConfigProvider, Effect, Exit, Layer } from 'effect'
import { afterAll, beforeAll } from 'vitest'
import { layerPostgresStore } from '../store/postgres-store.ts'
import { makeWeights } from './weights.ts'

let database: Awaited<ReturnType<typeof freshDatabase>>
beforeAll(async () => {
  database = await freshDatabase()
})
afterAll(() => database.drop())

const layer = Layer.unwrap(
  Effect.sync(() =>
    layerPostgresStore.pipe(
      Layer.provideMerge(Sql.layer('weights-int-test')),
      Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ HUB_DATABASE_URL: database.url }))),
    ),
  ),
)

const uuid = '0193a1b2-0000-7000-8000-000000000001'
const account = encodeId('acc', uuid)
const set = (mode: Mode, weight: number | null) =>
  Effect.flatMap(Sql, (sql) => sql.run((q) => CommandAccountSettings.update(q, uuid, mode, { weight })))
const execute = (statement: string) => Effect.flatMap(Sql, (sql) => sql.run((q) => q.unsafe(statement)))

describe('the weights of accounts', () => {
  it.live('are those of the settings, also while PostgreSQL does not answer, and 1 by default', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      yield* sql.run((q) => CommandAccounts.insert(q, { id: uuid, name: 'Online shop' }))
      const weights = yield* makeWeights
      yield* set('live', 7)
      yield* set('test', null)
      assert.strictEqual(weights.of(account, 'live'), 1, 'nothing is read yet')
      yield* weights.refresh
      assert.strictEqual(weights.of(account, 'live'), 7)
      assert.strictEqual(weights.of(account, 'test'), 1)
      assert.strictEqual(weights.of(encodeId('acc', uuid.replace('1b2', '1b3')), 'live'), 1)

      yield* set('live', 100)
      yield* execute('ALTER TABLE command.account_settings RENAME TO account_settings_away')
      yield* weights.refresh
      assert.strictEqual(weights.of(account, 'live'), 7, 'the last known weight')
      yield* execute('ALTER TABLE command.account_settings_away RENAME TO account_settings')
      yield* weights.refresh
      assert.strictEqual(weights.of(account, 'live'), 100)

      yield* set('live', null)
      yield* weights.refresh
      assert.strictEqual(weights.of(account, 'live'), 1)
    }).pipe(Effect.provide(layer)),
  )

  it.live('are from 1 to 100 in the table too', () =>
    Effect.gen(function* () {
      for (const weight of [0, 101, -1]) {
        assert.isTrue(Exit.isFailure(yield* Effect.exit(set('live', weight))), String(weight))
      }
    }).pipe(Effect.provide(layer)),
  )
})
