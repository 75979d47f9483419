/**
 * The contract suite of the port. `simulated-kafka.unit.test.ts` and `kafkajs.int.test.ts` run it. A new
 * adapter runs it too, with a layer of its services and a `TestKafka`.
 */
import { assert, describe, it } from '@effect/vitest'
import { Cause, Context, Data, Deferred, Effect, Exit, Fiber, Layer, Scope } from 'effect'
import { NEWEST_SCHEMA } from './records/newer-schema.ts'
import {
  KafkaUnavailable,
  ConsumerGroups,
  EventLog,
  type Assignment,
  type GroupControl,
  type GroupOptions,
  type IncomingRecord,
  type OutgoingRecord,
  type Position,
  TopicReader,
} from './port.ts'
import type { BrokerState } from './testing/simulated/one-process.ts'

/** The number of partitions of every topic in the suite. */
export const CONTRACT_PARTITIONS = 6

/** The controls that the suite needs in addition to the port. */
export class TestKafka extends Context.Service<
  TestKafka,
  {
    /** Creates topics with `CONTRACT_PARTITIONS` partitions. The scope deletes them. */
    readonly topics: (count: number) => Effect.Effect<ReadonlyArray<string>, never, Scope.Scope>
    /** A new group id. */
    readonly group: Effect.Effect<string>
    /** Sets how Kafka answers `append` from now on. */
    readonly set: (state: BrokerState) => Effect.Effect<void>
  }
>()('@hub/kafka/TestKafka') {}

class HandlerFailed extends Data.TaggedError('HandlerFailed')<{}> {}

const bytes = (text: string) => new TextEncoder().encode(text)
const textOf = (record: IncomingRecord) => new TextDecoder().decode(record.value)

let ids = 0
const record = (topic: string, key: string, value: string, partition?: number): OutgoingRecord => ({
  topic,
  key,
  type: 'TestRecord',
  id: `id-${ids++}`,
  occurredAt: 1_795_000_000_000,
  value: bytes(value),
  ...(partition === undefined ? {} : { partition }),
})

/** Records what a handler receives, and lets a test await it. */
const recordingHandler = () => {
  const records: Array<IncomingRecord> = []
  const assignments: Array<Assignment> = []
  const watchers = new Set<() => void>()
  const changed = () => watchers.forEach((check) => check())
  let control: GroupControl | undefined
  return {
    records,
    assignments,
    values: () => records.map(textOf),
    control: () => control!,
    received: (batch: ReadonlyArray<IncomingRecord>) => {
      records.push(...batch)
      changed()
    },
    assigned: (assignment: Assignment, granted: GroupControl) => {
      control = granted
      assignments.push(assignment)
      changed()
    },
    changed,
    /** Resolves when the condition is true. Every event of the handler checks it. */
    until: (condition: () => boolean) =>
      Effect.callback<void>((resume) => {
        const check = () => {
          if (!condition()) return
          watchers.delete(check)
          resume(Effect.void)
        }
        watchers.add(check)
        check()
        return Effect.sync(() => watchers.delete(check))
      }),
  }
}

const joinWith = (
  handler: ReturnType<typeof recordingHandler>,
  options: GroupOptions,
  extra: {
    readonly onAssigned?: (assignment: Assignment, control: GroupControl) => void
    readonly onBatch?: (
      topic: string,
      partition: number,
      records: ReadonlyArray<IncomingRecord>,
    ) => Effect.Effect<void, unknown>
    readonly onRevoking?: Effect.Effect<void>
  } = {},
) =>
  Effect.flatMap(ConsumerGroups, (groups) =>
    groups.join(options, {
      onAssigned: (assignment, control) => {
        extra.onAssigned?.(assignment, control)
        handler.assigned(assignment, control)
      },
      onRevoking: extra.onRevoking ?? Effect.void,
      onBatch:
        extra.onBatch ?? ((_topic, _partition, records) => Effect.sync(() => handler.received(records))),
    }),
  )

