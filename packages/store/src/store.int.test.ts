import { randomBytes } from 'node:crypto'
import { assert, describe, it } from '@effect/vitest'
import { LONGEST_LIFETIME_SECONDS } from '@hub/config'
import { layerSimulatedPayloadKeys } from '@hub/kafka/testing'
import { freshDatabase } from '@hub/testkit'
import { ConfigProvider, Duration, Effect, Exit, Layer, Redacted } from 'effect'
import { TestClock } from 'effect/testing'
import { afterAll } from 'vitest'
import {
  makeSql,
  migrate,
  RECIPIENT_SHARES,
  PayloadEncryption,
  recipientShareOf,
  Sql,
  type StorageUnavailable,
  MasterKeyEncryption,
} from './index.ts'

const { drop, url } = await freshDatabase()
afterAll(drop)

const sqlLayer = Layer.effect(Sql, makeSql(Redacted.make(url), 4, 'store-test'))
const masterKeyLayer = MasterKeyEncryption.layer.pipe(
  Layer.provide(
    ConfigProvider.layer(ConfigProvider.fromUnknown({ HUB_MASTER_KEY: randomBytes(32).toString('base64') })),
  ),
)
const layer = PayloadEncryption.layer.pipe(
  Layer.provideMerge(Layer.mergeAll(sqlLayer, masterKeyLayer, layerSimulatedPayloadKeys)),
)

describe('migrations', () => {
  it.effect('are applied once, also by concurrent processes', () =>
    Effect.gen(function* () {
      const again = yield* Effect.all([migrate(url), migrate(url), migrate(url)], { concurrency: 3 })
      assert.deepStrictEqual(again, [[], [], []])
    }),
  )

  it.effect('detect an edit of an applied file', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const [first] = yield* sql.run(
        (q) =>
          q<
            { name: string; checksum: string }[]
          >`SELECT name, checksum FROM hub_migrations ORDER BY name LIMIT 1`,
      )
      assert.isDefined(first)
      yield* sql.run((q) => q`UPDATE hub_migrations SET checksum = 'edited' WHERE name = ${first.name}`)
      const failure = yield* Effect.flip(migrate(url))
      yield* sql.run(
        (q) => q`UPDATE hub_migrations SET checksum = ${first.checksum} WHERE name = ${first.name}`,
      )
      assert.strictEqual(failure._tag, 'MigrationMismatch')
    }).pipe(Effect.provide(layer)),
  )

  it.effect('leave a newer schema as it is, and are refused if one of their own is missing in it', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      yield* sql.run(
        (q) => q`INSERT INTO hub_migrations (name, checksum) VALUES ('9999_of_tomorrow.sql', 'x')`,
      )
      assert.deepStrictEqual(yield* migrate(url), [])
      const [last] = yield* sql.run(
        (q) => q<{ name: string; checksum: string }[]>`
          DELETE FROM hub_migrations WHERE name =
            (SELECT max(name) FROM hub_migrations WHERE name < '9999') RETURNING name, checksum`,
      )
      assert.isDefined(last)
      const failure = yield* Effect.flip(migrate(url))
      yield* sql.run((q) => q`INSERT INTO hub_migrations ${q(last)}`)
      yield* sql.run((q) => q`DELETE FROM hub_migrations WHERE name = '9999_of_tomorrow.sql'`)
      assert.strictEqual(failure._tag, 'MigrationMismatch')
    }).pipe(Effect.provide(layer)),
  )
})

