/**
 * Attempts: which batch is tried when, and what follows. One for the process. Source: specification, Delivery of events
 * (5 to 9); architecture, Webhooks.
 *
 * What is due is in PostgreSQL; here are the few batches of each subscription that are next. A new batch is lined up
 * directly, others are read when their subscription's timer goes off or its line runs empty. The next attempts are made while
 * the outcomes of the last are noted or recorded; how many may be neither is bounded, and so is how many of them a crash would repeat.
 */
import { TimerHeap, type Supervisor } from '@hub/actor'
import { Tracing } from '@hub/telemetry'
import { AttemptNotMade, type Delivery, type DeliveryResult, WebhookClient } from '@hub/webhooks'
import { Clock, Effect, FiberSet, Metric, type Scope, Semaphore } from 'effect'
import { makeAlarm } from './wake-signal.ts'
import { metrics } from '../metrics.ts'
import { FanoutSettings } from '../config.ts'
import { Slots } from './attempt-slots.ts'
import { FanoutStore, type Outcome, type QueuedBatch, type Standing } from '../store/store.port.ts'
import type { Begun, PendingBatch, Subscription } from '../subscriptions/subscription.ts'
import { BatchTraces } from './batch-traces.ts'

/** After PostgreSQL or this process itself stood in the way: a pause before looking again, ms. */
const TROUBLE_PAUSE_MS = 1000

/** What the deliverer needs of the partition that a subscription belongs to. */
export interface DeliveryHost {
  /** Nobody else can own the partitions now: asked in the turn in which attempts begin. */
  readonly mayBegin: () => boolean
  /** Hands an outcome to whoever records; `recorded` is called once that is done. */
  readonly report: (subscription: Subscription, outcome: Outcome) => void
  /** Runs a part that nobody waits for and the process does not go on without. */
  readonly supervise: Supervisor['supervise']
}

export interface Deliverer {
  /** Takes a subscription on: looks for what is due. */
  readonly open: (subscription: Subscription) => void
  /** What is stored of it has changed. */
  readonly changed: (subscription: Subscription) => void
  /** It is gone: attempts under way are broken off. */
  readonly close: (subscription: Subscription) => void
  /** Batches that were just stored. */
  readonly offer: (subscription: Subscription, batches: ReadonlyArray<QueuedBatch['batch']>) => void
  /** An outcome is recorded; `standing` is `null` for a subscription that is deleted. */
  readonly recorded: (
    subscription: Subscription,
    outcome: Outcome,
    standing: Standing | null,
    nextDueAt: number | null,
  ) => void
  /** Begins attempts wherever that is possible, at the end of this turn of the event loop. */
  readonly pump: () => void
  /** Nothing new begins until `pump` may again; waits until nothing is under way, at most so long, ms. */
  readonly drain: (atMostMs: number) => Effect.Effect<void>
  readonly inFlight: () => number
  /** Sets the gauges, to be called once in a while: changing them with each attempt would cost more than it shows. */
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
    const reads = yield* Semaphore.make(settings.concurrentReads)
    const slots = new Slots<Subscription>(settings)
    const traces = new BatchTraces(yield* Tracing)
    const timers = new TimerHeap<Subscription>()
    const timerAlarm = makeAlarm()
    const idleAlarm = makeAlarm()
    let bodyBytes = 0

    const now = () => clock.currentTimeMillisUnsafe()

    const forgetBody = (batch: PendingBatch) => {
      bodyBytes -= batch.body?.length ?? 0
      batch.body = null
    }

    const lineUp = (subscription: Subscription, batch: PendingBatch) => {
      // A failing one may hold its line for hours, and shall hold nothing else.
      if (subscription.failing || bodyBytes >= settings.bodyBytes) batch.body = null
      bodyBytes += batch.body?.length ?? 0
      subscription.linedUp.push(batch)
    }

    const clearLine = (subscription: Subscription) => {
      for (const batch of subscription.linedUp) forgetBody(batch)
      subscription.linedUp.length = 0
    }

