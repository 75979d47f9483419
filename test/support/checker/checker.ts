/**
 * The checker: reads all topics of a hub from their beginnings, builds every read model once more (`reference-projection.ts`), and compares it
 * with the live tables row by row (`compare.ts`). To be asked when the hub is at rest: `waitUntilIdle`.
 */
import { eventually, openDatabase } from '@hub/testkit'
import { type TestHub } from '../hub.ts'
import { differences } from './compare.ts'
import { readAppliedCount, readLiveTables } from './live-tables.ts'
import { buildReference } from './reference-projection.ts'
import { readTopics } from './read-topics.ts'

interface Checked {
  /** A line each; see `compare.ts`. */
  readonly differences: ReadonlyArray<string>
  /** What was looked at. */
  readonly messages: number
  readonly records: number
  readonly events: number
  readonly batches: number
}

/** A bound on what hangs: 50,000 messages are half a million records. */
const READ_WITHIN_MS = 300_000

/** A batch that a crash has left is sealed a minute later, and may be so while the checker reads: then it reads again. */
const MAX_ATTEMPTS = 5

export const checkReadModels = async (hub: TestHub): Promise<Checked> => {
  const { database_url, kafka } = hub.describe()
  for (let attempt = 1; ; attempt++) {
    const before = await readAppliedCount(database_url)
    const topics = await readTopics(kafka.brokers, READ_WITHIN_MS)
    const reference = buildReference(topics)
    const live = await readLiveTables(database_url)
    if (before !== live.applied && attempt < MAX_ATTEMPTS) continue
    return {
      differences: differences(topics, reference, live),
      messages: reference.tables.messages.size,
      records: topics.lanes.length + topics.log.length,
      events: live.journal.length,
      batches: reference.tables.batches.size,
    }
  }
}

interface IdleOptions {
  /** So many messages were accepted. */
  readonly accepted: number
  /** Whether what a crash left open must have been sealed, which takes over a minute. */
  readonly awaitSeals: boolean
  readonly withinMs: number
}

/**
 * Waits until all messages have come to their end and nothing is on its way any more: not in an outbox, not between a topic and its
 * projector. What may still come although a message is final (a late report, a read receipt) the caller waits for.
 */
export const waitUntilIdle = async (
  hub: TestHub,
  { accepted, awaitSeals, withinMs }: IdleOptions,
): Promise<void> => {
  const sql = openDatabase(hub.describe().database_url)
  try {
    let before = ''
    await eventually(
      async () => {
        const [row] = await sql<
          [
            {
              messages: number
              open: number
              batches: number
              outboxes: number
              applied: number
              events: number
            },
          ]
        >`
          SELECT (SELECT count(*)::int FROM read.messages WHERE account IS NOT NULL) AS messages,
                 (SELECT count(*)::int FROM read.messages WHERE NOT final) AS open,
                 (SELECT count(*)::int FROM read.batches WHERE NOT closed AND (${awaitSeals} OR sealed_at IS NOT NULL)) AS batches,
                 (SELECT count(*)::int FROM read.event_outbox) + (SELECT count(*)::int FROM command.outbox) AS outboxes,
                 (SELECT sum(position)::int FROM read.checkpoints WHERE projection = 'messages') AS applied,
                 (SELECT count(*)::int FROM read.events) AS events`
        const now = JSON.stringify(row)
        const rested = now === before
        before = now
        if (row.messages < accepted || row.open > 0 || row.batches > 0 || row.outboxes > 0 || !rested) {
          throw new Error(`not at rest: ${now}, of ${accepted} messages`)
        }
        return true
      },
      { withinMs, everyMs: 1000 },
    )
  } finally {
    await sql.end()
  }
}
