/** The counters and shared texts in a Redis Cluster: of one node away, of a failover, and of a slot that moves. */
import { randomBytes } from 'node:crypto'
import { assert, describe, it } from '@effect/vitest'
import { connectionFault } from '@hub/config'
import {
  Counters,
  type FloodRequest,
  makeRedisCounters,
  makeRedisSharedTexts,
  readRedis,
  SharedTexts,
} from '@hub/counters'
import {
  makeSuiteClock,
  portContract,
  redisProxy,
  sharedTextsContract,
  TestCounters,
  TestSharedTexts,
} from '@hub/counters/testing'
import { eventually, freePort } from '@hub/testkit'
import { Context, Effect, Exit, Layer, Logger, Redacted, Schedule, Scope, Stream } from 'effect'
import type { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach } from 'vitest'
import {
  allowClusterFailover,
  type ClusterNode,
  freeClusterPorts,
  moveSlot,
  type RedisServers,
  redisServers,
  startCluster,
} from '../support/redis-servers.ts'

const START = 1_795_000_000_000
/** The suites check results, not times: a busy machine may answer later than after 250 ms. */
const DEADLINE_MS = 30_000
const PASSWORD = 'cluster-password'
const DAY = '2026-11-30'

const scope = Effect.runSync(Scope.make())
let servers: RedisServers
let nodes: ReadonlyArray<ClusterNode>
let proxies: ReadonlyArray<Effect.Success<ReturnType<typeof redisProxy>>>

beforeAll(async () => {
  servers = await redisServers()
  const ports = await freeClusterPorts(4)
  proxies = await Effect.runPromise(
    Effect.forEach(ports, (port) => redisProxy(`redis://127.0.0.1:${port}`)).pipe(Scope.provide(scope)),
  )
  nodes = await startCluster(
    servers,
    ports,
    proxies.map((proxy) => Number(new URL(proxy.url).port)),
    { requirepass: PASSWORD, masterauth: PASSWORD },
  )
})
beforeEach(() => {
  for (const proxy of proxies) proxy.set('up')
})
afterAll(async () => {
  await servers?.stop()
  await Effect.runPromise(Scope.close(scope, Exit.void))
})

/** One node is enough: it names the others. */
const url = (password = PASSWORD): Redacted.Redacted<string> =>
  Redacted.make(`redis+cluster://:${password}@127.0.0.1:${new URL(proxies[1]!.url).port}`)

const keysOf = async ({ client }: { readonly client: Redis }, prefix: string): Promise<Array<string>> =>
  client.keys(`${prefix}*`)

/** A unique prefix, and the deletion of its keys on all primaries. */
const freshPrefix = Effect.gen(function* () {
  const prefix = `t${randomBytes(6).toString('hex')}:`
  const clear = Effect.promise(async () => {
    for (const node of nodes.filter((one) => one.isRunning())) {
      if (!(await node.client.info('replication')).includes('role:master')) continue
      for (const key of await keysOf(node, prefix)) await node.client.del(key)
    }
  })
  yield* Effect.addFinalizer(() => clear)
  return { prefix, clear }
})

portContract(
  'redis cluster',
  Layer.fresh(
    Layer.effectContext(
      Effect.gen(function* () {
        const { clear, prefix } = yield* freshPrefix
        const clock = makeSuiteClock(START)
        const counters = yield* makeRedisCounters({
          url: url(),
          prefix,
          now: clock.read,
          deadlineMs: DEADLINE_MS,
        })
        return Context.make(Counters, counters).pipe(
          Context.add(TestCounters, {
            ...clock.control,
            set: (state) =>
              Effect.sync(() => {
                for (const proxy of proxies) proxy.set(state)
              }),
            empty: clear,
          }),
        )
      }),
    ),
  ),
)

sharedTextsContract(
  'redis cluster',
  Layer.fresh(
    Layer.effectContext(
      Effect.gen(function* () {
        const { prefix } = yield* freshPrefix
        const open = makeRedisSharedTexts({ url: url(), prefix, deadlineMs: DEADLINE_MS })
        return Context.make(SharedTexts, yield* open).pipe(
          Context.add(TestSharedTexts, {
            setUnreachable: (isUnreachable) =>
              Effect.sync(() => {
                for (const proxy of proxies) proxy.set(isUnreachable ? 'refusing' : 'up')
              }),
            other: yield* open,
          }),
        )
      }),
    ),
  ),
)

