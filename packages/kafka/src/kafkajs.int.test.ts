import { assert, describe, it } from '@effect/vitest'
import { Cause, Deferred, Duration, Effect, Exit, Fiber, Layer, Metric, Schedule, Scope } from 'effect'
import { randomUUID } from 'node:crypto'
import { createRequire } from 'node:module'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import kafkajs, { type Admin } from 'kafkajs'
import { brokerProxy, type BrokerProxy } from './testing/broker-proxy.testing.ts'
import type { KafkaConnection } from './connection/client.ts'
import { layerConsumerGroups } from './consumer/consumer-groups.ts'
import { layerTopicReader } from './log/topic-reader.ts'
import { layerEventLog } from './log/event-log.ts'
import { LEAVE_WITHIN_MS, leavePreviousMember, type Membership } from './consumer/leave-at-start.ts'
import { CONTRACT_PARTITIONS, portContract, TestKafka } from './port.contract.ts'
import {
  type KafkaUnavailable,
  ConsumerGroups,
  EventLog,
  type Assignment,
  type GroupControl,
  type IncomingRecord,
} from './port.ts'
import { topicCatalogue } from './topics/catalogue.ts'
import { createTopics } from './topics/create.ts'

const address = process.env['HUB_TEST_KAFKA']
if (address === undefined) {
  throw new Error('Set HUB_TEST_KAFKA to a Kafka broker (host:port). `npm test` starts one and sets it.')
}
/** The limit of an append. A busy machine can need longer than the product waits. */
const ANSWERED_WITHIN_MS = 60_000
const direct: KafkaConnection = { brokers: address.split(','), clientId: 'kafka-int-test' }

const admin = Effect.acquireRelease(
  Effect.promise(async () => {
    const client = new kafkajs.Kafka({
      ...direct,
      brokers: [...direct.brokers],
      logLevel: kafkajs.logLevel.NOTHING,
    }).admin()
    await client.connect()
    return client
  }),
  (client) => Effect.promise(() => client.disconnect()),
)

const freshTopics = (client: Admin, count: number) =>
  Effect.acquireRelease(
    createTopics(
      direct,
      Array.from({ length: count }, () => ({
        topic: `kafka-int-${randomUUID()}`,
        partitions: CONTRACT_PARTITIONS,
        replicationFactor: 1,
        config: {},
      })),
    ).pipe(
      Effect.map(({ created }) => created),
      Effect.orDie,
    ),
    (topics) => Effect.promise(() => client.deleteTopics({ topics: [...topics] })),
  )

const freshGroup = Effect.sync(() => `kafka-int-${randomUUID()}`)

/** The shared broker, behind a proxy that only the clients of the test use. */
const adapter = Layer.unwrap(
  Effect.gen(function* () {
    const proxy = yield* brokerProxy
    const client = yield* admin
    const connection = { ...direct, socketFactory: proxy.socketFactory }
    return Layer.mergeAll(
      layerEventLog({ connection, partitions: CONTRACT_PARTITIONS }),
      layerConsumerGroups({ connection }),
      layerTopicReader({ connection, deadlineMs: 1000 }),
      Layer.succeed(TestKafka, {
        topics: (count: number) => freshTopics(client, count),
        group: freshGroup,
        set: (state) => Effect.sync(() => proxy.set(state)),
      }),
    )
  }),
)

portContract('kafkajs', adapter)

// ---- behaviour that only a real broker has

const through = (proxy: BrokerProxy): KafkaConnection => ({ ...direct, socketFactory: proxy.socketFactory })

const groupsThrough = (proxy: BrokerProxy, watchdog?: { stuckAfterMs: number; lagCheckMs: number }) =>
  Effect.map(
    Layer.build(
      layerConsumerGroups({ connection: through(proxy), ...(watchdog === undefined ? {} : { watchdog }) }),
    ),
    (context) => Effect.provideContext(ConsumerGroups, context),
  ).pipe(Effect.flatten)

