/** Servers that answer, and that the address does not fit: the hub does not use them, and says why. */
import { assert, describe, it } from '@effect/vitest'
import { connectionFault } from '@hub/config'
import { makeRedisCounters, readRedis } from '@hub/counters'
import { eventually, faultProxy, freePort } from '@hub/testkit'
import { Effect, Redacted, Schedule } from 'effect'
import { afterAll, beforeAll } from 'vitest'
import { freeClusterPorts, type RedisServers, redisServers } from '../support/redis-servers.ts'

let servers: RedisServers
let node: number
let sentinel: number
beforeAll(async () => {
  servers = await redisServers()
  const [port] = await freeClusterPorts(1)
  node = port!
  await servers.start(node, { 'cluster-enabled': 'yes' })
  sentinel = await freePort()
  await servers.startSentinel(sentinel, [`sentinel monitor hub 127.0.0.1 ${node} 1`])
})
afterAll(() => servers?.stop())

const urlOf = (at: number) => Redacted.make(`redis://127.0.0.1:${at}`)

describe.each([
  [
    'a node of a Redis Cluster',
    () => node,
    /node of a Redis Cluster\. Begin HUB_REDIS_URL with redis\+cluster:/u,
  ],
  ['a Sentinel', () => sentinel, /Redis Sentinel\. Begin HUB_REDIS_URL with redis\+sentinel:/u],
] as const)('%s at the address of one server', (_name, port, sentence) => {
  it.live('is refused at the start, with a sentence', () =>
    Effect.gen(function* () {
      const counters = yield* makeRedisCounters({ url: urlOf(port()) })
      const error = yield* Effect.flip(counters.ping)
      const fault = connectionFault(error)
      assert.match(fault?.sentence ?? '', sentence)
      assert.isTrue(fault?.isRefusal)
    }).pipe(Effect.scoped),
  )

  it.live('is refused by the diagnostics', () =>
    Effect.gen(function* () {
      const url = urlOf(port())
      const error = yield* Effect.flip(readRedis({ url, prefix: 'hub:', day: '2026-11-30' }))
      assert.match(connectionFault(error)?.sentence ?? '', sentence)
    }),
  )
})

describe('a primary that becomes a replica', () => {
  it.live('is not used any more: a new connection goes where the address leads to then', () =>
    Effect.gen(function* () {
      const [one, other] = [
        yield* Effect.promise(async () => servers.start(await freePort())),
        yield* Effect.promise(async () => servers.start(await freePort())),
      ]
      const proxy = yield* faultProxy(`redis://127.0.0.1:${one.port}`)
      const counters = yield* makeRedisCounters({ url: Redacted.make(proxy.url), prefix: 'test:' })
      yield* Effect.retry(counters.ping, Schedule.spaced('50 millis'))
      // The connection stays open.
      yield* Effect.promise(() => one.client.replicaof('127.0.0.1', other.port))
      yield* Effect.promise(() =>
        eventually(async () => (await one.client.info('replication')).includes('master_link_status:up')),
      )
      const failure = yield* Effect.flip(counters.daily.count('2026-11-30', 1))
      assert.deepInclude(failure, { reason: 'unreachable', detail: 'READONLY' })
      proxy.retarget(`redis://127.0.0.1:${other.port}`)
      yield* Effect.retry(counters.daily.raise('2026-11-30', 1), Schedule.spaced('50 millis'))
      assert.strictEqual(yield* Effect.promise(() => other.client.get('test:daily:2026-11-30')), '1')
    }).pipe(Effect.scoped),
  )
})
