import { randomBytes, randomUUID } from 'node:crypto'
import { assert, describe, it } from '@effect/vitest'
import { ErasureTopic, topicNames } from '@hub/kafka'
import { layerSimulatedKafka, SimulatedKafka } from '@hub/kafka/testing'
import { freshDatabase } from '@hub/testkit'
import { Effect, Layer, Logger, Redacted } from 'effect'
import { TestClock } from 'effect/testing'
import { afterAll } from 'vitest'
import { makeSql, type Queries, Sql } from '../sql.ts'
import { eraseRecipient, readErasures } from './erasure.ts'
import {
  missingErasures,
  oldestUnpublishedErasure,
  publishErasures,
  restoreErasures,
  watchErasures,
} from './published-erasures.ts'

const { drop, url } = await freshDatabase()
afterAll(drop)

const HOUR = 3_600_000
const NOW = Date.UTC(2031, 5, 10, 12)

const layer = ErasureTopic.layer(topicNames()).pipe(
  Layer.provideMerge(layerSimulatedKafka(1)),
  Layer.merge(Layer.effect(Sql, makeSql(Redacted.make(url), 4, 'erasures-test'))),
  Layer.merge(Logger.layer([])),
)
const run = <A>(body: (q: Queries) => Promise<A>) => Effect.flatMap(Sql, (sql) => sql.run(body))

/** A test with an empty topic, a database without erasures, and a clock at `NOW`. */
const test = (title: string, body: () => Effect.Effect<void, unknown, Sql | ErasureTopic | SimulatedKafka>) =>
  it.effect(title, () =>
    TestClock.setTime(NOW).pipe(
      Effect.andThen(run((q) => q`TRUNCATE command.erasures, read.personal_data`)),
      Effect.andThen(body()),
      Effect.provide(Layer.fresh(layer)),
    ),
  )

const personOf = (): Buffer => randomBytes(32)
const storeNumber = (recipient: Buffer, at: number) =>
  run(
    (q) => q`
      INSERT INTO read.personal_data (message_id, recipient, created_at, sealed)
      VALUES (${randomUUID()}, ${recipient}, ${new Date(at)}, 'x'::bytea)`,
  )
const numbersOf = (recipient: Buffer) =>
  Effect.map(
    run((q) => q`SELECT 1 FROM read.personal_data WHERE recipient = ${recipient}`),
    (rows) => rows.length,
  )

describe('erasures in Kafka', () => {
  test('are published once, and again when a repeated request includes newer messages', () =>
    Effect.gen(function* () {
      const kafka = yield* SimulatedKafka
      const hash = personOf().toString('hex')
      const { id } = yield* eraseRecipient(hash)
      assert.strictEqual(yield* oldestUnpublishedErasure, NOW)
      yield* kafka.set('refusing')
      yield* Effect.flip(publishErasures)
      yield* kafka.set('up')
      assert.strictEqual(yield* publishErasures, 1)
      assert.strictEqual(yield* publishErasures, 0)
      assert.isNull(yield* oldestUnpublishedErasure)
      assert.strictEqual((yield* readErasures(hash))[0]?.publishedAt, NOW)

      yield* TestClock.adjust('1 hour')
      yield* eraseRecipient(hash)
      assert.strictEqual(yield* publishErasures, 1)
      const { read } = yield* ErasureTopic
      assert.deepStrictEqual(yield* read, [
        { erasure: id, recipient: hash, requestedAt: NOW, before: NOW + HOUR },
      ])
      const [records] = kafka.records(topicNames().erasures)
      assert.deepStrictEqual(
        records?.map(({ key }) => key),
        [hash, hash],
      )
    }))

  test('are applied again to a database that was restored from an older backup', () =>
    Effect.gen(function* () {
      const [person, other] = [personOf(), personOf()]
      const hash = person.toString('hex')
      const receipt = yield* eraseRecipient(hash)
      yield* publishErasures
      assert.deepStrictEqual(yield* missingErasures, [])

      // The backup has the person, and not the erasure.
      yield* run((q) => q`TRUNCATE command.erasures`)
      yield* storeNumber(person, NOW - HOUR)
      yield* storeNumber(other, NOW - HOUR)
      assert.lengthOf(yield* missingErasures, 1)
      yield* TestClock.adjust('1 hour')
      // A message after the erasure is an ordinary message.
      yield* storeNumber(person, NOW + 1)
      assert.strictEqual(yield* restoreErasures(), 1)
      assert.strictEqual(yield* numbersOf(person), 1)
      assert.strictEqual(yield* numbersOf(other), 1)
      assert.deepStrictEqual(yield* missingErasures, [])
      assert.strictEqual(yield* restoreErasures(), 0)
      const [again] = yield* readErasures(hash)
      assert.deepInclude(again, { id: receipt.id, requestedAt: NOW, personalData: 1, finishedAt: null })
      assert.strictEqual(yield* publishErasures, 0, 'the topic has it')
    }))

  test('are applied again where the backup contains an unfinished erasure of the same person', () =>
    Effect.gen(function* () {
      const person = personOf()
      const hash = person.toString('hex')
      const first = yield* eraseRecipient(hash)
      yield* run((q) => q`UPDATE command.erasures SET finished_at = now()`)
      yield* TestClock.adjust('100 hours')
      const second = yield* eraseRecipient(hash)
      yield* publishErasures
      assert.notStrictEqual(second.id, first.id)
      // The backup is from the time before the first erasure ended.
      yield* run(async (q) => {
        await q`DELETE FROM command.erasures WHERE id = ${second.id}`
        await q`UPDATE command.erasures SET finished_at = NULL, published_at = ${new Date(NOW)}`
      })
      yield* storeNumber(person, NOW + HOUR)
      assert.strictEqual(yield* restoreErasures(), 1)
      assert.strictEqual(yield* numbersOf(person), 0)
      assert.deepStrictEqual(yield* missingErasures, [])
      assert.sameMembers(
        (yield* readErasures(hash)).map(({ id }) => id),
        [first.id, second.id],
      )
    }))

  test('make a process unready until they are applied, and an outage changes nothing', () =>
    Effect.gen(function* () {
      const kafka = yield* SimulatedKafka
      const hash = personOf().toString('hex')
      yield* eraseRecipient(hash)
      yield* publishErasures
      yield* run((q) => q`TRUNCATE command.erasures`)
      yield* Effect.scoped(
        Effect.gen(function* () {
          const isComplete = yield* watchErasures
          const until = (wanted: boolean) =>
            Effect.gen(function* () {
              while ((yield* isComplete) !== wanted) {
                yield* TestClock.adjust('1 second')
                yield* TestClock.withLive(Effect.sleep('10 millis'))
              }
            })
          assert.isFalse(yield* isComplete)
          yield* restoreErasures()
          yield* until(true)
          yield* kafka.set('refusing')
          yield* TestClock.adjust('1 minute')
          assert.isTrue(yield* isComplete)
          yield* kafka.set('up')
          yield* run((q) => q`TRUNCATE command.erasures`)
          yield* until(false)
        }),
      )
    }))
})
