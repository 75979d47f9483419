/**
 * Moves events from `command.event_inbox` into the journal. The inbox contains events that do not
 * come from a message fact, such as `webhook.endpoint_disabled`. Source: specification, Event
 * types; docs/decisions/0011.
 */
import { encodeId, type EventType, type Mode } from '@hub/domain'
import type { TopicNames } from '@hub/kafka'
import { type Queries, Sql } from '@hub/store'
import { Duration, Effect } from 'effect'
import type { JournalEntry } from '../messages/fold.ts'
import { type Publication, recordEvents } from './journal.ts'
import type { Publisher } from './publisher.ts'

/** Events of one transaction, which locks their journal heads. */
const EVENTS_PER_TRANSACTION = 200

/** Such events are rare and nobody waits for them, so the empty inbox is polled slowly. */
const POLL_INTERVAL = Duration.millis(500)
/** The pause after PostgreSQL was unavailable. */
const RETRY_PAUSE = Duration.seconds(1)
const DEADLINE = { deadline: Duration.seconds(5) }

interface Row {
  readonly place: string
  readonly id: string
  readonly account: string
  readonly mode: Mode
  readonly type: EventType
  readonly object: object
}

/** Removes and returns the oldest events in order. Concurrent callers get different events. */
const takeEvents = async (q: Queries): Promise<ReadonlyArray<JournalEntry>> => {
  const rows = await q<Row[]>`
    DELETE FROM command.event_inbox WHERE place IN (
      SELECT place FROM command.event_inbox ORDER BY place LIMIT ${EVENTS_PER_TRANSACTION} FOR UPDATE SKIP LOCKED)
    RETURNING place, id, account, mode, type, object`
  return rows
    .toSorted((a, b) => Number(a.place) - Number(b.place))
    .map(({ account, id, mode, object, type }) => ({
      account: encodeId('acc', account),
      mode,
      event: { id: encodeId('evt', id), type, object },
    }))
}

/** Records the events of the inbox until the scope closes, each event id once. */
export const runEventInbox = Effect.fnUntraced(function* (topics: TopicNames, publisher: Publisher) {
  const sql = yield* Sql

  const step = sql
    .transaction(async (q): Promise<{ readonly taken: number; readonly publication: Publication | null }> => {
      const entries = await takeEvents(q)
      return {
        taken: entries.length,
        publication: entries.length === 0 ? null : await recordEvents(q, topics, entries),
      }
    }, DEADLINE)
    .pipe(
      // Uninterruptible: else the publisher would relay the committed row only later.
      Effect.tap(({ publication }) => (publication === null ? Effect.void : publisher.publish(publication))),
      Effect.uninterruptible,
      Effect.map(({ taken }) => (taken < EVENTS_PER_TRANSACTION ? POLL_INTERVAL : Duration.zero)),
      Effect.catch((error) =>
        Effect.as(Effect.logWarning('event inbox: transaction failed, retrying', error), RETRY_PAUSE),
      ),
    )
  yield* Effect.forkScoped(Effect.forever(Effect.flatMap(step, Effect.sleep)))
})
