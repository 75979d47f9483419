/**
 * Makes the delivery attempts of this process: takes batches from ready queues, up to the limits of
 * the slots, and reports each outcome. Source: DEL-11 to DEL-23; docs/architecture.md, Webhooks.
 *
 * Flow: `offer` (a batch was stored) or a read of due batches → ready queue → attempt →
 * `host.report` → the outcome recorder → `recorded`. The next attempts are made while the outcomes
 * of the last ones are recorded.
 */
import { makeWakeSignal, type Supervisor } from '@hub/flow'
import { crashPointOfValue } from '@hub/crash-points'
import { expiryReason, retryWindowExpired } from '@hub/domain'
import { Tracing } from '@hub/telemetry'
import { AttemptNotMade, type DeliveryResult, WebhookClient } from '@hub/webhooks'
import { Clock, Effect, FiberSet, Metric, type Scope } from 'effect'
import { FanoutSettings } from '../config.ts'
import { metrics } from '../metrics.ts'
import { FanoutStore } from '../store/store.port.ts'
import {
  credentialsAt,
  type RecordedHealth,
  type Subscription,
  type SubscriptionRecord,
} from '../subscriptions/subscription.ts'
import { AttemptSlots } from './attempt-slots.ts'
import { BatchTraces } from './batch-traces.ts'
import type { Outcome } from '../subscriptions/outcome.ts'
import type { PendingBatch, RunningAttempt } from '../subscriptions/pending-batch.ts'
import { makeReadyQueues, FAILURE_PAUSE_MS } from './ready-queues.ts'
import { noAnswer } from './no-answer.ts'

/** Reported failure: the answer of the receiver did not arrive in time. */
const atAttempted = crashPointOfValue('webhook-fanout.attempted', noAnswer)

/** What the deliverer needs from the process and the partitions. */
interface DeliveryHost {
  /** No other process can own the partitions now. Checked when attempts begin. */
  readonly mayStart: () => boolean
  /** Passes an outcome to the recorder, which calls `recorded` afterwards. */
  readonly report: (subscription: Subscription, outcome: Outcome) => void
  readonly supervise: Supervisor['supervise']
}

export interface Deliverer {
  /** Adds a subscription: its due batches are read. */
  readonly open: (subscription: Subscription) => void
  /** The stored record of a subscription is now this one: its due batches are read again. */
  readonly changed: (subscription: Subscription, record: SubscriptionRecord) => void
  /** Removes a subscription: its attempts in flight are aborted. */
  readonly close: (subscription: Subscription) => void
  /** Adds batches that were just stored. */
  readonly offer: (
    subscription: Subscription,
    batches: ReadonlyArray<PendingBatch>,
    storingSince: number,
  ) => void
  /**
   * `health`: `null` if the subscription is deleted; `nextDueAt`: if the batch has ended or was
   * recorded before.
   */
  readonly recorded: (
    subscription: Subscription,
    outcome: Outcome,
    health: RecordedHealth | null,
    nextDueAt: number | null,
  ) => void
  /** Begins attempts where the limits allow it, at the end of this turn of the event loop. */
  readonly pump: () => void
  /** Waits until every attempt is recorded, at most so long, ms. */
  readonly drain: (atMostMs: number) => Effect.Effect<void>
  /** Updates the gauges. An update with each attempt would cost too much. */
  readonly observe: Effect.Effect<void>
}

