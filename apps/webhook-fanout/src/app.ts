/**
 * The fan-out: which partitions are this process's, and what becomes of them when that changes. Source: architecture,
 * Webhooks.
 */
import { makeSupervisor } from '@hub/actor'
import {
  type Assignment,
  EventLog,
  type GroupControl,
  topicNames,
  webhooksKey,
  joinWithRetry,
} from '@hub/kafka'
import { type ConsumerLag, makeLagGauge } from '@hub/telemetry'
import { type Duration, Effect, FiberSet, Metric, Schedule } from 'effect'
import { makeDeliverer } from './delivery/deliverer.ts'
import { metrics } from './metrics.ts'
import { openPartition, type Partition } from './batching/partition.ts'
import { FanoutSettings } from './config.ts'
import { FanoutStore } from './store/store.port.ts'
import { runClearing, runTrials } from './delivery/test-deliveries.ts'

export interface FanoutOptions {
  /** `HUB_TOPIC_PREFIX`. */
  readonly prefix: string
  readonly memberFile?: string
}

/** Between tries to open a partition that PostgreSQL or Kafka stood in the way of. */
const OPEN_PAUSE = Schedule.jittered(
  Schedule.min([Schedule.exponential('200 millis'), Schedule.spaced('2 seconds')]),
)

/** A partition that turned out to be another's is asked for again after this, if the group still says it is ours. */
const REOPEN_PAUSE = '5 seconds'

/** How often redeliveries are looked for. There is hardly ever one, and who asked for it does not wait by the second. */
const REDELIVERIES_EVERY = '2 seconds'

const OBSERVE_EVERY = '1 second'
/** What PostgreSQL and Kafka are asked for. */
const WATCH_EVERY = '5 seconds'

const subscriptionsBy = {
  enabled: Metric.withAttributes(metrics.subscriptions, { state: 'enabled' }),
  disabled: Metric.withAttributes(metrics.subscriptions, { state: 'disabled' }),
}

/** A partition that the group has given to this process. */
interface Owned {
  readonly number: number
  /** `null` while it is being opened. */
  open: Partition | null
  readonly stop: () => void
}

/**
 * Runs the fan-out until the scope closes: then attempts under way are finished and recorded within bounds, and the
 * group is left.
 */
