/** Diagnostics of Redis for hub staff: version, role, latency and clock. */
import { type RedisServers, redisServers } from '@hub/config'
import { Data, Effect, Redacted } from 'effect'
import type { Redis } from 'ioredis'
import { ask, type ClientOptions } from './client.ts'
import { findOwners, primariesOf } from './cluster.ts'
import { unreachable } from './failures.ts'
import { refusalOf } from './first-answer.ts'
import { keyNames } from './keys.ts'
import type { CountersUnavailable } from './port.ts'
import { askAllSentinels } from './sentinels.ts'
import { infoField, type ServerKind, unusableMode } from './server-info.ts'
import { slotOf } from './slots.ts'

/** Of a cluster: what is worst of all its primaries. */
export interface RedisState {
  readonly version: string
  /** `master`, `slave`, or another role that Redis reports. */
  readonly role: string
  /** `null`: the server does not tell it; hosted servers often do not. */
  readonly evictionPolicy: string | null
  /** Duration of one call, ms. */
  readonly latencyMs: number
  /** Clock of Redis minus clock of this process, ms. The error is at most half of `latencyMs`. */
  readonly clockMs: number
  /** Messages that the hub has accepted on `day`, according to Redis. */
  readonly today: number
  /** The number of primaries, if it is a cluster. */
  readonly primaries: number | null
  /** How many of the Sentinels name this server, if the settings name Sentinels. */
  readonly sentinels: { readonly naming: number; readonly all: number } | null
}

/** The server did not answer, or is not a Redis server. */
export class RedisUnusable extends Data.TaggedError('RedisUnusable')<{
  /** See `codeOf`. */
  readonly detail: string
}> {
  override readonly message = this.detail
}

/** The deadline of each step, ms. */
const STEP_MS = 2000

const readServer =
  (kind: ServerKind, dailyKey: string | null) =>
  async (redis: Redis): Promise<RedisState | { readonly unusable: string }> => {
    const info = await redis.info()
    const mode = unusableMode(info, kind)
    // A replica answers, and its role says what is wrong.
    if (mode !== null && mode !== 'READONLY') return { unusable: mode }
    const before = Date.now()
    const startedAt = performance.now()
    const [seconds, microseconds] = await redis.time()
    const latencyMs = performance.now() - startedAt
    const redisMs = Number(seconds) * 1000 + Number(microseconds) / 1000
    const policy = await redis.config('GET', 'maxmemory-policy').catch(() => null)
    const today = dailyKey === null ? null : await redis.get(dailyKey)
    return {
      version: infoField(info, 'redis_version'),
      role: infoField(info, 'role'),
      evictionPolicy: Array.isArray(policy) && typeof policy[1] === 'string' ? policy[1] : null,
      latencyMs,
      clockMs: redisMs - (before + latencyMs / 2),
      today: Number(today ?? 0),
      primaries: null,
      sentinels: null,
    }
  }

/** `dailyKey`: `null` if another node has it. */
const readState = (url: string, asking: ClientOptions, kind: ServerKind, dailyKey: string | null) =>
  Effect.flatMap(ask(url, asking, readServer(kind, dailyKey)), (state) =>
    'unusable' in state ? Effect.fail(unreachable(state.unusable)) : Effect.succeed(state),
  )

/** A policy that evicts is worst, then one that is not known. */
const worsePolicy = (one: string | null, other: string | null): string | null => {
  const evicts = [one, other].find((policy) => policy !== null && policy !== 'noeviction')
  return evicts ?? (one === null ? null : other)
}

/** What is worst of both: for example the older version. */
const worse = (one: RedisState, other: RedisState): RedisState => ({
  // As numbers: 7.0 is older than 10.0.
  version:
    one.version.localeCompare(other.version, 'en', { numeric: true }) < 0 ? one.version : other.version,
  role: one.role === 'master' ? other.role : one.role,
  evictionPolicy: worsePolicy(one.evictionPolicy, other.evictionPolicy),
  latencyMs: Math.max(one.latencyMs, other.latencyMs),
  clockMs: Math.abs(one.clockMs) > Math.abs(other.clockMs) ? one.clockMs : other.clockMs,
  today: one.today + other.today,
  primaries: null,
  sentinels: null,
})

const read = (servers: RedisServers, dailyKey: string): Effect.Effect<RedisState, CountersUnavailable> => {
  const tlsName = servers.form === 'single' ? null : servers.tlsName
  const asking = { name: 'hubctl', stepMs: STEP_MS, tlsName }
  switch (servers.form) {
    case 'single':
      return readState(servers.url, asking, 'single', dailyKey)
    case 'sentinel':
      return Effect.gen(function* () {
        // All of them, so that one that is away shows before a failover needs it.
        const { failures, url, votes } = yield* askAllSentinels(servers, asking)
        if (url === null) return yield* refusalOf(failures) ?? unreachable('SENTINELS_AWAY')
        const state = yield* readState(url, asking, 'single', dailyKey)
        const sentinels = { naming: votes, all: servers.sentinels.length }
        return { ...state, sentinels }
      })
    case 'cluster':
      return Effect.gen(function* () {
        const owners = yield* findOwners(servers, servers.nodes, asking)
        const primaries = primariesOf(owners)
        const own = owners[slotOf(dailyKey)]
        const states = yield* Effect.forEach(
          primaries,
          (url) => readState(url, asking, 'node', url === own ? dailyKey : null),
          { concurrency: 'unbounded' },
        )
        return { ...states.reduce(worse), primaries: primaries.size }
      })
  }
}

/** Reads the state once, over its own connections. The caller sets a timeout. */
export const readRedis = (options: {
  readonly url: Redacted.Redacted<string>
  readonly prefix: string
  readonly day: string
}): Effect.Effect<RedisState, RedisUnusable> =>
  read(redisServers(Redacted.value(options.url)), keyNames(options.prefix).daily(options.day)).pipe(
    Effect.mapError(({ detail }) => new RedisUnusable({ detail })),
  )
