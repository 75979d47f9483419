/**
 * Records the outcomes of delivery attempts of one partition in PostgreSQL, in the order in which
 * the attempts ended.
 *
 * Flow: deliverer → `report` → one transaction for a group of outcomes → `Deliverer.recorded`. An
 * outcome stays in memory until PostgreSQL has committed it, so a crash of PostgreSQL loses none. A
 * crash of this process loses those in memory: the next owner of the partition delivers their
 * batches again. See docs/decisions/webhooks.md#recording.
 */
import { makeGather } from '@hub/flow'
import { storageCrashPoint, type StorageError } from '@hub/store'
import { Effect } from 'effect'
import { FanoutSettings } from '../config.ts'
import type { Deliverer } from '../delivery/deliverer.ts'
import type { Outcome } from '../subscriptions/outcome.ts'
import { metrics } from '../metrics.ts'
import { retryStorage } from '../store/storage-errors.ts'
import { FanoutStore, type Ownership } from '../store/store.port.ts'
import type { Subscription } from '../subscriptions/subscription.ts'

const atRecorded = storageCrashPoint('webhook-fanout.outcomes-recorded')

interface RecorderOptions {
  readonly ownership: Ownership
  /** Learns what is recorded. */
  readonly deliverer: Pick<Deliverer, 'recorded'>
  /** Reads a deleted subscription (UUID) again, before the record of its deletion arrives. */
  readonly reload: (uuid: string) => Effect.Effect<unknown, StorageError>
}

type Reported = readonly [Subscription, Outcome]

export const makeOutcomeRecorder = Effect.fnUntraced(function* (options: RecorderOptions) {
  const { deliverer, ownership, reload } = options
  const store = yield* FanoutStore
  const settings = yield* FanoutSettings
  const recordGroup = Effect.fnUntraced(function* (group: ReadonlyArray<Reported>) {
    const outcomes = group.map(([, outcome]) => outcome)
    const { health, nextDue } = yield* store
      .record(ownership, outcomes)
      .pipe(
        atRecorded,
        retryStorage('outcome recorder: could not record outcomes; trying again', ownership.partition),
      )
    for (const [result, those] of Map.groupBy(outcomes, ({ reason }) => reason ?? 'succeeded')) {
      metrics.attempts.add({ result }, those.length)
    }
    const deleted = new Set<string>()
    for (const [subscription, outcome] of group) {
      const recorded = health.get(outcome.subscriptionId) ?? null
      if (recorded === null) deleted.add(outcome.subscriptionId)
      const disabled = recorded?.action === 'disable' && subscription.enabled
      deliverer.recorded(subscription, outcome, recorded, nextDue.get(outcome.batch.uuid) ?? null)
      if (disabled) yield* logDisabled(subscription)
    }
    // Successes that were reported meanwhile, of subscriptions that began to fail with this group.
    if (gather.waiting().some(([subscription]) => subscription.failing)) gather.hurry()
    yield* Effect.forEach(deleted, reload, { discard: true }).pipe(
      retryStorage('outcome recorder: could not reload a subscription; trying again', ownership.partition),
    )
  })

  const gather = yield* makeGather({ enough: settings.recordTogether, flush: recordGroup })

  return {
    /** Adds an outcome to the next group. */
    report: (subscription: Subscription, outcome: Outcome) => {
      // The next attempts of a failing subscription depend on it.
      const isUrgent = outcome.reason !== null || subscription.failing
      gather.add([subscription, outcome], isUrgent ? 0 : settings.recordWithinMs)
    },
    /** Records groups until it is interrupted; fails when another process owns the partition. */
    run: gather.run,
  }
})

/** Logs a disabled subscription. The transaction also inserted the event for the account. */
const logDisabled = Effect.fnUntraced(function* (subscription: Subscription) {
  metrics.disabled.add()
  yield* Effect.logWarning('outcome recorder: disabled a webhook subscription, because it kept failing').pipe(
    Effect.annotateLogs({
      subscription: subscription.record.id,
      account: subscription.record.account,
      partition: subscription.partition,
      // Only the host of the URL: the rest may contain secrets.
      host: URL.parse(subscription.record.url)?.host ?? 'unknown',
    }),
  )
})
