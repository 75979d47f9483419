import { randomBytes } from 'node:crypto'
import { assert, describe, it } from '@effect/vitest'
import { PayloadKeyTopics, topicNames } from '@hub/kafka'
import { layerSimulatedKafka, SimulatedKafka } from '@hub/kafka/testing'
import { ConfigProvider, Effect, Fiber, Layer, Logger } from 'effect'
import { TestClock } from 'effect/testing'
import { PayloadKeyUnusable } from './key-providers/key-provider.port.ts'
import { MasterKeyEncryption } from './master-key-encryption.ts'
import { examinePayloadKeys, isMessageKey, makeMessageKeys } from './message-keys.ts'
import { StorageUnavailable } from './sql.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const NOW = Date.UTC(2031, 5, 10, 12)
const topics = topicNames()

const masterKeyLayer = (key: Buffer) =>
  MasterKeyEncryption.layer.pipe(
    Layer.provide(
      ConfigProvider.layer(ConfigProvider.fromUnknown({ HUB_MASTER_KEY: key.toString('base64') })),
    ),
  )

/** Kafka in memory, and one master key. */
const layer = PayloadKeyTopics.layer(topics).pipe(
  Layer.provideMerge(layerSimulatedKafka(1)),
  Layer.merge(masterKeyLayer(randomBytes(32))),
  Layer.merge(Logger.layer([])),
)

/** A test with a new Kafka. `makeMessageKeys` stands for one process. */
const test = (
  title: string,
  body: () => Effect.Effect<
    void,
    unknown,
    Effect.Services<typeof makeMessageKeys> | SimulatedKafka | MasterKeyEncryption | PayloadKeyTopics
  >,
) =>
  it.effect(title, () =>
    Effect.andThen(TestClock.setTime(NOW), body()).pipe(Effect.scoped, Effect.provide(Layer.fresh(layer))),
  )

/** Lets background work run. */
const settle = Effect.repeat(Effect.yieldNow, { times: 20 })

