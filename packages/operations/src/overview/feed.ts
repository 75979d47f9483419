/**
 * Reads the overview for all viewers: once for all of them, and only while somebody watches or asks.
 * `pacing.ts` bounds the cost.
 */
import { OPERATOR_STATUS_MS, SharedTexts } from '@hub/counters'
import { toTimestamp } from '@hub/domain'
import type { KafkaConnection } from '@hub/kafka'
import { type Queries, Sql } from '@hub/store'
import { Clock, Context, Duration, Effect, Layer, PubSub, Semaphore, Stream } from 'effect'
import { readConsumers } from '../consumer-lag.ts'
import { readOperators } from '../operators.ts'
import {
  EMPTY,
  HOUR_MS,
  type Overview,
  type OverviewPart,
  PARTS,
  readMinutes,
  readSubmission,
  readWork,
  withoutShards,
} from './overview.ts'
import { readUnanswered } from '../unanswered.ts'
import { afterFailure, afterRead, isDue, newPace } from './pacing.ts'

/** How often a part is read, if that is cheap. */
const EVERY_MS = {
  hour: 300_000,
  minutes: 5000,
  submission: 10_000,
  work: 5000,
  unanswered: 60_000,
  consumers: 15_000,
  operators: OPERATOR_STATUS_MS,
} as const
type Read = keyof typeof EVERY_MS
/** The part that each read belongs to. */
const PART_OF: Readonly<Record<Read, OverviewPart>> = {
  hour: 'minutes',
  minutes: 'minutes',
  submission: 'minutes',
  work: 'work',
  unanswered: 'work',
  consumers: 'consumers',
  operators: 'operators',
}
/** How often the parts are checked for being due. */
const TICK = Duration.seconds(1)
/** An hour of many messages. PostgreSQL ends a statement after ten seconds itself. */
const READ_DEADLINE = { deadline: Duration.seconds(9) }
/** A client gets a comment in this time, so that proxies do not close the stream. */
const KEEP_ALIVE = Duration.seconds(20)

interface FeedOptions {
  readonly kafka: KafkaConnection
  /** Of topics and consumer groups. */
  readonly topicPrefix: string
  /** Observes a read: its part and its duration in seconds. */
  readonly onRead?: (part: OverviewPart, seconds: number) => void
  /** Observes the number of viewers. */
  readonly onViewers?: (viewers: number) => void
}

export class OverviewFeed extends Context.Service<
  OverviewFeed,
  {
    /** The overview now. Parts that are not due yet are not read again. */
    readonly current: Effect.Effect<Overview>
    /** The overview now and after each change. Elements are `null` if nothing has changed for a while. */
    readonly changes: Stream.Stream<Overview | null>
  }
>()('@hub/operations/OverviewFeed') {
  static readonly layer = (options: FeedOptions): Layer.Layer<OverviewFeed, never, Sql | SharedTexts> =>
    Layer.effect(OverviewFeed, makeFeed(options))
}