const live = <E>(
  title: string,
  body: () => Effect.Effect<void, E, EventLog | Scope.Scope>,
  timeout?: number,
) =>
  it.live(
    title,
    () =>
      body().pipe(
        Effect.scoped,
        Effect.provide(
          layerEventLog({
            connection: direct,
            partitions: CONTRACT_PARTITIONS,
            deadlineMs: ANSWERED_WITHIN_MS,
          }),
        ),
      ),
    timeout,
  )

const recordOf = (topic: string, partition: number, text: string) => ({
  topic,
  key: 'k',
  partition,
  type: 'TestRecord',
  id: randomUUID(),
  occurredAt: 1,
  value: new TextEncoder().encode(text),
})
const textOf = (record: IncomingRecord) => new TextDecoder().decode(record.value)

/** A handler that records what it receives, and lets a test await it. */
const recorder = (hooks: { readonly assigned?: (assignment: Assignment) => void } = {}) => {
  const state = {
    values: [] as Array<string>,
    assignments: [] as Array<Assignment>,
    revoked: 0,
    control: undefined as GroupControl | undefined,
  }
  const watchers = new Set<() => void>()
  const changed = () => watchers.forEach((check) => check())
  return {
    state,
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
    handler: {
      onAssigned: (assignment: Assignment, control: GroupControl) => {
        state.control = control
        state.assignments.push(assignment)
        hooks.assigned?.(assignment)
        changed()
      },
      onRevoking: Effect.sync(() => {
        state.revoked++
        changed()
      }),
      onBatch: (_topic: string, _partition: number, records: ReadonlyArray<IncomingRecord>) =>
        Effect.sync(() => {
          state.values.push(...records.map(textOf))
          changed()
        }),
    },
  }
}

describe('a member whose requests do not reach the broker', () => {
  live(
    'loses its lease before another member owns its shards, and rejoins when its requests arrive again',
    () =>
      Effect.gen(function* () {
        const [topic] = (yield* freshTopics(yield* admin, 1)) as [string]
        const group = yield* freshGroup
        const proxy = yield* brokerProxy
        const zombieGroups = yield* groupsThrough(proxy)
        const otherGroups = yield* groupsThrough(yield* brokerProxy)
        const zombie = recorder()
        const held: Array<boolean> = []
        const other = recorder({
          assigned: ({ shards }) => {
            if (shards.length === CONTRACT_PARTITIONS) held.push(zombie.state.control!.hasLease())
          },
        })
        yield* zombieGroups.join({ group, topics: [topic] }, zombie.handler)
        yield* otherGroups.join({ group, topics: [topic] }, other.handler)
        yield* zombie.until(() => zombie.state.assignments.length === 2)
        assert.isTrue(zombie.state.control!.hasLease())
        proxy.set('hanging')
        yield* other.until(() => held.length > 0)
        assert.deepStrictEqual(held, [false])
        // The member rejects the commit. The broker would accept it.
        const mine = zombie.state.assignments.at(-1)!.shards[0]!
        const stored = yield* Effect.exit(
          zombie.state.control!.commit([{ topic, partition: mine, offset: 5 }]),
        )
        assert.isTrue(Exit.isFailure(stored))
        proxy.set('up')
        yield* zombie.until(() => zombie.state.assignments.length >= 3)
        // It missed a generation, so it retains no shard.
        assert.strictEqual(zombie.state.assignments[2]!.retained.size, 0)
      }),
    60_000,
  )
})

