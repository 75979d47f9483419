/**
 * The way to Redis: one connection, calls with a deadline, and no patience with a server that does not answer.
 *
 * A call that gets no answer in time cuts the connection. From then on calls fail at once, until a new connection has been opened and has answered: so a hung server
 * costs each caller of the moment one deadline and nobody after them anything, nothing piles up behind it, and no caller has to be the one who tries.
 */
import { Data, Effect, Latch, Redacted, Schedule, type Scope } from 'effect'
import { Redis } from 'ioredis'
import { CountersUnavailable } from './port.ts'
import { type ScriptName, SCRIPTS } from './scripts.ts'

/** A counter is asked several times within a request that has 3 s in all; what takes longer than this will not come. */
const DEADLINE_MS = 250

/** An outage that ends is noticed within this; two attempts a second of each process are nothing to a server. */
const RETRY_EVERY_MS = 500

/** What Redis can answer within the deadline, roughly. More calls at once than this would only time out together. */
const MOST_IN_FLIGHT = 5_000

/** Answers that come from a server that is no use for now: a new connection may find another, or the same one later. */
const USELESS = new Set(['READONLY', 'LOADING', 'MASTERDOWN', 'CLUSTERDOWN', 'NOSCRIPT', 'NOAUTH'])

export interface LinkOptions {
  readonly url: Redacted.Redacted<string>
  /** Shown by `CLIENT LIST`. */
  readonly name: string
  /** Runs after each reconnection. */
  readonly onReconnected: Effect.Effect<void>
}

/** Keys, then arguments; the answer is as the script gives it. */
export type RunScript = (
  name: ScriptName,
  keys: ReadonlyArray<string>,
  args: ReadonlyArray<string | number>,
) => Promise<unknown>

export interface Link {
  /** Runs commands under one deadline. The body must send all it has to send at once and not wait between. */
  readonly call: <A>(
    body: (run: RunScript, redis: Redis) => Promise<A>,
  ) => Effect.Effect<A, CountersUnavailable>
}

class Broken extends Data.TaggedError('Broken')<{ readonly why: CountersUnavailable }> {}

/** Only codes are kept: messages of Redis quote commands, and those name addresses. */
const toUnavailable = (error: unknown): CountersUnavailable => {
  if (error instanceof Error && error.name === 'ReplyError') {
    const code = /^-?([A-Z]+)\b/u.exec(error.message)?.[1] ?? 'ERR'
    return new CountersUnavailable({
      reason: USELESS.has(code) ? 'unreachable' : 'failed',
      detail: code,
    })
  }
  const code = typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : 'closed'
  return new CountersUnavailable({ reason: 'unreachable', detail: code })
}

const timedOut = new CountersUnavailable({ reason: 'timeout', detail: 'deadline' })
const notYet = new CountersUnavailable({ reason: 'unreachable', detail: 'starting' })
const busy = new CountersUnavailable({ reason: 'busy', detail: 'in flight' })

/**
 * A promise under the deadline. It fails only after the sockets have been looked at once more: a process that was busy for longer than
 * the deadline finds the timer and the answer waiting together, and must not blame Redis.
 */
const bounded = <A>(begin: () => Promise<A>): Effect.Effect<A, CountersUnavailable> =>
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

/** Opens the link for as long as the scope. Ends when the first attempt to connect has, either way. */
export const makeLink = (options: LinkOptions): Effect.Effect<Link, never, Scope.Scope> =>
  Effect.gen(function* () {
    let connection: Connection | null = null
    /** Why there is none. */
    let down: CountersUnavailable = notYet
    let inFlight = 0
    let policyChecked = false
    const lost = Latch.makeUnsafe(true)

    const cut = (broken: Redis, why: CountersUnavailable) => {
      if (connection?.redis !== broken) return
      connection = null
      down = why
      broken.disconnect()
      lost.openUnsafe()
    }

    const client = Effect.sync(() => {
      const redis = new Redis(Redacted.value(options.url), {
        connectionName: options.name,
        lazyConnect: true,
        // Reconnecting is done here, where it is bounded and its result is checked.
        retryStrategy: () => null,
        enableOfflineQueue: false,
        autoResendUnfulfilledCommands: false,
        // Commands of requests that arrived together go in one write: a write each was the dearest part of a send.
        enableAutoPipelining: true,
        maxRetriesPerRequest: 0,
        connectTimeout: DEADLINE_MS,
        // Needs nothing of the newer protocol, and old servers do not know it.
        protocol: 2,
        disableClientInfo: true,
      })
      // Without a listener ioredis writes to the console. What matters fails the call or closes the connection.
      redis.on('error', () => {})
      return redis
    })

    const checkPolicy = (redis: Redis) =>
      bounded(() => redis.config('GET', 'maxmemory-policy')).pipe(
        Effect.flatMap((answer) => {
          policyChecked = true
          const policy = Array.isArray(answer) ? String(answer[1]) : 'unknown'
          return policy === 'noeviction'
            ? Effect.void
            : Effect.logWarning(
                'Redis may evict counters: set maxmemory-policy to noeviction, or flood windows will be lost unseen.',
              ).pipe(Effect.annotateLogs({ policy }))
        }),
        // Hosted servers do not let clients read their configuration.
        Effect.catchTag('CountersUnavailable', (failure) =>
          failure.reason === 'failed' ? Effect.void : Effect.fail(failure),
        ),
      )

    /** A connection that has answered and knows all scripts; the client is gone if it does not get there. */
    const connect = Effect.flatMap(client, (redis) =>
      bounded(() => redis.connect()).pipe(
        Effect.andThen(
          bounded(() =>
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
        opened.redis.on('close', () => cut(opened.redis, toUnavailable(null)))
      }),
      Effect.catch((why) => {
        down = why
        return Effect.fail(new Broken({ why }))
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
      const said = down
      yield* Effect.logWarning('The counters cannot be reached.').pipe(
        Effect.annotateLogs({ reason: said.reason, detail: said.detail }),
      )
      yield* attempt.pipe(Effect.retry(Schedule.jittered(Schedule.spaced(RETRY_EVERY_MS))), Effect.orDie)
      yield* Effect.logInfo('The counters can be reached again.')
      yield* options.onReconnected
    })

    yield* Effect.ignore(attempt)
    yield* Effect.forkScoped(Effect.forever(reconnect))

    const call: Link['call'] = (body) =>
      Effect.suspend(() => {
        const open = connection
        if (open === null) return Effect.fail(down)
        if (inFlight >= MOST_IN_FLIGHT) return Effect.fail(busy)
        inFlight++
        return bounded(() => body(open.run, open.redis)).pipe(
          Effect.ensuring(
            Effect.sync(() => {
              inFlight--
            }),
          ),
          Effect.tapError((failure) =>
            Effect.sync(() => {
              if (failure.reason !== 'failed') cut(open.redis, failure)
            }),
          ),
        )
      })

    return { call }
  })
