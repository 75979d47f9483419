/**
 * The connection to Redis: one connection, a deadline for each call, and a circuit breaker.
 *
 * A call without an answer closes the connection. Then all calls fail at once until a new
 * connection answers. So a server that hangs delays only the calls in progress, by one deadline,
 * and no calls queue up behind it. A background loop reconnects, so no caller has to try.
 */
import { Data, Effect, Latch, Redacted, Schedule, type Scope } from 'effect'
import { Redis } from 'ioredis'
import { CountersUnavailable } from './port.ts'
import { type ScriptName, SCRIPTS } from './scripts.ts'

/** A request makes several calls within 3 s. A later answer is not expected any more. */
const DEADLINE_MS = 250

/** How soon the end of an outage is detected. Two attempts per second are no load. */
const RETRY_EVERY_MS = 500

/**
 * About what Redis can answer within the deadline. Further concurrent calls would only time out.
 */
const MAX_IN_FLIGHT = 5_000

/** Errors of a server that cannot serve now. A new connection may reach another one. */
const UNUSABLE_CODES = new Set(['READONLY', 'LOADING', 'MASTERDOWN', 'CLUSTERDOWN', 'NOSCRIPT', 'NOAUTH'])

export interface LinkOptions {
  readonly url: Redacted.Redacted<string>
  /** The connection name in `CLIENT LIST`. */
  readonly name: string
  /** Runs after each reconnection. */
  readonly onReconnected: Effect.Effect<void>
}

/** Runs a script with keys and arguments. Returns the answer of the script. */
export type RunScript = (
  name: ScriptName,
  keys: ReadonlyArray<string>,
  args: ReadonlyArray<string | number>,
) => Promise<unknown>

export interface Link {
  /** Runs commands under one deadline. The body must send all of them at once. */
  readonly call: <A>(
    body: (run: RunScript, redis: Redis) => Promise<A>,
  ) => Effect.Effect<A, CountersUnavailable>
}

class ConnectFailed extends Data.TaggedError('ConnectFailed')<{ readonly cause: CountersUnavailable }> {}

/**
 * Keeps the code of an error only: error messages of Redis quote commands, which contain addresses.
 */
const toUnavailable = (error: unknown): CountersUnavailable => {
  if (error instanceof Error && error.name === 'ReplyError') {
    const code = /^-?([A-Z]+)\b/u.exec(error.message)?.[1] ?? 'ERR'
    return new CountersUnavailable({
      reason: UNUSABLE_CODES.has(code) ? 'unreachable' : 'failed',
      detail: code,
    })
  }
  const code = typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : 'closed'
  return new CountersUnavailable({ reason: 'unreachable', detail: code })
}

const timedOut = new CountersUnavailable({ reason: 'timeout', detail: 'deadline' })
const notConnectedYet = new CountersUnavailable({ reason: 'unreachable', detail: 'starting' })
const busy = new CountersUnavailable({ reason: 'busy', detail: 'in flight' })

/**
 * Runs a promise with the deadline. It times out only after one more turn of the event loop: in a
 * process that was busy for longer than the deadline, both the timer and the answer are waiting,
 * and Redis is not at fault.
 */
const withDeadline = <A>(begin: () => Promise<A>): Effect.Effect<A, CountersUnavailable> =>
  Effect.callback((resume) => {
    const timer = setTimeout(() => setImmediate(() => resume(Effect.fail(timedOut))), DEADLINE_MS)
    begin().then(
      (answer) => {
        clearTimeout(timer)
        resume(Effect.succeed(answer))
      },
      (error: unknown) => {
        clearTimeout(timer)
        resume(Effect.fail(toUnavailable(error)))
      },
    )
    return Effect.sync(() => clearTimeout(timer))
  })

interface Connection {
  readonly redis: Redis
  readonly run: RunScript
}

