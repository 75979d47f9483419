import { assert, describe, it } from '@effect/vitest'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import kafkajs, { type Assigner } from 'kafkajs'
import { vi } from 'vitest'
import { setBeforeJoin } from './before-join-hook.ts'
import { trackConnections } from './destroy-connections.ts'
import './failed-metadata.ts'
import { InnerGroupClass, type InnerGroup, RequestQueueClass } from './internals.ts'
import { createCluster } from './leave-group-for.ts'
import './request-queue-timer.ts'
import { trackSendTimes } from './send-times.ts'
import { ignoreUnrefOfClosed } from './unref-closed-sockets.ts'

const require = createRequire(import.meta.url)
const source = (InnerGroupClass as unknown as () => void).toString()

/** The index of a piece of kafkajs' source on which a patch relies. */
const at = (piece: string): number => {
  const index = source.indexOf(piece)
  assert.isAtLeast(index, 0, `kafkajs' ConsumerGroup no longer contains: ${piece}`)
  return index
}

describe('kafkajs', () => {
  it('has the version that the patches are for', () => {
    assert.strictEqual((require('kafkajs/package.json') as { version: string }).version, '2.2.4')
  })

  it('has the methods that the patches call and wrap', () => {
    for (const method of [
      'joinAndSync',
      'heartbeat',
      'fetch',
      'generatePartitionsPerSubscribedTopic',
      'recoverFromFetch',
      'recoverFromOffsetOutOfRange',
      'checkForStaleAssignment',
      'commitOffsets',
    ] as const) {
      assert.isFunction(InnerGroupClass.prototype[method], method)
    }
  })

  it('generates the partitions directly before it sends SyncGroup', () => {
    assert.isBelow(
      at('this.partitionsPerSubscribedTopic = this.generatePartitionsPerSubscribedTopic()'),
      at('this.coordinator.syncGroup('),
    )
  })

  it('emits GROUP_JOIN before the first fetch, with the generation set', () => {
    assert.isBelow(at('this.generationId = groupData.generationId'), at('emit(GROUP_JOIN, payload)'))
    assert.isBelow(at('await this[PRIVATE.SYNC]()'), at('emit(GROUP_JOIN, payload)'))
    at('this.offsetManager = new OffsetManager(')
    at('this.assigners = assigners')
  })

  it('has methods for offsets and for the coordinator on the connections of the consumer', () => {
    const cluster = (require('kafkajs/src/cluster') as { prototype: Record<string, unknown> }).prototype
    const broker = (require('kafkajs/src/broker') as { prototype: Record<string, unknown> }).prototype
    for (const method of [
      'connect',
      'metadata',
      'addMultipleTargetTopics',
      'findBroker',
      'findGroupCoordinator',
      'findLeaderForPartitions',
      'fetchTopicsOffset',
      'refreshMetadata',
    ]) {
      assert.isFunction(cluster[method], method)
    }
    for (const method of ['leaveGroup', 'describeGroups', 'listOffsets', 'disconnect'])
      assert.isFunction(broker[method], method)
  })

  it('has two connections to each broker, of which one is for fetches', () => {
    const pool = require('kafkajs/src/network/connectionPool') as { prototype: Record<string, Function> }
    assert.isFunction(pool.prototype['getConnection'])
    assert.include((pool as unknown as () => void).toString(), 'new Array(2)')
    assert.include(String(pool.prototype['getConnectionByRequest']), '[apiKeys.Fetch]: 1')
  })

  it('reads `buf` and `buffer` of an encoded request', () => {
    const encoder = require('kafkajs/src/protocol/encoder') as { prototype: Record<string, Function> }
    assert.include(String(encoder.prototype['writeEncoder']), 'Buffer.isBuffer(value.buf)')
    assert.include(String(encoder.prototype['writeEncoder']), 'value.buffer')
  })

  it('creates connections without a consumer', () => {
    assert.isFunction(createCluster(new kafkajs.Kafka({ brokers: ['localhost:1'] })).findGroupCoordinator)
  })

  it('fails with the error of a broker if none answers a request for metadata', async () => {
    const answers = [{ brokers: [], topicMetadata: [] }]
    const cluster = createCluster(new kafkajs.Kafka({ brokers: ['localhost:1'], retry: { retries: 0 } }))
    const broker = {
      isConnected: () => true,
      metadata: () =>
        answers.length > 0
          ? Promise.resolve(answers.shift())
          : Promise.reject(new kafkajs.KafkaJSConnectionError('closed')),
    }
    Object.assign(cluster.brokerPool, {
      brokers: { 1: broker },
      metadata: { topicMetadata: [] },
      metadataExpireAt: Number.POSITIVE_INFINITY,
    })
    assert.deepStrictEqual(await cluster.metadata(), { brokers: [], topicMetadata: [] })
    const failure: unknown = await cluster.metadata().catch((error: unknown) => error)
    assert.instanceOf(failure, kafkajs.KafkaJSConnectionError)
  })

  it('emits HEARTBEAT after the answer', () => {
    assert.isBelow(at('await this.coordinator.heartbeat(payload)'), at('emit(HEARTBEAT, payload)'))
  })

  const RequestQueue = RequestQueueClass as unknown as new (options: object) => {
    pending: Array<unknown>
    inflight: Map<number, object>
    throttleCheckTimeoutId: unknown
    scheduleCheckPendingRequests(): void
    scheduleRequestTimeoutCheck(): void
    destroy(): void
  }

  it('sets a timer for waiting requests only while some wait', () => {
    const queue = new RequestQueue({ maxInFlightRequests: 1, logger: {} })
    queue.scheduleCheckPendingRequests()
    assert.isNull(queue.throttleCheckTimeoutId)
    queue.pending.push({})
    queue.scheduleCheckPendingRequests()
    assert.isNotNull(queue.throttleCheckTimeoutId)
    queue.destroy()
  })

  it('looks for late answers once in a second, with one timer for all connections', () => {
    vi.useFakeTimers()
    try {
      const queueOf = () => new RequestQueue({ requestTimeout: 5000, isConnected: () => true, logger: {} })
      const queues = [queueOf(), queueOf()]
      let late = 0
      for (const queue of queues) {
        queue.inflight.set(1, { sentAt: Date.now(), requestTimeout: 5000, timeoutRequest: () => late++ })
        queue.scheduleRequestTimeoutCheck()
      }
      assert.strictEqual(vi.getTimerCount(), 1)
      vi.advanceTimersByTime(5000)
      assert.strictEqual(late, 0)
      vi.advanceTimersByTime(1000)
      assert.strictEqual(late, 2)
      for (const queue of queues) queue.destroy()
      assert.strictEqual(vi.getTimerCount(), 0)
    } finally {
      vi.useRealTimers()
    }
  })

  const groupOf = (assigner: Assigner): InnerGroup => {
    const group = Object.create(InnerGroupClass.prototype) as Record<string, unknown>
    group['assigners'] = [assigner]
    // `joinAndSync` only calls the retrier, which stands for the join here.
    group['retrier'] = () => Promise.resolve(journal.push('joined'))
    return group as unknown as InnerGroup
  }
  const journal: Array<string> = []
  const assigner = (name: string): Assigner => ({
    name,
    version: 0,
    assign: () => Promise.resolve([]),
    protocol: () => ({ name, metadata: Buffer.alloc(0) }),
  })

  it('runs the hook before the join, and joins once for concurrent callers', async () => {
    journal.length = 0
    const mine = assigner('mine')
    setBeforeJoin(mine, async () => {
      journal.push('hook started')
      await Promise.resolve()
      journal.push('hook ended')
    })
    const group = groupOf(mine)
    await Promise.all([group.joinAndSync(), group.joinAndSync()])
    assert.deepStrictEqual(journal, ['hook started', 'hook ended', 'joined'])
    await group.joinAndSync()
    assert.deepStrictEqual(journal.slice(3), ['hook started', 'hook ended', 'joined'])
  })

  it('runs no hook for other consumers', async () => {
    journal.length = 0
    await groupOf(assigner('other')).joinAndSync()
    assert.deepStrictEqual(journal, ['joined'])
    assert.isFunction(kafkajs.Kafka)
  })

  /** A group whose methods are these. */
  const groupWith = (methods: Partial<InnerGroup>): InnerGroup => methods as InnerGroup

  it('has the send times of SyncGroup and of heartbeats, not the times of their answers', async () => {
    const answer = Promise.withResolvers<void>()
    const group = groupWith({
      heartbeat: () => answer.promise,
      generatePartitionsPerSubscribedTopic: () => undefined,
    })
    const times = trackSendTimes(group, () => {})
    times.joinStarted()
    group.generatePartitionsPerSubscribedTopic()
    const beats = [group.heartbeat({ interval: 1 }), group.heartbeat({ interval: 1 })]
    const sent = [times.syncGroup(), times.heartbeat()]
    group.generatePartitionsPerSubscribedTopic()
    answer.resolve()
    await Promise.all(beats)
    assert.isTrue(sent.every(Number.isFinite))
    assert.deepStrictEqual([times.syncGroup(), times.heartbeat()], sent)
  })

  it('reports a failed heartbeat', async () => {
    const errors: Array<unknown> = []
    const failure = new Error('ILLEGAL_GENERATION')
    const group = groupWith({
      heartbeat: () => Promise.reject(failure),
      generatePartitionsPerSubscribedTopic: () => undefined,
    })
    trackSendTimes(group, (error) => errors.push(error))
    await group.heartbeat({ interval: 1 }).catch(() => {})
    assert.deepStrictEqual(errors, [failure])
  })

  it('closes all connections of a destroyed client, also later ones', async () => {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const sockets: Array<Socket> = []
    const { destroy, socketFactory } = trackConnections(() => {
      const socket = connect({ host: '127.0.0.1', port })
      socket.on('error', () => {})
      sockets.push(socket)
      return socket
    })
    const open = () => socketFactory({ host: '', port, ssl: {}, onConnect: () => {} })
    open()
    destroy()
    open()
    server.close()
    assert.deepStrictEqual(
      sockets.map(({ destroyed }) => destroyed),
      [true, true],
    )
  })

  it('adds no listener to a closed connection that kafkajs disconnects again', async () => {
    const Connection = require('kafkajs/src/network/connection') as new (options: object) => {
      connect(): Promise<boolean>
      disconnect(): Promise<boolean>
    }
    const server = createServer((socket) => socket.end())
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const sockets: Array<Socket> = []
    const connection = new Connection({
      host: '127.0.0.1',
      port,
      connectionTimeout: 10_000,
      requestTimeout: 10_000,
      logger: new kafkajs.Kafka({ brokers: ['localhost:1'] }).logger(),
      socketFactory: ignoreUnrefOfClosed(({ host, port: to, onConnect }) => {
        const socket = connect({ host, port: to }, onConnect)
        sockets.push(socket)
        return socket
      }),
    })
    const connected = connection.connect()
    const [socket] = sockets
    const closed = once(socket!, 'close')
    await connected
    await closed
    server.close()
    for (let attempt = 0; attempt < 11; attempt++) await connection.disconnect()
    assert.strictEqual(socket!.listenerCount('connect'), 0)
  })
})