const failureOf = <A, E>(exit: Exit.Exit<A, E>): unknown =>
  Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined

const reasonOf = <A, E>(exit: Exit.Exit<A, E>) => {
  const failure = failureOf(exit)
  return failure instanceof KafkaUnavailable ? failure.reason : `no KafkaUnavailable: ${String(failure)}`
}

/** Defines the suite. `adapter` provides an own Kafka for each test file. */
export const portContract = (
  name: string,
  adapter: Layer.Layer<EventLog | ConsumerGroups | TopicReader | TestKafka>,
): void => {
  /** A test with the real clock, which real adapters need. */
  const test = (
    title: string,
    body: () => Effect.Effect<
      void,
      unknown,
      EventLog | ConsumerGroups | TopicReader | TestKafka | Scope.Scope
    >,
  ) => it.live(title, () => body().pipe(Effect.scoped, Effect.provide(adapter)))

  const setup = Effect.gen(function* () {
    const kafka = yield* TestKafka
    const log = yield* EventLog
    const [topic, other] = (yield* kafka.topics(2)) as [string, string]
    const group = yield* kafka.group
    return { kafka, log, topic, other, group }
  })

  describe(`${name}: append`, () => {
    test('returns the position of each record, in the order of the records', () =>
      Effect.gen(function* () {
        const { log, topic, other } = yield* setup
        const first = yield* log.append([
          record(topic, 'a', '1', 0),
          record(other, 'a', '2', 0),
          record(topic, 'a', '3', 0),
          record(topic, 'a', '4', 5),
          record(topic, 'a', '5', 0),
        ])
        assert.deepStrictEqual(first, [
          { topic, partition: 0, offset: 0 },
          { topic: other, partition: 0, offset: 0 },
          { topic, partition: 0, offset: 1 },
          { topic, partition: 5, offset: 0 },
          { topic, partition: 0, offset: 2 },
        ])
        const second = yield* log.append([record(topic, 'a', '6', 0)])
        assert.deepStrictEqual(second, [{ topic, partition: 0, offset: 3 }])
        assert.deepStrictEqual(yield* log.append([]), [])
      }))

    test('selects the partition of a key like the Java client', () =>
      Effect.gen(function* () {
        const { log, topic } = yield* setup
        // murmur2 of Kafka's own test, positive, modulo six.
        const hashes: Record<string, number> = { '21': -973932308, foobar: -790332482, abc: 479470107 }
        for (const [key, hash] of Object.entries(hashes)) {
          const wanted = (hash & 0x7fffffff) % CONTRACT_PARTITIONS
          assert.strictEqual(log.partitionOf(key), wanted)
          const [position] = yield* log.append([record(topic, key, key)])
          assert.strictEqual(position?.partition, wanted)
        }
      }))

    test('preserves the order of calls, and returns to each its own positions', () =>
      Effect.gen(function* () {
        const { log, topic, group } = yield* setup
        const calls = Array.from({ length: 300 }, (_, i) =>
          log.append([record(topic, 'k', `${i}a`, i % 2), record(topic, 'k', `${i}b`, 2)]),
        )
        const answers = yield* Effect.all(calls, { concurrency: 'unbounded' })
        assert.deepStrictEqual(
          answers.map(([, second]) => second?.offset),
          calls.map((_, i) => i),
        )
        assert.deepStrictEqual(
          answers.map(([first]) => first),
          calls.map((_, i) => ({ topic, partition: i % 2, offset: Math.floor(i / 2) })),
        )
        const handler = recordingHandler()
        yield* joinWith(handler, { group, topics: [topic] })
        yield* handler.until(() => handler.records.filter(({ partition }) => partition === 2).length === 300)
        assert.deepStrictEqual(
          handler.records.filter(({ partition }) => partition === 2).map(textOf),
          calls.map((_, i) => `${i}b`),
        )
      }))

    test('fails only the caller whose records are invalid', () =>
      Effect.gen(function* () {
        const { log, topic } = yield* setup
        const [good, bad, after] = yield* Effect.all(
          [
            Effect.exit(log.append([record(topic, 'k', 'good', 0)])),
            Effect.exit(log.append([record(topic, 'k', 'nowhere', 77)])),
            Effect.exit(log.append([record(topic, 'k', 'after', 1)])),
          ],
          { concurrency: 'unbounded' },
        )
        assert.isTrue(Exit.isSuccess(good), 'the call before')
        assert.strictEqual(reasonOf(bad), 'rejected')
        assert.isTrue(Exit.isSuccess(after), 'the call after')
      }))

    test('fails with `refused` without Kafka and with `timeout` while it hangs, and works again afterwards', () =>
      Effect.gen(function* () {
        const { kafka, log, topic } = yield* setup
        const attempt = (deadlineMs: number) =>
          Effect.exit(log.append([record(topic, 'k', 'x', 0)], { deadlineMs }))
        assert.isTrue(Exit.isSuccess(yield* attempt(1000)))
        yield* kafka.set('refusing')
        assert.strictEqual(reasonOf(yield* attempt(1000)), 'refused')
        yield* kafka.set('up')
        assert.isTrue(Exit.isSuccess(yield* attempt(1000)))
        yield* kafka.set('hanging')
        const [short, long] = yield* Effect.all([attempt(150), attempt(400)], { concurrency: 'unbounded' })
        assert.strictEqual(reasonOf(short), 'timeout')
        assert.strictEqual(reasonOf(long), 'timeout')
        // A later append does not wait for an earlier one.
        assert.strictEqual(reasonOf(yield* attempt(100)), 'timeout')
        yield* kafka.set('up')
        assert.isTrue(Exit.isSuccess(yield* attempt(1000)))
      }))
  })

  describe(`${name}: groups`, () => {
    test('deliver every record from the beginning, complete and in order', () =>
      Effect.gen(function* () {
        const { log, topic, group } = yield* setup
        const sent: OutgoingRecord = {
          ...record(topic, 'ключ', 'текст', 3),
          traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
          headers: { tracestate: 'congo=t61rcWkgMzE,rojo=00f067aa0ba902b7' },
        }
        yield* log.append([sent, record(topic, 'k', 'second', 3)])
        const handler = recordingHandler()
        const { isHealthy } = yield* joinWith(handler, { group, topics: [topic] })
        assert.isTrue(yield* isHealthy)
        assert.deepStrictEqual(handler.assignments[0]?.shards, [0, 1, 2, 3, 4, 5])
        yield* handler.until(() => handler.records.length === 2)
        const [first, second] = handler.records
        assert.strictEqual(textOf(first!), 'текст')
        assert.deepInclude(first, {
          topic,
          partition: 3,
          offset: 0,
          key: 'ключ',
          type: 'TestRecord',
          id: sent.id,
          occurredAt: sent.occurredAt,
          traceparent: sent.traceparent!,
          tracestate: 'congo=t61rcWkgMzE,rojo=00f067aa0ba902b7',
        })
        assert.isFalse(Object.hasOwn(first!, 'headers'))
        assert.strictEqual(second?.offset, 1)
        assert.strictEqual(second?.traceparent, null)
        assert.isFalse(Object.hasOwn(second!, 'headers'))
        assert.isFalse(Object.hasOwn(second!, 'tracestate'))
      }))

    test('deliver the headers of a dead letter', () =>
      Effect.gen(function* () {
        const { log, topic, group } = yield* setup
        const headers = { dead_letter_reason: 'truncated', source_topic: 'a topic', source_offset: '7' }
        yield* log.append([{ ...record(topic, 'k', 'letter', 0), headers }])
        const handler = recordingHandler()
        yield* joinWith(handler, { group, topics: [topic] })
        yield* handler.until(() => handler.records.length === 1)
        assert.deepStrictEqual(handler.records[0]?.headers, headers)
      }))

    test('continue at the position of a seek', () =>
      Effect.gen(function* () {
        const { log, topic, group } = yield* setup
        yield* log.append(Array.from({ length: 10 }, (_, i) => record(topic, 'k', String(i), 0)))
        const handler = recordingHandler()
        yield* joinWith(
          handler,
          { group, topics: [topic] },
          {
            onAssigned: (_, control) => control.seek({ topic, partition: 0, offset: 7 }),
          },
        )
        yield* handler.until(() => handler.records.length === 3)
        assert.deepStrictEqual(handler.values(), ['7', '8', '9'])
        handler.control().seek({ topic, partition: 0, offset: 8 })
        yield* handler.until(() => handler.records.length === 5)
        assert.deepStrictEqual(handler.values(), ['7', '8', '9', '8', '9'])
        const ranges = yield* handler.control().offsetRanges(topic)
        assert.deepStrictEqual(ranges[0], { partition: 0, low: 0, high: 10 })
        assert.strictEqual(ranges.length, CONTRACT_PARTITIONS)
        const ends = yield* handler.control().ends(topic)
        assert.strictEqual(ends.get(0), 10)
      }))

    test('apply a seek that is made while a batch is handled', () =>
      Effect.gen(function* () {
        const { log, topic, group } = yield* setup
        yield* log.append(Array.from({ length: 4 }, (_, i) => record(topic, 'k', String(i), 0)))
        const handler = recordingHandler()
        let hasSought = false
        yield* joinWith(
          handler,
          { group, topics: [topic] },
          {
            onBatch: (_topic, _partition, records) =>
              Effect.sync(() => {
                if (!hasSought) {
                  hasSought = true
                  handler.control().seek({ topic, partition: 0, offset: 1 })
                }
                handler.received(records)
              }),
          },
        )
        yield* handler.until(() => handler.records.length >= 7)
        assert.deepStrictEqual(handler.values(), ['0', '1', '2', '3', '1', '2', '3'])
      }))

    test('deliver nothing of a paused partition, and deliver the others', () =>
      Effect.gen(function* () {
        const { log, topic, group } = yield* setup
        const handler = recordingHandler()
        yield* joinWith(
          handler,
          { group, topics: [topic] },
          {
            onAssigned: (_, control) => control.pause(topic, 0),
          },
        )
        yield* log.append([record(topic, 'k', 'held', 0), record(topic, 'k', 'free', 1)])
        yield* handler.until(() => handler.records.length === 1)
        yield* log.append([record(topic, 'k', 'free too', 1)])
        yield* handler.until(() => handler.records.length === 2)
        assert.deepStrictEqual(handler.values(), ['free', 'free too'])
        handler.control().resume(topic, 0)
        yield* handler.until(() => handler.records.length === 3)
        assert.strictEqual(handler.values()[2], 'held')
      }))

    test('deliver a failed batch again, before any later record', () =>
      Effect.gen(function* () {
        const { log, topic, group } = yield* setup
        yield* log.append([record(topic, 'k', '0', 0), record(topic, 'k', '1', 0)])
        const handler = recordingHandler()
        const tried: Array<string> = []
        let failures = 0
        yield* joinWith(
          handler,
          { group, topics: [topic] },
          {
            onBatch: (_topic, _partition, records) =>
              Effect.suspend(() => {
                tried.push(records.map(textOf).join())
                if (failures < 2) {
                  failures++
                  return failures === 1 ? Effect.fail(new HandlerFailed()) : Effect.die(new HandlerFailed())
                }
                return Effect.sync(() => handler.received(records))
              }),
          },
        )
        yield* log.append([record(topic, 'k', '2', 0)])
        yield* handler.until(() => handler.records.length === 3)
        assert.deepStrictEqual(handler.values(), ['0', '1', '2'])
        assert.isTrue(
          tried.every((batch) => batch.startsWith('0') || batch === '2'),
          tried.join(' / '),
        )
      }))

    test('stop before a record of a newer version, and continue with the other partitions', () =>
      Effect.gen(function* () {
        const { log, topic, group } = yield* setup
        const known = Uint8Array.from([0, 0, 0, 0, NEWEST_SCHEMA])
        const newer = Uint8Array.from([0, 0, 0, 0, NEWEST_SCHEMA + 1])
        const unknown = Uint8Array.from([0, 0, 1, 0, 0])
        yield* log.append([
          { ...record(topic, 'k', '', 0), value: known },
          { ...record(topic, 'k', '', 0), value: unknown },
          { ...record(topic, 'k', '', 0), value: newer },
          record(topic, 'k', 'behind it', 0),
        ])
        const handler = recordingHandler()
        yield* joinWith(handler, { group, topics: [topic] })
        yield* handler.until(() => handler.records.length === 2)
        yield* log.append([record(topic, 'k', 'elsewhere', 1)])
        yield* handler.until(() => handler.records.length === 3)
        assert.deepStrictEqual(
          handler.records.map(({ partition, offset }) => [partition, offset]),
          [
            [0, 0],
            [0, 1],
            [1, 0],
          ],
        )
        // A handler can skip the record with a seek.
        handler.control().seek({ topic, partition: 0, offset: 3 })
        yield* handler.until(() => handler.records.length === 4)
        assert.strictEqual(handler.values()[3], 'behind it')
      }))

    test('commit only the offsets of `commit`, and continue there after a restart', () =>
      Effect.gen(function* () {
        const { log, topic, other, group } = yield* setup
        yield* log.append(Array.from({ length: 6 }, (_, i) => record(topic, 'k', String(i), 2)))
        const at = (offset: number): Position => ({ topic, partition: 2, offset })
        const first = recordingHandler()
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* joinWith(first, { group, topics: [topic, other] })
            yield* first.until(() => first.records.length === 6)
            yield* first.control().commit([at(5)])
            // A low-water mark may decrease.
            yield* first.control().commit([at(4)])
            const offsets = yield* first.control().offsets([2, 3])
            const untouched = { committed: -1, low: 0, high: 0 }
            assert.sameDeepMembers(
              [...offsets],
              [
                { topic, partition: 2, committed: 4, low: 0, high: 6 },
                { topic, partition: 3, ...untouched },
                { topic: other, partition: 2, ...untouched },
                { topic: other, partition: 3, ...untouched },
              ],
            )
          }),
        )
        const second = recordingHandler()
        yield* joinWith(second, { group, topics: [topic, other] })
        yield* second.until(() => second.records.length === 2)
        assert.deepStrictEqual(second.values(), ['4', '5'])
      }))

    test('deliver no batch during a revocation, and await the running batch', () =>
      Effect.gen(function* () {
        const { log, topic, group } = yield* setup
        yield* log.append([record(topic, 'k', '0', 0)])
        const handler = recordingHandler()
        const begun = yield* Deferred.make<void>()
        const release = yield* Deferred.make<void>()
        const order: Array<string> = []
        yield* joinWith(
          handler,
          { group, topics: [topic] },
          {
            onBatch: (_topic, _partition, records) =>
              Effect.gen(function* () {
                if (order.length === 0) {
                  order.push('begun')
                  yield* Deferred.succeed(begun, undefined)
                  yield* Deferred.await(release)
                  order.push('ended')
                }
                handler.received(records)
              }),
            onRevoking: Effect.sync(() => {
              order.push('revoking')
              assert.isFalse(handler.control().hasLease())
            }).pipe(Effect.andThen(Deferred.succeed(release, undefined)), Effect.asVoid),
          },
        )
        yield* Deferred.await(begun)
        const another = recordingHandler()
        yield* joinWith(another, { group, topics: [topic] })
        yield* handler.until(() => handler.assignments.length === 2)
        assert.deepStrictEqual(order.slice(0, 3), ['begun', 'revoking', 'ended'])
      }))

    test('assign each shard to one member, for all topics, and retain the shards that stay', () =>
      Effect.gen(function* () {
        const { log, topic, other, group } = yield* setup
        const a = recordingHandler()
        const b = recordingHandler()
        yield* joinWith(a, { group, topics: [topic, other] })
        const alone = a.assignments.at(-1)!
        assert.strictEqual(alone.retained.size, 0)
        const leave = yield* Scope.make()
        yield* joinWith(b, { group, topics: [topic, other] }).pipe(Effect.provideService(Scope.Scope, leave))
        yield* a.until(() => a.assignments.length === 2)
        const [mine, theirs] = [a.assignments.at(-1)!, b.assignments.at(-1)!]
        assert.sameMembers([...mine.shards, ...theirs.shards], [0, 1, 2, 3, 4, 5])
        assert.strictEqual(mine.shards.length, 3)
        assert.strictEqual(mine.generation, theirs.generation)
        assert.sameMembers([...mine.retained], [...mine.shards])
        assert.strictEqual(theirs.retained.size, 0)
        assert.isTrue(mine.shards.every((shard) => a.control().owns(shard) && !b.control().owns(shard)))
        assert.isTrue(a.control().hasLease() && b.control().hasLease())
        // A seek or a commit for a shard of another member is ignored.
        const foreign = theirs.shards[0]!
        a.control().seek({ topic, partition: foreign, offset: 100 })
        yield* a.control().commit([{ topic, partition: foreign, offset: 100 }])
        yield* log.append(
          [0, 1, 2, 3, 4, 5].flatMap((p) => [record(topic, 'k', `t${p}`, p), record(other, 'k', `o${p}`, p)]),
        )
        yield* Effect.all([a.until(() => a.records.length === 6), b.until(() => b.records.length === 6)])
        const valuesOf = (shards: ReadonlyArray<number>) => shards.flatMap((p) => [`t${p}`, `o${p}`])
        assert.sameMembers(a.values(), valuesOf(mine.shards))
        assert.sameMembers(b.values(), valuesOf(theirs.shards))
        yield* Scope.close(leave, Exit.void)
        yield* a.until(() => a.assignments.length === 3)
        const after = a.assignments.at(-1)!
        assert.deepStrictEqual(after.shards, [0, 1, 2, 3, 4, 5])
        assert.sameMembers([...after.retained], [...mine.shards])
        // Retained shards keep their position. The others start at the committed offset, here the
        // beginning.
        yield* a.until(() => a.records.length === 12)
        assert.sameMembers(a.values().slice(6), valuesOf(theirs.shards))
      }))

    test('put a new member on standby, where it reads one topic ahead until it takes over', () =>
      Effect.gen(function* () {
        const { log, topic, other, group } = yield* setup
        const options = { group, topics: [topic, other], standbyTopic: topic }
        const both = (name: string) =>
          log.append(
            [0, 5].flatMap((p) => [
              record(topic, 'k', `t${p}${name}`, p),
              record(other, 'k', `o${p}${name}`, p),
            ]),
          )
        const a = recordingHandler()
        const b = recordingHandler()
        yield* joinWith(a, options)
        assert.deepStrictEqual(a.assignments[0]?.shards, [0, 1, 2, 3, 4, 5])
        assert.deepStrictEqual(a.assignments[0]?.standby, [])
        yield* both('')
        yield* a.until(() => a.records.length === 4)

        yield* joinWith(b, options)
        yield* a.until(() => a.assignments.length === 2)
        assert.deepInclude(b.assignments[0], { shards: [], standby: [3, 4, 5], retained: new Set<number>() })
        const meanwhile = a.assignments.at(-1)!
        assert.deepStrictEqual(meanwhile.shards, [0, 1, 2, 3, 4, 5])
        assert.sameMembers([...meanwhile.retained], [0, 1, 2, 3, 4, 5])
        // Both members read the topic. The member on standby owns nothing and commits nothing.
        yield* both('!')
        yield* Effect.all([a.until(() => a.records.length === 8), b.until(() => b.records.length === 2)])
        assert.deepStrictEqual(b.values(), ['t5', 't5!'])
        assert.isFalse(b.control().owns(5))
        yield* b.control().commit([{ topic, partition: 5, offset: 1 }])

        b.control().takeOver()
        yield* Effect.all([
          a.until(() => a.assignments.length === 3),
          b.until(() => b.assignments.length === 2),
        ])
        const [mine, theirs] = [a.assignments.at(-1)!, b.assignments.at(-1)!]
        assert.deepInclude(mine, { shards: [0, 1, 2], standby: [] })
        assert.deepInclude(theirs, { shards: [3, 4, 5], standby: [] })
        assert.sameMembers([...theirs.retained], [3, 4, 5])
        assert.isTrue(b.control().owns(5) && !a.control().owns(5))
        const offsets = yield* b.control().offsets([5])
        assert.deepStrictEqual(
          offsets.map(({ committed }) => committed),
          [-1, -1],
        )
        // The topic that was read ahead is not read again. The other topic starts at its committed
        // offset.
        yield* both('?')
        yield* b.until(() => b.records.length === 6)
        assert.sameMembers(b.values(), ['t5', 't5!', 't5?', 'o5', 'o5!', 'o5?'])
        yield* a.until(() => a.records.length === 10)
        assert.sameMembers(a.values().slice(8), ['t0?', 'o0?'])
      }))

    test('assign all shards to a new member when the others have left', () =>
      Effect.gen(function* () {
        const { log, topic, other, group } = yield* setup
        const options = { group, topics: [topic, other], standbyTopic: topic }
        yield* log.append([record(topic, 'k', 't', 5), record(other, 'k', 'o', 5)])
        const a = recordingHandler()
        const b = recordingHandler()
        const leave = yield* Scope.make()
        yield* joinWith(a, options).pipe(Effect.provideService(Scope.Scope, leave))
        yield* joinWith(b, options)
        yield* b.until(() => b.records.length === 1)
        yield* Scope.close(leave, Exit.void)
        yield* b.until(() => b.records.length === 2)
        const after = b.assignments.at(-1)!
        assert.deepInclude(after, { shards: [0, 1, 2, 3, 4, 5], standby: [] })
        assert.sameMembers([...after.retained], [3, 4, 5])
        assert.deepStrictEqual(b.values(), ['t', 'o'])
        // A member that owns shards is not new, so it has nothing to take over.
        b.control().takeOver()
        const c = recordingHandler()
        yield* joinWith(c, options)
        yield* b.until(() => b.assignments.at(-1)!.generation === c.assignments[0]!.generation)
        assert.deepInclude(b.assignments.at(-1), { shards: [0, 1, 2, 3, 4, 5], standby: [] })
        assert.deepInclude(c.assignments[0], { shards: [], standby: [3, 4, 5] })
      }))

    test('leave the group when the scope closes, even with a running batch', () =>
      Effect.gen(function* () {
        const { log, topic, group } = yield* setup
        yield* log.append([record(topic, 'k', '0', 0)])
        const first = recordingHandler()
        const begun = yield* Deferred.make<void>()
        const release = yield* Deferred.make<void>()
        const scope = yield* Scope.make()
        yield* joinWith(
          first,
          { group, topics: [topic] },
          {
            onBatch: () => Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(release)),
            onRevoking: Effect.asVoid(Deferred.succeed(release, undefined)),
          },
        ).pipe(Effect.provideService(Scope.Scope, scope))
        yield* Deferred.await(begun)
        yield* Scope.close(scope, Exit.void)
        assert.isFalse(first.control().owns(0))
        assert.isFalse(first.control().hasLease())
        const second = recordingHandler()
        const joining = yield* Effect.forkScoped(joinWith(second, { group, topics: [topic] }))
        yield* second.until(() => second.records.length === 1)
        yield* Fiber.join(joining)
        assert.deepStrictEqual(second.values(), ['0'])
      }))
  })
  describe(`${name}: a whole topic`, () => {
    test('is read from its beginning to its end, each time it is asked for', () =>
      Effect.gen(function* () {
        const { log, topic, other } = yield* setup
        const reader = yield* TopicReader
        assert.deepStrictEqual(yield* reader.readAll(topic), [])
        const written = Array.from({ length: 300 }, (_, i) => record(topic, `k${i}`, `value ${i}`, i % 2))
        yield* log.append([...written, record(other, 'k', 'of another topic', 0)])
        const records = yield* reader.readAll(topic)
        assert.deepStrictEqual(
          records.filter(({ partition }) => partition === 1).map(({ key, offset }) => [key, offset]),
          Array.from({ length: 150 }, (_, i) => [`k${2 * i + 1}`, i]),
        )
        assert.sameMembers(
          records.map(textOf),
          written.map(({ value }) => new TextDecoder().decode(value)),
        )
        assert.deepInclude(records[0], { topic, type: 'TestRecord', occurredAt: 1_795_000_000_000 })
        // An acknowledged record is visible to the next read.
        for (let i = 0; i < 20; i++) {
          yield* log.append([record(topic, 'k', `later ${i}`, 5)])
          assert.include((yield* reader.readAll(topic)).map(textOf), `later ${i}`)
        }
      }))

    test('is read for one key and a period', () =>
      Effect.gen(function* () {
        const { log, topic } = yield* setup
        const reader = yield* TopicReader
        const query = { topic, partition: 1, key: 'wanted', from: 0, to: Number.MAX_SAFE_INTEGER }
        assert.deepStrictEqual(yield* reader.readKey(query), [])
        const written = Array.from({ length: 300 }, (_, i) =>
          record(topic, i % 3 === 0 ? 'wanted' : 'other', `value ${i}`, i % 2),
        )
        yield* log.append(written)
        const records = yield* reader.readKey(query)
        assert.deepStrictEqual(
          records.map(textOf),
          Array.from({ length: 50 }, (_, i) => `value ${6 * i + 3}`),
        )
        const last = records.at(-1)!.appendedAt
        assert.deepStrictEqual(yield* reader.readKey({ ...query, from: last + 1 }), [])
        assert.deepStrictEqual(yield* reader.readKey({ ...query, to: records[0]!.appendedAt }), [])
      }))

    test('is read for a period in all partitions', () =>
      Effect.gen(function* () {
        const { log, topic } = yield* setup
        const reader = yield* TopicReader
        const period = { topic, from: 0, to: Number.MAX_SAFE_INTEGER }
        const all = { ...period, wanted: () => true }
        assert.deepStrictEqual(yield* reader.readPeriod(all), [])
        const written = Array.from({ length: 20 }, (_, i) => record(topic, `k${i}`, `value ${i}`, i % 2))
        yield* log.append(written)
        const found = yield* reader.readPeriod({ ...period, wanted: ({ key }) => ['k3', 'k8'].includes(key) })
        assert.sameMembers(found.map(textOf), ['value 3', 'value 8'])
        const records = yield* reader.readPeriod(all)
        assert.lengthOf(records, 20)
        const times = records.map(({ appendedAt }) => appendedAt)
        assert.deepStrictEqual(yield* reader.readPeriod({ ...all, from: Math.max(...times) + 1 }), [])
        assert.deepStrictEqual(yield* reader.readPeriod({ ...all, to: Math.min(...times) }), [])
      }))

    test('cannot be read without Kafka or while it hangs, and can be read afterwards', () =>
      Effect.gen(function* () {
        const { kafka, log, topic } = yield* setup
        const reader = yield* TopicReader
        yield* log.append([record(topic, 'k', 'x', 0)])
        yield* reader.readAll(topic)
        for (const state of ['refusing', 'hanging'] as const) {
          yield* kafka.set(state)
          assert.isTrue(Exit.isFailure(yield* Effect.exit(reader.readAll(topic))), state)
          yield* kafka.set('up')
          assert.lengthOf(yield* Effect.retry(reader.readAll(topic), { times: 3 }), 1)
        }
      }))
  })
}