/** Connects until the scope closes. Returns after the first attempt. */
export const makeLink = (options: LinkOptions): Effect.Effect<Link, never, Scope.Scope> =>
  Effect.gen(function* () {
    let connection: Connection | null = null
    /** Why there is no connection. */
    let down: CountersUnavailable = notConnectedYet
    let inFlight = 0
    let policyChecked = false
    const lost = Latch.makeUnsafe(true)

    const disconnect = (redis: Redis, cause: CountersUnavailable) => {
      if (connection?.redis !== redis) return
      connection = null
      down = cause
      redis.disconnect()
      lost.openUnsafe()
    }

    const client = Effect.sync(() => {
      const redis = new Redis(Redacted.value(options.url), {
        connectionName: options.name,
        lazyConnect: true,
        // `reconnect` below does this, with a bound and a check of the result.
        retryStrategy: () => null,
        enableOfflineQueue: false,
        autoResendUnfulfilledCommands: false,
        // One write for the commands of concurrent requests: one write each was the largest cost of
        // a send.
        enableAutoPipelining: true,
        maxRetriesPerRequest: 0,
        connectTimeout: DEADLINE_MS,
        // Old servers do not know the newer protocol, and nothing here needs it.
        protocol: 2,
        disableClientInfo: true,
      })
      // Without a listener ioredis writes to the console. A failed call or the event `close`
      // reports the error.
      redis.on('error', () => {})
      return redis
    })

    const checkPolicy = (redis: Redis) =>
      withDeadline(() => redis.config('GET', 'maxmemory-policy')).pipe(
        Effect.flatMap((answer) => {
          policyChecked = true
          const policy = Array.isArray(answer) ? String(answer[1]) : 'unknown'
          return policy === 'noeviction'
            ? Effect.void
            : Effect.logWarning(
                'counters: Redis may evict keys, and would lose flood windows unnoticed; set maxmemory-policy to noeviction',
              ).pipe(Effect.annotateLogs({ policy }))
        }),
        // Hosted servers do not allow clients to read their configuration.
        Effect.catchTag('CountersUnavailable', (failure) =>
          failure.reason === 'failed' ? Effect.void : Effect.fail(failure),
        ),
      )

    /** Opens a connection and loads all scripts. Closes the client if that fails. */
    const connect = Effect.flatMap(client, (redis) =>
      withDeadline(() => redis.connect()).pipe(
        Effect.andThen(
          withDeadline(() =>
            Promise.all(
              Object.entries(SCRIPTS).map(
                async ([name, lua]) => [name, String(await redis.script('LOAD', lua))] as const,
              ),
            ),
          ),
        ),
        Effect.tap(() => (policyChecked ? Effect.void : checkPolicy(redis))),
        Effect.map((loaded): Connection => {
          const digests = new Map<string, string>(loaded)
          return {
            redis,
            run: (name, keys, args) => redis.evalsha(digests.get(name) ?? '', keys.length, ...keys, ...args),
          }
        }),
        Effect.onError(() => Effect.sync(() => redis.disconnect())),
        Effect.onInterrupt(() => Effect.sync(() => redis.disconnect())),
      ),
    )

    const attempt = connect.pipe(
      Effect.map((opened) => {
        connection = opened
        lost.closeUnsafe()
        opened.redis.on('close', () => disconnect(opened.redis, toUnavailable(null)))
      }),
      Effect.catch((cause) => {
        down = cause
        return Effect.fail(new ConnectFailed({ cause }))
      }),
    )

    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        connection?.redis.disconnect()
        connection = null
        down = toUnavailable(null)
      }),
    )

    const reconnect = Effect.gen(function* () {
      yield* lost.await
      const { detail, reason } = down
      yield* Effect.logWarning('counters: the connection to Redis is lost; reconnecting').pipe(
        Effect.annotateLogs({ reason, detail }),
      )
      yield* attempt.pipe(Effect.retry(Schedule.jittered(Schedule.spaced(RETRY_EVERY_MS))), Effect.orDie)
      yield* Effect.logInfo('counters: Redis answers again')
      yield* options.onReconnected
    })

    yield* Effect.ignore(attempt)
    yield* Effect.forkScoped(Effect.forever(reconnect))

    const call: Link['call'] = (body) =>
      Effect.suspend(() => {
        const open = connection
        if (open === null) return Effect.fail(down)
        if (inFlight >= MAX_IN_FLIGHT) return Effect.fail(busy)
        inFlight++
        return withDeadline(() => body(open.run, open.redis)).pipe(
          Effect.ensuring(
            Effect.sync(() => {
              inFlight--
            }),
          ),
          Effect.tapError((failure) =>
            Effect.sync(() => {
              if (failure.reason !== 'failed') disconnect(open.redis, failure)
            }),
          ),
        )
      })

    return { call }
  })
