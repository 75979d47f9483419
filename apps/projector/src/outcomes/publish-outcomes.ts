/**
 * Writes the outcomes of messages to `hub.message-outcomes.v1`. The projection stores in its transaction
 * which messages got a final status. This loop reads their rows, appends the records, and then removes
 * what it has stored. After a crash in between, it appends the same records again.
 * Source: docs/decisions/read-models.md#message-outcomes.
 */
import { EventLog, kafkaCrashPoint, messageOutcomeRecord, type TopicNames } from '@hub/kafka'
import { Cause, Duration, Effect } from 'effect'
import { countFailure } from '../metrics.ts'
import { ProjectionStore } from '../store/projection-store.port.ts'

/** Analysts can wait, and the outcomes of this time share a query and an append. */
const INTERVAL = Duration.seconds(1)

/** The append is inside of a transaction with a deadline of 9 s. */
const APPEND_DEADLINE_MS = 5000

const atAppended = kafkaCrashPoint('projector.outcomes-appended')

/** Publishes the next outcomes. Returns 0 if there are none, or if another process publishes. */
export const publishNextOutcomes = Effect.fnUntraced(function* (topics: TopicNames) {
  const log = yield* EventLog
  const store = yield* ProjectionStore
  return yield* store.publishOutcomes((outcomes) =>
    log
      .append(
        outcomes.map((outcome) => messageOutcomeRecord(topics, outcome)),
        { deadlineMs: APPEND_DEADLINE_MS },
      )
      .pipe(
        atAppended,
        Effect.tapError(() => countFailure('bus')),
        Effect.asVoid,
      ),
  )
})

/**
 * Publishes outcomes until the scope closes. `isOn` false: only those that are left from the time when
 * it was on.
 */
export const runOutcomes = Effect.fnUntraced(function* (topics: TopicNames, isOn: boolean) {
  let remaining = 1
  const step = publishNextOutcomes(topics).pipe(
    Effect.tap((count) =>
      Effect.sync(() => {
        remaining = count
      }),
    ),
    Effect.catchCause((cause) =>
      Cause.hasInterruptsOnly(cause)
        ? Effect.interrupt
        : Effect.as(Effect.logWarning('outcomes: they were not published, retrying', cause), 0),
    ),
    Effect.flatMap((count) => (count > 0 ? Effect.void : Effect.sleep(INTERVAL))),
  )
  yield* Effect.forkScoped(
    Effect.whileLoop({ while: () => isOn || remaining > 0, body: () => step, step: () => {} }),
  )
})
