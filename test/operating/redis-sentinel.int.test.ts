/**
 * The counters with Redis Sentinels: they find the primary, and after a failover the new one, without a restart.
 * Source: Redis documentation, "Guidelines for Redis clients with support for Redis Sentinel".
 */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import {
  createServer as createTlsServer,
  getCACertificates,
  type Server as TlsServer,
  setDefaultCACertificates,
} from 'node:tls'
import { assert, describe, it } from '@effect/vitest'
import { connectionFault } from '@hub/config'
import {
  type CountersShape,
  type FloodRequest,
  keepFloodWindowsReady,
  makeRedisCounters,
  readRedis,
  Counters,
} from '@hub/counters'
import { eventually, freePort, makeCertificateAuthority, type ServerCertificate } from '@hub/testkit'
import { Effect, Logger, Redacted, Schedule, Stream } from 'effect'
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest'
import {
  allowFailover,
  type RedisProcess,
  type RedisServers,
  redisServers,
  startSentinels,
} from '../support/redis-servers.ts'

const PASSWORD = 'p@ss/word'
const SENTINEL_PASSWORD = 'sentinel+word'
const NAME = 'hub-redis.1'
const DAY = '2026-11-30'

let servers: RedisServers
let first: RedisProcess
let second: RedisProcess
let sentinels: ReadonlyArray<RedisProcess>

const startServer = async (replicaOf?: RedisProcess): Promise<RedisProcess> =>
  servers.start(await freePort(), {
    requirepass: PASSWORD,
    masterauth: PASSWORD,
    ...(replicaOf === undefined ? {} : { replicaof: `127.0.0.1 ${replicaOf.port}` }),
  })

const LINES = [
  `requirepass ${SENTINEL_PASSWORD}`,
  `sentinel sentinel-pass ${SENTINEL_PASSWORD}`,
  `sentinel auth-pass ${NAME} ${PASSWORD}`,
]

interface Parts {
  readonly password?: string
  readonly hosts?: ReadonlyArray<number>
  readonly name?: string
  readonly sentinelPassword?: string
}

const urlWith = ({
  hosts = sentinels.map(({ port }) => port),
  name = NAME,
  password = PASSWORD,
  sentinelPassword = SENTINEL_PASSWORD,
}: Parts = {}): Redacted.Redacted<string> =>
  Redacted.make(
    `redis+sentinel://${password === '' ? '' : `:${encodeURIComponent(password)}@`}${hosts
      .map((port) => `127.0.0.1:${port}`)
      .join(
        ',',
      )}/${name}${sentinelPassword === '' ? '' : `?sentinel_password=${encodeURIComponent(sentinelPassword)}`}`,
  )

/** The port of the primary, according to a Sentinel. */
const primaryPort = async (sentinel: RedisProcess): Promise<number> => {
  const answer = await sentinel.client.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', NAME)
  return Number(Array.isArray(answer) ? answer[1] : 0)
}

const hash = (n: number): string => n.toString(16).padStart(64, '0')
const message = (n: number, recipient: number): FloodRequest => ({
  account: 'acc_1',
  mode: 'live',
  recipient: hash(recipient),
  reservationId: `msg_${n}`,
  windows: { pauseSeconds: 3600, perHour: 5, perDay: 20 },
})

/** Repeats a call until Redis answers. */
const soon = <A, E>(effect: Effect.Effect<A, E>) => Effect.retry(effect, Schedule.spaced('50 millis'))

const accept = (counters: CountersShape, n: number, recipient: number) =>
  Effect.gen(function* () {
    assert.deepStrictEqual(yield* soon(counters.reserveFlood([message(n, recipient)])), [{ reserved: true }])
    yield* counters.confirmFlood([{ ...message(n, recipient), at: Date.now() }])
  })

/** The counters of a process. They live as long as the scope. */
const open = Effect.gen(function* () {
  const counters = yield* makeRedisCounters({ url: urlWith(), prefix: `${NAME}:` })
  yield* keepFloodWindowsReady(Stream.empty).pipe(Effect.provideService(Counters, counters))
  return counters
})

/** Waits until the replica has all that the counters have written. */
const replicated = (primary: RedisProcess) =>
  Effect.promise(() => eventually(async () => (await primary.client.wait(1, 1000)) >= 1))

/** Sends messages until one of them is in this server: those before are in the previous primary. */
const untilWrittenTo = (counters: CountersShape, server: RedisProcess) =>
  Effect.promise(() => {
    let n = 1000
    return eventually(async () => {
      const sent = message(n, n++)
      await Effect.runPromise(counters.reserveFlood([sent]))
      return (await server.client.keys(`*:${sent.recipient}`)).length === 1
    })
  })

