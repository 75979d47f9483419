/**
 * What only several brokers show. The ends of the lanes prove to the reconciler that a code is not in Kafka. A record that is not on all
 * replicas in sync yet is in Kafka too, although readers cannot see it.
 */
import { randomUUID } from 'node:crypto'
import { assert, it } from '@effect/vitest'
import { AdminConnection } from '@hub/kafka/testing'
import {
  EventLog,
  layerEventLog,
  layerTopicReader,
  readOffsetRanges,
  topicLogEnds,
  TopicReader,
} from '@hub/kafka'
import { eventually } from '@hub/testkit'
import { Effect, Layer } from 'effect'
import { afterAll, beforeAll } from 'vitest'
import { startTwoBrokers, type TwoBrokers } from '../support/two-brokers.ts'

/** Enough for one of them to fail if the requests for metadata of a call run concurrently. */
const CALLS = 20
/** The same for the committed offsets, of which fewer calls fail. */
const FIRST_CALLS = 60

let kafka: TwoBrokers
beforeAll(async () => {
  kafka = await startTwoBrokers()
}, 180_000)
afterAll(() => kafka?.end())

/** The broker answers an append to a replica that stands still at this deadline. */
const APPEND_DEADLINE_MS = 1500

it.live('the end of a partition is behind a record that readers cannot see yet', () =>
  Effect.gen(function* () {
    const connection = { brokers: kafka.brokers, clientId: 'unreplicated-test' }
    const topic = `unreplicated-${randomUUID()}`
    yield* Effect.promise(() => kafka.createTopic(topic))
    const visibleEnd = Effect.map(
      readOffsetRanges(connection, [topic]),
      (ranges) => ranges.get(topic)?.[0]?.high,
    )
    yield* Effect.gen(function* () {
      const log = yield* EventLog
      const append = (id: string, deadlineMs: number) =>
        log.append([{ topic, key: 'k', type: 'Something', id, occurredAt: 0, value: Buffer.from(id) }], {
          deadlineMs,
        })
      yield* append('first', 30_000)
      assert.deepStrictEqual(yield* topicLogEnds(connection, topic), [1])

      kafka.stopSecond()
      const failure = yield* Effect.flip(append('second', APPEND_DEADLINE_MS))
      // The leader has the record, so the append has an unknown outcome.
      assert.isUndefined(failure.notAppended)
      assert.strictEqual(yield* visibleEnd, 1)
      assert.deepStrictEqual(yield* topicLogEnds(connection, topic), [2])

      kafka.continueSecond()
      yield* Effect.promise(() =>
        eventually(async () => (await Effect.runPromise(visibleEnd)) === 2, { withinMs: 180_000 }),
      )
    }).pipe(Effect.scoped, Effect.provide(layerEventLog({ connection, partitions: 1 })))
  }),
)

it.live('the ranges of several topics are complete, whichever broker answers first', () =>
  Effect.gen(function* () {
    const connection = { brokers: kafka.brokers, clientId: 'offset-ranges-test' }
    const topics = Array.from({ length: 8 }, (_, index) => `ranges-${index}-${randomUUID()}`)
    for (const topic of topics) yield* Effect.promise(() => kafka.createTopic(topic))
    const missing = `missing-${randomUUID()}`
    for (let call = 0; call < CALLS; call++) {
      const ranges = yield* readOffsetRanges(connection, [...topics, missing])
      assert.deepStrictEqual(
        [...ranges],
        topics.map((topic) => [topic, [{ partition: 0, low: 0, high: 0 }]]),
      )
    }
  }),
)

it.live('a topic is read after its leader has changed', () =>
  Effect.gen(function* () {
    const connection = { brokers: kafka.brokers, clientId: 'moved-leader-test' }
    const topic = `moved-${randomUUID()}`
    yield* Effect.promise(() => kafka.createTopic(topic))
    yield* Effect.gen(function* () {
      const log = yield* EventLog
      const reader = yield* TopicReader
      yield* log.append(
        [{ topic, key: 'k', type: 'Something', id: 'first', occurredAt: 0, value: Buffer.from('first') }],
        { deadlineMs: 30_000 },
      )
      assert.lengthOf(yield* reader.readAll(topic), 1)
      yield* Effect.promise(() => kafka.moveLeader(topic))
      assert.lengthOf(yield* reader.readAll(topic), 1)
    }).pipe(
      Effect.scoped,
      Effect.provide(
        Layer.mergeAll(layerEventLog({ connection, partitions: 1 }), layerTopicReader({ connection })),
      ),
    )
  }),
)

it.live('the committed offsets of several topics are complete, whichever broker answers first', () =>
  Effect.promise(async () => {
    const topics = Array.from({ length: 8 }, (_, index) => `committed-${index}-${randomUUID()}`)
    const group = `committed-${randomUUID()}`
    for (const topic of topics) {
      await kafka.createTopic(topic)
      await kafka.commit(group, topic, 7)
    }
    const connection = { brokers: kafka.brokers, clientId: 'committed-offsets-test' }
    for (let call = 0; call < FIRST_CALLS; call++) {
      const admin = new AdminConnection(connection, Effect.runFork)
      const offsets = await admin.committedOffsets(group)
      admin.close()
      assert.deepStrictEqual(
        Object.fromEntries(offsets.map(({ partitions, topic }) => [topic, partitions[0]?.offset])),
        Object.fromEntries(topics.map((topic) => [topic, '7'])),
      )
    }
  }),
)
