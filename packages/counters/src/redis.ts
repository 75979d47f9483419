/** The counters over Redis. */
import { randomUUID } from 'node:crypto'
import { settings } from '@hub/config'
import { type Config, Effect, Exit, Layer, type Redacted, Schedule, Stream } from 'effect'
import { gateAddress } from './address.ts'
import { bucketOf, BUCKETS, keyNames, TTL } from './keys.ts'
import { type Link, makeLink, type RunScript } from './link.ts'
import {
  Counters,
  type CountersShape,
  CountersUnavailable,
  type FloodAcceptance,
  type FloodReservation,
  type FloodRequest,
  type FloodVerdict,
  type RateVerdict,
  RESERVATION_LEASE_MS,
} from './port.ts'
import {
  atLeastOne,
  DAY_MS,
  FULL_BUCKET_US,
  ROUNDING_US,
  toTenths,
  toWaitSeconds,
  WINDOW_NAMES,
} from './rules.ts'

/** Messages of one script call. Redis serves nobody else while a script runs: this many take it under a millisecond. */
const CHUNK = 200

/** Acceptances that are written at once, beside new ones or by a rebuild: well within the deadline of a call. */
const WRITE_CHUNK = 500

/** Acceptances that wait for Redis to come back: minutes of codes, a few megabytes. The oldest give way. */
const MOST_UNWRITTEN = 20_000

/** A rebuild may have minutes of reading behind it: it outlasts a hung moment of so many attempts, half a second apart. */
const REBUILD_WRITE_RETRIES = 10

/** The lock of a rebuild is renewed by each chunk that is written so long after the last renewal. */
const RENEW_AFTER_MS = TTL.rebuildMs / 4

export interface RedisCountersOptions {
  readonly url: Redacted.Redacted<string>
  /** Put before every key, without braces. Default `hub:`. */
  readonly prefix?: string
  /** Shown by `CLIENT LIST`. */
  readonly name?: string
  /** Milliseconds since the epoch, in place of Redis' own clock: for tests that move time. */
  readonly now?: () => number
}

interface Placed<A> {
  readonly item: A
  readonly index: number
}

/** Items by bucket, in order, in chunks; each knows its place in the call. */
const chunksOf = <A extends FloodReservation>(
  items: ReadonlyArray<A>,
): ReadonlyArray<readonly [bucket: number, chunk: ReadonlyArray<Placed<A>>]> => {
  // Most calls are of one account: its bucket is worked out once.
  const known = new Map<string, number>()
  const byBucket = new Map<number, Array<Placed<A>>>()
  items.forEach((item, index) => {
    const name = `${item.account}:${item.mode}`
    let bucket = known.get(name)
    if (bucket === undefined) {
      bucket = bucketOf(item)
      known.set(name, bucket)
    }
    const placed = byBucket.get(bucket)
    if (placed === undefined) byBucket.set(bucket, [{ item, index }])
    else placed.push({ item, index })
  })
  return [...byBucket].flatMap(([bucket, placed]) =>
    Array.from(
      { length: Math.ceil(placed.length / CHUNK) },
      (_, i) => [bucket, placed.slice(i * CHUNK, (i + 1) * CHUNK)] as const,
    ),
  )
}

const toVerdict = (code: number): FloodVerdict =>
  code === 0
    ? { reserved: true }
    : {
        reserved: false,
        window: WINDOW_NAMES[(code % 4) - 1] ?? 'pause',
        retryAfterSeconds: toWaitSeconds(Math.floor(code / 4)),
      }

interface TokensWanted {
  readonly keyId: string
  readonly limit: number
  readonly resume: Array<(verdict: Effect.Effect<RateVerdict, CountersUnavailable>) => void>
}

/** What the request in a place among those of a call is told, of which so many pass; `debt` is the bucket's before, in µs. */
const verdictOf = (limit: number, granted: number, debt: number, place: number): RateVerdict => {
  const each = FULL_BUCKET_US / limit
  const allowed = place < granted
  const owed = debt + each * Math.min(place + 1, granted)
  return {
    allowed,
    limit,
    remaining: Math.max(0, Math.floor((FULL_BUCKET_US + ROUNDING_US - owed) / each)),
    resetSeconds: toTenths(Math.max(0, Math.ceil(owed - ROUNDING_US))),
    retryAfterSeconds: allowed ? 0 : toWaitSeconds((owed + each - FULL_BUCKET_US) / 1000),
  }
}

const EMPTY = new CountersUnavailable({ reason: 'empty', detail: 'generation' })

const isReady = (mark: string | null): boolean => mark !== null && mark.startsWith('ready:')