const startPair = async (): Promise<void> => {
  servers = await redisServers()
  first = await startServer()
  second = await startServer(first)
  await eventually(async () => (await second.client.info('replication')).includes('master_link_status:up'))
}
const startOne = async (): Promise<void> => {
  await startPair()
  sentinels = [
    await servers.startSentinel(await freePort(), [
      `sentinel monitor ${NAME} 127.0.0.1 ${first.port} 1`,
      ...LINES,
    ]),
  ]
}

describe('counters with three Sentinels', () => {
  beforeEach(async () => {
    await startPair()
    sentinels = await startSentinels(servers, first, NAME, LINES)
  })
  afterEach(() => servers.stop())

  it.live('use the new primary when the primary is killed, and their windows and counts are in it', () =>
    Effect.gen(function* () {
      const counters = yield* open
      yield* accept(counters, 1, 1)
      yield* soon(counters.daily.raise(DAY, 3))
      yield* replicated(first)
      yield* Effect.promise(() => first.stop())
      yield* Effect.flip(counters.reserveFlood([message(2, 2)]))
      yield* Effect.promise(() => allowFailover(sentinels, NAME))
      // A code passes meanwhile, and counts as soon as Redis answers.
      yield* counters.confirmFlood([{ ...message(3, 3), at: Date.now() }])
      const [again] = yield* soon(counters.reserveFlood([message(4, 1)]))
      assert.deepInclude(again, { reserved: false, window: 'pause' })
      assert.strictEqual(yield* Effect.promise(() => primaryPort(sentinels[0]!)), second.port)
      yield* Effect.promise(() =>
        eventually(async () => {
          const [code] = await Effect.runPromise(counters.reserveFlood([message(5, 3)]))
          assert.deepInclude(code, { reserved: false, window: 'pause' })
          return true
        }),
      )
      assert.isTrue(yield* soon(counters.daily.stopped(DAY, 3)))
      yield* accept(counters, 6, 6)
    }).pipe(Effect.scoped),
  )

  it.live('use the new primary when the primary does not answer any more', () =>
    Effect.gen(function* () {
      const counters = yield* open
      yield* accept(counters, 1, 1)
      yield* replicated(first)
      // It accepts connections, and answers nobody.
      yield* Effect.promise(() => first.client.client('PAUSE', 600_000))
      yield* Effect.promise(() => allowFailover(sentinels, NAME))
      yield* accept(counters, 2, 2)
      const kept = yield* Effect.promise(() => second.client.keys(`${NAME}:*:flood:*`))
      assert.lengthOf(kept, 2)
    }).pipe(Effect.scoped),
  )

  it.live('use the new primary after a failover that somebody has asked for', () =>
    Effect.gen(function* () {
      const counters = yield* open
      yield* accept(counters, 1, 1)
      yield* replicated(first)
      yield* Effect.promise(() => sentinels[0]!.client.call('SENTINEL', 'FAILOVER', NAME))
      // Until then, it also has what is written to the previous primary.
      yield* Effect.promise(() =>
        eventually(async () => (await second.client.info('replication')).includes('role:master')),
      )
      yield* untilWrittenTo(counters, second)
      assert.lengthOf(yield* Effect.promise(() => second.client.keys(`*:flood:acc_1:live:${hash(1)}`)), 1)
    }).pipe(Effect.scoped),
  )

  it.live('use the server that most Sentinels name, and the diagnostics count those', () =>
    Effect.gen(function* () {
      const [dissenter] = sentinels
      yield* Effect.promise(async () => {
        await dissenter!.client.call('SENTINEL', 'REMOVE', NAME)
        await dissenter!.client.call('SENTINEL', 'MONITOR', NAME, '127.0.0.1', second.port, 2)
        // As a previous primary that has not noticed the failover: both servers accept writes.
        await second.client.replicaof('NO', 'ONE')
      })
      const state = yield* soon(readRedis({ url: urlWith(), prefix: 'hub:', day: DAY }))
      assert.deepStrictEqual(state.sentinels, { naming: 2, all: 3 })
      // The first answer may be that of the dissenter.
      const counters = yield* open
      yield* untilWrittenTo(counters, first)
    }).pipe(Effect.scoped),
  )

  it.live('need one Sentinel that answers, and the diagnostics count them', () =>
    Effect.gen(function* () {
      yield* Effect.promise(() => sentinels[0]!.stop())
      // One that accepts connections and never answers.
      const mute: Server = createServer((socket) => void socket.on('error', () => {}).resume())
      mute.listen(0, '127.0.0.1')
      yield* Effect.promise(() => once(mute, 'listening'))
      yield* Effect.addFinalizer(() => Effect.sync(() => mute.close()))
      const hosts = [sentinels[0]!.port, (mute.address() as AddressInfo).port, sentinels[1]!.port]
      const counters = yield* makeRedisCounters({ url: urlWith({ hosts }), prefix: `${NAME}:` })
      yield* soon(counters.ping)
      const state = yield* soon(readRedis({ url: urlWith({ hosts }), prefix: 'hub:', day: DAY }))
      assert.deepInclude(state, { role: 'master', primaries: null })
      assert.deepStrictEqual(state.sentinels, { naming: 1, all: 3 })
    }).pipe(Effect.scoped),
  )
})

