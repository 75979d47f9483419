/** Re-encryption of a database with ciphertexts under the previous master key. */
import { randomBytes, randomUUID } from 'node:crypto'
import { assert, describe, it } from '@effect/vitest'
import { freshDatabase } from '@hub/testkit'
import { ConfigProvider, Effect, Exit, Layer, Redacted } from 'effect'
import { afterAll } from 'vitest'
import { type EncryptedColumn, makeSql, reencryptColumn, Sql, MasterKeyEncryption } from './index.ts'

const { drop, url } = await freshDatabase()
afterAll(drop)

const [oldKey, newKey] = [randomBytes(32).toString('base64'), randomBytes(32).toString('base64')]
const masterKeyLayer = (environment: Readonly<Record<string, string>>) =>
  MasterKeyEncryption.layer.pipe(Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(environment))))
const before = masterKeyLayer({ HUB_MASTER_KEY: oldKey })
const during = masterKeyLayer({ HUB_MASTER_KEY: newKey, HUB_PREVIOUS_MASTER_KEYS: oldKey })
const after = masterKeyLayer({ HUB_MASTER_KEY: newKey })
const sqlLayer = Layer.effect(Sql, makeSql(Redacted.make(url), 4, 'reencrypt-test'))

const columnOf = (table: string): EncryptedColumn => ({
  table,
  column: 'box',
  key: 'id',
  keyType: 'uuid',
  purpose: 'webhook-secret',
  aad: (key) => `we_${key}`,
})

/** Creates a table with ciphertexts under the current key. */
const fill = Effect.fnUntraced(function* (table: string, ids: ReadonlyArray<string>) {
  const sql = yield* Sql
  const masterKey = yield* MasterKeyEncryption
  yield* sql.run(async (q) => {
    await q`CREATE TABLE IF NOT EXISTS ${q(table)} (id uuid PRIMARY KEY, box bytea)`
    await q`
      INSERT INTO ${q(table)} SELECT id, decode(box, 'hex')
        FROM unnest(${[...ids]}::uuid[], ${ids.map((id) =>
          masterKey.encrypt('webhook-secret', `we_${id}`, Buffer.from(`secret of ${id}`)).toString('hex'),
        )}::text[]) AS n (id, box)`
  })
})

/** For each row, whether it can be decrypted to its original text. */
const readable = Effect.fnUntraced(function* (table: string) {
  const sql = yield* Sql
  const masterKey = yield* MasterKeyEncryption
  const rows = yield* sql.run(
    (q) => q<{ id: string; box: Buffer }[]>`SELECT id, box FROM ${q(table)} WHERE octet_length(box) > 0`,
  )
  return yield* Effect.forEach(rows, ({ box, id }) =>
    Effect.map(Effect.exit(masterKey.decrypt('webhook-secret', `we_${id}`, box)), (exit) =>
      Exit.isSuccess(exit) ? exit.value.toString() === `secret of ${id}` : false,
    ),
  )
})
const all = (results: ReadonlyArray<boolean>, count: number) =>
  results.length === count && results.every((result) => result)

describe('a change of the master key', () => {
  it.live('leaves nothing under the previous key, over several steps, and changes nothing else', () =>
    Effect.gen(function* () {
      const table = 'many'
      const [olds, news] = [2300, 50].map((count) => Array.from({ length: count }, () => randomUUID()))
      yield* Effect.provide(fill(table, olds!), before)
      yield* Effect.provide(fill(table, news!), during)
      const sql = yield* Sql
      // No secret, a deleted one, and one that no key decrypts.
      const broken = randomUUID()
      yield* sql.run(
        (q) => q`INSERT INTO many VALUES (${randomUUID()}, NULL), (${randomUUID()}, ''::bytea),
                                         (${broken}, ${Buffer.from('not a ciphertext, only bytes of some length')})`,
      )
      assert.isFalse(all(yield* Effect.provide(readable(table), after), 2351))
      const passes = yield* Effect.all(
        [reencryptColumn(columnOf(table)), reencryptColumn(columnOf(table))].map((pass) =>
          Effect.provide(pass, during),
        ),
        { concurrency: 2 },
      )
      // Each value was re-encrypted once, by one of the two passes.
      assert.strictEqual(
        passes.reduce((sum, { reencrypted }) => sum + reencrypted, 0),
        2300,
      )
      assert.deepStrictEqual(
        passes.map(({ unreadable }) => unreadable),
        [1, 1],
      )
      assert.deepStrictEqual(yield* Effect.provide(reencryptColumn(columnOf(table)), during), {
        reencrypted: 0,
        unreadable: 1,
      })
      yield* sql.run((q) => q`DELETE FROM many WHERE id = ${broken}`)
      assert.isTrue(all(yield* Effect.provide(readable(table), after), 2350))
    }).pipe(Effect.provide(sqlLayer)),
  )

  it.live('does not overwrite a value that changes meanwhile', () =>
    Effect.gen(function* () {
      const table = 'contended'
      const id = randomUUID()
      yield* Effect.provide(fill(table, [id]), before)
      const sql = yield* Sql
      // The row changes between the read and the update of the pass.
      const between: Sql['Service'] = {
        ...sql,
        run: (body, options) =>
          Effect.tap(sql.run(body, options), () =>
            sql.run((q) => q`UPDATE contended SET box = 'another'::bytea WHERE box <> 'another'::bytea`),
          ),
      }
      const { reencrypted } = yield* reencryptColumn(columnOf(table)).pipe(
        Effect.provideService(Sql, between),
        Effect.provide(during),
      )
      assert.strictEqual(reencrypted, 0)
      const [row] = yield* sql.run((q) => q<{ box: Buffer }[]>`SELECT box FROM contended`)
      assert.strictEqual(row?.box.toString(), 'another')
    }).pipe(Effect.provide(sqlLayer)),
  )

  it.live('ignores values under a payload key', () =>
    Effect.gen(function* () {
      const table = 'mixed'
      const [own, masters] = [randomUUID(), randomUUID()]
      yield* Effect.provide(fill(table, [own, masters]), before)
      const sql = yield* Sql
      yield* sql.run(async (q) => {
        await q`ALTER TABLE mixed ADD COLUMN own_key text`
        await q`UPDATE mixed SET own_key = 'k', box = 'sealed with k'::bytea WHERE id = ${own}`
      })
      assert.deepStrictEqual(
        yield* Effect.provide(reencryptColumn({ ...columnOf(table), payloadKeyColumn: 'own_key' }), during),
        { reencrypted: 1, unreadable: 0 },
      )
      const [row] = yield* sql.run((q) => q<{ box: Buffer }[]>`SELECT box FROM mixed WHERE id = ${own}`)
      assert.strictEqual(row?.box.toString(), 'sealed with k')
    }).pipe(Effect.provide(sqlLayer)),
  )
})
