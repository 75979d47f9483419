import { randomBytes } from 'node:crypto'
import { assert, describe, it } from '@effect/vitest'
import { faultProxy, movableHost, SILENT_FAULTS, testRedisUrl } from '@hub/testkit'
import { Context, Effect, Exit, Layer, Logger, Metric, Redacted, Schedule, Stream } from 'effect'
import { Redis } from 'ioredis'
import { makeSuiteClock, portContract, TestCounters } from './port.contract.ts'
import { Counters, type CountersShape, type FloodRequest, type FloodWindows } from './port.ts'
import { redisProxy, type RedisProxyOptions } from './redis-proxy.testing.ts'
import { makeRedisCounters } from './redis.ts'

const START = 1_795_000_000_000

/** A client that is connected to the server without the proxy. */
const directClient = Effect.acquireRelease(
  Effect.sync(() => new Redis(testRedisUrl())),
  (redis) => Effect.sync(() => redis.disconnect()),
)

const keysOf = async (redis: Redis, prefix: string): Promise<Array<string>> => {
  const found: Array<string> = []
  let cursor = '0'
  do {
    const [next, keys] = await redis.scan(cursor, 'MATCH', `${prefix}*`, 'COUNT', 1000)
    found.push(...keys)
    cursor = next
  } while (cursor !== '0')
  return found
}

/** A unique prefix. Its keys are deleted when the scope closes. */
const freshPrefix = Effect.gen(function* () {
  const redis = yield* directClient
  const prefix = `t${randomBytes(6).toString('hex')}:`
  const clear = Effect.promise(async () => {
    const keys = await keysOf(redis, prefix)
    if (keys.length > 0) await redis.del(...keys)
  })
  yield* Effect.addFinalizer(() => clear)
  return { prefix, clear, redis }
})

const adapter = Layer.effectContext(
  Effect.gen(function* () {
    const { clear, prefix } = yield* freshPrefix
    const proxy = yield* redisProxy(testRedisUrl())
    const clock = makeSuiteClock(START)
    const counters = yield* makeRedisCounters({
      url: Redacted.make(proxy.url),
      prefix,
      now: clock.read,
      // The suite checks results, not times: a busy machine may answer later than after 250 ms.
      deadlineMs: 30_000,
    })
    return Context.make(Counters, counters).pipe(
      Context.add(TestCounters, {
        ...clock.control,
        set: (state) => Effect.sync(() => proxy.set(state)),
        empty: clear,
      }),
    )
  }),
)

portContract('redis', Layer.fresh(adapter))

const DEFAULTS: FloodWindows = { pauseSeconds: 60, perHour: 5, perDay: 20 }
const hash = (n: number): string => n.toString(16).padStart(64, '0')
const message = (n: number, over: Partial<FloodRequest> = {}): FloodRequest => ({
  account: 'acc_1',
  mode: 'live',
  recipient: hash(1),
  reservationId: `msg_${n}`,
  windows: DEFAULTS,
  ...over,
})

const reasonOf = (exit: Exit.Exit<unknown, { readonly reason: string }>): string =>
  Exit.match(exit, {
    onSuccess: () => 'no failure',
    onFailure: (cause) =>
      cause.reasons.map((one) => (one._tag === 'Fail' ? one.error.reason : one._tag)).join(),
  })

/** Calls without an answer so far, by counter and reason. */
const unanswered = Effect.map(
  Metric.snapshot,
  (all) =>
    new Map(
      all.flatMap((metric) =>
        metric.type === 'Counter' && metric.id === 'hub_counters_unavailable_total'
          ? [
              [
                `${metric.attributes?.['counter']} ${metric.attributes?.['reason']}`,
                Number(metric.state.count),
              ] as const,
            ]
          : [],
      ),
    ),
)

const soon = <A, E>(effect: Effect.Effect<A, E>) =>
  effect.pipe(
    Effect.retry(Schedule.spaced('20 millis')),
    Effect.timeoutOrElse({ duration: '20 seconds', orElse: () => Effect.die('not within 20 s') }),
  )

const through = Effect.fnUntraced(function* (options: RedisProxyOptions = {}) {
  const { prefix, redis } = yield* freshPrefix
  const proxy = yield* redisProxy(testRedisUrl(), options)
  const counters = yield* makeRedisCounters({ url: Redacted.make(proxy.url), prefix })
  return { counters, prefix, proxy, redis }
})