describe('counters with one Sentinel', () => {
  beforeEach(startOne)
  afterEach(() => servers.stop())

  it.live('follow it to another primary, although the previous one answers', () =>
    Effect.gen(function* () {
      const counters = yield* open
      const [sentinel] = sentinels
      yield* Effect.promise(async () => {
        // Sentinels that have another primary end the connections to the previous one. This one does not know it.
        await sentinel!.client.call('SENTINEL', 'REMOVE', NAME)
        await second.client.replicaof('NO', 'ONE')
        await sentinel!.client.call('SENTINEL', 'MONITOR', NAME, '127.0.0.1', second.port, 1)
      })
      yield* untilWrittenTo(counters, second)
      assert.include(yield* Effect.promise(() => first.client.info('replication')), 'role:master')
    }).pipe(Effect.scoped),
  )

  it.live('warn of a new primary that can evict keys', () =>
    Effect.gen(function* () {
      const [sentinel] = sentinels
      yield* Effect.promise(async () => {
        await first.client.config('SET', 'maxmemory-policy', 'noeviction')
        await second.client.config('SET', 'maxmemory-policy', 'allkeys-lru')
        await second.client.replicaof('NO', 'ONE')
      })
      const logged: Array<string> = []
      const logger = Logger.make(({ message: text }) => void logged.push(String(text)))
      yield* Effect.gen(function* () {
        const counters = yield* makeRedisCounters({ url: urlWith(), prefix: `${NAME}:` })
        yield* soon(counters.ping)
        assert.notInclude(logged.join('\n'), 'evict')
        yield* Effect.promise(async () => {
          await sentinel!.client.call('SENTINEL', 'REMOVE', NAME)
          await sentinel!.client.call('SENTINEL', 'MONITOR', NAME, '127.0.0.1', second.port, 1)
        })
        yield* Effect.promise(() => eventually(() => logged.some((line) => line.includes('may evict keys'))))
      }).pipe(Effect.provide(Logger.layer([logger])))
    }).pipe(Effect.scoped),
  )

  it.live('need no other permission of it than to ask for the primary', () =>
    Effect.gen(function* () {
      const [sentinel] = sentinels
      const acl = ['hub', 'reset', 'on', `>${SENTINEL_PASSWORD}`, '+auth', '+sentinel']
      yield* Effect.promise(() => sentinel!.client.call('ACL', 'SETUSER', ...acl))
      const url = Redacted.make(`${Redacted.value(urlWith())}&sentinel_username=hub`)
      const counters = yield* makeRedisCounters({ url, prefix: `${NAME}:` })
      yield* soon(counters.ping)
      const state = yield* soon(readRedis({ url, prefix: 'hub:', day: DAY }))
      assert.deepStrictEqual(state.sentinels, { naming: 1, all: 1 })
    }).pipe(Effect.scoped),
  )

  it.live('do not use a replica that it names', () =>
    Effect.gen(function* () {
      const [sentinel] = sentinels
      yield* Effect.promise(async () => {
        await sentinel!.client.call('SENTINEL', 'REMOVE', NAME)
        await sentinel!.client.call('SENTINEL', 'MONITOR', NAME, '127.0.0.1', second.port, 1)
      })
      const counters = yield* makeRedisCounters({ url: urlWith(), prefix: `${NAME}:` })
      const error = yield* Effect.flip(counters.ping)
      assert.match(connectionFault(error)?.sentence ?? '', /is a replica, .*HUB_REDIS_URL/u)
      // It may be about to become the primary.
      assert.isFalse(connectionFault(error)?.isRefusal)
    }).pipe(Effect.scoped),
  )
})