    const wakeAt = (subscription: Subscription, at: number) => {
      if (subscription.closed || at >= subscription.wakeAt) return
      subscription.wakeAt = at
      timers.set(subscription, at)
      if (timers.next() === at) timerAlarm.ring()
    }

    /** Something may be due that lies before what was read last. */
    const lookAgain = (subscription: Subscription) => {
      subscription.moreDue = true
      subscription.readOn = null
    }

    /** Reads what is due, when there may be something and the line is half empty. */
    const refill = (subscription: Subscription) => {
      const { linedUp, moreDue, reading } = subscription
      if (!moreDue || reading || subscription.closed || linedUp.length > settings.linedUpEach / 2) return
      subscription.reading = true
      subscription.moreDue = false
      fork(
        readDue(subscription).pipe(
          reads.withPermits(1),
          Effect.catchCause((cause) =>
            Effect.logWarning('due webhook batches could not be read; trying again', cause).pipe(
              Effect.andThen(Effect.sync(() => wakeAt(subscription, now() + TROUBLE_PAUSE_MS))),
            ),
          ),
          Effect.andThen(
            Effect.sync(() => {
              subscription.reading = false
              proceed(subscription)
            }),
          ),
        ),
      )
    }

    const readDue = Effect.fnUntraced(function* (subscription: Subscription) {
      const { enabled, readOn, record } = subscription
      subscription.readOn = null
      const held = readOn?.held ?? subscription.held()
      const behind = readOn?.behind ?? null
      const limit = settings.linedUpEach - subscription.linedUp.length
      const endpoint = record.uuid
      const found = enabled
        ? yield* store.due({
            endpoint,
            releasedAt: record.backlogReleasedAt,
            first: subscription.lead,
            behind,
            without: held,
            limit,
            withBodies: !subscription.failing && bodyBytes < settings.bodyBytes,
          })
        : yield* store.expired({ endpoint, without: held, limit })
      if (subscription.closed) return
      if (enabled !== subscription.enabled) {
        // It was disabled or enabled meanwhile: what was found answers another question.
        lookAgain(subscription)
        return
      }
      if (enabled && record.backlogReleasedAt !== null && subscription.lead !== null) {
        // It went before the others, and stands somewhere among them.
        held.add(subscription.lead)
        subscription.lead = null
      }
      if (found.nextDueAt !== null) wakeAt(subscription, found.nextDueAt)
      // Behind a place nothing is left: what has become due before it, meanwhile, is looked for from the start.
      if (found.place === null ? behind !== null || found.batches.length === limit : !subscription.moreDue) {
        subscription.moreDue = true
        subscription.readOn = found.place === null ? null : { behind: found.place, held }
      }
      if (enabled) {
        for (const batch of found.batches) lineUp(subscription, batch)
        return
      }
      for (const batch of found.batches) {
        subscription.inFlight.push(batch)
        host.report(subscription, expiry(subscription, batch))
      }
    })

    const expiry = (subscription: Subscription, batch: PendingBatch): Outcome => {
      const at = now()
      return {
        endpoint: subscription.record.uuid,
        batch,
        kind: 'expiry',
        responseCode: null,
        durationMs: 0,
        reason: subscription.enabled ? 'retry_window_expired' : 'retry_window_expired_while_disabled',
        startedAt: at,
        endedAt: at,
      }
    }

    const proceed = (subscription: Subscription) => {
      refill(subscription)
      slots.enlist(subscription)
      pump()
    }

    let pumping = false
    /**
     * Begins what may begin, behind all that has arrived in this turn of the event loop: attempts that begin together wake their receiver once, where
     * each by itself would wake it, and it would fall asleep again before the next.
     */
    const pump = () => {
      if (pumping) return
      pumping = true
      setImmediate(() => {
        pumping = false
        if (host.mayBegin()) beginAll()
      })
    }

    const beginAll = () => {
      for (let subscription = slots.take(); subscription !== null; subscription = slots.take()) {
        const batch = subscription.linedUp.shift()
        if (batch !== undefined) begin(subscription, batch)
        refill(subscription)
        slots.enlist(subscription)
      }
    }

