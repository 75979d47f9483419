/**
 * The checker of the read models. It reads all topics from their beginning, builds every read model
 * again (`reference-projection.ts`), and compares the result with the live tables row by row
 * (`compare.ts`). Call it when the hub is idle: see `waitUntilIdle`.
 */
import { eventually, openDatabase } from '@hub/testkit'
import { type TestHub } from '../hub.ts'
import { differences } from './compare.ts'
import { readAppliedCount, readLiveTables } from './live-tables.ts'
import { buildReference } from './reference-projection.ts'
import { readTopics } from './read-topics.ts'

interface Checked {
  /** One line for each difference; see `compare.ts`. */
  readonly differences: ReadonlyArray<string>
  /** The numbers of compared items. */
  readonly messages: number
  readonly records: number
  readonly events: number
  readonly batches: number
}

/** Only ends a read that hangs: 50,000 messages are half a million records. */
const READ_WITHIN_MS = 300_000

/**
 * The sweep seals a batch that a crash left open after one minute. If that happens while the
 * checker reads, the checker reads again.
 */
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
  /** The number of accepted messages. */
  readonly accepted: number
  /**
   * Whether to wait until the sweep has sealed the batches that a crash left open. This takes over
   * a minute.
   */
  readonly awaitSeals: boolean
  /** Messages that never become final: the operator has not received them. Default: none. */
  readonly openAtMost?: number
  readonly withinMs: number
}

/**
 * Waits until all messages are final, the outboxes are empty, and the projector has applied all
 * records. The caller waits for facts that may follow a final status (a late report, a read
 * receipt).
 */
export const waitUntilIdle = async (
  hub: TestHub,
  { accepted, awaitSeals, openAtMost = 0, withinMs }: IdleOptions,
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
                 (SELECT count(*)::int FROM read.batches b WHERE NOT closed AND (${awaitSeals} OR sealed_at IS NOT NULL)
                    AND NOT EXISTS (SELECT FROM read.messages WHERE batch_id = b.id AND NOT final)) AS batches,
                 (SELECT count(*)::int FROM read.event_outbox) + (SELECT count(*)::int FROM command.outbox) AS outboxes,
                 (SELECT sum(position)::int FROM read.checkpoints WHERE projection = 'messages') AS applied,
                 (SELECT count(*)::int FROM read.events) AS events`
        const now = JSON.stringify(row)
        const unchanged = now === before
        before = now
        if (
          row.messages < accepted ||
          row.open > openAtMost ||
          row.batches > 0 ||
          row.outboxes > 0 ||
          !unchanged
        ) {
          throw new Error(`the hub is not idle: ${now}, of ${accepted} accepted messages`)
        }
        return true
      },
      { withinMs, everyMs: 1000 },
    )
  } finally {
    await sql.end()
  }
}
