/**
 * The connection to one Redis server: one connection, a deadline for each call, and a circuit breaker.
 *
 * A slow server is different from a dead connection. A call that misses its deadline ends alone, and
 * its answer is still measured when it arrives. While answers take longer than the deadline, further
 * calls fail at once, so nothing queues up. A connection on which nothing arrives is silent: a new
 * connection is opened beside it, and replaces it if it answers first (docs/decisions/servers.md#redis).
 *
 * A background loop reconnects, so no caller has to try. Each attempt asks anew which server it is.
 */
import { Data, Effect, Latch, Schedule, type Scope } from 'effect'
import type { Redis } from 'ioredis'
import { type ClientOptions, CONNECT_STEP_MS, makeClient } from './client.ts'
import type { Command } from './command.ts'
import { type CallKind, Connection, LIMITS } from './connection.ts'
import { now, withDeadline } from './deadline.ts'
import { STARTING, toUnavailable, unreachable } from './failures.ts'
import { replaced, type ReplacedReason } from './metrics.ts'
import { makeOutageLog } from './outage-log.ts'
import { CountersUnavailable } from './port.ts'
import { SCRIPTS } from './scripts.ts'
import { type ServerKind, unusableMode } from './server-info.ts'

/** How soon the end of an outage is detected. Two attempts per second are no load. */
export const RETRY_EVERY_MS = 500

/**
 * How often Sentinels are asked whether there is another primary. A failover that somebody has asked for loses the writes
 * of about this time: Sentinels make the previous primary a replica only after eight seconds or more.
 */
const FOLLOW_EVERY_MS = 2000

export interface ServerLinkOptions {
  /** The URL of the server for a new connection. */
  readonly find: Effect.Effect<string, CountersUnavailable>
  /**
   * The URL of the server that has the place now, also while another one is in use and answers; `null`: nobody knows.
   * Absent: it is always the same.
   */
  readonly agreed?: Effect.Effect<string | null>
  readonly kind: ServerKind
  readonly client: ClientOptions
  /** Runs when Redis answers again, on a new connection or on the old one. */
  readonly onAvailable: Effect.Effect<void>
  /** Replaces the deadline of each call, ms. */
  readonly deadlineMs?: number | undefined
}

export interface ServerLink {
  /** Sends commands at once, under one deadline. The answers are in their order. */
  readonly call: (
    kind: CallKind,
    commands: ReadonlyArray<Command>,
  ) => Effect.Effect<ReadonlyArray<unknown>, CountersUnavailable>
}

class ConnectFailed extends Data.TaggedError('ConnectFailed')<{ readonly cause: CountersUnavailable }> {}

const replacedReason = ({ detail, reason }: CountersUnavailable): ReplacedReason =>
  detail === 'closed' ? 'closed' : reason === 'timeout' ? 'timeout' : 'unreachable'

const silent = new CountersUnavailable({ reason: 'timeout', detail: 'silent' })
const connectTimedOut = unreachable('deadline')
const succeeded = unreachable('another primary')

/** A check of the server passes if the server refuses its command: hosted servers do not allow all of them. */
const ifAllowed = (check: Effect.Effect<void, CountersUnavailable>) =>
  Effect.catchIf(
    check,
    ({ reason }) => reason === 'failed',
    () => Effect.void,
  )

/** Connects until the scope closes. Returns after the first attempt. */
export const makeServerLink = (options: ServerLinkOptions): Effect.Effect<ServerLink, never, Scope.Scope> =>
  Effect.gen(function* () {
    let connection: Connection | null = null
    /** When it was opened. */
    let openedAt = Number.NEGATIVE_INFINITY
    /** Why there is no usable connection. */
    let down: CountersUnavailable = STARTING
    /** The URL of the server whose policy was checked: its successor may have another one. */
    let policyOf: string | null = null
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

    const checkPolicy = (redis: Redis, url: string) =>
      withDeadline(() => redis.config('GET', 'maxmemory-policy'), CONNECT_STEP_MS).pipe(
        Effect.flatMap((answer) => {
          policyOf = url
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
          const detail = unusableMode(info, options.kind)
          return detail === null ? Effect.void : Effect.fail(unreachable(detail))
        }),
        ifAllowed,
      )

    const open = (
      redis: Redis,
      url: string,
      digests: ReadonlyMap<string, string>,
      measured: number,
    ): Connection => {
      const opened: Connection = new Connection(redis, url, digests, measured, {
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
    const connect = Effect.fnUntraced(function* (url: string) {
      const { connect, redis } = makeClient(url, options.client)
      return yield* Effect.gen(function* () {
        yield* withDeadline(connect, CONNECT_STEP_MS)
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
        if (policyOf !== url) yield* checkPolicy(redis, url)
        return open(redis, url, new Map<string, string>(loaded), measured)
      }).pipe(Effect.onError(() => Effect.sync(() => redis.disconnect())))
    })

    // The loop below logs each outage.
    const log = makeOutageLog()

    /** Replaces the connection in use. */
    const use = (opened: Connection, cause: CountersUnavailable) => {
      if (connection !== null) disconnect(connection, cause)
      connection = opened
      openedAt = now()
      log.end()
      opened.redis.on('close', () => disconnect(opened, toUnavailable(null)))
    }

    const attempt = Effect.flatMap(options.find, connect).pipe(
      Effect.map((opened) => use(opened, silent)),
      Effect.catch((cause) => {
        down = cause.reason === 'timeout' ? connectTimedOut : cause
        return Effect.andThen(log.warn(cause), Effect.fail(new ConnectFailed({ cause })))
      }),
    )

    /** A server that was the primary answers for some seconds after a failover, and then loses what it was told. */
    const follow = (agreed: Effect.Effect<string | null>) =>
      Effect.gen(function* () {
        yield* Effect.sleep(FOLLOW_EVERY_MS)
        if (isNeeded()) return
        const url = yield* agreed
        if (url === null || isNeeded() || url === connection?.url) return
        yield* Effect.logInfo('counters: there is another primary of Redis; connecting to it')
        // If it is not ready yet, the next check tries again.
        yield* Effect.ignore(Effect.map(connect(url), (opened) => use(opened, succeeded)))
      }).pipe(Effect.forever)

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
      // A server that cannot serve may accept each connection and refuse its first call.
      yield* Effect.sleep(Math.max(0, openedAt + RETRY_EVERY_MS - now()))
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
    if (options.agreed !== undefined) yield* Effect.forkScoped(follow(options.agreed))

    const call: ServerLink['call'] = (kind, commands) =>
      Effect.suspend(() => {
        const open = connection
        if (open === null || open.isSilent()) return Effect.fail(down)
        const deadlineMs = options.deadlineMs ?? open.deadline(LIMITS[kind])
        const refusal = open.refusal(deadlineMs)
        if (refusal !== null) return Effect.fail(refusal)
        return withDeadline(() => open.send(commands), deadlineMs).pipe(
          Effect.tapError((failure) =>
            Effect.sync(() => {
              if (failure.reason === 'unreachable') disconnect(open, failure)
              if (failure.reason === 'timeout') open.check()
            }),
          ),
        )
      })

    return { call }
  })
