/**
 * The relay of `command.outbox`: publishes, in order, what flushes could not publish themselves, and what a process that was killed
 * between commit and produce left behind. One process at a time does it; the others find the rows gone.
 */
import { type KafkaUnavailable, decodeOutboxRow, EventLog, type UndecodableRecord } from '@hub/kafka'
import { relayOutbox, Sql } from '@hub/store'
import { Cause, Duration, Effect, Latch, Layer, Metric, Result } from 'effect'
import { OutboxMode } from './outbox-mode.ts'
import { makeTracedAppend } from './traced-append.ts'

/**
 * A row younger than this may still be on its way through its own flush: append deadline (1 s), the wait for the append
 * before it, and the deletion. Publishing it here as well would be harmless, and useless.
 */
const OLDER_THAN_MS = 2500
/** How often the outbox is looked at when nothing was held: only a killed process leaves rows then. */
const IDLE = Duration.seconds(1)
/** Between turns while rows are held but too young, or another process has the turn. */
const HOLDING = Duration.millis(200)
/** After a failure: Kafka or the database is down, and asking more often would not bring it back. */
const AFTER_FAILURE = Duration.millis(500)
/** Records of one append: what the event log sends in one produce. */
const RECORDS_AN_APPEND = 2000

const oldestRow = Metric.gauge('hub_accept_outbox_oldest_row_seconds', {
  description: 'Age of the oldest row of the outbox, in seconds; 0 when it is empty.',
})

const rows = Metric.gauge('hub_accept_outbox_rows', {
  description: 'Rows of the outbox: flushes whose records Kafka has not acknowledged yet.',
})

/** Publishes rows in order; fails when any record was not acknowledged. */
const publishRows = (
  append: EventLog['Service']['append'],
  rows: ReadonlyArray<Uint8Array>,
): Effect.Effect<void, KafkaUnavailable | UndecodableRecord> =>
  Effect.gen(function* () {
    const records = []
    for (const row of rows) {
      const decoded = decodeOutboxRow(row)
      if (Result.isFailure(decoded)) return yield* Effect.fail(decoded.failure)
      records.push(...decoded.success)
    }
    for (let from = 0; from < records.length; from += RECORDS_AN_APPEND) {
      yield* append(records.slice(from, from + RECORDS_AN_APPEND))
    }
  })

/** Runs until its scope closes. */
export const relayLayer: Layer.Layer<never, never, OutboxMode | EventLog | Sql> = Layer.effectDiscard(
  Effect.gen(function* () {
    const outboxMode = yield* OutboxMode
    const append = yield* makeTracedAppend
    const sql = yield* Sql
    const awake = yield* Latch.make(true)
    outboxMode.onLeftToRelay(() => awake.openUnsafe())

    /** What an earlier process, or another one, had waiting when this one began. */
    const start = Effect.gen(function* () {
      const [row] = yield* sql.run(
        (q) => q<{ highest: string }[]>`SELECT coalesce(max(id), 0) AS highest FROM command.outbox`,
      )
      outboxMode.relayExistingRows(Number(row?.highest))
    })

    /** One turn: publish what is old enough, then see whether anything held is left. Answers how long to wait. */
    const turn = Effect.gen(function* () {
      if (outboxMode.relayBacklog().highest === null) yield* start
      const { count, highest } = outboxMode.relayBacklog()
      const published = yield* relayOutbox('command.outbox', (rows) => publishRows(append, rows), {
        olderThanMs: OLDER_THAN_MS,
      })
      if (published > 0) {
        yield* Effect.logInfo('published from the outbox').pipe(Effect.annotateLogs({ rows: published }))
      }
      const [left] = yield* sql.run(
        (q) => q<{ held: boolean; age: number; count: number }[]>`
          SELECT coalesce(bool_or(id <= ${highest}), false) AS held,
                 coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 AS age,
                 count(*)::integer AS count FROM command.outbox`,
      )
      yield* Metric.update(oldestRow, left?.age ?? 0)
      yield* Metric.update(rows, left?.count ?? 0)
      if (left?.held !== true) outboxMode.switchToDirect(count)
      return published > 0 ? Duration.zero : HOLDING
    })

    const loop = Effect.gen(function* () {
      awake.closeUnsafe()
      const pause = yield* turn.pipe(
        Effect.catch((error) =>
          Effect.logWarning('the outbox could not be relayed').pipe(
            Effect.annotateLogs({
              error: error._tag,
              ...('detail' in error ? { detail: error.detail } : {}),
            }),
            Effect.as(AFTER_FAILURE),
          ),
        ),
      )
      yield* outboxMode.isRelaying() ? Effect.sleep(pause) : Effect.raceFirst(Effect.sleep(IDLE), awake.await)
    })

    yield* Effect.forkScoped(
      Effect.forever(
        Effect.catchCause(loop, (cause) =>
          Cause.hasInterruptsOnly(cause)
            ? Effect.failCause(cause)
            : Effect.andThen(
                Effect.logError('the relay failed unexpectedly', cause),
                Effect.sleep(AFTER_FAILURE),
              ),
        ),
      ),
    )
  }),
)
