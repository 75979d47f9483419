/** The counters in Redis. */
import { randomUUID } from 'node:crypto'
import { settings } from '@hub/config'
import { type Config, Effect, Exit, Layer, type Redacted, Schedule, Stream } from 'effect'
import { gateAddress } from './address.ts'
import { get, PING, script } from './command.ts'
import { bucketOf, BUCKETS, keyNames, TTL } from './keys.ts'
import { makeLink } from './link.ts'
import { unavailable } from './metrics.ts'
import {
  ATTEMPT_LEASE_MS,
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
import { atLeastOne, DAY_MS, toWaitSeconds, tokenVerdict, WINDOW_NAMES } from './rules.ts'

/** Items of one script call, which blocks Redis for less than a millisecond. */
const CHUNK = 200

/** Items of one write of buffered acceptances or of a rebuild: well within the deadline. */
const WRITE_CHUNK = 500

/** Acceptances that wait for Redis: minutes of codes, a few megabytes. */
const MAX_BUFFERED = 20_000

/** A rebuild may have read for minutes, so it survives an outage of 5 s. */
const REBUILD_WRITE_RETRIES = 10

/** A rebuild renews its lock with the first chunk after this time. */
const RENEW_AFTER_MS = TTL.rebuildMs / 4

export interface RedisCountersOptions {
  readonly url: Redacted.Redacted<string>
  /** Prefix of all keys, without braces. Default `hub:`. */
  readonly prefix?: string
  /** The connection name in `CLIENT LIST`. */
  readonly name?: string
  /** Replaces the clock of Redis, for tests; milliseconds since the epoch. */
  readonly now?: () => number
  /** Replaces the deadline of each call, for tests on a busy machine. */
  readonly deadlineMs?: number
}

interface Indexed<A> {
  readonly item: A
  readonly index: number
}

/** Groups items by bucket, in order, in chunks. `index`: the position of an item in the call. */
const chunksOf = <A extends FloodReservation>(
  items: ReadonlyArray<A>,
): ReadonlyArray<readonly [bucket: number, chunk: ReadonlyArray<Indexed<A>>]> => {
  // Most calls concern one account, so its bucket is computed once.
  const bucketByName = new Map<string, number>()
  const byBucket = new Map<number, Array<Indexed<A>>>()
  items.forEach((item, index) => {
    const name = `${item.account}:${item.mode}`
    let bucket = bucketByName.get(name)
    if (bucket === undefined) {
      bucket = bucketOf(item)
      bucketByName.set(name, bucket)
    }
    const indexed = byBucket.get(bucket)
    if (indexed === undefined) byBucket.set(bucket, [{ item, index }])
    else indexed.push({ item, index })
  })
  return [...byBucket].flatMap(([bucket, indexed]) =>
    Array.from(
      { length: Math.ceil(indexed.length / CHUNK) },
      (_, i) => [bucket, indexed.slice(i * CHUNK, (i + 1) * CHUNK)] as const,
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

/** Requests of one turn of the event loop with the same key and rate. */
interface TokenRequests {
  readonly keyId: string
  readonly limit: number
  readonly resume: Array<(verdict: Effect.Effect<RateVerdict, CountersUnavailable>) => void>
}

const EMPTY = new CountersUnavailable({ reason: 'empty', detail: 'generation' })

const isReady = (generation: unknown): boolean =>
  typeof generation === 'string' && generation.startsWith('ready:')

/** Opens the counters until the scope closes. A process also starts without Redis. */
export const makeRedisCounters = Effect.fnUntraced(function* (options: RedisCountersOptions) {
  const keys = keyNames(options.prefix ?? 'hub:')
  const clock = options.now
  const now = (): string => (clock === undefined ? '' : String(clock()))
  let buffered: Array<FloodAcceptance> = []

  const link = yield* makeLink({
    url: options.url,
    name: options.name ?? 'hub',
    onAvailable: Effect.suspend(() => writeBuffered),
    deadlineMs: options.deadlineMs,
  })

  const reserveChunk = (bucket: number, chunk: ReadonlyArray<Indexed<FloodRequest>>) => {
    // Nearly always one set: the settings of an account rarely change.
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
    return script('reserveFlood', names, [
      now(),
      RESERVATION_LEASE_MS,
      TTL.floodMs,
      sets.size,
      ...limits,
      ...asked,
    ])
  }

  /** Runs a script on the reservations of each bucket. `args`: the arguments of one reservation. */
  const onReservations = <A extends FloodReservation>(
    name: 'confirmFlood' | 'releaseFlood',
    items: ReadonlyArray<A>,
    first: ReadonlyArray<number>,
    args: (item: A) => ReadonlyArray<string | number>,
  ) =>
    items.length === 0
      ? Effect.void
      : Effect.asVoid(
          link.callAll(
            'flood',
            'background',
            chunksOf(items).map(([bucket, chunk]) =>
              script(
                name,
                [keys.reserved(bucket), ...chunk.map(({ item }) => keys.flood(bucket, item))],
                [now(), ...first, ...chunk.flatMap(({ item }) => args(item))],
              ),
            ),
          ),
        )

  const write = (items: ReadonlyArray<FloodAcceptance>) =>
    onReservations('confirmFlood', items, [TTL.floodMs], ({ at, reservationId }) => [reservationId, at])

  const buffer = (items: ReadonlyArray<FloodAcceptance>, cause: CountersUnavailable) =>
    Effect.suspend(() => {
      const dropped = buffered.length + items.length - MAX_BUFFERED
      buffered = [...buffered, ...items].slice(-MAX_BUFFERED)
      return dropped <= 0
        ? Effect.void
        : Effect.logWarning(
            'counters: the buffer is full; the flood windows do not count the oldest accepted messages',
          ).pipe(Effect.annotateLogs({ messages: dropped, reason: cause.reason }))
    })

  /** Writes the items and some buffered ones, and buffers what was not written. True if all were written. */
  const writeOrBuffer = (items: ReadonlyArray<FloodAcceptance>): Effect.Effect<boolean> =>
    Effect.suspend(() => {
      const earlier = buffered.splice(0, WRITE_CHUNK)
      const all = earlier.length === 0 ? items : [...earlier, ...items]
      // Each chunk by itself: in a cluster, the nodes of the others may answer.
      return Effect.partition(
        chunksOf(all).map(([, chunk]) => chunk.map(({ item }) => item)),
        (chunk) => Effect.mapError(write(chunk), (cause) => ({ cause, chunk })),
        { concurrency: 'unbounded' },
      ).pipe(
        Effect.flatMap(([, failures]) => {
          const [first] = failures
          if (first === undefined) return Effect.succeed(true)
          const unwritten = failures.flatMap(({ chunk }) => chunk)
          return Effect.as(buffer(unwritten, first.cause), false)
        }),
      )
    })

  const writeBuffered: Effect.Effect<void> = Effect.flatMap(
    // A node that leaves the cluster ends its loop, which must not lose them.
    Effect.uninterruptible(writeOrBuffer([])),
    (written) => (written && buffered.length > 0 ? writeBuffered : Effect.void),
  )

  const generationKeys = Array.from({ length: BUCKETS }, (_, bucket) => keys.generation(bucket))

  const areReady = Effect.map(link.callAll('flood', 'background', generationKeys.map(get)), (all) =>
    all.every(isReady),
  )

  const onAllBuckets = (name: 'beginBuilding' | 'finishBuilding', token: string) =>
    Effect.map(
      link.callAll(
        'flood',
        'background',
        generationKeys.map((key) => script(name, [key], [now(), token])),
      ),
      (answers) => answers.every((ready) => ready === 1),
    )

  const takeLock = (token: string) =>
    Effect.map(
      link.call('flood', 'background', script('holdLock', [keys.rebuild], [now(), token, TTL.rebuildMs])),
      (held) => held === 1,
    )

  /** The token requests of this turn of the event loop, by key and rate. */
  let tokens = new Map<string, TokenRequests>()
  const fork = Effect.runForkWith(yield* Effect.context<never>())
  /**
   * One call per key for all requests of a turn of the event loop: it costs as much as the call of
   * one request. They pass in their order, and each verdict contains what remains after it.
   */
  const takeTokens = (): void => {
    const all = [...tokens.values()]
    tokens = new Map()
    for (const { keyId, limit, resume } of all) {
      const taken = link.call(
        'rate',
        'quick',
        script('takeToken', [keys.rate(keyId)], [now(), limit, TTL.rateMs, resume.length]),
      )
      fork(
        Effect.map(Effect.exit(taken), (exit) => {
          const answer = Exit.map(exit, (found) => (found as ReadonlyArray<number | string>).map(Number))
          resume.forEach((one, index) =>
            one(Exit.map(answer, ([granted = 0, debt = 0]) => tokenVerdict(limit, granted, debt, index))),
          )
        }),
      )
    }
  }

  const loginKeys = (address: string): ReadonlyArray<string> => {
    const client = gateAddress(address)
    return [keys.gate(client), keys.attempts(client)]
  }

  const counters: CountersShape = {
    takeToken: (keyId, requestsPerSecond) =>
      Effect.callback((resume) => {
        const limit = atLeastOne(requestsPerSecond)
        const name = `${limit} ${keyId}`
        const sameTurn = tokens.get(name)
        if (sameTurn !== undefined) {
          sameTurn.resume.push(resume)
          return
        }
        if (tokens.size === 0) setImmediate(takeTokens)
        tokens.set(name, { keyId, limit, resume: [resume] })
      }),

    failedLogins: {
      check: (address) =>
        Effect.map(
          link.call('logins', 'quick', script('checkGate', [keys.gate(gateAddress(address))], [now()])),
          (wait) =>
            wait === 0
              ? { allowed: true }
              : { allowed: false, retryAfterSeconds: toWaitSeconds(Number(wait)) },
        ),
      begin: (address, attempt) =>
        Effect.map(
          link.call(
            'logins',
            'quick',
            script('beginLogin', loginKeys(address), [now(), attempt, ATTEMPT_LEASE_MS]),
          ),
          (wait) =>
            Number(wait) === 0
              ? { kind: 'begun' }
              : Number(wait) < 0
                ? { kind: 'waiting' }
                : { kind: 'closed', retryAfterSeconds: toWaitSeconds(Number(wait)) },
        ),
      end: (address, attempt, result) =>
        Effect.asVoid(
          link.call(
            'logins',
            'quick',
            script('endLogin', loginKeys(address), [now(), attempt, result, TTL.gateMs]),
          ),
        ),
    },

    reserveFlood: Effect.fnUntraced(function* (items) {
      if (items.length === 0) return []
      const chunks = chunksOf(items)
      const answers = yield* link.callAll(
        'flood',
        'verdict',
        chunks.map(([bucket, chunk]) => reserveChunk(bucket, chunk)),
      )
      const verdicts: Array<FloodVerdict> = []
      for (const [i, [, chunk]] of chunks.entries()) {
        const codes = answers[i] as ReadonlyArray<number> | null
        if (codes === null) {
          unavailable.add({ counter: 'flood', reason: 'empty' })
          return yield* EMPTY
        }
        chunk.forEach(({ index }, i) => {
          verdicts[index] = toVerdict(codes[i] ?? 0)
        })
      }
      return verdicts
    }),

    releaseFlood: (items) =>
      onReservations('releaseFlood', items, [], ({ reservationId }) => [reservationId]),

    confirmFlood: (items) => Effect.asVoid(writeOrBuffer(items)),

    daily: {
      stopped: (day, limit) =>
        Effect.map(link.call('daily', 'quick', get(keys.daily(day))), (total) => Number(total ?? 0) >= limit),
      count: (day, messages) =>
        Effect.map(
          link.call(
            'daily',
            'background',
            script('countDaily', [keys.daily(day)], [now(), messages, TTL.dailyMs]),
          ),
          Number,
        ),
      raise: (day, total) =>
        Effect.asVoid(
          link.call(
            'daily',
            'background',
            script('raiseDaily', [keys.daily(day)], [now(), total, TTL.dailyMs]),
          ),
        ),
    },

    ping: Effect.asVoid(link.call('flood', 'verdict', PING)),

    generation: {
      state: Effect.flatMap(areReady, (ready) =>
        ready
          ? Effect.succeed('ready' as const)
          : Effect.map(link.call('flood', 'background', get(keys.rebuild)), (holder) =>
              holder === null ? ('empty' as const) : ('rebuilding' as const),
            ),
      ),
      rebuild: Effect.fnUntraced(function* (acceptances) {
        if (yield* areReady) return 'ready' as const
        const token = randomUUID()
        if (!(yield* takeLock(token))) return 'elsewhere' as const
        let renewed = performance.now()
        const renew = Effect.suspend(() => {
          if (performance.now() - renewed < RENEW_AFTER_MS) return Effect.void
          renewed = performance.now()
          // The result does not matter: a rebuild that has taken the lock has also written its own
          // generations.
          return Effect.asVoid(takeLock(token))
        })
        return yield* onAllBuckets('beginBuilding', token).pipe(
          Effect.andThen(
            acceptances.pipe(
              Stream.rechunk(WRITE_CHUNK),
              Stream.runForEachArray((items) =>
                write(items).pipe(
                  // Writes are idempotent. A store that lost its data meanwhile has also lost the
                  // generations of this rebuild.
                  Effect.retry({ times: REBUILD_WRITE_RETRIES, schedule: Schedule.spaced('500 millis') }),
                  Effect.andThen(renew),
                ),
              ),
            ),
          ),
          Effect.andThen(onAllBuckets('finishBuilding', token)),
          Effect.map((ready) => (ready ? ('rebuilt' as const) : ('elsewhere' as const))),
          // If this fails, the lock expires.
          Effect.ensuring(
            Effect.ignore(
              link.call('flood', 'background', script('dropLock', [keys.rebuild], [now(), token])),
            ),
          ),
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
