/**
 * What every adapter of the port does. Run by `memory.unit.test.ts` and `kafkajs.int.test.ts`; a new adapter joins by
 * giving the services and a `TestBus`.
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
} from './port.ts'
import type { BrokerState } from './testing/memory.ts'

/** The partitions that the suite expects every topic to have. */
export const CONTRACT_PARTITIONS = 6

/** What the suite needs of a bus beside the port. */
export class TestBus extends Context.Service<
  TestBus,
  {
    /** Fresh topics with `CONTRACT_PARTITIONS` partitions, gone with the scope. */
    readonly topics: (count: number) => Effect.Effect<ReadonlyArray<string>, never, Scope.Scope>
    /** A group id that nobody else uses. */
    readonly group: Effect.Effect<string>
    /** How Kafka behaves towards `append` from here on. */
    readonly set: (state: BrokerState) => Effect.Effect<void>
  }
>()('@hub/kafka/TestBus') {}

class HandlerBroke extends Data.TaggedError('HandlerBroke')<{}> {}

const bytes = (word: string) => new TextEncoder().encode(word)
const word = (record: IncomingRecord) => new TextDecoder().decode(record.value)

let ids = 0
const record = (topic: string, key: string, value: string, partition?: number): OutgoingRecord => ({
  topic,
  key,
  type: 'Told',
  id: `id-${ids++}`,
  occurredAt: 1_795_000_000_000,
  value: bytes(value),
  ...(partition === undefined ? {} : { partition }),
})

/** Notes what arrives and lets tests await it. */
const listener = () => {
  const seen: Array<IncomingRecord> = []
  const assignments: Array<Assignment> = []
  const watchers = new Set<() => void>()
  const changed = () => watchers.forEach((check) => check())
  let control: GroupControl | undefined
  return {
    seen,
    assignments,
    words: () => seen.map(word),
    control: () => control!,
    took: (records: ReadonlyArray<IncomingRecord>) => {
      seen.push(...records)
      changed()
    },
    assigned: (assignment: Assignment, granted: GroupControl) => {
      control = granted
      assignments.push(assignment)
      changed()
    },
    changed,
    /** Ends when the condition holds; conditions are looked at whenever something arrives. */
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
  heard: ReturnType<typeof listener>,
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
        heard.assigned(assignment, control)
      },
      onRevoking: extra.onRevoking ?? Effect.void,
      onBatch: extra.onBatch ?? ((_topic, _partition, records) => Effect.sync(() => heard.took(records))),
    }),
  )

const failureOf = <A, E>(exit: Exit.Exit<A, E>): unknown =>
  Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined

const reasonOf = <A, E>(exit: Exit.Exit<A, E>) => {
  const failure = failureOf(exit)
  return failure instanceof KafkaUnavailable ? failure.reason : `no KafkaUnavailable: ${String(failure)}`
}

