/**
 * The dispatcher: shards of recipient actors on the group `hub.dispatcher`, the operators, and the read model for what has
 * been forgotten.
 */
import { makeShardHost, makeSupervisor, type ShardHost } from '@hub/actor'
import { DEFAULT_LIFETIMES, type Lifetimes, type Mode, type OptOutVocabulary } from '@hub/domain'
import type { KafkaUnavailable, ConsumerGroups, EventLog, TopicNames } from '@hub/kafka'
import {
  HTTP,
  HTTP_DEFAULTS,
  makeHttpOperator,
  makeSandbox,
  makeSmppOperator,
  type Operator,
  ReportSink,
  SANDBOX,
  SANDBOX_DEFAULTS,
  type SandboxOptions,
  SMPP,
} from '@hub/operator'
import type { PayloadEncryption } from '@hub/store'
import { Tracing } from '@hub/telemetry'
import { Effect, FiberSet, Redacted, type Scope } from 'effect'
import { type CallbackPortUnavailable, listenForCallbacks } from './callback-listener.ts'
import { makeHandover } from './handover.ts'
import { GROUP } from './identity.ts'
import { makeApplyInbound } from './inbound/apply.ts'
import type { OptOuts } from './inbound/opt-outs.ts'
import { KnownMessages } from './known/port.ts'
import type { LiveOperator } from './live-operator.ts'
import { makeMetrics } from './metrics.ts'
import { makeReportSink } from './report-sink.ts'
import { type DispatcherShard, makeDispatcherShard } from './shard/dispatcher-shard.ts'
import { MessageTraces } from './traces.ts'
import { DEFAULT_LIMITS, type Population, type ShardLimits } from './shard/message-shard.ts'

export interface DispatcherOptions {
  /** Prepended to topics and the group's name. */
  readonly prefix: string
  readonly topics: TopicNames
  readonly memberFile?: string
  /** The operator of live keys. Without one they wait until their lifetime ends. */
  readonly live: LiveOperator | null
  /** The deployment's secret behind recipient hashes. */
  readonly hashSecret: Redacted.Redacted<string>
  /** What recipients write to opt out, and in again. */
  readonly vocabulary: OptOutVocabulary
  readonly sandbox?: SandboxOptions
  readonly limits?: ShardLimits
  /** Messages in memory, over all shards. */
  readonly population?: number
  readonly lifetimes?: Lifetimes
}

export interface Dispatcher {
  /** Joined, heartbeats answered, and every owned shard recovered. */
  readonly isReady: Effect.Effect<boolean>
  /** Never succeeds; dies when a part has died that the process cannot do without. */
  readonly failure: Effect.Effect<never>
  /** Where the operator's callbacks are received, or `null`. */
  readonly callbackPort: number | null
}

/** Where live messages wait when nobody takes them. */
const NOBODY = 'none'

/** How often the read model is asked about what waits for it. It is asked only when something does. */
const LOOKUP_MS = 250
/** Questions of one shard at once: a full buffer of a lane that has a backlog, which is one query by primary key. */
const LOOKUPS = 2000
/** How often waiting inbound messages are looked at: an opt-out counts this much later, and a round without any costs nothing. */
const INBOUND_MS = 250
const GAUGES_MS = 1000
/** Kafka is asked for it. */
const LAG_MS = 5000
/** Messages in memory, over all shards: a kilobyte each, which with everything else stays below 350 MiB. */
const DEFAULT_POPULATION = 150_000

/** Runs a dispatcher until the scope closes: then hand-overs under way are finished, and the group is left. */
export const makeDispatcher = (
  options: DispatcherOptions,
): Effect.Effect<
  Dispatcher,
  KafkaUnavailable | CallbackPortUnavailable,
  ConsumerGroups | EventLog | KnownMessages | OptOuts | PayloadEncryption | Scope.Scope