describe('a consumer without answers to its fetches', () => {
  live('is replaced by a consumer that continues', () =>
    Effect.gen(function* () {
      const log = yield* EventLog
      const [topic] = (yield* freshTopics(yield* admin, 1)) as [string]
      const group = yield* freshGroup
      const proxy = yield* brokerProxy
      const groups = yield* groupsThrough(proxy, { stuckAfterMs: 1500, lagCheckMs: 500 })
      const reader = recorder()
      const { isHealthy } = yield* groups.join({ group, topics: [topic] }, reader.handler)
      yield* log.append([recordOf(topic, 0, 'before')])
      yield* reader.until(() => reader.state.values.length === 1)
      yield* reader.state.control!.commit([{ topic, partition: 0, offset: 1 }])
      proxy.set('hanging fetches')
      yield* log.append([recordOf(topic, 0, 'behind')])
      yield* reader.until(() => reader.state.revoked > 0)
      proxy.set('up')
      yield* reader.until(() => reader.state.values.length === 2)
      assert.deepStrictEqual(reader.state.values, ['before', 'behind'])
      assert.isTrue(yield* isHealthy)
    }),
  )
})

const require = createRequire(import.meta.url)

interface Cluster {
  findTopicPartitionMetadata(topic: string): ReadonlyArray<{ partitionId: number; leader: number }>
}

const ClusterClass = require('kafkajs/src/cluster') as { readonly prototype: Cluster }

describe('a partition without a leader in the metadata', () => {
  live('is read by another consumer instance', () =>
    Effect.gen(function* () {
      const log = yield* EventLog
      const [topic] = (yield* freshTopics(yield* admin, 1)) as [string]
      const find = ClusterClass.prototype.findTopicPartitionMetadata
      const affected: Array<Cluster> = []
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          ClusterClass.prototype.findTopicPartitionMetadata = function (this: Cluster, name) {
            const found = find.call(this, name)
            if (name === topic && affected.length === 0) affected.push(this)
            return affected.includes(this) ? found.map((one) => ({ ...one, leader: -1 })) : found
          }
        }),
        () =>
          Effect.sync(() => {
            ClusterClass.prototype.findTopicPartitionMetadata = find
          }),
      )
      const groups = yield* groupsThrough(yield* brokerProxy, { stuckAfterMs: 700, lagCheckMs: 200 })
      const reader = recorder()
      yield* groups.join(
        { group: yield* freshGroup, topics: [topic] },
        {
          ...reader.handler,
          onAssigned: (assignment, control) => {
            control.seek({ topic, partition: 0, offset: 0 })
            reader.handler.onAssigned(assignment, control)
          },
        },
      )
      yield* log.append([recordOf(topic, 0, 'unseen')])
      yield* reader.until(() => reader.state.values.length === 1)
      assert.strictEqual(affected.length, 1)
      assert.isAtLeast(reader.state.assignments.length, 2)
      assert.isAtLeast(reader.state.revoked, 1)
    }),
  )
})

describe('a group that gathers records', () => {
  live('gets the records of a time in few batches', () =>
    Effect.gen(function* () {
      const log = yield* EventLog
      const [topic] = (yield* freshTopics(yield* admin, 1)) as [string]
      const groups = yield* groupsThrough(yield* brokerProxy)
      const reader = recorder()
      let batches = 0
      yield* groups.join(
        { group: yield* freshGroup, topics: [topic], gatherMs: () => 2000 },
        {
          ...reader.handler,
          onBatch: (name, partition, records) => {
            batches++
            return reader.handler.onBatch(name, partition, records)
          },
        },
      )
      yield* log.append([recordOf(topic, 0, '0')])
      yield* reader.until(() => reader.state.values.length === 1)
      for (const text of ['1', '2', '3', '4', '5']) yield* log.append([recordOf(topic, 0, text)])
      yield* reader.until(() => reader.state.values.length === 6)
      assert.deepStrictEqual(reader.state.values, ['0', '1', '2', '3', '4', '5'])
      assert.isAtMost(batches, 3)
    }),
  )
})

