import { assert, describe, it } from '@effect/vitest'
import { createRequire } from 'node:module'
import kafkajs, { type Assigner } from 'kafkajs'
import { setBeforeJoin } from './before-join-hook.ts'
import { InnerGroupClass, type InnerGroup, RequestQueueClass } from './internals.ts'
import { createCluster } from './leave-previous-member.ts'
import './request-queue-timer.ts'

const require = createRequire(import.meta.url)
const source = (InnerGroupClass as unknown as () => void).toString()

/** Where a piece of kafkajs' source stands; the test that asks says what it is relied upon for. */
const at = (piece: string): number => {
  const index = source.indexOf(piece)
  assert.isAtLeast(index, 0, `kafkajs' ConsumerGroup no longer says: ${piece}`)
  return index
}

describe('the inside of kafkajs that the consumer relies on', () => {
  it('is of the version that was read', () => {
    assert.strictEqual((require('kafkajs/package.json') as { version: string }).version, '2.2.4')
  })

  it('has the methods that are called and wrapped', () => {
    for (const method of [
      'joinAndSync',
      'heartbeat',
      'fetch',
      'generatePartitionsPerSubscribedTopic',
      'recoverFromOffsetOutOfRange',
      'resolveOffset',
      'seek',
      'pause',
      'resume',
      'commitOffsets',
    ] as const) {
      assert.isFunction(InnerGroupClass.prototype[method], method)
    }
  })

  it('asks for the partitions just before it sends SyncGroup, from which the lease is counted', () => {
    assert.isBelow(
      at('this.partitionsPerSubscribedTopic = this.generatePartitionsPerSubscribedTopic()'),
      at('this.coordinator.syncGroup('),
    )
  })

  it('tells of a join before anything is fetched, with the generation already set', () => {
    assert.isBelow(at('this.generationId = groupData.generationId'), at('emit(GROUP_JOIN, payload)'))
    assert.isBelow(at('await this[PRIVATE.SYNC]()'), at('emit(GROUP_JOIN, payload)'))
    at('this.seekOffset = new SeekOffsets()')
    at('this.assigners = assigners')
  })

  it('knows its coordinator from the join on, and asks it and the leaders over the connections it reads by', () => {
    at('this.coordinator = await this.cluster.findGroupCoordinator({ groupId })')
    const cluster = (require('kafkajs/src/cluster') as { prototype: Record<string, unknown> }).prototype
    const broker = (require('kafkajs/src/broker') as { prototype: Record<string, unknown> }).prototype
    for (const method of ['connect', 'findGroupCoordinator', 'fetchTopicsOffset', 'refreshMetadata']) {
      assert.isFunction(cluster[method], method)
    }
    for (const method of ['offsetFetch', 'leaveGroup', 'describeGroups'])
      assert.isFunction(broker[method], method)
  })

  it('has connections to the brokers without anything that uses them', () => {
    assert.isFunction(createCluster(new kafkajs.Kafka({ brokers: ['localhost:1'] })).findGroupCoordinator)
  })

  it('tells of a heartbeat when it was answered', () => {
    assert.isBelow(at('await this.coordinator.heartbeat(payload)'), at('emit(HEARTBEAT, payload)'))
  })

  it('looks for waiting requests only while some wait', () => {
    const RequestQueue = RequestQueueClass as unknown as new (options: object) => {
      pending: Array<unknown>
      throttleCheckTimeoutId: unknown
      scheduleCheckPendingRequests(): void
      destroy(): void
    }
    const queue = new RequestQueue({ maxInFlightRequests: 1, logger: {} })
    queue.scheduleCheckPendingRequests()
    assert.isNull(queue.throttleCheckTimeoutId)
    queue.pending.push({})
    queue.scheduleCheckPendingRequests()
    assert.isNotNull(queue.throttleCheckTimeoutId)
    queue.destroy()
  })

  const groupOf = (assigner: Assigner): InnerGroup => {
    const group = Object.create(InnerGroupClass.prototype) as Record<string, unknown>
    group['assigners'] = [assigner]
    // Joining comes down to the retrier of the group, which is as far as this test goes.
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

  it('waits for the hook before it joins, and joins once for callers at the same time', async () => {
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

  it('leaves other consumers alone', async () => {
    journal.length = 0
    await groupOf(assigner('not mine')).joinAndSync()
    assert.deepStrictEqual(journal, ['joined'])
    assert.isFunction(kafkajs.Kafka)
  })
})
