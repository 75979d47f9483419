/**
 * Connections to a broker that are dead without a sign are replaced. The faults are those of a
 * network between one client and the broker.
 */
import net from 'node:net'
import { randomUUID } from 'node:crypto'
import { assert, describe, it } from '@effect/vitest'
import { faultProxy, type FaultProxy, movableHost, SILENT_FAULTS, testBrokers } from '@hub/testkit'
import { Effect, Layer, Metric, Schedule } from 'effect'
import type { KafkaConnection } from './connection/client.ts'
import { layerConsumerGroups } from './consumer/consumer-groups.ts'
import { layerEventLog } from './log/event-log.ts'
import { ConsumerGroups, EventLog } from './port.ts'
import { createTopics } from './topics/create.ts'

const [broker] = testBrokers() as [string]
const direct: KafkaConnection = { brokers: [broker], clientId: 'kafka-dead-test' }
const BROKER_URL = `tcp://${broker}`
const PARTITIONS = 2

/**
 * A client recovers within five seconds. The rest is for a busy machine. Without the recovery, a
 * consumer needs more than twelve seconds.
 */
const RECOVERY = '10 seconds'

const freshTopic = Effect.gen(function* () {
  const topic = `kafka-dead-${randomUUID()}`
  yield* createTopics(direct, [{ topic, partitions: PARTITIONS, replicationFactor: 1, config: {} }])
  return topic
})

/** A client that reaches the broker only through the host and port. */
const through = (host: string, port: number): KafkaConnection => ({
  ...direct,
  socketFactory: ({ onConnect }) => net.connect({ host, port }, onConnect),
})
const throughProxy = ({ port }: FaultProxy) => through('127.0.0.1', port)

const openLog = (connection: KafkaConnection) =>
  Effect.flatMap(Layer.build(layerEventLog({ connection, partitions: PARTITIONS })), (context) =>
    Effect.provideContext(EventLog, context),
  )
const openGroups = (connection: KafkaConnection) =>
  Effect.flatMap(Layer.build(layerConsumerGroups({ connection })), (context) =>
    Effect.provideContext(ConsumerGroups, context),
  )

const recordOf = (topic: string, text: string) => ({
  topic,
  key: 'k',
  partition: 0,
  type: 'TestRecord',
  id: randomUUID(),
  occurredAt: 1,
  value: new TextEncoder().encode(text),
})

const soon = <A, E>(effect: Effect.Effect<A, E>) =>
  effect.pipe(
    Effect.retry(Schedule.spaced('50 millis')),
    Effect.timeoutOrElse({ duration: RECOVERY, orElse: () => Effect.die('no recovery') }),
  )

const append = (log: EventLog['Service'], topic: string, text: string) => log.append([recordOf(topic, text)])

describe('the producer appends again after its connections were', () => {
  for (const [name, begin] of SILENT_FAULTS) {
    it.live(name, () =>
      Effect.gen(function* () {
        const topic = yield* freshTopic
        const proxy = yield* faultProxy(BROKER_URL)
        const log = yield* openLog(throughProxy(proxy))
        yield* soon(append(log, topic, 'before'))
        proxy.hold()
        begin(proxy)
        yield* Effect.flip(append(log, topic, 'during'))
        proxy.release()
        yield* soon(append(log, topic, 'after'))
      }),
    )
  }
})

const replacedConnections = Effect.map(
  Metric.snapshot,
  (metrics) => metrics.find(({ id }) => id === 'hub_kafka_connections_replaced_total')?.state,
)

describe('a consumer reads again after its connections were', () => {
  const reading = Effect.fnUntraced(function* (connection: KafkaConnection) {
    const topic = yield* freshTopic
    const log = yield* openLog(direct)
    const groups = yield* openGroups(connection)
    const read: Array<string> = []
    yield* groups.join(
      { group: `kafka-dead-${randomUUID()}`, topics: [topic] },
      {
        onAssigned: () => {},
        onRevoking: Effect.void,
        onBatch: (_topic, _partition, records) =>
          Effect.sync(() => read.push(...records.map(({ value }) => new TextDecoder().decode(value)))),
      },
    )
    const until = (text: string) =>
      soon(Effect.suspend(() => (read.includes(text) ? Effect.void : Effect.fail('not read'))))
    return { append: (text: string) => soon(append(log, topic, text)), until }
  })

  for (const [name, begin] of SILENT_FAULTS) {
    it.live(
      name,
      () =>
        Effect.gen(function* () {
          const proxy = yield* faultProxy(BROKER_URL)
          const reader = yield* reading(throughProxy(proxy))
          yield* reader.append('before')
          yield* reader.until('before')
          begin(proxy)
          const brokenAt = performance.now()
          yield* reader.append('after')
          yield* reader.until('after')
          yield* Effect.logInfo(`read again ${Math.round(performance.now() - brokenAt)} ms after: ${name}`)
        }),
      60_000,
    )
  }

  it.live('left behind by a failover to another address of the same name', () =>
    Effect.gen(function* () {
      const host = yield* movableHost(BROKER_URL, 'kafka.test')
      const reader = yield* reading(through(host.host, host.first.port))
      yield* reader.append('before')
      yield* reader.until('before')
      host.first.hold()
      host.first.drop('both')
      host.move()
      yield* reader.append('after')
      yield* reader.until('after')
      assert.isAbove(host.second.accepted(), 0)
    }),
  )

  it.live.each([60, 500])('not replaced, because they are only %i ms slower in each direction', (delayMs) =>
    Effect.gen(function* () {
      const proxy = yield* faultProxy(BROKER_URL)
      const reader = yield* reading(throughProxy(proxy))
      yield* reader.append('before')
      yield* reader.until('before')
      const replaced = yield* replacedConnections
      proxy.delay(delayMs)
      for (const text of ['a', 'b']) {
        yield* reader.append(text)
        yield* reader.until(text)
      }
      assert.deepStrictEqual(yield* replacedConnections, replaced)
    }),
  )
})

describe('a producer with a slow broker', () => {
  it.live('is opened, keeps its connection after a missed deadline, and appends each record once', () =>
    Effect.gen(function* () {
      const topic = yield* freshTopic
      const proxy = yield* faultProxy(BROKER_URL)
      proxy.delay(500)
      const log = yield* openLog(throughProxy(proxy))
      const [first] = yield* append(log, topic, 'a')
      const connections = proxy.accepted()
      const late = log.append([recordOf(topic, 'b')], { deadlineMs: 500 })
      assert.strictEqual((yield* Effect.flip(late)).reason, 'timeout')
      // The next request waits for the answer to the late one, and not for a new connection.
      const [last] = yield* append(log, topic, 'c')
      assert.strictEqual(last?.offset, first!.offset + 2)
      assert.strictEqual(proxy.accepted(), connections)
    }),
  )
})