export const makeDeliverer: (
  host: DeliveryHost,
) => Effect.Effect<Deliverer, never, FanoutStore | WebhookClient | Scope.Scope> = Effect.fnUntraced(
  function* (host) {
    const store = yield* FanoutStore
    const client = yield* WebhookClient
    const settings = yield* FanoutSettings
    const clock = yield* Clock.Clock
    const context = yield* Effect.context<never>()
    const fork = yield* FiberSet.makeRuntime<never>()
    const slots = new AttemptSlots<Subscription>(settings)
    const traces = new BatchTraces(yield* Tracing)
    /** An attempt was recorded or abandoned. */
    const finishedSignal = makeWakeSignal()
    const now = () => clock.currentTimeMillisUnsafe()

    const queues = yield* makeReadyQueues({
      supervise: host.supervise,
      onReady: (subscription) => {
        slots.enqueue(subscription)
        pump()
      },
      onExpired: (subscription, batch) => {
        subscription.beginExpiry(batch)
        host.report(subscription, expiryOf(subscription, batch))
      },
    })

    const proceed = (subscription: Subscription) => {
      queues.refill(subscription)
      slots.enqueue(subscription)
      pump()
    }

    let pumping = false
    /**
     * Attempts begin together, after everything that has arrived in this turn of the event loop. So
     * they wake the process of a receiver once (docs/decisions/webhook-throughput.md#starting-together).
     */
    const pump = () => {
      if (pumping) return
      pumping = true
      setImmediate(() => {
        pumping = false
        if (host.mayStart()) startAll()
      })
    }

    const startAll = () => {
      for (let subscription = slots.take(); subscription !== null; subscription = slots.take()) {
        const batch = subscription.beginNext()
        if (batch !== undefined) begin(subscription, batch)
        queues.refill(subscription)
        slots.enqueue(subscription)
      }
    }

    const begin = (subscription: Subscription, batch: PendingBatch) => {
      const running: RunningAttempt = { abort: () => {}, ended: false }
      batch.attempt = running
      if (retryWindowExpired(batch.queuedAt, now(), settings.retryWindowMs)) {
        end(subscription, batch, expiryOf(subscription, batch))
      } else if (batch.body === null) {
        fork(host.supervise(attemptWithStoredBody(subscription, batch, running)))
      } else attempt(subscription, batch, running, batch.body)
    }

    /** The ready queue had no memory left for the body. */
    const attemptWithStoredBody = Effect.fnUntraced(function* (
      subscription: Subscription,
      batch: PendingBatch,
      running: RunningAttempt,
    ) {
      const body = yield* Effect.orElseSucceed(store.body(batch.uuid), () => undefined)
      if (batch.attempt !== running) return
      // The batch was deleted with its subscription, or the next owner has delivered it.
      if (body === null) abandon(subscription, batch)
      else if (body === undefined) postpone(subscription, batch)
      else attempt(subscription, batch, running, body)
    })

    const attempt = (
      subscription: Subscription,
      batch: PendingBatch,
      running: RunningAttempt,
      body: Uint8Array,
    ): void => {
      const startedAt = now()
      const { credentials, url } = subscription.record
      if (credentials === null) {
        postpone(subscription, batch)
        return
      }
      if (batch.attempts === 0) {
        metrics.queueSeconds.updateUnsafe((startedAt - batch.queuedAt) / 1000, context)
      }
      const trace = traces.begin(subscription, batch)
      const delivery = { url, eventBatch: batch.id, body, ...credentialsAt(credentials, startedAt) }
      running.abort = client.begin(
        trace === null ? delivery : { ...delivery, ...trace.headers },
        settings.deadlineMs,
        (made) => {
          if (made instanceof AttemptNotMade) {
            postpone(subscription, batch)
            fork(reportNotMade(subscription, made))
            return
          }
          const result = atAttempted(made)
          trace?.ended(result)
          metrics.attemptSeconds.updateUnsafe(result.durationMs / 1000, context)
          end(subscription, batch, outcomeOf(subscription, batch, startedAt, result))
        },
      )
    }

    const reportNotMade = (subscription: Subscription, error: AttemptNotMade) =>
      Effect.suspend(() => {
        metrics.notMade.add()
        return Effect.logWarning(
          'deliverer: this process could not make an attempt; trying again in 1 s',
          error,
        ).pipe(
          Effect.annotateLogs({ subscription: subscription.record.id, partition: subscription.partition }),
        )
      })

    const outcomeOf = (
      subscription: Subscription,
      batch: PendingBatch,
      startedAt: number,
      { durationMs, reason, responseCode }: DeliveryResult,
    ): Outcome => ({
      subscriptionId: subscription.record.uuid,
      batch,
      kind: 'attempt',
      responseCode,
      durationMs,
      reason,
      startedAt,
      endedAt: now(),
    })

    const expiryOf = (subscription: Subscription, batch: PendingBatch): Outcome => {
      const at = now()
      return {
        subscriptionId: subscription.record.uuid,
        batch,
        kind: 'expiry',
        responseCode: null,
        durationMs: 0,
        reason: expiryReason(subscription.record.disabledPeriods, batch.queuedAt + settings.retryWindowMs),
        startedAt: at,
        endedAt: at,
      }
    }

    /** An attempt has its outcome. Its slot is free while the outcome is recorded. */
    const end = (subscription: Subscription, batch: PendingBatch, outcome: Outcome) => {
      const running = batch.attempt
      if (running === null) return
      running.ended = true
      queues.forgetBody(batch)
      slots.ended(subscription)
      host.report(subscription, outcome)
      pump()
    }

    /** Removes an attempt from the slots. False: an expiry without a slot. */
    const finish = (subscription: Subscription, batch: PendingBatch): boolean => {
      const running = batch.attempt
      if (running === null) return false
      batch.attempt = null
      if (!running.ended) slots.ended(subscription)
      slots.recorded(subscription)
      finishedSignal.notify()
      return true
    }

    /** Ends an attempt without an outcome, or one whose outcome is not recorded any more. */
    const abandon = (subscription: Subscription, batch: PendingBatch) => {
      if (!finish(subscription, batch)) return
      queues.forgetBody(batch)
      subscription.settle(batch)
    }

    /** The same; the attempt is made later. */
    const postpone = (subscription: Subscription, batch: PendingBatch) => {
      abandon(subscription, batch)
      queues.wakeAt(subscription, now() + FAILURE_PAUSE_MS)
    }

    /** The ready queue was filled under other conditions: what is due now is decided anew. */
    const readAgain = (subscription: Subscription) => {
      queues.clear(subscription)
      subscription.rescan()
    }

    const recorded: Deliverer['recorded'] = (subscription, { batch, kind, reason }, health, nextDueAt) => {
      subscription.settle(batch)
      queues.forgetBody(batch)
      if (reason === null || kind === 'expiry') traces.forget(batch.uuid)
      if (health !== null && subscription.applyHealth(health)) readAgain(subscription)
      if (nextDueAt !== null) queues.wakeAt(subscription, nextDueAt)
      // The failure was recorded before, so only PostgreSQL knows when the batch is due.
      else if (reason !== null && health !== null && kind === 'attempt') subscription.rescan()
      finish(subscription, batch)
      proceed(subscription)
    }

    return {
      open: (subscription) => {
        const { backlogReleasedAt, nextDueAt } = subscription.record
        if (nextDueAt === null) return
        queues.wakeAt(subscription, backlogReleasedAt === null ? nextDueAt : now())
      },
      changed: (subscription, record) => {
        subscription.replaceRecord(record)
        readAgain(subscription)
        proceed(subscription)
      },
      close: (subscription) => {
        const inFlight = subscription.close()
        queues.stopTimer(subscription)
        queues.clear(subscription)
        for (const batch of inFlight) {
          batch.attempt?.abort()
          abandon(subscription, batch)
        }
        slots.enqueue(subscription)
      },
      offer: (subscription, batches, storingSince) => {
        if (!subscription.enabled) {
          const [first] = batches
          if (first !== undefined) queues.wakeAt(subscription, first.queuedAt + settings.retryWindowMs)
          return
        }
        for (const batch of batches) {
          traces.add(batch)
          queues.offer(subscription, batch, storingSince)
        }
        proceed(subscription)
      },
      recorded,
      pump,
      observe: Effect.gen(function* () {
        yield* Metric.update(metrics.inFlight, slots.taken)
        yield* Metric.update(metrics.inFlightFailing, slots.takenFailing)
        yield* Metric.update(metrics.unrecorded, slots.unrecorded)
        yield* Metric.update(metrics.bodyBytes, queues.bodyBytes())
        yield* Metric.update(metrics.openSockets, client.openSockets())
      }),
      drain: (atMostMs) =>
        Effect.gen(function* () {
          while (slots.unrecorded > 0) yield* finishedSignal.waitUntil(null)
        }).pipe(Effect.timeoutOption(atMostMs), Effect.asVoid),
    }
  },
)
