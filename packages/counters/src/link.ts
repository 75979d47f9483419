/**
 * The connection to Redis: one connection, a deadline for each call, and a circuit breaker.
 *
 * A slow server is different from a dead connection. A call that misses its deadline ends alone, and
 * its answer is still measured when it arrives. While answers take longer than the deadline, further
 * calls fail at once, so nothing queues up. A connection on which nothing arrives is silent: a new
 * connection is opened beside it, and replaces it if it answers first (docs/decisions/servers.md#redis).
 *
 * A background loop reconnects, so no caller has to try.
 */
import { connectionFault } from '@hub/config'
import { Data, Effect, Latch, Redacted, Schedule, type Scope } from 'effect'
import { Redis } from 'ioredis'
import { afterAnswer, deadlineOf, type DeadlineLimits, expectedOf, type Latency } from './latency.ts'
import { type CounterName, replaced, type ReplacedReason, showLatency, unavailable } from './metrics.ts'
import { CountersUnavailable } from './port.ts'
import { type ScriptName, SCRIPTS } from './scripts.ts'
import { unusableMode } from './server-info.ts'

/** What waits for a call. */
type CallKind = 'quick' | 'verdict' | 'background'

/** The limits of the deadlines, milliseconds. */
const LIMITS: Readonly<Record<CallKind, DeadlineLimits>> = {
  /**
   * A request that can continue without an answer: request rate, failed logins, daily limit. A code
   * waits for at most three of them, and for none while Redis is known to be slower.
   */
  quick: { least: 250, most: 250 },
  /** Flood windows. Without an answer, a service message is refused. A send has 3 s altogether. */
  verdict: { least: 500, most: 1000 },
  /** Nobody waits. */
  background: { least: 5000, most: 5000 },
}

/** A connection is silent when it has received nothing for this time, although an answer is due. */
const SILENCE: DeadlineLimits = { least: 1000, most: 3000 }

/**
 * Of each step of connecting, for which no caller waits. Over a slow network, a login takes several
 * times as long as a call. Longer would delay the end of an outage in which an attempt hangs.
 */
const CONNECT_STEP_MS = 3000

/** An idle connection whose peer is gone then ends after about 15 s. */
const KEEP_ALIVE_MS = 5000

/** How soon the end of an outage is detected. Two attempts per second are no load. */
const RETRY_EVERY_MS = 500

/** How often a connection with calls in progress is checked. */
const CHECK_EVERY_MS = 100

/** While Redis is slow, pings find out when it no longer is. */
const PING_EVERY_MS = 250

/** Calls without an answer. With more of them, a further one would only time out. */
const MAX_IN_FLIGHT = 5_000

/** Errors of a server that cannot serve now. A new connection may reach another one. */
const UNUSABLE_CODES = new Set([
  'READONLY',
  'LOADING',
  'MASTERDOWN',
  'CLUSTERDOWN',
  'NOSCRIPT',
  'NOAUTH',
  'WRONGPASS',
])

export interface LinkOptions {
  readonly url: Redacted.Redacted<string>
  /** The connection name in `CLIENT LIST`. */
  readonly name: string
  /** Runs when Redis answers again, on a new connection or on the old one. */
  readonly onAvailable: Effect.Effect<void>
  /** Replaces the deadline of each call, ms. */
  readonly deadlineMs?: number | undefined
}

/** Runs a script with keys and arguments. Returns the answer of the script. */
export type RunScript = (
  name: ScriptName,
  keys: ReadonlyArray<string>,
  args: ReadonlyArray<string | number>,
) => Promise<unknown>

type Body<A> = (run: RunScript, redis: Redis) => Promise<A>

export interface Link {
  /** Runs commands for a counter under one deadline. The body must send all of them at once. */
  readonly call: <A>(
    counter: CounterName,
    kind: CallKind,
    body: Body<A>,
  ) => Effect.Effect<A, CountersUnavailable>
}

class ConnectFailed extends Data.TaggedError('ConnectFailed')<{ readonly cause: CountersUnavailable }> {}

const isReply = (error: unknown): error is Error => error instanceof Error && error.name === 'ReplyError'

/** The code of an error, never its message: messages of Redis quote commands, with addresses. */
export const codeOf = (error: unknown): string => {
  if (isReply(error)) return /^-?([A-Z]+)\b/u.exec(error.message)?.[1] ?? 'ERR'
  return typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : 'closed'
}