    const begin = (subscription: Subscription, batch: PendingBatch) => {
      subscription.inFlight.push(batch)
      const begun: Begun = { giveUp: () => {}, ended: false }
      batch.begun = begun
      const startedAt = now()
      if (startedAt >= batch.queuedAt + settings.retryWindowMs) {
        end(subscription, batch, expiry(subscription, batch))
      } else if (batch.body === null) fork(host.supervise(attemptFromStore(subscription, batch, begun)))
      else attempt(subscription, batch, begun, batch.body)
    }

    /** The body was not kept while the batch waited. */
    const attemptFromStore = Effect.fnUntraced(function* (
      subscription: Subscription,
      batch: PendingBatch,
      begun: Begun,
    ) {
      const body = yield* Effect.orElseSucceed(store.body(batch.uuid), () => undefined)
      if (batch.begun !== begun) return
      // Deleted with its subscription, or done by another owner.
      if (body === null) abandon(subscription, batch)
      else if (body === undefined) postpone(subscription, batch)
      else attempt(subscription, batch, begun, body)
    })

    /** An attempt has its outcome: its slot is for the next, while this one is recorded. */
    const end = (subscription: Subscription, batch: PendingBatch, outcome: Outcome) => {
      const { begun } = batch
      if (begun === null) return
      begun.ended = true
      forgetBody(batch)
      slots.ended(subscription)
      host.report(subscription, outcome)
      pump()
    }

    const release = (subscription: Subscription, batch: PendingBatch) => {
      const { begun } = batch
      // An expiry of a disabled subscription took no slot.
      if (begun === null) return false
      batch.begun = null
      if (!begun.ended) slots.ended(subscription)
      slots.recorded(subscription)
      idleAlarm.ring()
      return true
    }

    /** Ends an attempt that has no outcome, or one that nobody records. */
    const abandon = (subscription: Subscription, batch: PendingBatch) => {
      if (!release(subscription, batch)) return
      forgetBody(batch)
      subscription.landed(batch)
    }

    /** The same, and it is to be made later. */
    const postpone = (subscription: Subscription, batch: PendingBatch) => {
      abandon(subscription, batch)
      wakeAt(subscription, now() + TROUBLE_PAUSE_MS)
    }

    const secretsOf = (subscription: Subscription): Delivery['secrets'] | null => {
      const { previousSecret, rotationEndsAt, secret } = subscription.record
      if (secret === null) return null
      return previousSecret !== null && rotationEndsAt !== null && rotationEndsAt > now()
        ? [secret, previousSecret]
        : [secret]
    }

    const attempt = (
      subscription: Subscription,
      batch: PendingBatch,
      begun: Begun,
      body: Uint8Array,
    ): void => {
      const secrets = secretsOf(subscription)
      if (secrets === null) {
        postpone(subscription, batch)
        return
      }
      const startedAt = now()
      if (batch.attempts === 0) {
        metrics.queueSeconds.updateUnsafe((startedAt - batch.queuedAt) / 1000, context)
      }
      const trace = traces.begin(subscription, batch)
      const delivery = { url: subscription.record.url, eventBatch: batch.id, body, secrets }
      begun.giveUp = client.begin(
        trace === null ? delivery : { ...delivery, traceparent: trace.traceparent },
        settings.deadlineMs,
        (result) => {
          if (result instanceof AttemptNotMade) {
            postpone(subscription, batch)
            fork(
              Effect.andThen(
                Metric.update(metrics.notMade, 1),
                Effect.logWarning('a webhook attempt could not be made', result),
              ),
            )
            return
          }
          trace?.ended(result)
          metrics.attemptSeconds.updateUnsafe(result.durationMs / 1000, context)
          end(subscription, batch, outcomeOf(subscription, batch, startedAt, result))
        },
      )
    }

    const outcomeOf = (
      subscription: Subscription,
      batch: PendingBatch,
      startedAt: number,
      result: DeliveryResult,
    ): Outcome => ({
      endpoint: subscription.record.uuid,
      batch,
      kind: 'attempt',
      responseCode: result.responseCode,
      durationMs: result.durationMs,
      reason: result.reason,
      startedAt,
      endedAt: now(),
    })

