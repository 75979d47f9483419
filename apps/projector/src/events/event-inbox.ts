/**
 * Events that no message tells, such as `webhook.endpoint_disabled`: whoever makes such a thing happen leaves the event in
 * `command.event_inbox`, in the same transaction; here it gets its place in the journal of its account and goes on like any other.
 * Source: specification, Event types; docs/decisions/0011.
 */
import { encodeId, type EventType, type Mode } from '@hub/domain'
import type { TopicNames } from '@hub/kafka'
import { type Queries, Sql } from '@hub/store'
import { Duration, Effect } from 'effect'
import type { JournalEntry } from '../messages/fold.ts'
import { type Publication, recordEntries } from '../projection/transaction.ts'
import type { Publisher } from './publisher.ts'

/** Events of one transaction; the heads of their journals are held that long. */
const AT_ONCE = 200

/** How often an empty inbox is looked at: what is told here is rare, and nobody waits for it. */
const LOOK_EVERY = Duration.millis(500)
/** After PostgreSQL stood in the way. */
const TROUBLE_PAUSE = Duration.seconds(1)
const DEADLINE = { deadline: Duration.seconds(5) }

interface Row {
  readonly place: string
  readonly id: string
  readonly account: string
  readonly mode: Mode
  readonly type: EventType
  readonly object: object
}

/** Takes the oldest events out, in the order in which they came. Each is taken once, whoever asks at the same time. */
const takeEvents = async (q: Queries): Promise<ReadonlyArray<JournalEntry>> => {
  const rows = await q<Row[]>`
    DELETE FROM command.event_inbox WHERE place IN (
      SELECT place FROM command.event_inbox ORDER BY place LIMIT ${AT_ONCE} FOR UPDATE SKIP LOCKED)
    RETURNING place, id, account, mode, type, object`
  return rows
    .toSorted((a, b) => Number(a.place) - Number(b.place))
    .map(({ account, id, mode, object, type }) => ({
      account: encodeId('acc', account),
      mode,
      event: { id: encodeId('evt', id), type, object },
    }))
}

/** Records what comes, until the scope closes. One event is recorded once, however often it was left. */
export const runEventInbox = Effect.fnUntraced(function* (topics: TopicNames, publisher: Publisher) {
  const sql = yield* Sql

  const turn = sql
    .transaction(async (q): Promise<{ readonly taken: number; readonly publication: Publication | null }> => {
      const entries = await takeEvents(q)
      return {
        taken: entries.length,
        publication: entries.length === 0 ? null : await recordEntries(q, topics, entries),
      }
    }, DEADLINE)
    .pipe(
      // Committed and not given to the publisher it would lie in the outbox for a while.
      Effect.tap(({ publication }) => (publication === null ? Effect.void : publisher.publish(publication))),
      Effect.uninterruptible,
      Effect.map(({ taken }) => (taken < AT_ONCE ? LOOK_EVERY : Duration.zero)),
      Effect.catch((error) =>
        Effect.as(Effect.logWarning('events could not be taken into the journal', error), TROUBLE_PAUSE),
      ),
    )
  yield* Effect.forkScoped(Effect.forever(Effect.flatMap(turn, Effect.sleep)))
})