/** Makes each call once, so that every kind of key exists. */
const useAll = (counters: CountersShape) =>
  Effect.gen(function* () {
    yield* counters.generation.rebuild(Stream.empty)
    yield* counters.takeToken('key_1', 5)
    yield* counters.failedLogins.end('192.0.2.1', 'attempt', 'failed')
    yield* counters.reserveFlood([message(1), message(2, { recipient: hash(2), mode: 'test' })])
    yield* counters.confirmFlood([{ ...message(1), at: Date.now() }])
    yield* counters.confirmFlood([{ ...message(3, { recipient: hash(3) }), at: Date.now() }])
    yield* counters.daily.count('2026-11-21', 1)
    yield* counters.daily.raise('2026-11-22', 1)
  })

describe('redis', () => {
  it.live('uses the clock of the server by default', () =>
    Effect.gen(function* () {
      const { counters, prefix, redis } = yield* through()
      yield* useAll(counters)
      const [seconds] = yield* Effect.promise(() => redis.time())
      const [flood] = (yield* Effect.promise(() => keysOf(redis, prefix))).filter((key) =>
        key.endsWith(`:live:${hash(1)}`),
      )
      const at = Number(yield* Effect.promise(() => redis.zscore(flood!, 'msg_1')))
      // A test lasts a minute at most, so a wrong unit or another epoch would be detected.
      assert.isAtMost(Math.abs(at - Number(seconds) * 1000), 60_000)
      const [again] = yield* counters.reserveFlood([message(4)])
      assert.isFalse(again?.reserved)
      const bucket = yield* Effect.all(Array.from({ length: 6 }, () => counters.takeToken('key_2', 2)))
      assert.isTrue(bucket[0]?.allowed)
      yield* Effect.forEach(Array.from({ length: 21 }), () =>
        counters.failedLogins.end('192.0.2.2', 'attempt', 'failed'),
      )
      assert.isFalse((yield* counters.failedLogins.check('192.0.2.2')).allowed)
    }),
  )

  it.live('creates only keys that expire, except for the generations', () =>
    Effect.gen(function* () {
      const { counters, prefix, redis } = yield* through()
      yield* useAll(counters)
      const keys = yield* Effect.promise(() => keysOf(redis, prefix))
      const kinds = new Set(
        keys.map((key) =>
          key
            .replace(/\{[^}]*\}/u, '{}')
            .split(':')
            .slice(1, 3)
            .join(':'),
        ),
      )
      for (const key of keys) {
        const left = yield* Effect.promise(() => redis.pttl(key))
        if (key.endsWith(':generation')) assert.strictEqual(left, -1)
        else assert.isAbove(left, 0, key)
      }
      assert.isAtLeast(kinds.size, 6, [...kinds].join())
    }),
  )

  it.live('two processes together get exactly the limit', () =>
    Effect.gen(function* () {
      const { prefix } = yield* freshPrefix
      const url = Redacted.make(testRedisUrl())
      const [one, other] = yield* Effect.all([
        makeRedisCounters({ url, prefix }),
        makeRedisCounters({ url, prefix }),
      ])
      yield* one.generation.rebuild(Stream.empty)
      const windows = { pauseSeconds: 0, perHour: 7, perDay: 20 }
      const verdicts = yield* Effect.all(
        Array.from({ length: 500 }, (_, i) =>
          (i % 2 === 0 ? one : other).reserveFlood([message(i, { windows })]),
        ),
        { concurrency: 'unbounded' },
      )
      assert.strictEqual(verdicts.flat().filter(({ reserved }) => reserved).length, 7)
    }),
  )

  it.live('a reservation that succeeded but was reported as failed expires', () =>
    Effect.gen(function* () {
      const { prefix } = yield* freshPrefix
      let now = START
      // The server makes the reservation, and its answer is lost.
      let silent = false
      const proxy = yield* redisProxy(testRedisUrl(), { rewrite: (answer) => (silent ? '' : answer) })
      const counters = yield* makeRedisCounters({ url: Redacted.make(proxy.url), prefix, now: () => now })
      yield* counters.generation.rebuild(Stream.empty)
      silent = true
      const exit = yield* Effect.exit(counters.reserveFlood([message(1)]))
      assert.strictEqual(reasonOf(exit), 'timeout')
      silent = false
      // A connection that has lost bytes cannot continue.
      proxy.set('refusing')
      proxy.set('up')
      const [while_] = yield* soon(counters.reserveFlood([message(2)]))
      assert.isFalse(while_?.reserved, 'the first did happen')
      // A repeated request finds its reservation.
      assert.deepStrictEqual(yield* counters.reserveFlood([message(1)]), [{ reserved: true }])
      now += 20_000
      assert.deepStrictEqual(yield* counters.reserveFlood([message(2)]), [{ reserved: true }])
    }),
  )

  it.live('no calls queue up while the server hangs', () =>
    Effect.gen(function* () {
      const { counters, proxy } = yield* through()
      yield* counters.generation.rebuild(Stream.empty)
      proxy.set('hanging')
      const together = yield* Effect.all(
        Array.from({ length: 100 }, () => Effect.exit(counters.takeToken('key', 5))),
        { concurrency: 'unbounded' },
      )
      assert.deepStrictEqual(new Set(together.map(reasonOf)), new Set(['timeout']))
      const asked = proxy.scripts()
      assert.isAtLeast(asked, 100, 'the proxy counts')
      // None of these calls waits (a thousand deadlines would exceed the test's timeout) or reaches
      // the server.
      for (let i = 0; i < 1000; i++) {
        assert.strictEqual(reasonOf(yield* Effect.exit(counters.takeToken('key', 5))), 'timeout')
      }
      assert.strictEqual(proxy.scripts(), asked)
      proxy.set('up')
      assert.isTrue((yield* soon(counters.takeToken('other', 5))).allowed)
    }),
  )

  it.live('counts the calls without an answer, by counter and reason', () =>
    Effect.gen(function* () {
      const { counters, proxy } = yield* through()
      const before = yield* unanswered
      yield* Effect.flip(counters.reserveFlood([message(1)]))
      yield* counters.generation.rebuild(Stream.empty)
      proxy.set('hanging')
      yield* Effect.flip(counters.takeToken('key', 5))
      // Nothing arrives, so these calls fail at once.
      yield* Effect.flip(counters.daily.stopped('2026-11-21', 1))
      yield* Effect.flip(counters.failedLogins.check('192.0.2.1'))
      const after = yield* unanswered
      assert.deepStrictEqual(
        [...after].filter(([key, count]) => count > (before.get(key) ?? 0)).map(([key]) => key),
        ['rate timeout', 'logins timeout', 'flood empty', 'daily timeout'],
      )
    }),
  )

  it.live('calls beyond the limit of concurrent calls fail at once', () =>
    Effect.gen(function* () {
      const { counters } = yield* through()
      const exits = yield* Effect.all(
        Array.from({ length: 5_200 }, () => Effect.exit(counters.daily.stopped('2026-11-21', 1))),
        { concurrency: 'unbounded' },
      )
      const reasons = exits.map(reasonOf)
      assert.strictEqual(reasons.filter((reason) => reason === 'busy').length, 200)
      // Too many calls are not an outage.
      assert.isFalse(reasons.includes('unreachable'))
    }),
  )

  it.live('a process starts without a server, and connects later', () =>
    Effect.gen(function* () {
      const { prefix } = yield* freshPrefix
      const proxy = yield* redisProxy(testRedisUrl())
      proxy.set('refusing')
      const counters = yield* makeRedisCounters({ url: Redacted.make(proxy.url), prefix })
      assert.strictEqual(reasonOf(yield* Effect.exit(counters.generation.state)), 'unreachable')
      proxy.set('up')
      assert.strictEqual(yield* soon(counters.generation.state), 'empty')
    }),
  )

  it.live('an error of the server fails the call only, and does not contain the data of the call', () =>
    Effect.gen(function* () {
      const { counters, prefix, redis } = yield* through()
      yield* Effect.promise(() => redis.set(`${prefix}gate:{192.0.2.1}`, 'not a list'))
      const failure = yield* Effect.flip(counters.failedLogins.end('192.0.2.1', 'attempt', 'failed'))
      assert.deepInclude(failure, { reason: 'failed' })
      assert.notInclude(JSON.stringify(failure), '192.0.2.1')
      yield* counters.failedLogins.end('192.0.2.2', 'attempt', 'failed')
    }),
  )

  it.live('logs a warning if the server may evict keys', () =>
    Effect.gen(function* () {
      const logged: Array<string> = []
      const logger = Logger.make(({ message: text }) => {
        logged.push(String(text))
      })
      const evicting = (answer: string) => answer.replace('$10\r\nnoeviction', '$11\r\nallkeys-lru')
      const connect = (options: RedisProxyOptions) =>
        Effect.scoped(through(options)).pipe(Effect.provide(Logger.layer([logger])))
      yield* connect({})
      assert.deepStrictEqual(logged, [])
      yield* connect({ rewrite: evicting })
      assert.strictEqual(logged.length, 1)
      assert.include(logged[0], 'noeviction')
    }),
  )
})