    const recorded: Deliverer['recorded'] = (subscription, { batch, kind, reason }, standing, nextDueAt) => {
      subscription.landed(batch)
      forgetBody(batch)
      if (reason === null || kind === 'expiry') traces.forget(batch.uuid)
      if (standing !== null) {
        const released = standing.action === 'releaseBacklog'
        const turned = standing.consecutiveFailures > 0 && !subscription.failing
        subscription.failing = standing.consecutiveFailures > 0
        const { backlogReleasedAt, consecutiveFailures, status } = standing
        const { record } = subscription
        // Hardly ever otherwise, and this comes with every delivery.
        if (
          record.status !== status ||
          record.consecutiveFailures !== consecutiveFailures ||
          record.backlogReleasedAt !== backlogReleasedAt
        ) {
          subscription.record = { ...record, status, consecutiveFailures, backlogReleasedAt }
        }
        // Lined up under other circumstances: what is due now is decided anew.
        if (released || turned || !subscription.enabled) {
          clearLine(subscription)
          lookAgain(subscription)
        }
      }
      if (nextDueAt !== null) wakeAt(subscription, nextDueAt)
      // It had been recorded before, and PostgreSQL knows when it is due.
      else if (reason !== null && standing !== null && kind === 'attempt') lookAgain(subscription)
      release(subscription, batch)
      proceed(subscription)
    }

    // The one timer of the process: whose next batch is due looks what it is.
    yield* Effect.gen(function* () {
      for (;;) {
        yield* timerAlarm.wait(timers.next())
        const at = now()
        for (let due = timers.takeDue(at); due !== undefined; due = timers.takeDue(at)) {
          due.wakeAt = Number.POSITIVE_INFINITY
          lookAgain(due)
          proceed(due)
        }
      }
    }).pipe(host.supervise, Effect.forkScoped)

    const deliverer: Deliverer = {
      open: (subscription) => {
        const { backlogReleasedAt, nextDueAt } = subscription.record
        if (nextDueAt === null) return
        wakeAt(subscription, backlogReleasedAt === null ? nextDueAt : now())
      },
      changed: (subscription) => {
        subscription.failing = subscription.record.consecutiveFailures > 0
        subscription.lead = subscription.record.disabledByBatch
        clearLine(subscription)
        lookAgain(subscription)
        proceed(subscription)
      },
      close: (subscription) => {
        subscription.closed = true
        timers.clear(subscription)
        clearLine(subscription)
        for (const batch of subscription.inFlight.slice()) {
          batch.begun?.giveUp()
          abandon(subscription, batch)
        }
        slots.enlist(subscription)
      },
      offer: (subscription, batches) => {
        if (!subscription.enabled) {
          const [first] = batches
          if (first !== undefined) wakeAt(subscription, first.queuedAt + settings.retryWindowMs)
          return
        }
        for (const batch of batches) {
          traces.add(batch)
          const direct =
            !subscription.moreDue &&
            !subscription.reading &&
            subscription.linedUp.length < settings.linedUpEach
          if (direct) lineUp(subscription, batch)
          else lookAgain(subscription)
        }
        proceed(subscription)
      },
      recorded,
      pump,
      inFlight: () => slots.taken,
      observe: Effect.gen(function* () {
        yield* Metric.update(metrics.inFlight, slots.taken)
        yield* Metric.update(metrics.inFlightFailing, slots.takenFailing)
        yield* Metric.update(metrics.unrecorded, slots.unrecorded)
        yield* Metric.update(metrics.bodyBytes, bodyBytes)
        yield* Metric.update(metrics.openSockets, client.openSockets())
      }),
      drain: (atMostMs) =>
        Effect.gen(function* () {
          while (slots.unrecorded > 0) yield* idleAlarm.wait(null)
        }).pipe(Effect.timeoutOption(atMostMs), Effect.asVoid),
    }

    return deliverer
  },
)
