/**
 * Records events that do not come from a message fact. Each source is a table that this app polls:
 * it takes the oldest entries and records their events in one transaction.
 */
import type { TopicNames } from '@hub/kafka'
import { Duration, Effect } from 'effect'
import { EVENT_SOURCES, type EventSourceName, ProjectionStore } from '../store/projection-store.port.ts'
import { recordingOf } from './journal.ts'
import type { Publisher } from './publisher.ts'

/** How often an empty source is polled. */
const INTERVALS: Readonly<Record<EventSourceName, Duration.Duration>> = {
  // Such events are rare and nobody waits for them.
  'event inbox': Duration.millis(500),
  'opt-out events': Duration.millis(500),
  // A limit is changed rarely. The query reads one row for each account with a limit.
  'spend thresholds': Duration.seconds(5),
}

/** The pause after PostgreSQL was unavailable. */
const RETRY_PAUSE = Duration.seconds(1)

/** Records the events of all sources until the scope closes, each event id once. */
export const runEventSources = Effect.fnUntraced(function* (topics: TopicNames, publisher: Publisher) {
  const store = yield* ProjectionStore
  const stepOf = (source: EventSourceName) =>
    store
      .takeEvents(source, (entries) => recordingOf(topics, entries))
      .pipe(
        // Uninterruptible: else the publisher would relay the committed row only later.
        Effect.tap(({ publication }) =>
          publication === null ? Effect.void : publisher.publish(publication),
        ),
        Effect.uninterruptible,
        Effect.map(({ isFull }) => (isFull ? Duration.zero : INTERVALS[source])),
        Effect.catch((error) =>
          Effect.as(Effect.logWarning(`${source}: transaction failed, retrying`, error), RETRY_PAUSE),
        ),
      )
  for (const source of EVENT_SOURCES) {
    yield* Effect.forkScoped(Effect.forever(Effect.flatMap(stepOf(source), Effect.sleep)))
  }
})