describe('Sql', () => {
  it.live('fails at the deadline', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const failure = yield* Effect.flip(sql.run((q) => q`SELECT pg_sleep(20)`, { deadline: '100 millis' }))
      assert.strictEqual(failure._tag, 'StorageUnavailable')
      assert.strictEqual((failure as StorageUnavailable).reason, 'timeout')
    }).pipe(Effect.provide(layer)),
  )

  it.live('retries a transaction after a deadlock', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      yield* sql.run((q) => q`CREATE TABLE locks (id integer PRIMARY KEY, taken integer NOT NULL)`)
      yield* sql.run((q) => q`INSERT INTO locks VALUES (1, 0), (2, 0)`)
      // Each transaction locks its first row, then the row of the other. The barrier causes one
      // deadlock.
      let arrived = 0
      let open: () => void = () => {}
      const both = new Promise<void>((resolve) => (open = resolve))
      const crossing = (first: number, second: number) =>
        sql.transaction(
          async (q) => {
            await q`UPDATE locks SET taken = taken + 1 WHERE id = ${first}`
            arrived += 1
            if (arrived === 2) open()
            await both
            await q`UPDATE locks SET taken = taken + 1 WHERE id = ${second}`
          },
          { deadline: '10 seconds' },
        )
      yield* Effect.all([crossing(1, 2), crossing(2, 1)], { concurrency: 2 })
      const rows = yield* sql.run((q) => q<{ taken: number }[]>`SELECT taken FROM locks ORDER BY id`)
      assert.deepStrictEqual(
        rows.map((row) => row.taken),
        [2, 2],
      )
      assert.isAtLeast(arrived, 3, 'one of the two was retried')
    }).pipe(Effect.provide(layer)),
  )

  it.live('rolls back a transaction that would end after its deadline', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      yield* sql.run((q) => q`CREATE TABLE late (n int)`)
      const { promise: released, resolve: release } = Promise.withResolvers<void>()
      const failure = yield* Effect.flip(
        sql.transaction(
          async (q) => {
            await q`LOCK TABLE late`
            await q`INSERT INTO late VALUES (1)`
            await released
          },
          { deadline: '2 seconds' },
        ),
      )
      assert.deepInclude(failure, { reason: 'timeout', detail: 'deadline' })
      release()
      // The lock is free when the late transaction has ended.
      const rows = yield* sql.transaction(
        async (q) => {
          await q`LOCK TABLE late`
          return q`SELECT n FROM late`
        },
        { deadline: '20 seconds' },
      )
      assert.deepStrictEqual([...rows], [])
    }).pipe(Effect.provide(sqlLayer)),
  )

  it.effect('distinguishes rejected data from an unavailable PostgreSQL', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const refused = yield* Effect.flip(sql.run((q) => q`SELECT ${'+79001234567'}::text::uuid`))
      assert.strictEqual(refused._tag, 'StorageRejected')
      assert.notInclude(JSON.stringify(refused), '79001234567')
      const away = yield* Effect.flip(
        Effect.scoped(
          Effect.flatMap(
            makeSql(Redacted.make('postgres://nobody@127.0.0.1:1/none'), 1, 'store-test'),
            (other) => other.run((q) => q`SELECT 1`),
          ),
        ),
      )
      assert.strictEqual(away._tag, 'StorageUnavailable')
    }).pipe(Effect.provide(layer)),
  )
})