/** Opens the counters for as long as the scope. An unreachable Redis does not keep a process from starting. */
export const makeRedisCounters = Effect.fnUntraced(function* (options: RedisCountersOptions) {
  const keys = keyNames(options.prefix ?? 'hub:')
  const given = options.now
  const now = (): string => (given === undefined ? '' : String(given()))
  let unwritten: Array<FloodAcceptance> = []

  const link: Link = yield* makeLink({
    url: options.url,
    name: options.name ?? 'hub',
    onReconnected: Effect.suspend(() => catchUp),
  })

  const reserveChunk = (run: RunScript, bucket: number, chunk: ReadonlyArray<Placed<FloodRequest>>) => {
    // Nearly always one: the windows of an account change now and then.
    const sets = new Map<string, number>()
    const limits: Array<number> = []
    const asked: Array<string | number> = []
    const names = [keys.generation(bucket), keys.reserved(bucket)]
    for (const { item } of chunk) {
      const { pauseSeconds, perDay, perHour } = item.windows
      const name = `${pauseSeconds} ${perHour} ${perDay}`
      let set = sets.get(name)
      if (set === undefined) {
        set = sets.size
        sets.set(name, set)
        limits.push(Math.min(DAY_MS, pauseSeconds * 1000), perHour ?? -1, perDay ?? -1)
      }
      names.push(keys.flood(bucket, item))
      asked.push(item.reservationId, set)
    }
    return run('reserveFlood', names, [
      now(),
      RESERVATION_LEASE_MS,
      TTL.floodMs,
      sets.size,
      ...limits,
      ...asked,
    ])
  }

  const write = (items: ReadonlyArray<FloodAcceptance>) =>
    items.length === 0
      ? Effect.void
      : Effect.asVoid(
          link.call((run) =>
            Promise.all(
              chunksOf(items).map(([bucket, chunk]) =>
                run(
                  'confirmFlood',
                  [keys.reserved(bucket), ...chunk.map(({ item }) => keys.flood(bucket, item))],
                  [now(), TTL.floodMs, ...chunk.flatMap(({ item }) => [item.reservationId, item.at])],
                ),
              ),
            ),
          ),
        )

  const keep = (items: ReadonlyArray<FloodAcceptance>, why: CountersUnavailable) =>
    Effect.suspend(() => {
      const full = unwritten.length + items.length - MOST_UNWRITTEN
      unwritten = [...unwritten, ...items].slice(-MOST_UNWRITTEN)
      return full <= 0
        ? Effect.void
        : Effect.logWarning('Accepted messages are left out of the flood windows.').pipe(
            Effect.annotateLogs({ messages: full, reason: why.reason }),
          )
    })

  /** Answers whether what it was given, and some of what had waited, is written. */
  const writeOrKeep = (items: ReadonlyArray<FloodAcceptance>): Effect.Effect<boolean> =>
    Effect.suspend(() => {
      const waiting = unwritten.splice(0, WRITE_CHUNK)
      const all = waiting.length === 0 ? items : [...waiting, ...items]
      return write(all).pipe(
        Effect.as(true),
        Effect.catch((why) => Effect.as(keep(all, why), false)),
      )
    })

  const catchUp: Effect.Effect<void> = Effect.flatMap(writeOrKeep([]), (written) =>
    written && unwritten.length > 0 ? catchUp : Effect.void,
  )

  const generationMarks = link.call((_run, redis) =>
    Promise.all(Array.from({ length: BUCKETS }, (_, bucket) => redis.get(keys.generation(bucket)))),
  )

  const onAllBuckets = (script: 'beginBuilding' | 'finishBuilding', token: string) =>
    Effect.map(
      link.call((run) =>
        Promise.all(
          Array.from({ length: BUCKETS }, (_, bucket) =>
            run(script, [keys.generation(bucket)], [now(), token]),
          ),
        ),
      ),
      (answers) => answers.every((ready) => ready === 1),
    )

  const holdLock = (token: string) =>
    Effect.map(
      link.call((run) => run('holdLock', [keys.rebuild], [now(), token, TTL.rebuildMs])),
      (held) => held === 1,
    )

  /** Requests of this turn that want a token, by key and rate. */
  let tokens = new Map<string, TokensWanted>()
  const fork = Effect.runForkWith(yield* Effect.context<never>())
  /**
   * Requests that came together ask together, one call for a key: it costs what one of them would have cost. They pass in their order, and each is told
   * what is left behind it.
   */
  const takeTokens = (): void => {
    const all = [...tokens.values()]
    tokens = new Map()
    for (const { keyId, limit, resume } of all) {
      const taken = link.call((run) =>
        run('takeToken', [keys.rate(keyId)], [now(), limit, TTL.rateMs, resume.length]),
      )
      fork(
        Effect.map(Effect.exit(taken), (exit) => {
          const answer = Exit.map(exit, (found) => (found as ReadonlyArray<number | string>).map(Number))
          resume.forEach((one, place) =>
            one(Exit.map(answer, ([granted = 0, debt = 0]) => verdictOf(limit, granted, debt, place))),
          )
        }),
      )
    }
  }

  const counters: CountersShape = {
    takeToken: (keyId, requestsPerSecond) =>
      Effect.callback((resume) => {
        const limit = atLeastOne(requestsPerSecond)
        const name = `${limit} ${keyId}`
        const together = tokens.get(name)
        if (together !== undefined) {
          together.resume.push(resume)
          return
        }
        if (tokens.size === 0) setImmediate(takeTokens)
        tokens.set(name, { keyId, limit, resume: [resume] })
      }),

    failedLogins: {
      check: (address) =>
        Effect.map(
          link.call((run) => run('checkGate', [keys.gate(gateAddress(address))], [now()])),
          (wait) =>
            wait === 0
              ? { allowed: true }
              : { allowed: false, retryAfterSeconds: toWaitSeconds(Number(wait)) },
        ),
      record: (address) =>
        Effect.asVoid(
          link.call((run) => run('recordFailure', [keys.gate(gateAddress(address))], [now(), TTL.gateMs])),
        ),
    },

    reserveFlood: Effect.fnUntraced(function* (items) {
      if (items.length === 0) return []
      const chunks = chunksOf(items)
      const answers = yield* link.call((run) =>
        Promise.all(chunks.map(([bucket, chunk]) => reserveChunk(run, bucket, chunk))),
      )
      const verdicts: Array<FloodVerdict> = []
      for (const [i, [, chunk]] of chunks.entries()) {
        const codes = answers[i] as ReadonlyArray<number> | null
        if (codes === null) return yield* EMPTY
        chunk.forEach(({ index }, place) => {
          verdicts[index] = toVerdict(codes[place] ?? 0)
        })
      }
      return verdicts
    }),

    releaseFlood: (items) =>
      items.length === 0
        ? Effect.void
        : Effect.asVoid(
            link.call((run) =>
              Promise.all(
                chunksOf(items).map(([bucket, chunk]) =>
                  run(
                    'releaseFlood',
                    [keys.reserved(bucket), ...chunk.map(({ item }) => keys.flood(bucket, item))],
                    [now(), ...chunk.map(({ item }) => item.reservationId)],
                  ),
                ),
              ),
            ),
          ),

    confirmFlood: (items) => Effect.asVoid(writeOrKeep(items)),

    daily: {
      stopped: (day, limit) =>
        Effect.map(
          link.call((_run, redis) => redis.get(keys.daily(day))),
          (total) => Number(total ?? 0) >= limit,
        ),
      count: (day, messages) =>
        Effect.map(
          link.call((run) => run('countDaily', [keys.daily(day)], [now(), messages, TTL.dailyMs])),
          Number,
        ),
      raise: (day, total) =>
        Effect.asVoid(link.call((run) => run('raiseDaily', [keys.daily(day)], [now(), total, TTL.dailyMs]))),
    },

    ping: Effect.asVoid(link.call((_run, redis) => redis.ping())),

    generation: {
      state: Effect.flatMap(generationMarks, (marks) =>
        marks.every(isReady)
          ? Effect.succeed('ready' as const)
          : Effect.map(
              link.call((_run, redis) => redis.get(keys.rebuild)),
              (holder) => (holder === null ? ('empty' as const) : ('rebuilding' as const)),
            ),
      ),
      rebuild: Effect.fnUntraced(function* (acceptances) {
        if ((yield* generationMarks).every(isReady)) return 'ready' as const
        const token = randomUUID()
        if (!(yield* holdLock(token))) return 'elsewhere' as const
        let renewed = performance.now()
        const renew = Effect.suspend(() => {
          if (performance.now() - renewed < RENEW_AFTER_MS) return Effect.void
          renewed = performance.now()
          // Whether it is still held does not matter: who has overtaken this rebuild has put its own marks.
          return Effect.asVoid(holdLock(token))
        })
        return yield* onAllBuckets('beginBuilding', token).pipe(
          Effect.andThen(
            acceptances.pipe(
              Stream.rechunk(WRITE_CHUNK),
              Stream.runForEachArray((items) =>
                write(items).pipe(
                  // Writing twice is writing once, and a store that came back empty has lost this rebuild's marks.
                  Effect.retry({ times: REBUILD_WRITE_RETRIES, schedule: Schedule.spaced('500 millis') }),
                  Effect.andThen(renew),
                ),
              ),
            ),
          ),
          Effect.andThen(onAllBuckets('finishBuilding', token)),
          Effect.map((ready) => (ready ? ('rebuilt' as const) : ('elsewhere' as const))),
          // If this does not get through, the lock ends by itself.
          Effect.ensuring(Effect.ignore(link.call((run) => run('dropLock', [keys.rebuild], [now(), token])))),
        )
      }),
    },
  }
  return counters
})

/** The counters of the hub. Settings: `redisUrl`, `redisPrefix`. */
export const countersLayer = (app: string): Layer.Layer<Counters, Config.ConfigError> =>
  Layer.effect(
    Counters,
    Effect.gen(function* () {
      const url = yield* settings.redisUrl.config
      const prefix = yield* settings.redisPrefix.config
      return yield* makeRedisCounters({ url, prefix, name: app })
    }),
  )