describe('the keys of messages', () => {
  test('are used only after Kafka has stored them', () =>
    Effect.gen(function* () {
      const kafka = yield* SimulatedKafka
      const keys = yield* makeMessageKeys
      yield* kafka.set('hanging')
      const asked = yield* Effect.forkChild(Effect.flip(keys.current('otp')))
      yield* TestClock.adjust('1500 millis')
      assert.instanceOf(yield* Fiber.join(asked), StorageUnavailable)
      yield* kafka.set('up')
      // The next attempt follows after a pause. Meanwhile sends are refused at once.
      assert.instanceOf(yield* Effect.flip(keys.current('otp')), StorageUnavailable)
      yield* TestClock.adjust('5 seconds')
      const { id } = yield* keys.current('otp')
      assert.isTrue(isMessageKey(id))
      assert.strictEqual(kafka.records(topics.otpKeys)[0]?.at(-1)?.key, id)
      assert.isEmpty(kafka.records(topics.serviceKeys).flat())
    }))

  test('are found by other processes at once, and by processes that start later', () =>
    Effect.gen(function* () {
      const [mine, theirs] = [yield* makeMessageKeys, yield* makeMessageKeys]
      for (const messageClass of ['otp', 'service'] as const) {
        const { id, key } = yield* mine.current(messageClass)
        assert.isTrue((yield* theirs.byId(id))?.equals(key))
        assert.isTrue((yield* (yield* makeMessageKeys).byId(id))?.equals(key))
      }
    }))

  test('are replaced in the background, and codes get a new key after minutes', () =>
    Effect.gen(function* () {
      const keys = yield* makeMessageKeys
      const first = yield* keys.current('otp')
      yield* TestClock.setTime(NOW + 5 * MINUTE - 1)
      assert.strictEqual((yield* keys.current('otp')).id, first.id)
      yield* TestClock.setTime(NOW + 5 * MINUTE)
      assert.strictEqual((yield* keys.current('otp')).id, first.id, 'no send waits for Kafka')
      yield* settle
      assert.notStrictEqual((yield* keys.current('otp')).id, first.id)
    }))

  test('stay in use while Kafka is unavailable, for as long as Kafka keeps them for the last message', () =>
    Effect.gen(function* () {
      const kafka = yield* SimulatedKafka
      const keys = yield* makeMessageKeys
      const [code, order] = [yield* keys.current('otp'), yield* keys.current('service')]
      yield* kafka.set('refusing')
      yield* TestClock.setTime(NOW + 30 * MINUTE - 1)
      assert.strictEqual((yield* keys.current('otp')).id, code.id)
      yield* settle
      yield* TestClock.setTime(NOW + 24 * HOUR - 1)
      assert.instanceOf(yield* Effect.flip(keys.current('otp')), StorageUnavailable)
      assert.strictEqual((yield* keys.current('service')).id, order.id)
      yield* settle
      yield* TestClock.setTime(NOW + 24 * HOUR)
      assert.instanceOf(yield* Effect.flip(keys.current('service')), StorageUnavailable)
      yield* kafka.set('up')
      yield* TestClock.adjust('5 seconds')
      assert.notStrictEqual((yield* keys.current('service')).id, order.id)
      // A message of the last second can still be submitted for its whole lifetime.
      yield* TestClock.setTime(NOW + 48 * HOUR - 1)
      assert.isNotNull(yield* (yield* makeMessageKeys).byId(order.id))
    }))

  test('are destroyed after their time, in memory and where Kafka has not deleted them yet', () =>
    Effect.gen(function* () {
      const keys = yield* makeMessageKeys
      const [code, order] = [yield* keys.current('otp'), yield* keys.current('service')]
      yield* TestClock.setTime(NOW + HOUR - 1)
      assert.isNotNull(yield* keys.byId(code.id))
      yield* TestClock.setTime(NOW + HOUR)
      assert.isNull(yield* keys.byId(code.id))
      assert.isNull(yield* (yield* makeMessageKeys).byId(code.id))
      yield* TestClock.setTime(NOW + 48 * HOUR)
      assert.isNull(yield* keys.byId(order.id))
      assert.isNull(yield* (yield* makeMessageKeys).byId(order.id))
    }))

  test('count as lost only after half a minute: a broker may not have the newest records', () =>
    Effect.gen(function* () {
      const keys = yield* makeMessageKeys
      const id = 'service-2031-06-10T11:59Z-0123456789abcdef'
      assert.instanceOf(yield* Effect.flip(keys.byId(id)), StorageUnavailable)
      yield* TestClock.adjust('29 seconds')
      assert.instanceOf(yield* Effect.flip(keys.byId(id)), StorageUnavailable)
      yield* TestClock.adjust('1 second')
      // Retention has not destroyed them, so they are not unreadable for ever.
      assert.deepStrictEqual(
        yield* Effect.flip(keys.byId(id)),
        new PayloadKeyUnusable({ keyId: id, reason: 'not_found' }),
      )
      // The half minute is shared.
      const other = 'otp-2031-06-10T11:58Z-0123456789abcdef'
      assert.instanceOf(yield* Effect.flip(keys.byId(other)), PayloadKeyUnusable)
    }))

  test('of another master key are unusable, and not destroyed', () =>
    Effect.gen(function* () {
      const { id } = yield* (yield* makeMessageKeys).current('service')
      const stranger = yield* makeMessageKeys.pipe(
        Effect.provide(Layer.fresh(masterKeyLayer(randomBytes(32)))),
      )
      assert.deepStrictEqual(
        yield* Effect.flip(stranger.byId(id)),
        new PayloadKeyUnusable({ keyId: id, reason: 'unknown_master_key' }),
      )
    }))

  test('that another producer has damaged are unusable, and not destroyed', () =>
    Effect.gen(function* () {
      const { append } = yield* PayloadKeyTopics
      const masterKey = yield* MasterKeyEncryption
      const id = 'service-2031-06-10T11:59Z-0123456789abcdef'
      const [wrapped] = yield* masterKey.wrap('payload-key', [
        { aad: 'the id of another key', bytes: randomBytes(32) },
      ])
      yield* append('service', { id, wrapped: wrapped!, at: NOW })
      assert.deepStrictEqual(
        yield* Effect.flip((yield* makeMessageKeys).byId(id)),
        new PayloadKeyUnusable({ keyId: id, reason: 'damaged' }),
      )
      const { keys, unusable } = yield* examinePayloadKeys
      assert.deepStrictEqual([keys, unusable.map(({ reason }) => reason)], [1, ['damaged']])
    }))

  test('cannot be told from destroyed keys without Kafka, unless they are old', () =>
    Effect.gen(function* () {
      const kafka = yield* SimulatedKafka
      const keys = yield* makeMessageKeys
      yield* kafka.set('refusing')
      const young = 'otp-2031-06-10T11:30Z-0123456789abcdef'
      assert.instanceOf(yield* Effect.flip(keys.byId(young)), StorageUnavailable)
      assert.isNull(yield* keys.byId('otp-2031-06-10T10:00Z-0123456789abcdef'))
      assert.isNull(yield* keys.byId('service-2031-06-01T10:00Z-0123456789abcdef'))
    }))

  test('are created before the first send, and replaced while nobody sends', () =>
    Effect.gen(function* () {
      const kafka = yield* SimulatedKafka
      const keys = yield* makeMessageKeys
      const keptKeys = () =>
        [topics.otpKeys, topics.serviceKeys].map((topic) => kafka.records(topic)[0]?.length)
      yield* Effect.forkScoped(keys.keepReady)
      yield* settle
      assert.deepStrictEqual(keptKeys(), [1, 1])
      yield* TestClock.adjust('59 minutes')
      assert.deepStrictEqual(keptKeys(), [12, 1])
      // An outage begins while nobody sends.
      yield* TestClock.adjust('2 minutes')
      const order = yield* keys.current('service')
      yield* kafka.set('refusing')
      yield* TestClock.adjust('20 hours')
      assert.strictEqual((yield* keys.current('service')).id, order.id)
      yield* kafka.set('up')
      yield* TestClock.adjust('2 minutes')
      assert.notStrictEqual((yield* keys.current('service')).id, order.id)
      assert.isBelow(NOW + 21 * HOUR, (yield* keys.current('otp')).at)
    }))
})