describe('a connection to redis', () => {
  for (const [name, begin] of SILENT_FAULTS) {
    it.live(`is replaced when it is dead: ${name}`, () =>
      Effect.gen(function* () {
        const { prefix } = yield* freshPrefix
        const proxy = yield* faultProxy(testRedisUrl())
        const counters = yield* makeRedisCounters({ url: Redacted.make(proxy.url), prefix })
        yield* counters.ping
        proxy.hold()
        begin(proxy)
        yield* Effect.flip(counters.ping)
        proxy.release()
        yield* soon(counters.ping)
      }),
    )
  }

  it.live('follows the name of the server to another address', () =>
    Effect.gen(function* () {
      const { prefix } = yield* freshPrefix
      const host = yield* movableHost(testRedisUrl(), 'redis.test')
      const counters = yield* makeRedisCounters({ url: Redacted.make(host.url), prefix })
      yield* counters.ping
      host.first.hold()
      host.first.drop('both')
      yield* Effect.flip(counters.ping)
      host.move()
      yield* soon(counters.ping)
      assert.isAbove(host.second.accepted(), 0)
    }),
  )

  const slowServer = Effect.gen(function* () {
    const { prefix } = yield* freshPrefix
    const proxy = yield* faultProxy(testRedisUrl())
    const counters = yield* makeRedisCounters({ url: Redacted.make(proxy.url), prefix })
    yield* soon(counters.generation.rebuild(Stream.empty))
    return { counters, proxy }
  })
  const reserveMany = (counters: CountersShape, from: number) =>
    counters.reserveFlood(
      Array.from({ length: 400 }, (_, i) => message(from + i, { recipient: hash(from + i) })),
    )

  it.live('is opened with 200 ms of delay in each direction', () => {
    const round = Effect.gen(function* () {
      const { prefix } = yield* freshPrefix
      const proxy = yield* faultProxy(testRedisUrl())
      proxy.delay(200)
      const counters = yield* makeRedisCounters({ url: Redacted.make(proxy.url), prefix })
      yield* soon(counters.ping)
      return proxy.accepted()
    })
    // On a busy machine a step can take so long that the link tries another connection.
    return Effect.scoped(round).pipe(
      Effect.repeat({ until: (opened) => opened === 1, times: 9 }),
      Effect.map((opened) => assert.strictEqual(opened, 1)),
    )
  })

  it.live.each([60, 200])(
    'stays open with %i ms of delay in each direction, and flood windows work',
    (delayMs) =>
      Effect.gen(function* () {
        const { counters, proxy } = yield* slowServer
        proxy.delay(delayMs)
        const connections = proxy.accepted()
        let round = 0
        // A busy machine can use up the rest of the deadline. Such a call fails alone.
        const reserveSoon = Effect.suspend(() => reserveMany(counters, 1000 * round++)).pipe(
          Effect.retry(Schedule.spaced('200 millis')),
        )
        for (let i = 0; i < 3; i++) {
          const verdicts = yield* reserveSoon
          assert.deepStrictEqual(new Set(verdicts), new Set(verdicts.filter(({ reserved }) => reserved)))
        }
        assert.strictEqual(proxy.accepted(), connections)
      }),
  )

  it.live(
    'stays open when every answer is too late, fails calls at once, and works when it is fast again',
    () => {
      const round = Effect.gen(function* () {
        const { counters, proxy } = yield* slowServer
        proxy.delay(600)
        // These calls wait for their answers, which show that the connection is not dead.
        yield* Effect.all(
          Array.from({ length: 20 }, () => counters.generation.state),
          { concurrency: 'unbounded' },
        )
        // Until the link knows the delay, calls wait for their deadlines.
        yield* Effect.repeat(Effect.flip(counters.ping), { until: ({ detail }) => detail === 'slow' })
        const connections = proxy.accepted()
        // A thousand deadlines would exceed the timeout of the test.
        for (let i = 0; i < 1000; i++) {
          assert.strictEqual(reasonOf(yield* Effect.exit(reserveMany(counters, 1))), 'timeout')
        }
        proxy.delay(0)
        yield* soon(reserveMany(counters, 1))
        assert.isTrue((yield* soon(counters.takeToken('key_1', 100_000))).allowed)
        return proxy.accepted() - connections
      })
      // On a busy machine an answer can be so late that the link tries another connection.
      return Effect.scoped(round).pipe(
        Effect.repeat({ until: (opened) => opened === 0, times: 9 }),
        Effect.map((opened) => assert.strictEqual(opened, 0)),
      )
    },
  )
})
