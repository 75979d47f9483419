/** Stores events from the journal in batches: for new subscriptions and redeliveries. */
import { storageCrashPoint } from '@hub/store'
import { Clock, Effect } from 'effect'
import { FanoutSettings } from '../config.ts'
import {
  FanoutStore,
  type JournalEvent,
  type NewWebhookBatch,
  type OpenRedelivery,
  type Ownership,
} from '../store/store.port.ts'
import type { SubscriptionRegistry } from './registry.ts'
import type { Subscription } from '../subscriptions/subscription.ts'

/** Events of the journal in one read. */
const PAGE = 1000

/** Batches of a redelivery that wait for their delivery; below it the next ones are stored. */
const REDELIVERY_BATCHES = 200

/** Clocks of processes differ by less: an event created later was appended later. */
const CLOCK_SKEW_MS = 60_000

const atCaughtUp = storageCrashPoint('webhook-fanout.journal-caught-up')
const atRedeliveryStored = storageCrashPoint('webhook-fanout.redelivery-stored')

interface ReplayOptions {
  readonly ownership: Ownership
  readonly subscriptions: Pick<SubscriptionRegistry, 'get' | 'offer'>
  /** The stored position: a replay does not move it. */
  readonly position: () => number
}

export const makeJournalReplay = Effect.fnUntraced(function* (options: ReplayOptions) {
  const { ownership, position, subscriptions } = options
  const store = yield* FanoutStore
  const { batchEvents } = yield* FanoutSettings

  /** Full batches, except for the last one. */
  const batchesOf = (
    subscription: Subscription,
    events: ReadonlyArray<JournalEvent>,
  ): ReadonlyArray<NewWebhookBatch> => {
    const batches: Array<NewWebhookBatch> = []
    for (let start = 0; start < events.length; start += batchEvents) {
      batches.push({ subscription: subscription.record, events: events.slice(start, start + batchEvents) })
    }
    return batches
  }

  return {
    /**
     * Stores the events that a new subscription missed. A subscription is in PostgreSQL before its
     * record is in the topic, so the partition may have read events in between. `appendedAt`: when
     * the record was appended, milliseconds since the epoch.
     */
    catchUp: Effect.fnUntraced(function* (subscription: Subscription, appendedAt: number) {
      let after = subscription.record.afterSequence
      for (;;) {
        const events = yield* store.journal(subscription.record, {
          afterSequence: after,
          createdUntil: appendedAt + CLOCK_SKEW_MS,
          limit: PAGE,
        })
        const last = events.at(-1)
        if (last === undefined || subscription.closed) return
        after = last.sequence
        const batches = batchesOf(
          subscription,
          events.filter((event) => subscription.wants(event)),
        )
        if (batches.length > 0) {
          const since = yield* Clock.currentTimeMillis
          subscriptions.offer(yield* atCaughtUp(store.storeBatches(ownership, position(), batches)), since)
        }
      }
    }),

    /** Stores the next batches of a redelivery, if its subscription is here and enabled. */
    redeliver: Effect.fnUntraced(function* (redelivery: OpenRedelivery) {
      const subscription = subscriptions.get(redelivery.subscriptionId)
      let after = redelivery.afterSequence
      let room = REDELIVERY_BATCHES - redelivery.pending
      while (room > 0 && subscription?.enabled === true && !subscription.closed) {
        const events = yield* store.journal(subscription.record, {
          afterSequence: after,
          createdUntil: redelivery.createdBefore - 1,
          limit: PAGE,
        })
        if (subscription.closed) return
        // One event is the first that is read.
        const finished = redelivery.event !== null || events.length < PAGE
        after = events.at(-1)?.sequence ?? after
        const batches = batchesOf(
          subscription,
          events.filter(
            (event) =>
              subscription.wantsType(event) && (redelivery.event === null || redelivery.event === event.id),
          ),
        )
        const progress = { id: redelivery.id, afterSequence: after, finished }
        const storing = store.storeBatches(ownership, position(), batches, progress)
        const since = yield* Clock.currentTimeMillis
        subscriptions.offer(yield* atRedeliveryStored(storing), since)
        if (finished) {
          yield* Effect.logInfo('journal replay: all events of a redelivery are stored in batches').pipe(
            Effect.annotateLogs({
              redelivery: redelivery.id,
              subscription: subscription.record.id,
              partition: ownership.partition,
            }),
          )
          return
        }
        room -= batches.length
      }
    }),
  }
})