const toUnavailable = (error: unknown): CountersUnavailable => {
  const detail = codeOf(error)
  const isRejected = isReply(error) && !UNUSABLE_CODES.has(detail)
  return new CountersUnavailable({ reason: isRejected ? 'failed' : 'unreachable', detail })
}

const replacedReason = ({ detail, reason }: CountersUnavailable): ReplacedReason =>
  detail === 'closed' ? 'closed' : reason === 'timeout' ? 'timeout' : 'unreachable'

const timedOut = new CountersUnavailable({ reason: 'timeout', detail: 'deadline' })
const slow = new CountersUnavailable({ reason: 'timeout', detail: 'slow' })
const silent = new CountersUnavailable({ reason: 'timeout', detail: 'silent' })
const notConnectedYet = new CountersUnavailable({ reason: 'unreachable', detail: 'starting' })
const connectTimedOut = new CountersUnavailable({ reason: 'unreachable', detail: 'deadline' })
const busy = new CountersUnavailable({ reason: 'busy', detail: 'in flight' })

const now = () => performance.now()

/**
 * Runs a promise with the deadline. It times out only after one more turn of the event loop: in a
 * process that was busy for longer than the deadline, both the timer and the answer are waiting,
 * and Redis is not at fault. It never times out early: a timer counts from the beginning of its turn,
 * and the next call would not find the answer overdue yet.
 */
