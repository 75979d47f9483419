/**
 * Ready queues: the few batches of each subscription that are attempted next. All other batches
 * stay in PostgreSQL.
 *
 * A new batch enters its queue directly. Due batches are read when the timer of their subscription
 * fires or its queue runs low. A read continues behind the last one (see `Scan`) until something
 * may have become due before it.
 */
import { TimerHeap } from '@hub/actor'
import { makeWakeSignal, type Supervisor } from '@hub/flow'
import { Clock, Effect, FiberSet, Semaphore } from 'effect'
import { FanoutSettings } from '../config.ts'
import { FanoutStore } from '../store/store.port.ts'
import type { Subscription } from '../subscriptions/subscription.ts'
import type { PendingBatch } from '../subscriptions/pending-batch.ts'

/** The pause after PostgreSQL or this process prevented a read or an attempt, ms. */
export const FAILURE_PAUSE_MS = 1000

interface ReadyQueuesHost {
  /** A queue may have changed: attempts may begin. */
  readonly onReady: (subscription: Subscription) => void
  /** A batch of a disabled subscription whose retry window has ended. */
  readonly onExpired: (subscription: Subscription, batch: PendingBatch) => void
  readonly supervise: Supervisor['supervise']
}

export const makeReadyQueues = Effect.fnUntraced(function* (host: ReadyQueuesHost) {
  const store = yield* FanoutStore
  const settings = yield* FanoutSettings
  const clock = yield* Clock.Clock
  const fork = yield* FiberSet.makeRuntime<never>()
  const reads = yield* Semaphore.make(settings.concurrentReads)
  const timers = new TimerHeap<Subscription>()
  const timerSignal = makeWakeSignal()
  let bodyBytes = 0

  const now = () => clock.currentTimeMillisUnsafe()

  const forgetBody = (batch: PendingBatch) => {
    bodyBytes -= batch.body?.length ?? 0
    batch.body = null
  }

  const push = (subscription: Subscription, batch: PendingBatch) => {
    // The queue of a failing subscription may wait for hours, so it contains no bodies.
    if (subscription.failing || bodyBytes >= settings.bodyBytes) batch.body = null
    bodyBytes += batch.body?.length ?? 0
    subscription.enqueue(batch)
  }

  const wakeAt = (subscription: Subscription, at: number) => {
    if (!subscription.wakeBy(at)) return
    timers.set(subscription, at)
    if (timers.next() === at) timerSignal.notify()
  }

  const clear = (subscription: Subscription) => {
    for (const batch of subscription.dropReady()) forgetBody(batch)
  }

  /** Reads due batches if there may be any and the queue is at most half full. */
  const refill = (subscription: Subscription) => {
    if (!subscription.beginRead(settings.readyQueueLength)) return
    fork(
      readDue(subscription).pipe(
        reads.withPermits(1),
        Effect.catchCause((cause) =>
          Effect.logWarning('ready queues: could not read due batches; trying again in 1 s', cause).pipe(
            Effect.annotateLogs({ subscription: subscription.record.id, partition: subscription.partition }),
            Effect.andThen(Effect.sync(() => wakeAt(subscription, now() + FAILURE_PAUSE_MS))),
          ),
        ),
        Effect.andThen(
          Effect.sync(() => {
            subscription.endRead(now())
            refill(subscription)
            host.onReady(subscription)
          }),
        ),
      ),
    )
  }

  const readDue = Effect.fnUntraced(function* (subscription: Subscription) {
    const { enabled, record } = subscription
    const { cursor, held } = subscription.takeScan()
    const limit = settings.readyQueueLength - subscription.readyCount
    const subscriptionId = record.uuid
    const found = enabled
      ? yield* store.due({
          subscriptionId,
          releasedAt: record.backlogReleasedAt,
          probe: subscription.probe,
          cursor,
          without: held,
          limit,
          withBodies: !subscription.failing && bodyBytes < settings.bodyBytes,
        })
      : yield* store.expired({ subscriptionId, without: held, limit })
    if (subscription.closed) return
    if (enabled !== subscription.enabled) {
      // It was disabled or enabled during the read, which makes the result meaningless.
      subscription.rescan()
      return
    }
    subscription.scanned({
      held,
      from: cursor,
      to: found.cursor,
      isFull: found.batches.length === limit,
      ofBacklog: enabled && record.backlogReleasedAt !== null,
    })
    if (found.nextDueAt !== null) wakeAt(subscription, found.nextDueAt)
    for (const batch of found.batches) {
      if (enabled) push(subscription, batch)
      else host.onExpired(subscription, batch)
    }
  })

  // One timer for all subscriptions.
  yield* Effect.gen(function* () {
    for (;;) {
      yield* timerSignal.waitUntil(timers.next())
      const at = now()
      for (let due = timers.takeDue(at); due !== undefined; due = timers.takeDue(at)) {
        due.wake()
        refill(due)
        host.onReady(due)
      }
    }
  }).pipe(host.supervise, Effect.forkScoped)

  return {
    /** Bodies in ready queues and of attempts in flight, bytes. */
    bodyBytes: () => bodyBytes,
    clear,
    forgetBody,
    /** Adds a new batch, or lets a read find it. `storingSince`: milliseconds since the epoch. */
    offer: (subscription: Subscription, batch: PendingBatch, storingSince: number) => {
      const { readyCount } = subscription
      if (!subscription.mustRead(storingSince) && readyCount < settings.readyQueueLength)
        push(subscription, batch)
      else subscription.rescan()
    },
    refill,
    stopTimer: (subscription: Subscription) => timers.clear(subscription),
    /** Reads due batches at that time, milliseconds since the epoch, or earlier. */
    wakeAt,
  }
})