describe('hub_consumer_stopped_seconds', () => {
  live('has one value for each partition of each rebalance, once the partition is read again', () =>
    Effect.gen(function* () {
      const client = yield* admin
      const [topic] = (yield* freshTopics(client, 1)) as [string]
      const group = yield* freshGroup
      const stops = Effect.map(Metric.snapshot, (metrics) => {
        const found = metrics.find(
          ({ attributes, id }) => id === 'hub_consumer_stopped_seconds' && attributes?.['topic'] === topic,
        )
        return found?.type === 'Histogram' ? found.state : { count: 0, max: 0 }
      })
      /** A member assigns its partitions first, and reads them then. */
      const untilObserved = (count: number) =>
        Effect.repeat(stops, {
          until: (state) => state.count === count,
          schedule: Schedule.spaced('10 millis'),
        })
      const join = (handler: ReturnType<typeof recorder>['handler']) =>
        Effect.flatMap(Effect.flatMap(brokerProxy, groupsThrough), (groups) =>
          groups.join({ group, topics: [topic] }, handler),
        )
      const first = recorder()
      yield* join(first.handler)
      yield* untilObserved(CONTRACT_PARTITIONS)

      const second = recorder()
      yield* join({
        ...second.handler,
        onAssigned: (assignment, control) => {
          for (const shard of assignment.shards) control.pause(topic, shard)
          second.handler.onAssigned(assignment, control)
        },
      })
      yield* first.until(() => first.state.assignments.length === 2)
      yield* second.until(() => second.state.assignments.length === 1)
      const [kept, moved] = [first, second].map(({ state }) => state.assignments.at(-1)!.shards)
      assert.strictEqual(kept!.length + moved!.length, CONTRACT_PARTITIONS)
      yield* untilObserved(CONTRACT_PARTITIONS + kept!.length)

      // A pause after the partition was read is none of the rebalance.
      first.state.control!.pause(topic, kept![0]!)
      first.state.control!.resume(topic, kept![0]!)
      for (const shard of moved!) second.state.control!.resume(topic, shard)
      const { max } = yield* untilObserved(2 * CONTRACT_PARTITIONS)
      assert.isAbove(max, 0)
    }),
  )
})

describe('a broker that is unavailable for a time', () => {
  live('gets the consumer back', () =>
    Effect.gen(function* () {
      const log = yield* EventLog
      const [topic] = (yield* freshTopics(yield* admin, 1)) as [string]
      const proxy = yield* brokerProxy
      const groups = yield* groupsThrough(proxy)
      const reader = recorder()
      const { isHealthy } = yield* groups.join({ group: yield* freshGroup, topics: [topic] }, reader.handler)
      yield* log.append([recordOf(topic, 1, 'before')])
      yield* reader.until(() => reader.state.values.length === 1)
      proxy.set('refusing')
      yield* log.append([recordOf(topic, 1, 'meanwhile')])
      yield* proxy.until(() => proxy.refused() > 0)
      proxy.set('up')
      yield* reader.until(() => reader.state.values.includes('meanwhile'))
      assert.deepStrictEqual([...new Set(reader.state.values)], ['before', 'meanwhile'])
      yield* log.append([recordOf(topic, 1, 'after')])
      yield* reader.until(() => reader.state.values.includes('after'))
      assert.isTrue(yield* isHealthy)
    }),
  )

  live('fails the first join at once', () =>
    Effect.gen(function* () {
      const proxy = yield* brokerProxy
      proxy.set('refusing')
      const groups = yield* groupsThrough(proxy)
      const joined = yield* Effect.exit(
        groups.join({ group: yield* freshGroup, topics: ['none'] }, recorder().handler),
      )
      assert.isTrue(Exit.isFailure(joined))
    }),
  )
})

