/**
 * The dispatcher submits messages to the SMS operators, and records what becomes of them in the
 * log.
 *
 *   lanes → shard → handover claim in the log → operator
 *             ↑   ↘ facts → log
 *             └── hub.operator-reports.v1 ← report sink ← operator (delivery reports, inbound messages)
 *
 * The settings are in docs/configuration.md, `config.ts` and `operator/live-operator.ts`.
 */
import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { makeShardHost, type ShardHost } from '@hub/actor'
import { lifetimesConfig, settings } from '@hub/config'
import { makeSupervisor } from '@hub/flow'
import { OPERATOR_STATUS_MS, recordOperatorStatus, SharedTexts } from '@hub/counters'
import { CACHE_TTL_MS, type Lifetimes, type OptOutVocabulary } from '@hub/domain'
import {
  catalogueConfig,
  type ConsumerGroups,
  type EventLog,
  type KafkaUnavailable,
  type TopicNames,
  topicNames,
} from '@hub/kafka'
import { ReportSink, type SandboxOptions, guardSink } from '@hub/operator'
import { PayloadEncryption, Sql, watchErasures } from '@hub/store'
import { Readiness, Tracing } from '@hub/telemetry'
import { Clock, Effect, FiberSet, Layer, Redacted, type Scope } from 'effect'
import { vocabulary } from './config.ts'
import { makeHandoverLoop } from './handover/handover-loop.ts'
import { makeApplyInbound } from './inbound/apply.ts'
import { makeLookUp } from './lookup/look-up.ts'
import { GROUP, membership } from './membership/identity.ts'
import { makeMetrics } from './metrics.ts'
import { type LiveOperator, liveOperator } from './operator/live-operator.ts'
import { makeStatusReports, type ObservedOperator } from './operator/operator-status.ts'
import { makeOperators, type ProvidedOperator, receiveCallbacks } from './operator/operators.ts'
import { makeRateSharing } from './pacing/share-rate.ts'
import type { CallbackPortUnavailable } from './reports/callback-listener.ts'
import { makeReportSink } from './reports/report-sink.ts'
import { type ShardRuntime, makeShardRuntime } from './shard/shard-runtime.ts'
import { DEFAULT_LIMITS, type MemoryBudget, type ShardLimits } from './shard/limits.ts'
import { makePrepare } from './shard/prepare-submission.ts'
import { makeUnusableKeys } from './shard/unusable-keys.ts'
import type { DispatcherStore } from './store/store.port.ts'
import { MessageTraces } from './tracing/message-traces.ts'
import { makeWeights } from './weights/weights.ts'

export interface DispatcherOptions {
  /** The prefix of the topics and of the group name. */
  readonly prefix: string
  readonly topics: TopicNames
  /** The number of partitions of the topics, and so of shards. */
  readonly partitions: number
  readonly memberFile?: string
  /** The operator of live keys. Without one, live messages wait until they expire. */
  readonly live: LiveOperator | ProvidedOperator | null
  readonly hashSecret: Redacted.Redacted<string>
  readonly vocabulary: OptOutVocabulary
  readonly lifetimes: Lifetimes
  readonly sandbox?: SandboxOptions
  readonly limits?: ShardLimits
  readonly memoryBudget?: number
}

export interface Dispatcher {
  /** Whether the member has joined, has a lease, and has recovered all of its shards. */
  readonly isReady: Effect.Effect<boolean>
  /** Whether no message waits for a payload key that this process cannot use. */
  readonly canDecrypt: Effect.Effect<boolean>
  /** Whether no operator refuses the settings. An operator that has accepted them once may be away. */
  readonly isAccepted: Effect.Effect<boolean>
  /** Never succeeds. It dies when a part has died that the process cannot work without. */
  readonly failure: Effect.Effect<never>
  readonly callbackPort: number | null
  /** The operators now, for the report to hub staff. */
  readonly observe: () => ReadonlyArray<ObservedOperator>
}

/**
 * The interval of lookups in the read model, and of inbound messages: an opt-out takes effect at most
 * this much later. Each costs nothing while nothing waits.
 */
const LOOKUP_MS = 250
const GAUGES_MS = 1000
/** The lag needs a request to Kafka. */
const LAG_MS = 5000
/** A message takes about 1 kB. With everything else the process stays below 350 MiB. */
const DEFAULT_MEMORY_BUDGET = 150_000

