/**
 * The outbox `read.event_outbox`: recorded events that are still to be published to `hub.webhooks.v1`, those of
 * accounts with a subscription.
 */
import { EventLog, kafkaCrashPoint } from '@hub/kafka'
import { layerPostgresStore, makeOutbox, OutboxStore } from '@hub/outbox'
import { storageCrashPoint } from '@hub/store'
import { Effect, Layer } from 'effect'
import { countFailure, observeOutbox } from '../metrics.ts'

const TABLE = 'read.event_outbox'

/** No client waits for this. A slower broker counts as unavailable. */
export const APPEND_DEADLINE_MS = 5000

const atEventsRelayed = kafkaCrashPoint('projector.events-relayed')
const atEventRowsDeleted = storageCrashPoint('projector.event-rows-deleted')

export const layerEventOutboxStore = Layer.effect(
  OutboxStore,
  Effect.map(OutboxStore, (store) => ({
    ...store,
    remove: (rows) => atEventRowsDeleted(store.remove(rows)),
  })),
).pipe(Layer.provide(layerPostgresStore(TABLE)))

/** Relays until the scope closes. */
export const makeEventOutbox = Effect.flatMap(EventLog, (log) =>
  makeOutbox({
    table: TABLE,
    append: (records) =>
      log.append(records, { deadlineMs: APPEND_DEADLINE_MS }).pipe(
        Effect.tapError(() => countFailure('bus')),
        atEventsRelayed,
      ),
    // A living process would have met its deadline.
    abandonedAfterMs: 2 * APPEND_DEADLINE_MS,
    // Servers wait for the events, and a repeat costs little.
    relaysAtOnce: true,
    lookEveryMs: 5000,
    onStatus: ({ ageSeconds, rows }) => observeOutbox(rows, ageSeconds),
  }),
)
export type EventOutbox = Effect.Success<typeof makeEventOutbox>