const ACCOUNTS = Array.from({ length: 24 }, (_, index) => `acc_${index}`)
const message = (account: string, id: string): FloodRequest => ({
  account,
  mode: 'live',
  recipient: '1'.padStart(64, '0'),
  reservationId: `msg_${id}`,
  windows: { pauseSeconds: 3600, perHour: 5, perDay: 20 },
})

/** Repeats a call until Redis answers. */
const soon = <A, E>(effect: Effect.Effect<A, E>) => Effect.retry(effect, Schedule.spaced('50 millis'))

/** Counters that have accepted a message of each account. */
const open = Effect.gen(function* () {
  const { prefix } = yield* freshPrefix
  const counters = yield* makeRedisCounters({ url: url(), prefix, deadlineMs: DEADLINE_MS })
  yield* soon(counters.generation.rebuild(Stream.empty))
  const first = ACCOUNTS.map((account) => message(account, 'first'))
  const verdicts = yield* soon(counters.reserveFlood(first))
  assert.isTrue(verdicts.every(({ reserved }) => reserved))
  yield* counters.confirmFlood(first.map((one) => ({ ...one, at: Date.now() })))
  const keys = yield* Effect.promise(() => Promise.all(nodes.slice(0, 3).map((node) => keysOf(node, prefix))))
  /** The accounts of each primary. */
  const accounts = keys.map((own) =>
    ACCOUNTS.filter((account) => own.some((key) => key.includes(`:flood:${account}:`))),
  )
  return { accounts, counters, keys, prefix }
})

/** A process keeps 20,000 messages that it cannot count (docs/decisions/limits.md). */
const MORE_THAN_BUFFERED = 20_001

const PAUSED = { reserved: false, window: 'pause' } as const

describe('counters in a cluster', () => {
  it.live('use all primaries', () =>
    Effect.gen(function* () {
      const { accounts, counters } = yield* open
      for (const own of accounts) assert.isNotEmpty(own)
      assert.sameMembers(accounts.flat(), ACCOUNTS)
      assert.strictEqual(yield* counters.generation.state, 'ready')
    }).pipe(Effect.scoped),
  )

  it.live('work with the other nodes while one is away', () =>
    Effect.gen(function* () {
      const { accounts, counters } = yield* open
      proxies[2]!.set('refusing')
      for (const account of accounts[2]!) {
        yield* Effect.flip(counters.reserveFlood([message(account, 'second')]))
      }
      for (const account of [...accounts[0]!, ...accounts[1]!]) {
        const [verdict] = yield* soon(counters.reserveFlood([message(account, 'second')]))
        assert.deepInclude(verdict, PAUSED)
      }
      proxies[2]!.set('up')
      for (const account of accounts[2]!) {
        const [verdict] = yield* soon(counters.reserveFlood([message(account, 'second')]))
        assert.deepInclude(verdict, PAUSED)
      }
    }).pipe(Effect.scoped),
  )

  it.live('keep what one node cannot count, whatever the others count meanwhile', () =>
    Effect.gen(function* () {
      const { accounts, counters } = yield* open
      const recipient = '2'.padStart(64, '0')
      const accepted = (account: string, id: string) => ({
        ...message(account, id),
        recipient,
        at: Date.now(),
      })
      const away = accounts[2]![0]!
      proxies[2]!.set('refusing')
      yield* counters.confirmFlood([accepted(away, 'away')])
      yield* counters.confirmFlood(
        Array.from({ length: MORE_THAN_BUFFERED }, (_, n) => accepted(accounts[1]![0]!, String(n))),
      )
      proxies[2]!.set('up')
      yield* Effect.promise(() =>
        eventually(
          async () => (await nodes[2]!.client.keys(`*:flood:${away}:live:${recipient}`)).length === 1,
        ),
      )
    }).pipe(Effect.scoped),
  )

  it.live('follow a slot to another node, with its windows', () =>
    Effect.gen(function* () {
      const { accounts, counters, keys } = yield* open
      const account = accounts[1]![0]!
      const key = keys[1]!.find((one) => one.includes(`:flood:${account}:`))!
      const [, from, to] = nodes
      const slot = yield* Effect.promise(() => from!.client.cluster('KEYSLOT', key))
      yield* Effect.promise(() => moveSlot(Number(slot), from!, to!, PASSWORD))
      const [verdict] = yield* soon(counters.reserveFlood([message(account, 'second')]))
      assert.deepInclude(verdict, PAUSED)
      assert.include(yield* Effect.promise(() => to!.client.keys('*')), key)
    }).pipe(Effect.scoped),
  )

  it.live('are described by the diagnostics', () =>
    Effect.gen(function* () {
      const { counters, prefix } = yield* open
      yield* soon(counters.daily.raise(DAY, 7))
      const state = yield* soon(readRedis({ url: url(), prefix, day: DAY }))
      assert.deepInclude(state, { role: 'master', primaries: 3, sentinels: null, today: 7 })
    }).pipe(Effect.scoped),
  )

  it.live('use the promoted replica when a primary is killed', () =>
    Effect.gen(function* () {
      const { accounts, counters } = yield* open
      yield* Effect.promise(() => eventually(async () => (await nodes[0]!.client.wait(1, 1000)) >= 1))
      yield* Effect.promise(() => nodes[0]!.stop())
      const [account, other] = accounts[0]!
      yield* Effect.flip(counters.reserveFlood([message(account!, 'second')]))
      yield* Effect.promise(() => allowClusterFailover(nodes.slice(1)))
      const [verdict] = yield* soon(counters.reserveFlood([message(account!, 'second')]))
      assert.deepInclude(verdict, PAUSED)
      assert.include(yield* Effect.promise(() => nodes[3]!.client.info('replication')), 'role:master')
      // Another recipient of the same account.
      const [reserved] = yield* soon(
        counters.reserveFlood([{ ...message(other ?? account!, 'third'), recipient: '2'.padStart(64, '0') }]),
      )
      assert.deepStrictEqual(reserved, { reserved: true })
    }).pipe(Effect.scoped),
  )
})