describe('a restarted member', () => {
  live('ends its previous session before it joins, so that the group does not wait', () =>
    Effect.gen(function* () {
      const folder = mkdtempSync(join(tmpdir(), 'hub-member-'))
      yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(folder, { recursive: true })))
      const memberFile = join(folder, 'app', 'member.json')
      const client = yield* admin
      const [topic] = (yield* freshTopics(client, 1)) as [string]
      const group = yield* freshGroup
      const options = { group, topics: [topic], memberFile }
      const first = recorder()
      const firstProxy = yield* brokerProxy
      const lifetime = yield* Scope.make()
      yield* Effect.flatMap(groupsThrough(firstProxy), (groups) => groups.join(options, first.handler)).pipe(
        Effect.provideService(Scope.Scope, lifetime),
      )
      const { memberId } = JSON.parse(readFileSync(memberFile, 'utf8')) as { memberId: string }
      // It dies without leaving the group.
      firstProxy.set('hanging')
      yield* Scope.close(lifetime, Exit.void)
      const second = recorder()
      const secondProxy = yield* brokerProxy
      const groups = yield* groupsThrough(secondProxy)
      yield* groups.join(options, second.handler)
      const left = secondProxy.requests.indexOf(13)
      assert.isAtLeast(left, 0, 'no LeaveGroup was sent')
      assert.isBelow(left, secondProxy.requests.indexOf(14), 'LeaveGroup came after SyncGroup')
      const saved = JSON.parse(readFileSync(memberFile, 'utf8')) as { memberId: string }
      assert.notStrictEqual(saved.memberId, memberId)
      const described = yield* Effect.promise(() => client.describeGroups([group]))
      assert.deepStrictEqual(
        described.groups[0]?.members.map((member) => member.memberId),
        [saved.memberId],
      )
    }),
  )
})

describe('leavePreviousMember', () => {
  const killedMember = Effect.fnUntraced(function* () {
    const folder = mkdtempSync(join(tmpdir(), 'hub-former-'))
    yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(folder, { recursive: true })))
    const memberFile = join(folder, 'member-id')
    const [topic] = (yield* freshTopics(yield* admin, 1)) as [string]
    // A session that is longer than the test.
    const options = { group: yield* freshGroup, topics: [topic], sessionTimeoutMs: 30_000 }
    const other = recorder()
    yield* Effect.flatMap(groupsThrough(yield* brokerProxy), (groups) => groups.join(options, other.handler))
    const proxy = yield* brokerProxy
    const lifetime = yield* Scope.make()
    const killed = recorder()
    yield* Effect.flatMap(groupsThrough(proxy), (groups) =>
      groups.join({ ...options, memberFile }, killed.handler),
    ).pipe(Effect.provideService(Scope.Scope, lifetime))
    yield* other.until(() => other.state.assignments.at(-1)?.shards.length === CONTRACT_PARTITIONS / 2)
    proxy.set('hanging')
    yield* Scope.close(lifetime, Exit.void)
    return { membership: { group: options.group, memberFile }, memberFile, other }
  })

  /** On a busy machine the rebalance may take longer than the longest wait. It then ends later. */
  const leaveAndExpectTakeover = Effect.fnUntraced(function* (
    membership: Membership,
    other: ReturnType<typeof recorder>,
  ) {
    const ownsAll = () => other.state.assignments.at(-1)?.shards.length === CONTRACT_PARTITIONS
    const [took] = yield* Effect.timed(leavePreviousMember(direct, membership))
    if (Duration.toMillis(took) < LEAVE_WITHIN_MS) assert.isTrue(ownsAll(), 'it ended before the rebalance')
    else yield* other.until(ownsAll)
  })

  live('makes the other members take over the shards of a killed process', () =>
    Effect.gen(function* () {
      const { memberFile, membership, other } = yield* killedMember()
      yield* leaveAndExpectTakeover(membership, other)
      assert.isFalse(existsSync(memberFile))
      // Without a member file there is no previous member.
      yield* leavePreviousMember(direct, membership)
    }),
  )

  live('waits for the rebalance also when the previous member has just left by itself', () =>
    Effect.gen(function* () {
      const [topic] = (yield* freshTopics(yield* admin, 1)) as [string]
      const options = { group: yield* freshGroup, topics: [topic] }
      const groups = yield* groupsThrough(yield* brokerProxy)
      const other = recorder()
      yield* groups.join(options, other.handler)
      const lifetime = yield* Scope.make()
      yield* groups.join(options, recorder().handler).pipe(Effect.provideService(Scope.Scope, lifetime))
      yield* other.until(() => other.state.assignments.at(-1)?.shards.length === CONTRACT_PARTITIONS / 2)
      yield* Scope.close(lifetime, Exit.void)
      yield* leaveAndExpectTakeover({ group: options.group, memberFile: '/nowhere/member-id' }, other)
    }),
  )

  live(
    'ends without an error when the broker does not answer, is unavailable, or does not know the member',
    () =>
      Effect.gen(function* () {
        const { memberFile, membership } = yield* killedMember()
        const saved = readFileSync(memberFile, 'utf8')
        const hanging = yield* brokerProxy
        hanging.set('hanging')
        yield* leavePreviousMember(through(hanging), membership)
        yield* leavePreviousMember({ brokers: ['127.0.0.1:1'], clientId: 'kafka-int-test' }, membership)
        assert.strictEqual(readFileSync(memberFile, 'utf8'), saved)
        writeFileSync(memberFile, JSON.stringify({ ...(JSON.parse(saved) as object), memberId: 'nobody' }))
        yield* leavePreviousMember(direct, membership)
        assert.isTrue(existsSync(memberFile))
        writeFileSync(memberFile, '{"group":')
        yield* leavePreviousMember(direct, membership)
        assert.strictEqual(readFileSync(memberFile, 'utf8'), '{"group":')
      }),
  )
})

