/**
 * The ends of the lanes prove to the reconciler that a code is not in Kafka. A record that is not on all
 * replicas in sync yet is in Kafka too, although readers cannot see it.
 */
import { randomUUID } from 'node:crypto'
import { assert, it } from '@effect/vitest'
import { EventLog, layerEventLog, readOffsetRanges, topicLogEnds } from '@hub/kafka'
import { eventually } from '@hub/testkit'
import { Effect } from 'effect'
import { afterAll, beforeAll } from 'vitest'
import { startTwoBrokers, type TwoBrokers } from '../support/two-brokers.ts'

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
        eventually(async () => (await Effect.runPromise(visibleEnd)) === 2, { withinMs: 60_000 }),
      )
    }).pipe(Effect.scoped, Effect.provide(layerEventLog({ connection, partitions: 1 })))
  }),
)