const withDeadline = <A>(
  begin: () => Promise<A>,
  deadlineMs: number,
): Effect.Effect<A, CountersUnavailable> =>
  Effect.callback((resume) => {
    const pending = begin()
    const endsAt = now() + deadlineMs
    const expire = () => {
      const leftMs = endsAt - now()
      if (leftMs > 0) timer = setTimeout(expire, leftMs)
      else setImmediate(() => resume(Effect.fail(timedOut)))
    }
    let timer = setTimeout(expire, deadlineMs)
    pending.then(
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

/** A check of the server passes if the server refuses its command: hosted servers do not allow all of them. */
const ifAllowed = (check: Effect.Effect<void, CountersUnavailable>) =>
  Effect.catchIf(
    check,
    ({ reason }) => reason === 'failed',
    () => Effect.void,
  )

interface ConnectionEvents {
  readonly onSilent: () => void
  /** It has received an answer after it was silent. */
  readonly onAnswering: () => void
}

/** An open connection, and what its answers tell about Redis. */
class Connection {
  readonly redis: Redis
  readonly #run: RunScript
  readonly #events: ConnectionEvents
  #latency: Latency
  /** Calls without an answer, also after their deadline. */
  #unanswered = 0
  /** While answers are due: when the last one arrived, or when the first call was made. */
  #dueSince = 0
  /** How long nothing had arrived at the last check. */
  #dueMs = 0
  #isSilent = false
  #pingedAt = 0
  #timer: NodeJS.Timeout | null = null
  #isCorked = false

  /** `measured`: how long Redis took for an answer while the connection was opened. */
  constructor(
    redis: Redis,
    digests: ReadonlyMap<string, string>,
    measured: number,
    events: ConnectionEvents,
  ) {
    this.redis = redis
    this.#latency = afterAnswer(null, measured)
    this.#run = (name, keys, args) => redis.evalsha(digests.get(name) ?? '', keys.length, ...keys, ...args)
    this.#events = events
  }

  isSilent(): boolean {
    return this.#isSilent
  }

  deadline(limits: DeadlineLimits): number {
    return deadlineOf(this.#latency, limits)
  }

  /** Why a call would not get its answer in time; `null`: it is worth a try. */
  refusal(deadlineMs: number): CountersUnavailable | null {
    if (this.#unanswered >= MAX_IN_FLIGHT) return busy
    return Math.max(expectedOf(this.#latency), this.#dueMs) >= deadlineMs ? slow : null
  }

  send<A>(body: Body<A>): Promise<A> {
    this.#cork()
    const sentAt = now()
    if (this.#unanswered++ === 0) this.#dueSince = sentAt
    this.#timer ??= setInterval(() => setImmediate(() => this.check()), CHECK_EVERY_MS)
    const answer = body(this.#run, this.redis)
    answer.then(
      () => this.#onEnd(sentAt, true),
      (error: unknown) => this.#onEnd(sentAt, isReply(error)),
    )
    return answer
  }

  close(): void {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.redis.disconnect()
  }

  /** One write for the commands of a turn of the event loop: one write each costs more than the rest of a call. */
  #cork(): void {
    if (this.#isCorked) return
    this.#isCorked = true
    const { stream } = this.redis
    stream.cork()
    setImmediate(() => {
      this.#isCorked = false
      stream.uncork()
    })
  }

  #onEnd(sentAt: number, isAnswer: boolean): void {
    this.#unanswered--
    if (!isAnswer) return
    const at = now()
    this.#dueSince = at
    this.#dueMs = 0
    this.#latency = afterAnswer(this.#latency, at - sentAt)
    if (!this.#isSilent) return
    this.#isSilent = false
    this.#events.onAnswering()
  }

  /**
   * Looks for silence. It must run after the sockets were read, so that a busy process does not take
   * its own delay for silence.
   */
  check(): void {
    const at = now()
    this.#dueMs = this.#unanswered === 0 ? 0 : at - this.#dueSince
    showLatency(Math.max(this.#latency.smoothed, this.#dueMs))
    const isSlow = expectedOf(this.#latency) >= LIMITS.quick.most
    if (!this.#isSilent && this.#dueMs >= this.deadline(SILENCE)) {
      this.#isSilent = true
      this.#events.onSilent()
    } else if (isSlow && !this.#isSilent && at - this.#pingedAt >= PING_EVERY_MS) {
      this.#pingedAt = at
      this.send((_run, redis) => redis.ping()).catch(() => {})
    } else if (!isSlow && this.#unanswered === 0 && this.#timer !== null) {
      clearInterval(this.#timer)
      this.#timer = null
    }
  }
}

/** Connects until the scope closes. Returns after the first attempt. */
export const makeLink = (options: LinkOptions): Effect.Effect<Link, never, Scope.Scope> =>
  Effect.gen(function* () {
    let connection: Connection | null = null
    /** Why there is no usable connection. */
    let down: CountersUnavailable = notConnectedYet
    let policyChecked = false
    const isNeeded = () => connection === null || connection.isSilent()
    const needed = Latch.makeUnsafe(true)
    const answering = Latch.makeUnsafe(false)

    const disconnect = (lost: Connection, cause: CountersUnavailable) => {
      if (connection !== lost) return
      connection = null
      down = cause
      replaced.add({ reason: replacedReason(cause) })
      lost.close()
      needed.openUnsafe()
    }

    const client = Effect.sync(() => {
      const redis = new Redis(Redacted.value(options.url), {
        connectionName: options.name,
        lazyConnect: true,
        // `reconnect` below does this, with a bound and a check of the result.
        retryStrategy: () => null,
        enableOfflineQueue: false,
        autoResendUnfulfilledCommands: false,
        // Pipelines of ioredis wait for each other: a call would take up to two round trips.
        enableAutoPipelining: false,
        maxRetriesPerRequest: 0,
        connectTimeout: CONNECT_STEP_MS,
        keepAlive: KEEP_ALIVE_MS,
        // Old servers do not know the newer protocol, and nothing here needs it.
        protocol: 2,
        disableClientInfo: true,
      })
      // Without a listener ioredis writes to the console. Later, a failed call or the event `close` reports the
      // error. While it connects, only this event names the cause.
      let firstError: unknown = null
      redis.on('error', (error: unknown) => (firstError ??= error))
      return { redis, cause: () => firstError }
    })

    const checkPolicy = (redis: Redis) =>
      withDeadline(() => redis.config('GET', 'maxmemory-policy'), CONNECT_STEP_MS).pipe(
        Effect.flatMap((answer) => {
          policyChecked = true
          const policy = Array.isArray(answer) ? String(answer[1]) : 'unknown'
          return policy === 'noeviction'
            ? Effect.void
            : Effect.logWarning(
                'counters: Redis may evict keys, and would lose flood windows unnoticed; set maxmemory-policy to noeviction',
              ).pipe(Effect.annotateLogs({ policy }))
        }),
        ifAllowed,
      )

    const refuseUnusable = (redis: Redis) =>
      withDeadline(() => redis.info(), CONNECT_STEP_MS).pipe(
        Effect.flatMap((info) => {
          const detail = unusableMode(info)
          return detail === null
            ? Effect.void
            : Effect.fail(new CountersUnavailable({ reason: 'unreachable', detail }))
        }),
        ifAllowed,
      )

    const open = (redis: Redis, digests: ReadonlyMap<string, string>, measured: number): Connection => {
      const opened: Connection = new Connection(redis, digests, measured, {
        onSilent: () => {
          if (connection !== opened) return
          down = silent
          needed.openUnsafe()
        },
        onAnswering: () => {
          if (connection === opened) answering.openUnsafe()
        },
      })
      return opened
    }

    /** Opens a connection and loads all scripts. Closes the client if that fails. */
    const connect = Effect.flatMap(client, ({ cause, redis }) =>
      Effect.gen(function* () {
        yield* withDeadline(
          () => redis.connect().catch((error: unknown) => Promise.reject(cause() ?? error)),
          CONNECT_STEP_MS,
        )
        // First: a Sentinel has no scripts.
        yield* refuseUnusable(redis)
        const askedAt = now()
        const loaded = yield* withDeadline(
          () =>
            Promise.all(
              Object.entries(SCRIPTS).map(
                async ([name, lua]) => [name, String(await redis.script('LOAD', lua))] as const,
              ),
            ),
          CONNECT_STEP_MS,
        )
        const measured = now() - askedAt
        if (!policyChecked) yield* checkPolicy(redis)
        return open(redis, new Map<string, string>(loaded), measured)
      }).pipe(
        Effect.onError(() => Effect.sync(() => redis.disconnect())),
        Effect.onInterrupt(() => Effect.sync(() => redis.disconnect())),
      ),
    )

    let warnedOf = ''
    /** Once for each cause of an outage: attempts follow each other quickly. */
    const warnOfFault = (cause: CountersUnavailable) => {
      const sentence = connectionFault(cause)?.sentence ?? warnedOf
      if (sentence === warnedOf) return Effect.void
      warnedOf = sentence
      return Effect.logWarning(`counters: ${sentence}`)
    }

    const attempt = connect.pipe(
      Effect.map((opened) => {
        if (connection !== null) disconnect(connection, silent)
        connection = opened
        warnedOf = ''
        opened.redis.on('close', () => disconnect(opened, toUnavailable(null)))
      }),
      Effect.catch((cause) => {
        down = cause.reason === 'timeout' ? connectTimedOut : cause
        return Effect.andThen(warnOfFault(cause), Effect.fail(new ConnectFailed({ cause })))
      }),
    )

    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        connection?.close()
        connection = null
        down = toUnavailable(null)
      }),
    )

    const reconnect = Effect.gen(function* () {
      yield* needed.await
      needed.closeUnsafe()
      if (!isNeeded()) return
      answering.closeUnsafe()
      const { detail, reason } = down
      yield* Effect.logWarning('counters: Redis does not answer, or the connection is lost; connecting').pipe(
        Effect.annotateLogs({ reason, detail }),
      )
      const attempts = attempt.pipe(
        Effect.retry(Schedule.jittered(Schedule.spaced(RETRY_EVERY_MS))),
        Effect.orDie,
      )
      // The silent connection may answer again while the new one is opened.
      yield* Effect.raceFirst(attempts, answering.await)
      yield* Effect.logInfo('counters: Redis answers again')
      yield* options.onAvailable
    })

    yield* Effect.ignore(attempt)
    yield* Effect.forkScoped(Effect.forever(reconnect))

    const call: Link['call'] = (counter, kind, body) =>
      Effect.suspend(() => {
        const open = connection
        if (open === null || open.isSilent()) return Effect.fail(down)
        const deadlineMs = options.deadlineMs ?? open.deadline(LIMITS[kind])
        const refusal = open.refusal(deadlineMs)
        if (refusal !== null) return Effect.fail(refusal)
        return withDeadline(() => open.send(body), deadlineMs).pipe(
          Effect.tapError((failure) =>
            Effect.sync(() => {
              if (failure.reason === 'unreachable') disconnect(open, failure)
              if (failure.reason === 'timeout') open.check()
            }),
          ),
        )
      }).pipe(Effect.tapError(({ reason }) => Effect.sync(() => unavailable.add({ counter, reason }))))

    return { call }
  })
