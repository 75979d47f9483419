/**
 * Records events that do not come from a message fact. Each source is a table that this app polls:
 * it takes the oldest entries and records their events in one transaction.
 */
import type { TopicNames } from '@hub/kafka'
import { type Queries, Sql } from '@hub/store'
import { Duration, Effect } from 'effect'
import type { JournalEntry } from '../messages/fold.ts'
import { recordEvents } from './journal.ts'
import type { Publisher } from './publisher.ts'

/** What one transaction takes from a source. */
export interface Taken {
  readonly entries: ReadonlyArray<JournalEntry>
  /** The source may contain more, so the next transaction follows at once. */
  readonly isFull: boolean
}

export interface EventSource {
  /** For the log. */
  readonly name: string
  /** Takes the next events. Concurrent callers get different ones. */
  readonly take: (q: Queries) => Promise<Taken>
  /** How often an empty source is polled. */
  readonly interval: Duration.Duration
}

/** The pause after PostgreSQL was unavailable. */
const RETRY_PAUSE = Duration.seconds(1)
const DEADLINE = { deadline: Duration.seconds(5) }

/** Records the events of a source until the scope closes, each event id once. */
export const runEventSource = Effect.fnUntraced(function* (
  topics: TopicNames,
  publisher: Publisher,
  { interval, name, take }: EventSource,
) {
  const sql = yield* Sql
  const step = sql
    .transaction(async (q) => {
      const { entries, isFull } = await take(q)
      if (entries.length === 0) return { isFull, publication: null }
      const { publication } = await recordEvents(q, topics, entries)
      return { isFull, publication }
    }, DEADLINE)
    .pipe(
      // Uninterruptible: else the publisher would relay the committed row only later.
      Effect.tap(({ publication }) => (publication === null ? Effect.void : publisher.publish(publication))),
      Effect.uninterruptible,
      Effect.map(({ isFull }) => (isFull ? Duration.zero : interval)),
      Effect.catch((error) =>
        Effect.as(Effect.logWarning(`${name}: transaction failed, retrying`, error), RETRY_PAUSE),
      ),
    )
  yield* Effect.forkScoped(Effect.forever(Effect.flatMap(step, Effect.sleep)))
})
