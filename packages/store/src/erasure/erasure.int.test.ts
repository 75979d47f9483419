import { randomBytes, randomUUID } from 'node:crypto'
import { assert, describe, it } from '@effect/vitest'
import { payloadKeyGoneAt } from '@hub/kafka'
import { layerSimulatedPayloadKeys } from '@hub/kafka/testing'
import { freshDatabase } from '@hub/testkit'
import { ConfigProvider, Effect, Layer, Logger, Redacted } from 'effect'
import { TestClock } from 'effect/testing'
import { afterAll } from 'vitest'
import { registerRetentionJobs, runRetentionStep } from '../retention/runner.ts'
import { PayloadEncryption, recipientShareOf } from '../payload-encryption.ts'
import { makeSql, type Queries, Sql, StorageUnavailable } from '../sql.ts'
import { MasterKeyEncryption } from '../master-key-encryption.ts'
import { eraseRecipient, erasures, readErasures } from './erasure.ts'

const { drop, url } = await freshDatabase()
afterAll(drop)

const layer = PayloadEncryption.layer.pipe(
  Layer.provideMerge(
    Layer.mergeAll(
      Layer.effect(Sql, makeSql(Redacted.make(url), 4, 'erasure-test')),
      MasterKeyEncryption.layer.pipe(
        Layer.provide(
          ConfigProvider.layer(
            ConfigProvider.fromUnknown({ HUB_MASTER_KEY: randomBytes(32).toString('base64') }),
          ),
        ),
      ),
      layerSimulatedPayloadKeys,
      Logger.layer([]),
    ),
  ),
)

const HOUR = 3_600_000
const NOW = Date.UTC(2031, 5, 10, 12)
/** When Kafka has deleted the last payload key that existed at `NOW`. */
const KEYS_GONE = payloadKeyGoneAt('service', NOW)
const account = randomUUID()

