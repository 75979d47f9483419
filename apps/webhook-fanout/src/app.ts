/**
 * Composes the fan-out in the order of the data flow: the consumer group assigns partitions, a
 * partition collects events into batches, the deliverer attempts them, and the recorder of the
 * partition records the outcomes. Source: docs/architecture.md, Webhooks.
 */
import { makeSupervisor } from '@hub/flow'
import { type GroupControl, joinWithRetry, topicNames } from '@hub/kafka'
import { type ConsumerLag, makeLagGauge, memoizeLabels } from '@hub/telemetry'
import { Clock, Effect, Metric } from 'effect'
import { makeAssignedPartitions } from './batching/assigned-partitions.ts'
import { FanoutSettings } from './config.ts'
import { makeDeliverer } from './delivery/deliverer.ts'
import { runDeliveriesOnDemand } from './delivery/on-demand-deliveries.ts'
import { metrics } from './metrics.ts'
import { FanoutStore } from './store/store.port.ts'
import { runPurge } from './purge-deleted.ts'

interface FanoutOptions {
  /** `HUB_TOPIC_PREFIX`. */
  readonly prefix: string
  readonly memberFile?: string
}

/** Redeliveries are rare and not urgent. */
const REDELIVERIES_EVERY = '2 seconds'

/** Hub staff tell the client, who needs some days for a new certificate. `hubctl doctor` tells it earlier. */
const CERTIFICATE_ENDS_SOON_MS = 14 * 86_400_000

const labelled = memoizeLabels()
const subscriptionsBy = {
  enabled: labelled(metrics.subscriptions, { state: 'enabled' }),
  disabled: labelled(metrics.subscriptions, { state: 'disabled' }),
}

/** Runs the fan-out until the scope closes, which drains attempts and leaves the group. */
export const makeFanout = Effect.fnUntraced(function* ({ memberFile, prefix }: FanoutOptions) {
  const store = yield* FanoutStore
  const settings = yield* FanoutSettings
  const topic = topicNames(prefix).webhooks
  let control: GroupControl | null = null
  /** No attempt begins while partitions may move to another process, or while this one stops. */
  let revoking = true
  let stopping = false

  const { every, failure, supervise } = makeSupervisor()
  const deliverer = yield* makeDeliverer({
    mayStart: () => !revoking && !stopping && control !== null && control.hasLease(),
    report: (subscription, outcome) => partitions.get(subscription.partition)?.report(subscription, outcome),
    supervise,
  })
  const partitions = yield* makeAssignedPartitions({ topic, deliverer, supervise })

  const group = yield* joinWithRetry(
    {
      group: `${prefix}hub.webhook-fanout`,
      topics: [topic],
      ...(memberFile === undefined ? {} : { memberFile }),
    },
    {
      onAssigned: (assignment, by) => {
        control = by
        revoking = false
        partitions.assign(assignment, by)
        deliverer.pump()
      },
      onRevoking: Effect.suspend(() => {
        revoking = true
        return deliverer.drain(settings.revokeDrainMs)
      }),
      onBatch: (_topic, number, records) => partitions.ingest(number, records),
    },
  )

  yield* Effect.addFinalizer(() =>
    Effect.suspend(() => {
      stopping = true
      return deliverer.drain(settings.stopDrainMs)
    }),
  )

  yield* every(
    REDELIVERIES_EVERY,
    store.redeliveries.pipe(
      Effect.flatMap((open) => Effect.forEach(open, partitions.redeliver, { discard: true })),
      // The next turn reads again what PostgreSQL did not store or another process owns now.
      Effect.catch((error) =>
        Effect.logWarning('fan-out: could not store redeliveries; trying again', error),
      ),
    ),
  )
  yield* runDeliveriesOnDemand.pipe(supervise, Effect.forkScoped)
  yield* runPurge.pipe(supervise, Effect.forkScoped)

  yield* every(
    settings.queriedGaugesEveryMs,
    Effect.gen(function* () {
      yield* Metric.update(metrics.batchesWaiting, yield* store.waiting)
      const before = (yield* Clock.currentTimeMillis) + CERTIFICATE_ENDS_SOON_MS
      yield* Metric.update(metrics.endingCertificates, yield* store.endingCertificates(before))
    }).pipe(
      Effect.catch((error) =>
        Effect.logWarning('fan-out: could not count waiting batches and ending certificates', error),
      ),
    ),
  )
  const setLag = makeLagGauge(yield* Effect.context<never>())
  yield* every(
    settings.queriedGaugesEveryMs,
    Effect.gen(function* () {
      if (control === null) return
      const lag: Array<ConsumerLag> = []
      for (const [partition, end] of yield* control.ends(topic)) {
        const position = partitions.get(partition)?.position()
        if (position === undefined) continue
        const records = Math.max(0, end - Math.max(0, position))
        lag.push({ topic: topic.slice(prefix.length), partition, records })
      }
      setLag(lag)
    }).pipe(Effect.catch((error) => Effect.logWarning('fan-out: could not read the consumer lag', error))),
  )
  yield* every(
    settings.gaugesEveryMs,
    Effect.gen(function* () {
      const open = partitions.opened()
      const sum = (of: (partition: (typeof open)[number]) => number) =>
        open.reduce((total, partition) => total + of(partition), 0)
      const disabled = sum((partition) => partition.disabled())
      yield* Metric.update(metrics.partitions, open.length)
      yield* Metric.update(
        metrics.pausedPartitions,
        sum((partition) => Number(partition.paused())),
      )
      yield* Metric.update(
        metrics.collected,
        sum((partition) => partition.collected()),
      )
      yield* Metric.update(subscriptionsBy.enabled, sum((partition) => partition.subscriptions()) - disabled)
      yield* Metric.update(subscriptionsBy.disabled, disabled)
      yield* deliverer.observe
      // The lease may have been in doubt when a batch was due; nothing else begins its attempt.
      deliverer.pump()
    }),
  )

  return {
    isHealthy: group.isHealthy,
    isOpen: Effect.sync(() => control !== null && partitions.areAllOpen()),
    /** Never succeeds; dies when a supervised loop has died. */
    failure,
  }
})