describe('a position that retention has deleted', () => {
  live('becomes the first offset of the log', () =>
    Effect.gen(function* () {
      const log = yield* EventLog
      const client = yield* admin
      const [topic] = (yield* freshTopics(client, 1)) as [string]
      yield* log.append(['0', '1', '2', '3', '4'].map((text) => recordOf(topic, 0, text)))
      // The admin client of kafkajs must know the leader before it deletes records.
      yield* Effect.promise(() => client.fetchTopicOffsets(topic))
      yield* Effect.promise(() =>
        client.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '3' }] }),
      )
      const groups = yield* groupsThrough(yield* brokerProxy)
      const reader = recorder()
      yield* groups.join(
        { group: yield* freshGroup, topics: [topic] },
        {
          ...reader.handler,
          onAssigned: (assignment, control) => {
            reader.handler.onAssigned(assignment, control)
            control.seek({ topic, partition: 0, offset: 1 })
          },
        },
      )
      yield* reader.until(() => reader.state.values.length === 2)
      assert.deepStrictEqual(reader.state.values, ['3', '4'])
      const [range] = yield* reader.state.control!.offsetRanges(topic)
      assert.deepStrictEqual(range, { partition: 0, low: 3, high: 5 })
    }),
  )
})

describe('a batch that is longer than the session', () => {
  live(
    'keeps the lease, and ends normally',
    () =>
      Effect.gen(function* () {
        const log = yield* EventLog
        const [topic] = (yield* freshTopics(yield* admin, 1)) as [string]
        const proxy = yield* brokerProxy
        const groups = yield* groupsThrough(proxy)
        const reader = recorder()
        const begun = yield* Deferred.make<void>()
        const release = yield* Deferred.make<void>()
        yield* groups.join(
          { group: yield* freshGroup, topics: [topic] },
          {
            ...reader.handler,
            onBatch: (name, partition, records) =>
              Deferred.succeed(begun, undefined).pipe(
                Effect.andThen(Deferred.await(release)),
                Effect.andThen(reader.handler.onBatch(name, partition, records)),
              ),
          },
        )
        yield* log.append([recordOf(topic, 0, 'slow')])
        yield* Deferred.await(begun)
        const beats = () => proxy.requests.filter((apiKey) => apiKey === 12).length
        const before = beats()
        // More heartbeats than fit into one session.
        yield* proxy.until(() => beats() >= before + 14)
        assert.isTrue(reader.state.control!.hasLease())
        yield* Deferred.succeed(release, undefined)
        yield* reader.until(() => reader.state.values.length === 1)
        assert.strictEqual(reader.state.assignments.length, 1)
      }),
    60_000,
  )
})

