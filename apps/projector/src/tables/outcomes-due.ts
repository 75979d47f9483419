/**
 * `read.outcomes_due`: the messages whose outcomes are still to be written to the topic. A row contains
 * ids, and what is written is read from the tables at that time. So it is never older than the row.
 */
import { type Queries, sqlArray, uuidFloor } from '@hub/store'
import { messageUuid } from './read-schema.ts'

/** The messages (`msg_…`) that got a final status in this transaction. */
export const insertOutcomesDue = (q: Queries, messageIds: ReadonlyArray<string>) => q`
  INSERT INTO read.outcomes_due (message_ids) VALUES (${sqlArray(messageIds.map(messageUuid))}::uuid[])`

/** All final messages with an id that was made after a time (milliseconds since the epoch). */
export const insertAllOutcomesDue = (q: Queries, after: number) => q`
  INSERT INTO read.outcomes_due (after) VALUES (${uuidFloor(after)})`

/** Messages of one step. It takes some tens of milliseconds. */
const MESSAGES_PER_STEP = 2000
/** Rows of one step: a transaction at an everyday rate has a few messages. */
const ROWS_PER_STEP = 200

/** Messages whose outcomes are due, as UUIDs, and what removes them from the table. */
interface OutcomesDue {
  readonly messageIds: ReadonlyArray<string>
  readonly remove: () => Promise<unknown>
}

/** The oldest messages that are named by a row. */
const namedMessages = async (q: Queries): Promise<OutcomesDue | null> => {
  const rows = await q<{ id: string; message_ids: ReadonlyArray<string> }[]>`
    SELECT id, message_ids FROM (
      SELECT id, message_ids, sum(cardinality(message_ids)) OVER (ORDER BY id) - cardinality(message_ids) AS before FROM (
        SELECT id, message_ids FROM read.outcomes_due WHERE message_ids IS NOT NULL ORDER BY id LIMIT ${ROWS_PER_STEP}) AS oldest) AS sized
     WHERE before < ${MESSAGES_PER_STEP} ORDER BY id`
  if (rows.length === 0) return null
  return {
    messageIds: [...new Set(rows.flatMap((row) => row.message_ids))],
    remove: () => q`DELETE FROM read.outcomes_due WHERE id = ANY (${rows.map(({ id }) => id)}::bigint[])`,
  }
}

/** The next final messages of a row for all of them. */
const messagesOfAll = async (q: Queries): Promise<OutcomesDue | null> => {
  const [row] = await q<{ id: string; after: string }[]>`
    SELECT id, after FROM read.outcomes_due WHERE message_ids IS NULL ORDER BY id LIMIT 1`
  if (row === undefined) return null
  const found = await q<{ id: string }[]>`
    SELECT id FROM read.messages WHERE id > ${row.after} AND final AND account IS NOT NULL
     ORDER BY id LIMIT ${MESSAGES_PER_STEP}`
  const last = found.at(-1)
  return {
    messageIds: found.map(({ id }) => id),
    remove: () =>
      last === undefined
        ? q`DELETE FROM read.outcomes_due WHERE id = ${row.id}`
        : q`UPDATE read.outcomes_due SET after = ${last.id} WHERE id = ${row.id}`,
  }
}

/** The next messages. Those of a rebuild wait for the others. Call it under the lock of the relay. */
export const nextOutcomesDue = async (q: Queries): Promise<OutcomesDue | null> =>
  (await namedMessages(q)) ?? messagesOfAll(q)
