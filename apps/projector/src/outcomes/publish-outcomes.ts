/**
 * Writes the outcomes of messages to `hub.message-outcomes.v1`. The projection stores in its transaction
 * which messages got a final status. This loop reads their rows, appends the records, and then removes
 * what it has stored. After a crash in between, it appends the same records again.
 * Source: docs/decisions/0077.
 */
import { EventLog, messageOutcomeRecord, type TopicNames } from '@hub/kafka'
import { publishInTransaction } from '@hub/store'
import { Duration, Effect } from 'effect'
import { countFailure } from '../metrics.ts'
import { nextOutcomesDue } from '../tables/outcomes-due.ts'
import { readOutcomes } from '../tables/outcomes.ts'

/** Analysts can wait, and the outcomes of this time share a query and an append. */
const INTERVAL = Duration.seconds(1)

/** The append is inside of a transaction with a deadline of 9 s. */
const APPEND_DEADLINE_MS = 5000

/** Publishes the next outcomes. Returns 0 if there are none, or if another process publishes. */
export const publishNextOutcomes = Effect.fnUntraced(function* (topics: TopicNames) {
  const log = yield* EventLog
  return yield* publishInTransaction(
    'read.outcomes_due',
    async (q) => {
      const due = await nextOutcomesDue(q)
      if (due === null) return null
      const outcomes = due.messageIds.length === 0 ? [] : await readOutcomes(q, due.messageIds)
      return { content: outcomes, count: 1, done: due.remove }
    },
    (outcomes) =>
      log
        .append(
          outcomes.map((outcome) => messageOutcomeRecord(topics, outcome)),
          { deadlineMs: APPEND_DEADLINE_MS },
        )
        .pipe(Effect.tapError(() => countFailure('bus'))),
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
    Effect.catch((error) =>
      Effect.logWarning('outcomes: they were not published, retrying').pipe(
        Effect.annotateLogs({ cause: error._tag }),
        Effect.as(0),
      ),
    ),
    Effect.flatMap((count) => (count > 0 ? Effect.void : Effect.sleep(INTERVAL))),
  )
  yield* Effect.forkScoped(
    Effect.whileLoop({ while: () => isOn || remaining > 0, body: () => step, step: () => {} }),
  )
})
