/**
 * The relay of `command.outbox`: appends to Kafka, in order, the rows that acceptance batches or a
 * crashed process did not append. One process at a time relays.
 */
import { decodeOutboxRow, EventLog, kafkaCrashPoint } from '@hub/kafka'
import { relayOutbox, Sql, storageCrashPoint } from '@hub/store'
import { Cause, Duration, Effect, Latch, Layer, Metric } from 'effect'
import { outboxOldestRowSeconds, outboxRows } from '../../metrics.ts'
import { OutboxMode } from './outbox-mode.ts'
import { selectBacklog, selectHighestRow } from '../ledger/tables/outbox.ts'
import { makeTracedAppend } from '../batch/traced-append.ts'

/**
 * The writer of a younger row may still be appending it: the wait for the previous append, the
 * append deadline (1.5 s), and the deletion.
 */
const OLDER_THAN_MS = 3500
/** Interval in direct mode: then only a process that was killed leaves rows. */
const DIRECT_INTERVAL = Duration.seconds(1)
/** Interval in relaying mode, while the rows are too young or another process relays. */
const RELAYING_INTERVAL = Duration.millis(200)
/** Interval after a failure: Kafka or PostgreSQL is down, and a shorter interval would not help. */
const AFTER_FAILURE = Duration.millis(500)
/** Records of one append: the event log sends as many in one produce. */
const APPEND_RECORDS = 2000

const atRelayed = kafkaCrashPoint('command-api.relayed')
const atRelayCommitted = storageCrashPoint('command-api.relay-committed', (rows: number) => rows > 0)

/** Appends the records of rows in order. Fails if Kafka did not acknowledge all of them. */
const appendRows = Effect.fnUntraced(function* (
  append: EventLog['Service']['append'],
  rows: ReadonlyArray<Uint8Array>,
) {
  const records = []
  for (const row of rows) records.push(...(yield* Effect.fromResult(decodeOutboxRow(row))))
  for (let from = 0; from < records.length; from += APPEND_RECORDS) {
    yield* append(records.slice(from, from + APPEND_RECORDS))
  }
}, atRelayed)

export const relayLayer: Layer.Layer<never, never, OutboxMode | EventLog | Sql> = Layer.effectDiscard(
  Effect.gen(function* () {
    const outboxMode = yield* OutboxMode
    const append = yield* makeTracedAppend
    const sql = yield* Sql
    const awake = yield* Latch.make(true)
    outboxMode.onLeftToRelay(() => awake.openUnsafe())

    /** Relays once and updates the outbox mode. Returns the time until the next turn. */
    const relay = Effect.gen(function* () {
      if (outboxMode.relayBacklog().highest === null) {
        outboxMode.relayExistingRows(yield* sql.run(selectHighestRow))
      }
      const { count, highest } = outboxMode.relayBacklog()
      const appended = yield* relayOutbox('command.outbox', (rows) => appendRows(append, rows), {
        olderThanMs: OLDER_THAN_MS,
      }).pipe(atRelayCommitted)
      if (appended > 0) {
        yield* Effect.logInfo('relay: appended rows of command.outbox to Kafka').pipe(
          Effect.annotateLogs({ rows: appended }),
        )
      }
      const [left] = yield* sql.run((q) => selectBacklog(q, highest))
      yield* Metric.update(outboxOldestRowSeconds, left?.age ?? 0)
      yield* Metric.update(outboxRows, left?.count ?? 0)
      if (left?.hasBacklog !== true) outboxMode.switchToDirect(count)
      return appended > 0 ? Duration.zero : RELAYING_INTERVAL
    })

    const loop = Effect.gen(function* () {
      awake.closeUnsafe()
      const pause = yield* relay.pipe(
        Effect.catch((error) =>
          Effect.logWarning('relay: rows of command.outbox were not appended; the relay tries again').pipe(
            Effect.annotateLogs({
              error: error._tag,
              ...('detail' in error ? { detail: error.detail } : {}),
            }),
            Effect.as(AFTER_FAILURE),
          ),
        ),
      )
      yield* outboxMode.isRelaying()
        ? Effect.sleep(pause)
        : Effect.raceFirst(Effect.sleep(DIRECT_INTERVAL), awake.await)
    })

    yield* Effect.forkScoped(
      Effect.forever(
        Effect.catchCause(loop, (cause) =>
          Cause.hasInterruptsOnly(cause)
            ? Effect.failCause(cause)
            : Effect.andThen(
                Effect.logError('relay: a turn failed unexpectedly; the relay tries again', cause),
                Effect.sleep(AFTER_FAILURE),
              ),
        ),
      ),
    )
  }),
)