const makeFeed = Effect.fnUntraced(function* ({
  kafka,
  onRead = () => {},
  onViewers = () => {},
  topicPrefix,
}: FeedOptions) {
  const sql = yield* Sql
  const shared = yield* SharedTexts
  const scope = yield* Effect.scope
  const published = yield* PubSub.sliding<Overview>(1)
  // One read at a time: concurrent viewers share it.
  const reading = yield* Semaphore.make(1)
  const unavailable = new Set<OverviewPart>()
  let state = EMPTY
  let viewers = 0

  const paces = new Map(Object.entries(EVERY_MS).map(([read, everyMs]) => [read as Read, newPace(everyMs)]))

  /** Runs a read if it is due. A failed read keeps the earlier values. */
  const readIfDue = <E>(
    read: Read,
    values: (at: number) => Effect.Effect<Partial<typeof EMPTY>, E, Sql>,
  ): Effect.Effect<boolean, never, Sql> =>
    Effect.gen(function* () {
      const part = PART_OF[read]
      const pace = paces.get(read)!
      const startedAt = yield* Clock.currentTimeMillis
      if (!isDue(pace, startedAt)) return false
      const result = yield* Effect.result(values(startedAt))
      const endedAt = yield* Clock.currentTimeMillis
      const after = result._tag === 'Success' ? afterRead : afterFailure
      paces.set(read, after(pace, startedAt, endedAt))
      onRead(part, (endedAt - startedAt) / 1000)
      if (result._tag === 'Success') {
        state = { ...state, ...result.success }
        unavailable.delete(part)
      } else {
        unavailable.add(part)
        yield* Effect.logWarning('overview: a part could not be read').pipe(Effect.annotateLogs({ part }))
      }
      return true
    })

  const query = <A>(body: (q: Queries) => Promise<A>) => sql.run(body, READ_DEADLINE)

  /** Reads what is due. True: something was read. */
  const refresh = Effect.gen(function* () {
    const hour = yield* readIfDue('hour', (at) =>
      Effect.map(
        query((q) => readMinutes(q, at, null)),
        (minutes) => ({ minutes }),
      ),
    )
    const recent = yield* readIfDue('minutes', (at) =>
      Effect.map(
        query((q) => readMinutes(q, at, state.minutes)),
        (minutes) => ({ minutes }),
      ),
    )
    const times = yield* readIfDue('submission', (at) =>
      Effect.map(
        query((q) => readSubmission(q, at)),
        (submission) => ({ submission }),
      ),
    )
    const work = yield* readIfDue('work', () => query(readWork))
    const unanswered = yield* readIfDue('unanswered', () =>
      Effect.map(query(readUnanswered), (unanswered) => ({ unanswered })),
    )
    const consumers = yield* readIfDue('consumers', () =>
      Effect.map(readConsumers(kafka, topicPrefix), ({ consumers }) => ({
        consumers: withoutShards(consumers),
      })),
    )
    const operators = yield* readIfDue('operators', () =>
      Effect.map(readOperators, (operators) => ({ operators })).pipe(
        Effect.provideService(SharedTexts, shared),
      ),
    )
    return hour || recent || times || work || unanswered || consumers || operators
  }).pipe(Effect.provideService(Sql, sql), reading.withPermits(1))

  const snapshot = Effect.map(Clock.currentTimeMillis, (at): Overview => ({
    ...state,
    at: toTimestamp(at),
    unavailable: PARTS.filter((part) => unavailable.has(part)),
    // Nobody may have read since then.
    minutes: state.minutes.filter(({ minute }) => minute > toTimestamp(at - HOUR_MS)),
  }))

  /** Runs while somebody watches. */
  const watch = Effect.gen(function* () {
    if (yield* refresh) yield* PubSub.publish(published, yield* snapshot)
    yield* Effect.sleep(TICK)
  }).pipe(Effect.repeat({ while: () => viewers > 0 }))

  const arrive = Effect.suspend(() => {
    viewers += 1
    onViewers(viewers)
    return viewers === 1 ? Effect.asVoid(Effect.forkIn(watch, scope)) : Effect.void
  })
  const leave = Effect.sync(() => {
    viewers -= 1
    onViewers(viewers)
  })

  const changes = Stream.unwrap(
    Effect.gen(function* () {
      yield* Effect.acquireRelease(arrive, () => leave)
      const subscription = yield* PubSub.subscribe(published)
      const first = yield* Effect.andThen(refresh, snapshot)
      const next = PubSub.take(subscription).pipe(
        Effect.map((overview): Overview | null => overview),
        Effect.timeoutOrElse({ duration: KEEP_ALIVE, orElse: () => Effect.succeed(null) }),
      )
      return Stream.concat(Stream.succeed<Overview | null>(first), Stream.fromEffectRepeat(next))
    }),
  )

  return { current: Effect.andThen(refresh, snapshot), changes }
})