/** A UUIDv7 with a timestamp. */
const idAt = (at: number): string => {
  const time = at.toString(16).padStart(12, '0')
  const random = randomBytes(9).toString('hex')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(0, 3)}-8${random.slice(3, 6)}-${random.slice(6)}`
}
/** A random recipient hash of a share. */
const personOf = (share: number): Buffer => Buffer.concat([Buffer.of(share), randomBytes(31)])

const run = <A>(body: (q: Queries) => Promise<A>) => Effect.flatMap(Sql, (sql) => sql.run(body))

interface MessageOptions {
  readonly recipient: Buffer
  readonly at: number
  /** Whether the read models contain it. */
  readonly projected: boolean
}
/**
 * Inserts a message into the ledger, and with its number into the read models if it is projected.
 */
const message = Effect.fnUntraced(function* ({ at, projected, recipient }: MessageOptions) {
  const id = idAt(at)
  const moment = new Date(at)
  yield* run(async (q) => {
    await q`
      INSERT INTO command.acceptances (message_id, account, mode, class, recipient, to_masked, template, sender, parts, price,
                                       currency, variables, created_at, expires_at, sealing_key, sealed)
      VALUES (${id}, ${account}, 'live', 'service', ${recipient}, '+7900***4567', 't', 's', 1, 2, 'RUB', '{}', ${moment},
              ${new Date(at + 24 * HOUR)}, 'service-x', 'sealed'::bytea)`
    if (!projected) return
    await q`
      INSERT INTO read.messages (id, account, mode, class, recipient, created_at, updated_at, status, rank, final)
      VALUES (${id}, ${account}, 'live', 'service', ${recipient}, ${moment}, ${moment}, 'sent', 1, false)`
    await q`
      INSERT INTO read.personal_data (message_id, recipient, created_at, sealing_key, sealed)
      VALUES (${id}, ${recipient}, ${moment}, 'personal-x', 'sealed'::bytea)`
  })
  return id
})
const ledgerOf = (id: string) =>
  Effect.map(
    run(
      (q) => q<{ to_masked: string; sealed: Buffer | null }[]>`
        SELECT to_masked, sealed FROM command.acceptances WHERE message_id = ${id}`,
    ),
    ([row]) => ({ to: row?.to_masked, sealed: row?.sealed?.toString() ?? null }),
  )
const numbersOf = (recipient: Buffer) =>
  Effect.map(
    run((q) => q`SELECT 1 FROM read.personal_data WHERE recipient = ${recipient}`),
    (rows) => rows.length,
  )

/** Runs the retention job for everything that is due. */
const retain = Effect.gen(function* () {
  // Each test uses another time.
  yield* run((q) => q`DELETE FROM command.retention_jobs`)
  yield* registerRetentionJobs([erasures])
  for (let steps = 0; steps < 100; steps++) {
    const outcome = yield* runRetentionStep([erasures])
    if (outcome.type === 'idle') return
    assert.strictEqual(outcome.type, 'step')
    if (outcome.type === 'step' && outcome.ended) return
    yield* TestClock.adjust('20 millis')
  }
})

describe('an erasure', () => {
  // Rules: RET-8
  it.effect('removes the stored data of that person only, and keeps the receipt and the opt-out', () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(NOW)
      const [person, other] = [personOf(3), personOf(4)]
      const hash = person.toString('hex')
      const old = yield* message({ recipient: person, at: NOW - 100 * 24 * HOUR, projected: true })
      const recent = yield* message({ recipient: person, at: NOW - HOUR, projected: true })
      const theirs = yield* message({ recipient: other, at: NOW - HOUR, projected: true })
      yield* run((q) => q`INSERT INTO command.opt_outs VALUES (${person}, 'inbound', now())`)
      for (const recipient of [person, other]) {
        yield* run(
          (q) => q`
            INSERT INTO command.inbound_messages
              (id, recipient, operator, service_address, received_at, sealing_key, sealed)
            VALUES (${randomUUID()}, ${recipient}, 'smpp', 'HUB', ${new Date(NOW - HOUR)}, 'personal-x', 'x'::bytea)`,
        )
      }

      const receipt = yield* eraseRecipient(hash)
      assert.deepInclude(receipt, {
        recipient: hash,
        requestedAt: NOW,
        personalData: 3,
        acceptances: 2,
        clearedAt: NOW,
        finishedAt: null,
      })
      assert.strictEqual(yield* numbersOf(person), 0)
      assert.deepStrictEqual(yield* ledgerOf(old), { to: '', sealed: null })
      assert.deepStrictEqual(yield* ledgerOf(recent), { to: '', sealed: null })
      assert.strictEqual(yield* numbersOf(other), 1)
      assert.deepStrictEqual(
        yield* run(
          (q) => q<{ recipient: Buffer; sealed: Buffer | null }[]>`
            SELECT recipient, sealed FROM command.inbound_messages WHERE sealed IS NOT NULL`,
        ).pipe(Effect.map((rows) => rows.map((row) => row.recipient.toString('hex')))),
        [other.toString('hex')],
      )
      assert.deepStrictEqual(yield* ledgerOf(theirs), { to: '+7900***4567', sealed: 'sealed' })
      assert.lengthOf(yield* run((q) => q`SELECT 1 FROM command.opt_outs WHERE recipient = ${person}`), 1)
      assert.lengthOf(yield* run((q) => q`SELECT 1 FROM read.messages WHERE recipient = ${person}`), 2)
      assert.deepStrictEqual(yield* readErasures(hash), [receipt])
      assert.deepStrictEqual(yield* readErasures(other.toString('hex')), [])
    }).pipe(Effect.provide(layer)),
  )

  it.effect('lets an open message be delivered without showing its number, and ends with its key', () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(NOW)
      const payloadEncryption = yield* PayloadEncryption
      const person = personOf(5)
      const hash = person.toString('hex')
      yield* payloadEncryption.currentKey('service')
      const open = yield* message({ recipient: person, at: NOW - 1000, projected: false })
      const { sealedUntil } = yield* eraseRecipient(hash)
      assert.strictEqual(sealedUntil, KEYS_GONE, 'the key of this hour')
      // The number is hidden. The reconciler can still publish the message.
      assert.deepStrictEqual(yield* ledgerOf(open), { to: '', sealed: 'sealed' })

      yield* TestClock.setTime(KEYS_GONE - 60_000)
      yield* retain
      assert.isNull((yield* readErasures(hash))[0]?.finishedAt)
      assert.deepStrictEqual(yield* ledgerOf(open), { to: '', sealed: 'sealed' })
      // The job runs every ten minutes.
      yield* TestClock.setTime(KEYS_GONE + 600_000)
      yield* retain
      const [receipt] = yield* readErasures(hash)
      assert.isAtLeast(receipt?.finishedAt ?? 0, KEYS_GONE)
      assert.strictEqual(receipt?.acceptances, 2)
      assert.deepStrictEqual(yield* ledgerOf(open), { to: '', sealed: null })
    }).pipe(Effect.provide(layer)),
  )

  it.effect('includes newer messages when it is repeated, and none that come after its end', () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(NOW)
      const person = personOf(6)
      const hash = person.toString('hex')
      yield* message({ recipient: person, at: NOW - 1000, projected: true })
      const first = yield* eraseRecipient(hash)
      yield* TestClock.adjust('1 hour')
      yield* message({ recipient: person, at: NOW + 1000, projected: true })
      const second = yield* eraseRecipient(hash)
      assert.deepInclude(second, { id: first.id, requestedAt: NOW, personalData: 2, acceptances: 2 })

      yield* TestClock.setTime(NOW + 100 * HOUR)
      yield* retain
      yield* message({ recipient: person, at: NOW + 99 * HOUR, projected: true })
      assert.strictEqual(yield* numbersOf(person), 1)
      const third = yield* eraseRecipient(hash)
      assert.notStrictEqual(third.id, first.id)
      assert.deepInclude(third, { personalData: 1, acceptances: 1 })
      assert.lengthOf(yield* readErasures(hash), 2)
    }).pipe(Effect.provide(layer)),
  )

  it.effect('continues after a crash in the retention job', () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(NOW)
      const person = personOf(7)
      const hash = person.toString('hex')
      // Enough for more than one step.
      yield* run(
        (q) => q`
          INSERT INTO read.personal_data (message_id, recipient, created_at, sealed)
          SELECT gen_random_uuid(), ${person}, ${new Date(NOW - 1000)}::timestamptz, 'x'::bytea FROM generate_series(1, 3000)`,
      )
      const real = yield* Sql
      let transactions = 0
      const crashing: Sql['Service'] = {
        ...real,
        transaction: (body, options) =>
          ++transactions > 1
            ? Effect.fail(new StorageUnavailable({ reason: 'unreachable', detail: 'crashed' }))
            : real.transaction(body, options),
      }
      const failed = yield* Effect.flip(eraseRecipient(hash).pipe(Effect.provideService(Sql, crashing)))
      assert.strictEqual(failed._tag, 'StorageUnavailable')
      assert.strictEqual(yield* numbersOf(person), 1000)
      const [halfway] = yield* readErasures(hash)
      assert.deepInclude(halfway, { personalData: 2000, clearedAt: null })

      yield* TestClock.setTime(NOW + 200 * HOUR)
      yield* retain
      assert.strictEqual(yield* numbersOf(person), 0)
      const [receipt] = yield* readErasures(hash)
      assert.strictEqual(receipt?.personalData, 3000)
      assert.isNotNull(receipt?.clearedAt)
    }).pipe(Effect.provide(layer)),
  )

  it.effect('destroys the report keys of the share when no record waits for them', () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(NOW - 10 * 24 * HOUR)
      const payloadEncryption = yield* PayloadEncryption
      const person = personOf(8)
      const hash = person.toString('hex')
      const before = (yield* payloadEncryption.recipientShareKeys)[recipientShareOf(hash)]
      yield* TestClock.setTime(NOW)
      const today = (yield* payloadEncryption.recipientShareKeys)[recipientShareOf(hash)]
      const others = (yield* payloadEncryption.recipientShareKeys)[9]
      if (before === undefined || today === undefined || others === undefined) return assert.fail('keys')
      const exists = (id: string) =>
        Effect.map(
          run((q) => q`SELECT 1 FROM command.sealing_keys WHERE id = ${id}`),
          (rows) => rows.length === 1,
        )
      yield* eraseRecipient(hash)
      assert.isFalse(yield* exists(before.id))
      // An inbound message of today may be waiting: an opt-out in it must remain readable.
      assert.isTrue(yield* exists(today.id))
      yield* TestClock.setTime(NOW + 100 * HOUR)
      yield* retain
      assert.isFalse(yield* exists(today.id))
      assert.isTrue(yield* exists(others.id))
      assert.strictEqual((yield* readErasures(hash))[0]?.payloadKeys, 2)
    }).pipe(Effect.provide(layer)),
  )
})