describe('with TLS', () => {
  let authorities: Array<string>
  let certificate: ServerCertificate
  const terminators: Array<TlsServer> = []

  /** Redis of the test has no TLS of its own. */
  const withTls = async (port: number): Promise<number> => {
    const server = createTlsServer(certificate, (client) => {
      const plain = connect(port, '127.0.0.1')
      for (const socket of [client, plain]) {
        socket.on('error', () => {})
        socket.on('close', () => [client, plain].forEach((one) => one.destroy()))
      }
      client.pipe(plain)
      plain.pipe(client)
    })
    terminators.push(server)
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return (server.address() as AddressInfo).port
  }

  beforeAll(async () => {
    await startOne()
    authorities = getCACertificates('default')
    const authority = await makeCertificateAuthority()
    certificate = await authority.issue(['redis.test'])
    setDefaultCACertificates([...authorities, authority.pem])
    const [sentinel] = sentinels
    await sentinel!.client.call('SENTINEL', 'REMOVE', NAME)
    // The Sentinel cannot reach this port without TLS, but it names it.
    await sentinel!.client.call('SENTINEL', 'MONITOR', NAME, '127.0.0.1', await withTls(first.port), 1)
  })
  afterAll(async () => {
    setDefaultCACertificates(authorities)
    for (const server of terminators) server.close()
    await servers.stop()
  })

  const urlWithTls = (tlsName: string, port: number) =>
    Redacted.make(
      `${Redacted.value(urlWith({ hosts: [port] })).replace('redis+', 'rediss+')}&tls_name=${tlsName}`,
    )

  it.live('servers that are named by addresses are verified by the name in the settings', () =>
    Effect.gen(function* () {
      const port = yield* Effect.promise(() => withTls(sentinels[0]!.port))
      const counters = yield* makeRedisCounters({ url: urlWithTls('redis.test', port) })
      yield* soon(counters.ping)
    }).pipe(Effect.scoped),
  )

  it.live('another name is refused', () =>
    Effect.gen(function* () {
      const port = yield* Effect.promise(() => withTls(sentinels[0]!.port))
      const counters = yield* makeRedisCounters({ url: urlWithTls('other.test', port) })
      const error = yield* Effect.flip(counters.ping)
      assert.match(
        connectionFault(error)?.sentence ?? error.detail,
        /certificate of Redis is for another host/u,
      )
    }).pipe(Effect.scoped),
  )
})

describe('settings that the servers refuse', () => {
  beforeAll(startOne)
  afterAll(() => servers.stop())

  const refused: ReadonlyArray<
    readonly [what: string, parts: () => Parts, sentence: RegExp, isRefusal: boolean]
  > = [
    ['an unknown name', () => ({ name: 'other' }), /do not know a primary .*HUB_REDIS_URL/u, true],
    [
      'a wrong password of the Sentinels',
      () => ({ sentinelPassword: 'wrong' }),
      /Sentinels refuse .*sentinel_password in HUB_REDIS_URL/u,
      true,
    ],
    [
      'no password of the Sentinels',
      () => ({ sentinelPassword: '' }),
      /Sentinels require a password. Add sentinel_password to HUB_REDIS_URL/u,
      true,
    ],
    [
      'a wrong password of Redis',
      () => ({ password: 'wrong' }),
      /^Redis refuses the user or the password. Correct HUB_REDIS_URL/u,
      true,
    ],
    [
      'no password of Redis',
      () => ({ password: '' }),
      /^Redis requires a password. Add it to HUB_REDIS_URL/u,
      true,
    ],
    [
      'a server of Redis in the place of a Sentinel',
      () => ({ hosts: [first.port], sentinelPassword: PASSWORD }),
      /HUB_REDIS_URL is no Redis Sentinel/u,
      true,
    ],
    ['no Sentinel that answers', () => ({ hosts: [1, 2] }), /No Sentinel answers.*HUB_REDIS_URL/u, false],
  ]
  it.live.each(refused)('%s: a sentence names the setting', ([, parts, sentence, isRefusal]) =>
    Effect.gen(function* () {
      const url = urlWith(parts())
      const counters = yield* makeRedisCounters({ url })
      const errors = [
        yield* Effect.flip(counters.ping),
        yield* Effect.flip(readRedis({ url, prefix: 'hub:', day: DAY })),
      ]
      for (const error of errors) {
        const fault = connectionFault(error)
        assert.match(fault?.sentence ?? `unknown: ${error.detail}`, sentence)
        assert.strictEqual(fault?.isRefusal, isRefusal)
      }
    }).pipe(Effect.scoped),
  )
})