/** The suite. `adapter` gives a bus of its own to every test file. */
export const portContract = (
  name: string,
  adapter: Layer.Layer<EventLog | ConsumerGroups | TestBus>,
): void => {
  /** A live test: real adapters have real clocks. */
  const test = (
    title: string,
    body: () => Effect.Effect<void, unknown, EventLog | ConsumerGroups | TestBus | Scope.Scope>,
  ) => it.live(title, () => body().pipe(Effect.scoped, Effect.provide(adapter)))

  const fresh = Effect.gen(function* () {
    const bus = yield* TestBus
    const log = yield* EventLog
    const [topic, other] = (yield* bus.topics(2)) as [string, string]
    const group = yield* bus.group
    return { bus, log, topic, other, group }
  })

  describe(`${name}: append`, () => {
    test('answers where every record landed, in the order given', () =>
      Effect.gen(function* () {
        const { log, topic, other } = yield* fresh
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

    test('puts a key where the Java client puts it', () =>
      Effect.gen(function* () {
        const { log, topic } = yield* fresh
        // murmur2 of Kafka's own test, positive, modulo six.
        const hashes: Record<string, number> = { '21': -973932308, foobar: -790332482, abc: 479470107 }
        for (const [key, hash] of Object.entries(hashes)) {
          const wanted = (hash & 0x7fffffff) % CONTRACT_PARTITIONS
          assert.strictEqual(log.partitionOf(key), wanted)
          const [position] = yield* log.append([record(topic, key, key)])
          assert.strictEqual(position?.partition, wanted)
        }
      }))

    test('keeps the order of calls, and gives each its own positions', () =>
      Effect.gen(function* () {
        const { log, topic, group } = yield* fresh
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
        const heard = listener()
        yield* joinWith(heard, { group, topics: [topic] })
        yield* heard.until(() => heard.seen.filter(({ partition }) => partition === 2).length === 300)
        assert.deepStrictEqual(
          heard.seen.filter(({ partition }) => partition === 2).map(word),
          calls.map((_, i) => `${i}b`),
        )
      }))

    test('fails for its own caller only, with what was wrong with the call', () =>
      Effect.gen(function* () {
        const { log, topic } = yield* fresh
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

    test('is refused while Kafka is away, times out while it hangs, and works again after', () =>
      Effect.gen(function* () {
        const { bus, log, topic } = yield* fresh
        const attempt = (deadlineMs: number) =>
          Effect.exit(log.append([record(topic, 'k', 'x', 0)], { deadlineMs }))
        assert.isTrue(Exit.isSuccess(yield* attempt(1000)))
        yield* bus.set('refusing')
        assert.strictEqual(reasonOf(yield* attempt(1000)), 'refused')
        yield* bus.set('up')
        assert.isTrue(Exit.isSuccess(yield* attempt(1000)))
        yield* bus.set('hanging')
        const [short, long] = yield* Effect.all([attempt(150), attempt(400)], { concurrency: 'unbounded' })
        assert.strictEqual(reasonOf(short), 'timeout')
        assert.strictEqual(reasonOf(long), 'timeout')
        // One that comes later waits for nobody before it.
        assert.strictEqual(reasonOf(yield* attempt(100)), 'timeout')
        yield* bus.set('up')
        assert.isTrue(Exit.isSuccess(yield* attempt(1000)))
      }))
  })

  describe(`${name}: groups`, () => {
    test('read every record from the beginning, whole and in order', () =>
      Effect.gen(function* () {
        const { log, topic, group } = yield* fresh
        const sent: OutgoingRecord = {
          ...record(topic, 'ключ', 'текст', 3),
          traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
        }
        yield* log.append([sent, record(topic, 'k', 'second', 3)])
        const heard = listener()
        const { isHealthy } = yield* joinWith(heard, { group, topics: [topic] })
        assert.isTrue(yield* isHealthy)
        assert.deepStrictEqual(heard.assignments[0]?.shards, [0, 1, 2, 3, 4, 5])
        yield* heard.until(() => heard.seen.length === 2)
        const [first, second] = heard.seen
        assert.strictEqual(word(first!), 'текст')
        assert.deepInclude(first, {
          topic,
          partition: 3,
          offset: 0,
          key: 'ключ',
          type: 'Told',
          id: sent.id,
          occurredAt: sent.occurredAt,
          traceparent: sent.traceparent!,
        })
        assert.strictEqual(second?.offset, 1)
        assert.strictEqual(second?.traceparent, null)
        assert.isFalse(Object.hasOwn(second!, 'headers'))
      }))

    test('read the further headers of a dead letter', () =>
      Effect.gen(function* () {
        const { log, topic, group } = yield* fresh
        const headers = { dead_letter_reason: 'truncated', source_topic: 'a topic', source_offset: '7' }
        yield* log.append([{ ...record(topic, 'k', 'letter', 0), headers }])
        const heard = listener()
        yield* joinWith(heard, { group, topics: [topic] })
        yield* heard.until(() => heard.seen.length === 1)
        assert.deepStrictEqual(heard.seen[0]?.headers, headers)
      }))

    test('read on from where they are told to', () =>
      Effect.gen(function* () {
        const { log, topic, group } = yield* fresh
        yield* log.append(Array.from({ length: 10 }, (_, i) => record(topic, 'k', String(i), 0)))
        const heard = listener()
        yield* joinWith(
          heard,
          { group, topics: [topic] },
          {
            onAssigned: (_, control) => control.seek({ topic, partition: 0, offset: 7 }),
          },
        )
        yield* heard.until(() => heard.seen.length === 3)
        assert.deepStrictEqual(heard.words(), ['7', '8', '9'])
        heard.control().seek({ topic, partition: 0, offset: 8 })
        yield* heard.until(() => heard.seen.length === 5)
        assert.deepStrictEqual(heard.words(), ['7', '8', '9', '8', '9'])
        const bounds = yield* heard.control().offsetRanges(topic)
        assert.deepStrictEqual(bounds[0], { partition: 0, low: 0, high: 10 })
        assert.strictEqual(bounds.length, CONTRACT_PARTITIONS)
      }))

    test('obey a seek made while a batch is handled', () =>
      Effect.gen(function* () {
        const { log, topic, group } = yield* fresh
        yield* log.append(Array.from({ length: 4 }, (_, i) => record(topic, 'k', String(i), 0)))
        const heard = listener()
        let sought = false
        yield* joinWith(
          heard,
          { group, topics: [topic] },
          {
            onBatch: (_topic, _partition, records) =>
              Effect.sync(() => {
                if (!sought) {
                  sought = true
                  heard.control().seek({ topic, partition: 0, offset: 1 })
                }
                heard.took(records)
              }),
          },
        )
        yield* heard.until(() => heard.seen.length >= 7)
        assert.deepStrictEqual(heard.words(), ['0', '1', '2', '3', '1', '2', '3'])
      }))

    test('leave a paused partition alone and read the others', () =>
      Effect.gen(function* () {
        const { log, topic, group } = yield* fresh
        const heard = listener()
        yield* joinWith(
          heard,
          { group, topics: [topic] },
          {
            onAssigned: (_, control) => control.pause(topic, 0),
          },
        )
        yield* log.append([record(topic, 'k', 'held', 0), record(topic, 'k', 'free', 1)])
        yield* heard.until(() => heard.seen.length === 1)
        yield* log.append([record(topic, 'k', 'free too', 1)])
        yield* heard.until(() => heard.seen.length === 2)
        assert.deepStrictEqual(heard.words(), ['free', 'free too'])
        heard.control().resume(topic, 0)
        yield* heard.until(() => heard.seen.length === 3)
        assert.strictEqual(heard.words()[2], 'held')
      }))

    test('bring a batch again when the handler fails, before anything behind it', () =>
      Effect.gen(function* () {
        const { log, topic, group } = yield* fresh
        yield* log.append([record(topic, 'k', '0', 0), record(topic, 'k', '1', 0)])
        const heard = listener()
        const tried: Array<string> = []
        let failures = 0
        yield* joinWith(
          heard,
          { group, topics: [topic] },
          {
            onBatch: (_topic, _partition, records) =>
              Effect.suspend(() => {
                tried.push(records.map(word).join())
                if (failures < 2) {
                  failures++
                  return failures === 1 ? Effect.fail(new HandlerBroke()) : Effect.die(new HandlerBroke())
                }
                return Effect.sync(() => heard.took(records))
              }),
          },
        )
        yield* log.append([record(topic, 'k', '2', 0)])
        yield* heard.until(() => heard.seen.length === 3)
        assert.deepStrictEqual(heard.words(), ['0', '1', '2'])
        assert.isTrue(
          tried.every((batch) => batch.startsWith('0') || batch === '2'),
          tried.join(' / '),
        )
      }))

    test('go no further than a record of a newer version, and read the other partitions on', () =>
      Effect.gen(function* () {
        const { log, topic, group } = yield* fresh
        const known = Uint8Array.from([0, 0, 0, 0, NEWEST_SCHEMA])
        const newer = Uint8Array.from([0, 0, 0, 0, NEWEST_SCHEMA + 1])
        const nobodys = Uint8Array.from([0, 0, 1, 0, 0])
        yield* log.append([
          { ...record(topic, 'k', '', 0), value: known },
          { ...record(topic, 'k', '', 0), value: nobodys },
          { ...record(topic, 'k', '', 0), value: newer },
          record(topic, 'k', 'behind it', 0),
        ])
        const heard = listener()
        yield* joinWith(heard, { group, topics: [topic] })
        yield* heard.until(() => heard.seen.length === 2)
        yield* log.append([record(topic, 'k', 'elsewhere', 1)])
        yield* heard.until(() => heard.seen.length === 3)
        assert.deepStrictEqual(
          heard.seen.map(({ partition, offset }) => [partition, offset]),
          [
            [0, 0],
            [0, 1],
            [1, 0],
          ],
        )
        // Whoever knows that it can be passed may pass it.
        heard.control().seek({ topic, partition: 0, offset: 3 })
        yield* heard.until(() => heard.seen.length === 4)
        assert.strictEqual(heard.words()[3], 'behind it')
      }))

    test('commit only what they are told to, and go on there after a restart', () =>
      Effect.gen(function* () {
        const { log, topic, other, group } = yield* fresh
        yield* log.append(Array.from({ length: 6 }, (_, i) => record(topic, 'k', String(i), 2)))
        const place = (offset: number): Position => ({ topic, partition: 2, offset })
        const first = listener()
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* joinWith(first, { group, topics: [topic, other] })
            yield* first.until(() => first.seen.length === 6)
            yield* first.control().commit([place(5)])
            // A low-water mark may go back.
            yield* first.control().commit([place(4)])
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
        const second = listener()
        yield* joinWith(second, { group, topics: [topic, other] })
        yield* second.until(() => second.seen.length === 2)
        assert.deepStrictEqual(second.words(), ['4', '5'])
      }))

    test('never deliver while revoking, and wait for what is in flight', () =>
      Effect.gen(function* () {
        const { log, topic, group } = yield* fresh
        yield* log.append([record(topic, 'k', '0', 0)])
        const heard = listener()
        const begun = yield* Deferred.make<void>()
        const release = yield* Deferred.make<void>()
        const order: Array<string> = []
        yield* joinWith(
          heard,
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
                heard.took(records)
              }),
            onRevoking: Effect.sync(() => {
              order.push('revoking')
              assert.isFalse(heard.control().hasLease())
            }).pipe(Effect.andThen(Deferred.succeed(release, undefined)), Effect.asVoid),
          },
        )
        yield* Deferred.await(begun)
        const another = listener()
        yield* joinWith(another, { group, topics: [topic] })
        yield* heard.until(() => heard.assignments.length === 2)
        assert.deepStrictEqual(order.slice(0, 3), ['begun', 'revoking', 'ended'])
      }))

    test('share shards: the same of every topic, each once, and what stays is kept', () =>
      Effect.gen(function* () {
        const { log, topic, other, group } = yield* fresh
        const a = listener()
        const b = listener()
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
        // A seek or a commit of what is not owned does nothing.
        const foreign = theirs.shards[0]!
        a.control().seek({ topic, partition: foreign, offset: 100 })
        yield* a.control().commit([{ topic, partition: foreign, offset: 100 }])
        yield* log.append(
          [0, 1, 2, 3, 4, 5].flatMap((p) => [record(topic, 'k', `t${p}`, p), record(other, 'k', `o${p}`, p)]),
        )
        yield* Effect.all([a.until(() => a.seen.length === 6), b.until(() => b.seen.length === 6)])
        const words = (shards: ReadonlyArray<number>) => shards.flatMap((p) => [`t${p}`, `o${p}`])
        assert.sameMembers(a.words(), words(mine.shards))
        assert.sameMembers(b.words(), words(theirs.shards))
        yield* Scope.close(leave, Exit.void)
        yield* a.until(() => a.assignments.length === 3)
        const after = a.assignments.at(-1)!
        assert.deepStrictEqual(after.shards, [0, 1, 2, 3, 4, 5])
        assert.sameMembers([...after.retained], [...mine.shards])
        // Kept shards go on where they were; the others come from the committed offset, here the beginning.
        yield* a.until(() => a.seen.length === 12)
        assert.sameMembers(a.words().slice(6), words(theirs.shards))
      }))

    test('put a newcomer on standby, where it reads ahead of one topic until it takes over', () =>
      Effect.gen(function* () {
        const { log, topic, other, group } = yield* fresh
        const options = { group, topics: [topic, other], standbyTopic: topic }
        const both = (name: string) =>
          log.append(
            [0, 5].flatMap((p) => [
              record(topic, 'k', `t${p}${name}`, p),
              record(other, 'k', `o${p}${name}`, p),
            ]),
          )
        const a = listener()
        const b = listener()
        yield* joinWith(a, options)
        assert.deepStrictEqual(a.assignments[0]?.shards, [0, 1, 2, 3, 4, 5])
        assert.deepStrictEqual(a.assignments[0]?.standby, [])
        yield* both('')
        yield* a.until(() => a.seen.length === 4)

        yield* joinWith(b, options)
        yield* a.until(() => a.assignments.length === 2)
        assert.deepInclude(b.assignments[0], { shards: [], standby: [3, 4, 5], retained: new Set<number>() })
        const meanwhile = a.assignments.at(-1)!
        assert.deepStrictEqual(meanwhile.shards, [0, 1, 2, 3, 4, 5])
        assert.sameMembers([...meanwhile.retained], [0, 1, 2, 3, 4, 5])
        // Both read, each once; who is on standby owns nothing and stores nothing.
        yield* both('!')
        yield* Effect.all([a.until(() => a.seen.length === 8), b.until(() => b.seen.length === 2)])
        assert.deepStrictEqual(b.words(), ['t5', 't5!'])
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
        // What was read ahead is not read again; the other topic is, from its mark.
        yield* both('?')
        yield* b.until(() => b.seen.length === 6)
        assert.sameMembers(b.words(), ['t5', 't5!', 't5?', 'o5', 'o5!', 'o5?'])
        yield* a.until(() => a.seen.length === 10)
        assert.sameMembers(a.words().slice(8), ['t0?', 'o0?'])
      }))

    test('give a newcomer everything when the others are gone', () =>
      Effect.gen(function* () {
        const { log, topic, other, group } = yield* fresh
        const options = { group, topics: [topic, other], standbyTopic: topic }
        yield* log.append([record(topic, 'k', 't', 5), record(other, 'k', 'o', 5)])
        const a = listener()
        const b = listener()
        const leave = yield* Scope.make()
        yield* joinWith(a, options).pipe(Effect.provideService(Scope.Scope, leave))
        yield* joinWith(b, options)
        yield* b.until(() => b.seen.length === 1)
        yield* Scope.close(leave, Exit.void)
        yield* b.until(() => b.seen.length === 2)
        const after = b.assignments.at(-1)!
        assert.deepInclude(after, { shards: [0, 1, 2, 3, 4, 5], standby: [] })
        assert.sameMembers([...after.retained], [3, 4, 5])
        assert.deepStrictEqual(b.words(), ['t', 'o'])
        // Nothing is left to take over, and whoever owns something is no newcomer.
        b.control().takeOver()
        const c = listener()
        yield* joinWith(c, options)
        yield* b.until(() => b.assignments.at(-1)!.generation === c.assignments[0]!.generation)
        assert.deepInclude(b.assignments.at(-1), { shards: [0, 1, 2, 3, 4, 5], standby: [] })
        assert.deepInclude(c.assignments[0], { shards: [], standby: [3, 4, 5] })
      }))

    test('leave when the scope closes, though a batch is still being handled', () =>
      Effect.gen(function* () {
        const { log, topic, group } = yield* fresh
        yield* log.append([record(topic, 'k', '0', 0)])
        const first = listener()
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
        const second = listener()
        const joining = yield* Effect.forkScoped(joinWith(second, { group, topics: [topic] }))
        yield* second.until(() => second.seen.length === 1)
        yield* Fiber.join(joining)
        assert.deepStrictEqual(second.words(), ['0'])
      }))
  })
}
