/**
 * The outbox `command.outbox`: the records of `service` messages and seals. Acceptance batches append their
 * rows themselves, in their order, until one of them stays in the table.
 */
import { kafkaCrashPoint } from '@hub/kafka'
import { layerPostgresStore, Outbox, OutboxStore } from '@hub/outbox'
import { storageCrashPoint } from '@hub/store'
import { Effect, Layer, Metric } from 'effect'
import { outboxOldestRowSeconds, outboxRows } from '../../metrics.ts'
import { makeTracedAppend } from '../batch/traced-append.ts'

const TABLE = 'command.outbox'

/**
 * The writer of a younger row may still be appending it: the wait for the previous append, the append
 * deadline (1.5 s), and the deletion.
 */
const ABANDONED_AFTER_MS = 3500

const atRelayed = kafkaCrashPoint('command-api.relayed')
const atRelayCommitted = storageCrashPoint('command-api.relay-committed', (rows: number) => rows > 0)

const storeLayer = Layer.effect(
  OutboxStore,
  Effect.map(OutboxStore, (store) => ({
    ...store,
    relay: (rows, publish) => store.relay(rows, publish).pipe(atRelayCommitted),
  })),
).pipe(Layer.provide(layerPostgresStore(TABLE)))

/** The outbox on another store, with the settings of production. */
export const commandOutboxOn = Layer.unwrap(
  Effect.map(makeTracedAppend, (append) =>
    Outbox.layer({
      table: TABLE,
      append: (records) => append(records).pipe(atRelayed),
      abandonedAfterMs: ABANDONED_AFTER_MS,
      // Other processes append their own rows meanwhile.
      relaysAtOnce: false,
      lookEveryMs: 1000,
      onStatus: ({ ageSeconds, rows }) =>
        Effect.andThen(Metric.update(outboxOldestRowSeconds, ageSeconds), Metric.update(outboxRows, rows)),
    }),
  ),
)

export const commandOutboxLayer = commandOutboxOn.pipe(Layer.provide(storeLayer))