describe('payload encryption', () => {
  it.effect('decrypts a payload for its own message only', () =>
    Effect.gen(function* () {
      const payloadEncryption = yield* PayloadEncryption
      const key = yield* payloadEncryption.currentKey('service')
      const ciphertext = key.encrypt('msg_a', Buffer.from('payload'))
      assert.strictEqual(
        (yield* payloadEncryption.decrypt(key.id, 'msg_a', ciphertext))?.toString(),
        'payload',
      )
      assert.isTrue(
        Exit.isFailure(yield* Effect.exit(payloadEncryption.decrypt(key.id, 'msg_b', ciphertext))),
      )
    }).pipe(Effect.provide(layer)),
  )

  it.effect('decrypts the payloads of every process', () =>
    Effect.gen(function* () {
      const mine = yield* PayloadEncryption
      const { encrypt, id } = yield* mine.currentKey('otp')
      const ciphertext = encrypt('msg_a', Buffer.from('payload'))
      const context = yield* Layer.build(Layer.fresh(PayloadEncryption.layer))
      yield* Effect.gen(function* () {
        const theirs = yield* PayloadEncryption
        assert.strictEqual((yield* theirs.decrypt(id, 'msg_a', ciphertext))?.toString(), 'payload')
        assert.notStrictEqual((yield* theirs.currentKey('otp')).id, id, 'each process has its own key')
      }).pipe(Effect.provide(context))
    }).pipe(Effect.scoped, Effect.provide(layer)),
  )

  it.effect.each(['otp', 'service'] as const)(
    'keeps a payload of class %s readable for the longest lifetime that a setting allows',
    (messageClass) =>
      Effect.gen(function* () {
        const payloadEncryption = yield* PayloadEncryption
        const key = yield* payloadEncryption.currentKey(messageClass)
        // The last message under the key.
        yield* TestClock.setTime(key.usableUntil - 1)
        const ciphertext = key.encrypt('msg_a', Buffer.from('payload'))
        yield* TestClock.adjust(Duration.seconds(LONGEST_LIFETIME_SECONDS[messageClass]))
        assert.isNotNull(yield* payloadEncryption.decrypt(key.id, 'msg_a', ciphertext))
      }).pipe(Effect.provide(layer)),
  )

  it.effect('makes payloads unreadable when their key is destroyed', () =>
    Effect.gen(function* () {
      const payloadEncryption = yield* PayloadEncryption
      const key = yield* payloadEncryption.currentKey('otp')
      const ciphertext = key.encrypt('msg_a', Buffer.from('payload'))
      yield* TestClock.adjust('1 hour')
      // Kafka may still have the key, which is ignored.
      assert.isNull(yield* payloadEncryption.decrypt(key.id, 'msg_a', ciphertext))
      assert.notStrictEqual((yield* payloadEncryption.currentKey('otp')).id, key.id)
    }).pipe(Effect.provide(layer)),
  )

  it.effect('keeps reports readable for exactly ninety days', () =>
    Effect.gen(function* () {
      const payloadEncryption = yield* PayloadEncryption
      const key = yield* payloadEncryption.currentKey('report')
      const ciphertext = key.encrypt('report', Buffer.from('raw'))
      yield* TestClock.adjust('90 days')
      assert.strictEqual((yield* payloadEncryption.decrypt(key.id, 'report', ciphertext))?.toString(), 'raw')
      yield* TestClock.adjust('25 hours')
      assert.isNull(yield* payloadEncryption.decrypt(key.id, 'report', ciphertext))
    }).pipe(Effect.provide(layer)),
  )

  it.effect('keeps numbers and texts readable for one year, under a key for each day', () =>
    Effect.gen(function* () {
      const payloadEncryption = yield* PayloadEncryption
      // The following year has a 29th of February.
      const noon = Date.UTC(2027, 10, 21, 12)
      yield* TestClock.setTime(noon)
      const key = yield* payloadEncryption.keyOfDay(Date.UTC(2027, 10, 20, 9))
      if (key === null) return assert.fail('the day is not a year ago')
      assert.strictEqual(key.id, (yield* payloadEncryption.keyOfDay(Date.UTC(2027, 10, 20, 23)))?.id)
      const ciphertext = key.encrypt('msg_a', Buffer.from('number'))
      yield* TestClock.setTime(Date.UTC(2028, 10, 20, 23, 59))
      assert.strictEqual(
        (yield* payloadEncryption.decrypt(key.id, 'msg_a', ciphertext))?.toString(),
        'number',
      )
      yield* TestClock.setTime(Date.UTC(2028, 10, 21))
      assert.isNull(yield* payloadEncryption.decrypt(key.id, 'msg_a', ciphertext))
      assert.isNull(
        yield* payloadEncryption.keyOfDay(Date.UTC(2027, 10, 20, 9)),
        'the key is not created again',
      )
    }).pipe(Effect.provide(layer)),
  )

  it.effect('has a key for each share of the recipients, and detects its early destruction', () =>
    Effect.gen(function* () {
      const payloadEncryption = yield* PayloadEncryption
      const sql = yield* Sql
      yield* TestClock.setTime(Date.UTC(2030, 0, 1, 12))
      const keys = yield* payloadEncryption.recipientShareKeys
      assert.strictEqual(new Set(keys.map(({ id }) => id)).size, RECIPIENT_SHARES)
      const [mine, other] = [keys[recipientShareOf('07'.repeat(32))], keys[recipientShareOf('ff'.repeat(32))]]
      if (mine === undefined || other === undefined) return assert.fail('there is a key for each share')
      const boxes = [mine, other].map((key) => ({
        key,
        ciphertext: key.encrypt('report', Buffer.from('raw')),
      }))
      yield* sql.run((q) => q`DELETE FROM command.sealing_keys WHERE share = 7`)
      yield* TestClock.adjust('61 minutes')
      const opened = yield* Effect.forEach(boxes, ({ key, ciphertext }) =>
        payloadEncryption.decrypt(key.id, 'report', ciphertext),
      )
      assert.deepStrictEqual(
        opened.map((plain) => plain?.toString()),
        [undefined, 'raw'],
      )
    }).pipe(Effect.provide(layer)),
  )
})