> =>
  Effect.gen(function* () {
    const { topics } = options
    const known = yield* KnownMessages
    const metrics = makeMetrics(yield* Effect.context<never>())
    const group = `${options.prefix}${GROUP}`
    const traces = new MessageTraces(yield* Tracing, group)
    const clock = yield* Effect.clockWith(Effect.succeed)
    const now = () => clock.currentTimeMillisUnsafe()
    const fork = yield* FiberSet.makeRuntime<never>()

    const { failure, supervise } = makeSupervisor()

    // Shards and hand-overs know each other. The host comes last, so that it stops first: then the rest is still
    // there for what is in flight.
    let host: ShardHost<DispatcherShard> | null = null
    const shards = () => host?.open() ?? []

    const sink = yield* makeReportSink({
      topics,
      metrics,
      hashSecret: options.hashSecret,
      recipientOf: (messageId) => {
        for (const shard of shards()) {
          const recipient = shard.messages.recipientOf(messageId)
          if (recipient !== null) return recipient
        }
        return null
      },
    })
    const withSink = Effect.provideService(ReportSink, sink)

    const operators = new Map<string, Operator>()
    operators.set(SANDBOX, yield* withSink(makeSandbox(options.sandbox ?? SANDBOX_DEFAULTS)))
    const { live } = options
    if (live?.name === SMPP) operators.set(SMPP, yield* withSink(makeSmppOperator(live.settings)))
    if (live?.name === HTTP) {
      const { secret, url } = live.settings
      operators.set(HTTP, yield* makeHttpOperator({ ...HTTP_DEFAULTS, url, secret }))
    }
    // A name of nobody's, where there is none: it is in no fact before somebody takes a message.
    const liveName = live?.name ?? NOBODY

    let toldOfMissingOperator = false
    const operatorFor = (mode: Mode): string => {
      if (mode === 'test') return SANDBOX
      if (live === null && !toldOfMissingOperator) {
        toldOfMissingOperator = true
        fork(
          Effect.logWarning(
            'no operator is configured for live keys: their messages wait until their lifetime ends (HUB_OPERATOR_SMPP_URL or HUB_OPERATOR_HTTP_URL)',
          ),
        )
      }
      return liveName
    }

    const population: Population = { count: 0, limit: options.population ?? DEFAULT_POPULATION }

    const handover = yield* makeHandover({
      operators: [...operators.values()],
      shards,
      mayBegin: () => host?.mayStart() ?? false,
      act: (change) => host?.apply(change),
      now,
      metrics,
      traces,
      supervise,
      lifetimes: options.lifetimes ?? DEFAULT_LIFETIMES,
    })

    const running = yield* makeShardHost<DispatcherShard>({
      group,
      topics,
      ...(options.memberFile === undefined ? {} : { memberFile: options.memberFile }),
      makeShard: (handle) =>
        makeDispatcherShard(handle, {
          topics,
          metrics,
          traces,
          now,
          limits: options.limits ?? DEFAULT_LIMITS,
          population,
          routes: [SANDBOX, liveName],
          operatorFor,
          dedupes: (name) => operators.get(name)?.capabilities.dedupesByReference ?? false,
          submit: (shard, message) => handover.submit(shard, message),
          resume: (name, open) => {
            const operator = operators.get(name)
            if (operator !== undefined) fork(operator.resume(open))
          },
          onDeadLetter: ({ offset, partition, topic }, reason) =>
            fork(
              Effect.logError('a record could not be read').pipe(
                Effect.annotateLogs({ topic, partition, offset, reason }),
              ),
            ),
        }),
      onSettled: () => handover.dispatch(),
      inFlight: () => handover.inFlight(),
      observer: {
        onRecovered: ({ ms, records, shard }) => {
          metrics.recovered(ms)
          fork(
            Effect.logInfo('a shard is open').pipe(Effect.annotateLogs({ shard, records, duration_ms: ms })),
          )
        },
      },
    })
    host = running

    const lookUp = Effect.gen(function* () {
      const asking = running.open().map((shard) => ({
        shard,
        messages: shard.messages.messagesToLookUp(LOOKUPS),
        reports: shard.messages.reportsToLookUp(LOOKUPS),
      }))
      const messages = asking.flatMap((asked) => asked.messages.map((message) => ({ ...asked, message })))
      if (messages.length > 0) {
        const answers = yield* known.handedOver(
          messages.map(({ message, shard }) => ({
            id: message.id,
            shard: shard.handle.shard,
            lane: message.lane,
            laneOffset: message.askAt?.lane ?? 0,
            logOffset: message.askAt?.log ?? 0,
          })),
        )
        running.apply(() => {
          for (const [i, { message, shard }] of messages.entries()) {
            const answer = answers[i] ?? null
            if (answer !== null && shard.handle.isCurrent()) shard.messages.lookedUp(message, answer)
          }
        })
      }
      const reports = asking.flatMap((asked) => asked.reports.map((parked) => ({ ...asked, parked })))
      if (reports.length > 0) {
        const answers = yield* known.reportedOn(
          reports.map(({ parked, shard }) => ({
            ...parked.report,
            shard: shard.handle.shard,
            logOffset: parked.logOffset,
          })),
        )
        running.apply(() => {
          for (const [i, { parked, shard }] of reports.entries()) {
            const answer = answers[i] ?? null
            if (answer === null || !shard.handle.isCurrent()) continue
            shard.messages.reportLookedUp(parked, answer === 'nobody' ? null : answer)
          }
        })
      }
    }).pipe(
      Effect.catch((error) => Effect.logDebug('the read model did not answer; asked again later', error)),
    )

    const applyInbound = yield* makeApplyInbound({
      vocabulary: options.vocabulary,
      shards: () => running.open(),
      metrics,
    })
    const optOuts = applyInbound.pipe(
      // Whether the reports may be read on.
      Effect.tap((count) => Effect.sync(() => (count > 0 ? running.apply(() => {}) : undefined))),
      Effect.catch((error) => Effect.logDebug('opt-outs cannot be written; they wait', error)),
      Effect.asVoid,
    )

    const gauges = Effect.sync(() => {
      const sum = (of: (shard: DispatcherShard) => number) =>
        running.open().reduce((total, shard) => total + of(shard), 0)
      metrics.gauges({
        open: sum((shard) => shard.messages.openCount),
        finished: sum((shard) => shard.messages.finishedCount),
        parked: sum((shard) => shard.messages.parkedCount),
        shards: running.open().length,
        inMemory: population.count,
        memory: new Map(running.open().map(({ handle, messages }) => [handle.shard, messages.memoryBytes])),
        buffered: {
          otp: sum((shard) => shard.messages.buffered(0)),
          service: sum((shard) => shard.messages.buffered(1)),
        },
        claims: new Map(
          [...operators.keys()].map((name) => [name, sum((shard) => shard.messages.handoversAt(name))]),
        ),
      })
    })

    const lag = running.lag.pipe(
      Effect.map((all) =>
        metrics.lag(all.map((one) => ({ ...one, topic: one.topic.slice(options.prefix.length) }))),
      ),
      Effect.catch((error) => Effect.logDebug('Kafka did not tell where its partitions end', error)),
    )

    const every = (ms: number, effect: Effect.Effect<void>) =>
      Effect.forever(Effect.andThen(Effect.sleep(ms), effect)).pipe(supervise, Effect.forkScoped)
    yield* every(LOOKUP_MS, lookUp)
    yield* every(INBOUND_MS, optOuts)
    yield* every(GAUGES_MS, gauges)
    yield* every(LAG_MS, lag)

    const callbacks = live?.name === HTTP ? live.settings : null
    const callbackPort =
      callbacks === null || callbacks.callback === null
        ? null
        : yield* withSink(listenForCallbacks({ ...callbacks.callback, secret: callbacks.secret }))

    return {
      isReady: running.isReady,
      failure: Effect.raceFirst(running.failure, failure),
      callbackPort,
    }
  })