describe('createTopics', () => {
  const catalogue = (prefix: string, partitions: number) =>
    topicCatalogue({ prefix, partitions, replicationFactor: 1 })
  const prefixed = Effect.gen(function* () {
    const client = yield* admin
    const prefix = `kafka-int-${randomUUID()}.`
    yield* Effect.addFinalizer(() =>
      Effect.promise(async () => {
        const topics = (await client.listTopics()).filter((topic) => topic.startsWith(prefix))
        if (topics.length > 0) await client.deleteTopics({ topics })
      }),
    )
    return { client, prefix }
  })

  live('creates missing topics once, and reports differences', () =>
    Effect.gen(function* () {
      const { client, prefix } = yield* prefixed
      const wanted = catalogue(prefix, 2)
      const [first, second] = yield* Effect.all(
        [createTopics(direct, wanted), createTopics(direct, wanted)],
        { concurrency: 'unbounded' },
      )
      assert.sameMembers(
        [...new Set([...first.created, ...second.created])],
        wanted.map(({ topic }) => topic),
      )
      assert.deepStrictEqual(yield* createTopics(direct, wanted), { created: [], differences: [] })
      const [other] = catalogue(prefix, 3)
      const changed = { ...other!, config: { ...other!.config, 'retention.ms': '1000' } }
      const { created, differences } = yield* createTopics(direct, [changed])
      assert.deepStrictEqual(created, [])
      assert.deepStrictEqual(
        differences.map(({ setting, wanted: is, found }) => [setting, is, found]),
        [
          ['partitions', '3', '2'],
          ['retention.ms', '1000', wanted[0]!.config['retention.ms']],
        ],
      )
      const offsets = yield* Effect.promise(() => client.fetchTopicOffsets(wanted[0]!.topic))
      assert.strictEqual(offsets.length, 2)
    }),
  )

  live('waits for a broker that is starting', () =>
    Effect.gen(function* () {
      const { prefix } = yield* prefixed
      const proxy = yield* brokerProxy
      proxy.set('refusing')
      const creating = yield* Effect.forkScoped(
        createTopics(through(proxy), catalogue(prefix, 1).slice(0, 1)),
      )
      assert.isUndefined(creating.pollUnsafe())
      proxy.set('up')
      assert.strictEqual((yield* Fiber.join(creating)).created.length, 1)
    }),
  )

  live('fails at once for a request that the broker rejects', () =>
    Effect.gen(function* () {
      const [bad] = catalogue('not allowed/', 1)
      const refused = yield* Effect.flip(createTopics(direct, [bad!]))
      assert.strictEqual(refused._tag, 'KafkaRequestRejected')
    }),
  )
})