describe('a cluster that cannot be used', () => {
  const refused: ReadonlyArray<
    readonly [what: string, url: () => Promise<string>, sentence: RegExp, isRefusal: boolean]
  > = [
    [
      'a wrong password',
      async () => Redacted.value(url('wrong')),
      /^Redis refuses the user or the password. Correct HUB_REDIS_URL/u,
      true,
    ],
    [
      'a server without a cluster',
      async () => `redis+cluster://127.0.0.1:${(await servers.start(await freePort())).port}`,
      /no node of a Redis Cluster. Begin HUB_REDIS_URL with redis:/u,
      true,
    ],
    [
      'no node that answers',
      async () => 'redis+cluster://127.0.0.1:1,127.0.0.1:2',
      /^Redis does not accept connections.*HUB_REDIS_URL/u,
      false,
    ],
  ]
  it.live.each(refused)('%s: a sentence names the setting', ([, urlOf, sentence, isRefusal]) =>
    Effect.gen(function* () {
      const wrong = Redacted.make(yield* Effect.promise(urlOf))
      const counters = yield* makeRedisCounters({ url: wrong })
      const errors = [
        yield* Effect.flip(counters.ping),
        yield* Effect.flip(readRedis({ url: wrong, prefix: 'hub:', day: DAY })),
      ]
      for (const error of errors) {
        const fault = connectionFault(error)
        assert.match(fault?.sentence ?? `unknown: ${error.detail}`, sentence)
        assert.strictEqual(fault?.isRefusal, isRefusal)
      }
    }).pipe(Effect.scoped),
  )

  it.live('without slots: the log says so', () =>
    Effect.gen(function* () {
      const empty = yield* Effect.promise(async () => {
        const [port] = await freeClusterPorts(1)
        return servers.start(port!, { 'cluster-enabled': 'yes' })
      })
      const logged: Array<string> = []
      const logger = Logger.make(({ message: text }) => void logged.push(String(text)))
      const counters = yield* makeRedisCounters({
        url: Redacted.make(`redis+cluster://127.0.0.1:${empty.port}`),
      }).pipe(Effect.provide(Logger.layer([logger])))
      yield* Effect.flip(counters.ping)
      assert.include(logged.join('\n'), 'No node of the Redis Cluster says which nodes have the keys')
    }).pipe(Effect.scoped),
  )
})