export const makeFanout = Effect.fnUntraced(function* (options: FanoutOptions) {
  const log = yield* EventLog
  const store = yield* FanoutStore
  const settings = yield* FanoutSettings
  const context = yield* Effect.context<EventLog | FanoutStore>()
  const topic = topicNames(options.prefix).webhooks
  const owned = new Map<number, Owned>()
  let control: GroupControl | null = null
  let handingOver = true
  let stopping = false

  const fork = yield* FiberSet.makeRuntime<never>()
  const { failure, supervise } = makeSupervisor()
  const deliverer = yield* makeDeliverer({
    mayBegin: () => !handingOver && !stopping && control !== null && control.hasLease(),
    report: (subscription, outcome) => owned.get(subscription.partition)?.open?.report(subscription, outcome),
    supervise,
  })

  /** Takes a partition over and loads what it needs. */
  const opening = Effect.fnUntraced(function* (number: number, by: GroupControl) {
    const { epoch, position } = yield* store.take(number)
    const bounds = (yield* by.offsetRanges(topic)).find((bound) => bound.partition === number)
    const low = bounds?.low ?? 0
    const high = bounds?.high ?? 0
    if (position >= 0 && position < low) {
      yield* Effect.logError('events that were never stored in a batch have expired from the topic').pipe(
        Effect.annotateLogs({ partition: number, position, low }),
      )
    }
    // Beyond the end: the topic was made anew. What is in a batch already is not put into another.
    const startAt = position > high ? low : Math.max(position, low)
    const sources = (yield* store.sources).filter(
      ({ account, mode }) => log.partitionOf(webhooksKey(account, mode)) === number,
    )
    return yield* openPartition(number, { partition: number, epoch }, startAt, sources, deliverer, {
      pause: () => by.pause(topic, number),
      resume: () => by.resume(topic, number),
      commit: (offset) => Effect.ignore(by.commit([{ topic, partition: number, offset }])),
    })
  })

  const own = (number: number, by: GroupControl) => {
    by.pause(topic, number)
    const life = Effect.gen(function* () {
      for (;;) {
        const partition = yield* opening(number, by).pipe(
          Effect.tapError((error) =>
            Effect.logWarning('a partition could not be opened; trying again', error).pipe(
              Effect.annotateLogs({ partition: number }),
            ),
          ),
          Effect.retry(OPEN_PAUSE),
          Effect.orDie,
        )
        entry.open = partition
        by.seek({ topic, partition: number, offset: partition.position() })
        by.resume(topic, number)
        yield* Effect.logInfo('a partition is open').pipe(
          Effect.annotateLogs({ partition: number, subscriptions: partition.subscriptions() }),
        )
        deliverer.pump()
        yield* Effect.flip(partition.run)
        by.pause(topic, number)
        entry.open = null
        partition.close()
        yield* Metric.update(metrics.partitionsLost, 1)
        yield* Effect.logWarning('another process has taken a partition over').pipe(
          Effect.annotateLogs({ partition: number }),
        )
        yield* Effect.sleep(REOPEN_PAUSE)
      }
    })
    const fiber = fork(supervise(Effect.provideContext(life, context)))
    const entry: Owned = {
      number,
      open: null,
      stop: () => {
        owned.delete(number)
        entry.open?.close()
        entry.open = null
        fiber.interruptUnsafe()
      },
    }
    owned.set(number, entry)
  }

  const onAssigned = ({ retained, shards }: Assignment, by: GroupControl) => {
    control = by
    handingOver = false
    const wanted = new Set(shards)
    for (const entry of owned.values()) {
      if (!wanted.has(entry.number) || !retained.has(entry.number)) entry.stop()
    }
    for (const number of shards) {
      const open = owned.get(number)?.open
      if (open === undefined || open === null) {
        owned.get(number)?.stop()
        own(number, by)
        continue
      }
      by.seek({ topic, partition: number, offset: open.position() })
      if (open.paused()) by.pause(topic, number)
      else by.resume(topic, number)
    }
    deliverer.pump()
  }

  const group = yield* joinWithRetry(
    {
      group: `${options.prefix}hub.webhook-fanout`,
      topics: [topic],
      ...(options.memberFile === undefined ? {} : { memberFile: options.memberFile }),
    },
    {
      onAssigned,
      onRevoking: Effect.suspend(() => {
        handingOver = true
        return deliverer.drain(settings.revokeDrainMs)
      }),
      onBatch: (_topic, number, records) => owned.get(number)?.open?.read(records) ?? Effect.void,
    },
  )

  yield* Effect.addFinalizer(() =>
    Effect.suspend(() => {
      stopping = true
      return deliverer.drain(settings.stopDrainMs)
    }),
  )

  /** Redeliveries are asked for in the database; each partition queues its own, a part at a time. */
  const redeliveries = Effect.gen(function* () {
    for (const redelivery of yield* store.redeliveries) {
      const number = log.partitionOf(webhooksKey(redelivery.account, redelivery.mode))
      yield* owned.get(number)?.open?.redeliver(redelivery) ?? Effect.void
    }
  }).pipe(
    // What was deleted, is another's now or cannot be stored is looked at again with the next turn.
    Effect.catch((error) => Effect.logWarning('redeliveries could not be queued', error)),
  )
  const every = (pause: Duration.Input, step: Effect.Effect<void>) =>
    Effect.forever(Effect.andThen(step, Effect.sleep(pause))).pipe(supervise, Effect.forkScoped)
  yield* every(REDELIVERIES_EVERY, redeliveries)

  // A counter that begins with its first event shows no increase for it.
  for (const counter of [metrics.disabled, metrics.deadLetters, metrics.notMade, metrics.partitionsLost]) {
    yield* Metric.update(counter, 0)
  }
  const tellLag = makeLagGauge(context)
  const watchBacklog = Effect.gen(function* () {
    yield* Metric.update(metrics.batchesWaiting, yield* store.waiting)
  }).pipe(Effect.catch((error) => Effect.logWarning('what waits could not be counted', error)))
  const watchLag = Effect.gen(function* () {
    if (control === null) return
    const lag: Array<ConsumerLag> = []
    for (const { high, partition } of yield* control.offsetRanges(topic)) {
      const open = owned.get(partition)?.open ?? null
      if (open === null) continue
      lag.push({
        topic: topic.slice(options.prefix.length),
        partition,
        records: Math.max(0, high - Math.max(0, open.position())),
      })
    }
    tellLag(lag)
  }).pipe(Effect.catch((error) => Effect.logWarning('the lag could not be asked for', error)))
  const observe = Effect.gen(function* () {
    const open = [...owned.values()].flatMap((entry) => (entry.open === null ? [] : [entry.open]))
    yield* Metric.update(metrics.partitions, open.length)
    yield* Metric.update(metrics.pausedPartitions, open.filter((partition) => partition.paused()).length)
    yield* Metric.update(
      metrics.collected,
      open.reduce((sum, partition) => sum + partition.collected(), 0),
    )
    const all = open.reduce((sum, partition) => sum + partition.subscriptions(), 0)
    const disabled = open.reduce((sum, partition) => sum + partition.disabled(), 0)
    yield* Metric.update(subscriptionsBy.enabled, all - disabled)
    yield* Metric.update(subscriptionsBy.disabled, disabled)
    yield* deliverer.observe
    // The lease may have been in doubt when something was due, and nothing else would come back to it.
    deliverer.pump()
  })
  yield* every(WATCH_EVERY, watchBacklog)
  yield* every(WATCH_EVERY, watchLag)
  yield* every(OBSERVE_EVERY, observe)

  yield* runTrials.pipe(supervise, Effect.forkScoped)
  yield* runClearing.pipe(supervise, Effect.forkScoped)

  return {
    isHealthy: group.isHealthy,
    /** Every partition of this process is open. */
    isOpen: Effect.sync(() => control !== null && [...owned.values()].every((entry) => entry.open !== null)),
    /** Never succeeds; dies when a part has died that the process cannot do without. */
    failure,
  }
})