describe('append to a real broker', () => {
  /** An event log behind the proxy. */
  const logThrough = (proxy: BrokerProxy, maxQueuedRecords?: number) =>
    Effect.map(
      Layer.build(
        layerEventLog({
          connection: through(proxy),
          partitions: CONTRACT_PARTITIONS,
          deadlineMs: ANSWERED_WITHIN_MS,
          ...(maxQueuedRecords === undefined ? {} : { maxQueuedRecords }),
        }),
      ),
      (context) => Effect.provideContext(EventLog, context),
    ).pipe(Effect.flatten)
  const PRODUCE = 0

  live('splits a call that is larger than one request, and preserves its order', () =>
    Effect.gen(function* () {
      const [topic] = (yield* freshTopics(yield* admin, 1)) as [string]
      const proxy = yield* brokerProxy
      const log = yield* logThrough(proxy)
      const words = Array.from({ length: 3000 }, (_, i) => `${i} ${'x'.repeat(1000)}`)
      const [positions, behind] = yield* Effect.all(
        [
          log.append(
            words.map((text) => recordOf(topic, 0, text)),
            { deadlineMs: ANSWERED_WITHIN_MS },
          ),
          log.append([recordOf(topic, 0, 'behind')], { deadlineMs: ANSWERED_WITHIN_MS }),
        ],
        { concurrency: 'unbounded' },
      )
      assert.deepStrictEqual(
        positions.map(({ offset }) => offset),
        words.map((_, i) => i),
      )
      assert.strictEqual(behind[0]?.offset, 3000)
      assert.isAbove(proxy.requests.filter((apiKey) => apiKey === PRODUCE).length, 3)
    }),
  )

  live('sends the calls that arrive during a request together', () =>
    Effect.gen(function* () {
      const [topic] = (yield* freshTopics(yield* admin, 1)) as [string]
      const proxy = yield* brokerProxy
      const log = yield* logThrough(proxy)
      yield* log.append([recordOf(topic, 0, 'first')])
      const before = proxy.requests.length
      yield* Effect.all(
        Array.from({ length: 1000 }, (_, i) => log.append([recordOf(topic, i % 6, 'one of many')])),
        { concurrency: 'unbounded' },
      )
      assert.isAtMost(proxy.requests.slice(before).filter((apiKey) => apiKey === PRODUCE).length, 3)
    }),
  )

  live('rejects a record that is too large, and a call when the queue is full, without a request', () =>
    Effect.gen(function* () {
      const [topic] = (yield* freshTopics(yield* admin, 1)) as [string]
      const proxy = yield* brokerProxy
      const log = yield* logThrough(proxy, 10)
      yield* log.append([recordOf(topic, 0, 'first')])
      const large = yield* Effect.flip(log.append([recordOf(topic, 0, 'x'.repeat(1_100_000))]))
      assert.strictEqual(large.reason, 'rejected')
      proxy.set('hanging')
      const call = (count: number, deadlineMs = 300) =>
        Effect.exit(
          log.append(
            Array.from({ length: count }, () => recordOf(topic, 0, 'x')),
            { deadlineMs },
          ),
        )
      // One call may be in progress and one in the queue. There is no room for a third.
      const calls = yield* Effect.all([call(6), call(6), call(6), call(6)], { concurrency: 'unbounded' })
      const reasons = calls.map((exit) =>
        Exit.isFailure(exit) ? (Cause.squash(exit.cause) as KafkaUnavailable).reason : 'appended',
      )
      assert.isAtLeast(reasons.filter((reason) => reason === 'refused').length, 2, reasons.join())
      assert.includeMembers(reasons, ['timeout'])
      proxy.set('up')
      assert.isTrue(Exit.isSuccess(yield* call(10, ANSWERED_WITHIN_MS)))
    }),
  )

  live('fails only the caller whose topic does not exist', () =>
    Effect.gen(function* () {
      const [topic] = (yield* freshTopics(yield* admin, 1)) as [string]
      const log = yield* logThrough(yield* brokerProxy)
      const [before, nowhere, after] = yield* Effect.all(
        [
          Effect.exit(log.append([recordOf(topic, 0, 'before')])),
          Effect.exit(log.append([recordOf(`${topic}-none`, 0, 'nowhere')])),
          Effect.exit(log.append([recordOf(topic, 0, 'after')])),
        ],
        { concurrency: 'unbounded' },
      )
      assert.isTrue(Exit.isSuccess(before))
      assert.isTrue(Exit.isFailure(nowhere))
      assert.isTrue(Exit.isSuccess(after))
    }),
  )
})