/** Runs until the scope closes. Then it ends the handovers in progress, and leaves the group. */
export const makeDispatcher = (
  options: DispatcherOptions,
): Effect.Effect<
  Dispatcher,
  KafkaUnavailable | CallbackPortUnavailable,
  ConsumerGroups | EventLog | DispatcherStore | PayloadEncryption | SharedTexts | Scope.Scope
> =>
  Effect.gen(function* () {
    const { live, prefix, topics } = options
    const group = `${prefix}${GROUP}`
    const metrics = makeMetrics(yield* Effect.context<never>())
    const traces = new MessageTraces(yield* Tracing, group)
    const clock = yield* Effect.clockWith(Effect.succeed)
    const now = () => clock.currentTimeMillisUnsafe()
    const monotonicNow = () => performance.now()
    const fork = yield* FiberSet.makeRuntime<never>()
    const { every, failure, supervise } = makeSupervisor()

    // The operators and the handover loop exist before the shards, so that they stop after them.
    let host: ShardHost<ShardRuntime> | null = null
    const shards = () => host?.open() ?? []
    const apply = (change: () => void) => host?.apply(change)

    // Delivery reports and inbound messages: operator → hub.operator-reports.v1.
    const reportSink = yield* makeReportSink({
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
    const sink = yield* guardSink(reportSink)
    const withSink = Effect.provideService(ReportSink, sink)
    const operators = yield* withSink(makeOperators({ live, sandbox: options.sandbox }))

    // Handovers: shard → payload → claim in the log → operator.
    const unusableKeys = makeUnusableKeys()
    const prepare = yield* makePrepare(unusableKeys)
    const weights = yield* makeWeights
    const shared = yield* SharedTexts
    const member = randomUUID()
    const sharings = new Map(
      [...operators.byName.values()].map(({ capabilities, name }) => [
        name,
        makeRateSharing({
          operator: name,
          configured: capabilities.maxPartsPerSecond ?? null,
          member,
          shared,
          now: monotonicNow,
        }),
      ]),
    )
    const handoverLoop = yield* makeHandoverLoop({
      operators: [...operators.byName.values()],
      shards,
      mayStart: () => host?.mayStart() ?? false,
      weightOf: weights.of,
      appendDelayMs: () => host?.appendDelayMs(now()) ?? 0,
      apply,
      now,
      monotonicNow,
      requestGrant: ({ name }, request) =>
        sharings.get(name)!.request({ ...request, shards: shards().length / options.partitions }),
      metrics,
      traces,
      supervise,
    })

    // Shards: lanes, log and reports → facts in the log.
    const memoryBudget: MemoryBudget = { used: 0, limit: options.memoryBudget ?? DEFAULT_MEMORY_BUDGET }
    const running = yield* makeShardHost<ShardRuntime>({
      group,
      topics,
      ...(options.memberFile === undefined ? {} : { memberFile: options.memberFile }),
      makeShard: (handle) =>
        makeShardRuntime(handle, {
          topics,
          metrics,
          traces,
          now,
          limits: options.limits ?? DEFAULT_LIMITS,
          memoryBudget,
          lifetimes: options.lifetimes,
          operators: operators.ofMode,
          dedupes: (name) => operators.byName.get(name)?.capabilities.dedupesByReference ?? false,
          apply,
          prepare: (message, onPrepared) =>
            fork(supervise(Effect.map(prepare(message), (result) => onPrepared(result)))),
          onReady: handoverLoop.onReady,
          enqueueClaimed: handoverLoop.enqueueClaimed,
          resume: (name, open) => {
            const operator = operators.byName.get(name)
            if (operator !== undefined) fork(operator.resume(open))
          },
          onLiveMessage: operators.onLiveMessage,
          onDeadLetter: ({ offset, partition, topic }, reason) =>
            fork(
              Effect.logError('dispatcher: a record cannot be read; it goes to the dead-letter topic').pipe(
                Effect.annotateLogs({ topic, partition, offset, reason }),
              ),
            ),
        }),
      onSettled: handoverLoop.dispatch,
      // Messages in handover are still in their queues.
      mayGather: () =>
        shards().every(
          ({ messages: { handovers, queues } }) => queues.count(0) + queues.count(1) <= handovers.count,
        ),
      inFlight: handoverLoop.inFlight,
      onRecovered: ({ ms, records, shard }) => {
        metrics.recovered(ms)
        fork(
          Effect.logInfo('dispatcher: a shard is recovered and open').pipe(
            Effect.annotateLogs({ shard, records, duration_ms: ms }),
          ),
        )
      },
    })
    host = running

    // Periodic work beside the flow of records.
    const lookUp = yield* makeLookUp({ shards, apply: running.apply })
    const applyInbound = yield* makeApplyInbound({ vocabulary: options.vocabulary, shards, metrics })
    const inbound = applyInbound.pipe(
      // The queue of inbound messages may have room again, so that the reports can be resumed.
      Effect.tap((count) => Effect.sync(() => (count > 0 ? running.apply(() => {}) : undefined))),
      Effect.catch((error) => Effect.logDebug('dispatcher: opt-outs were not written; retrying', error)),
      Effect.asVoid,
    )
    const gauges = Effect.sync(() => {
      metrics.gauges(shards(), memoryBudget.used, [...operators.byName.keys()])
      metrics.unusableKeys(unusableKeys.counts(now()))
      metrics.rates(
        handoverLoop.rates().map((rate) => ({ ...rate, isShared: sharings.get(rate.operator)!.isShared() })),
      )
    })
    const lag = running.lag.pipe(
      Effect.map((all) => metrics.lag(all.map((one) => ({ ...one, topic: one.topic.slice(prefix.length) })))),
      Effect.catch((error) => Effect.logDebug('dispatcher: Kafka did not answer; no lag is set', error)),
    )
    yield* Effect.forkScoped(supervise(weights.refresh))
    yield* every(CACHE_TTL_MS.weight, weights.refresh)
    // One timer for several: a wake-up costs an idle process more than what it finds to do.
    yield* every(LOOKUP_MS, Effect.all([lookUp, inbound], { concurrency: 'unbounded', discard: true }))
    yield* every(GAUGES_MS, Effect.andThen(gauges, Effect.sync(handoverLoop.observeAccounts)))
    yield* every(LAG_MS, lag)

    const observe = (): ReadonlyArray<ObservedOperator> => {
      const rates = new Map(handoverLoop.rates().map((rate) => [rate.operator, rate]))
      return Array.from(operators.byName.values(), ({ binds, name }) => ({
        name,
        binds: binds?.() ?? [],
        rate: rates.get(name)?.hub ?? null,
        configured: rates.get(name)?.configured ?? null,
        ...handoverLoop.answeredParts(name),
      }))
    }

    return {
      observe,
      isReady: running.isReady,
      canDecrypt: Effect.sync(() => unusableKeys.counts(now()).size === 0),
      isAccepted: Effect.sync(() =>
        [...operators.byName.values()].every(({ refusesSettings }) => refusesSettings?.() !== true),
      ),
      failure: Effect.raceFirst(running.failure, failure),
      callbackPort: live === null ? null : yield* withSink(receiveCallbacks(live)),
    }
  })

/** Reports the operators to hub staff, until it is interrupted. */
const reportStatus = Effect.fnUntraced(function* (observe: Dispatcher['observe']) {
  const shared = yield* SharedTexts
  const identity = { member: randomUUID(), host: hostname() }
  const reports = makeStatusReports()
  return Effect.gen(function* () {
    const statuses = reports(observe(), yield* Clock.currentTimeMillis)
    yield* recordOperatorStatus(shared, identity, statuses).pipe(
      Effect.catch((error) => Effect.logDebug('dispatcher: the operator status was not recorded', error)),
    )
    yield* Effect.sleep(OPERATOR_STATUS_MS)
  }).pipe(Effect.forever)
})

/** The dispatcher as a process. It fails when a shard or an operator cannot continue. */
export const dispatcher = Layer.effectDiscard(
  Effect.gen(function* () {
    const { partitions, prefix } = yield* catalogueConfig
    const readiness = yield* Readiness
    const running = yield* makeDispatcher({
      partitions,
      prefix,
      topics: topicNames(prefix),
      memberFile: (yield* membership).memberFile,
      live: yield* liveOperator,
      hashSecret: yield* settings.numberHashSecret.config,
      vocabulary: yield* vocabulary,
      lifetimes: yield* lifetimesConfig,
    })
    // Without PostgreSQL, reports are not encrypted, and opt-out words are not applied.
    yield* readiness.add('postgresql', (yield* Sql).answers)
    yield* readiness.add('shards', running.isReady)
    yield* readiness.add('payload_keys', running.canDecrypt)
    yield* readiness.add('erasures', yield* watchErasures)
    // A new dispatcher whose settings the operator refuses must not replace one that can submit.
    yield* readiness.add('operator', running.isAccepted)
    yield* readiness.started
    yield* Effect.forkScoped(yield* reportStatus(running.observe))
    return yield* running.failure
  }),
)
