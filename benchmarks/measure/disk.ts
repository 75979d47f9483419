/**
 * Disk usage of a message: sends messages of both classes through a hub with the sandbox, and
 * measures topics and tables. Stores the figures in `results.json`.
 */
import { eventually, openDatabase } from '@hub/testkit'
import { startHub } from '../../test/support/hub.ts'
import { client, sendBatchUntilAccepted, subscribeToNothing } from '../../test/support/client.ts'
import { storeAlone } from '../pages/report.ts'
import type { Log } from './section.ts'
import { topicBytes } from './topic-bytes.ts'

const MESSAGES = 20_000
/** The page shows what takes as much of a message. */
const SHOWN_BYTES = 100
const BATCH = 500
/** Ends the script when the hub does not accept a batch. */
const ACCEPTED_WITHIN_MS = 60_000
/** Ends the script when messages are not delivered. */
const DRAINED_WITHIN_MS = 600_000

export const runDisk = async (log: Log, [messages]: ReadonlyArray<string>): Promise<void> => {
  const count = Number(messages ?? MESSAGES)
  const hub = await startHub({ apiRps: 100_000 })
  try {
    const { base_url, database_url, keys } = hub.describe()
    const sender = client(base_url, keys.test)
    // Without a subscription, `hub.webhooks.v1` would contain no event.
    await subscribeToNothing(sender)
    for (let from = 0; from < count; from += BATCH) {
      const messages = Array.from({ length: Math.min(BATCH, count - from) }, (_, i) => ({
        to: `+7916${String(from + i).padStart(7, '0')}`,
        client_ref: `order-${from + i}`,
        ...((from + i) % 2 === 0
          ? { class: 'otp', template: 'otp_code', variables: { code: '4821' } }
          : { class: 'service', template: 'order_ready', variables: { order: `A-${from + i}` } }),
      }))
      await sendBatchUntilAccepted(sender, messages, ACCEPTED_WITHIN_MS)
    }
    const sql = openDatabase(database_url)
    try {
      await eventually(
        async () => {
          const [row] = await sql<[{ done: number }]>`
            SELECT count(*)::int AS done FROM read.messages WHERE status = 'delivered'`
          if (row.done < count) throw new Error(`${row.done} of ${count} are delivered`)
          return true
        },
        { withinMs: DRAINED_WITHIN_MS, everyMs: 1000 },
      )
      const topics = topicBytes(hub.dataDir)
      await sql`VACUUM`
      const tables = await sql<ReadonlyArray<{ name: string; heap: string; total: string }>>`
        SELECT n.nspname || '.' || coalesce(p.relname, c.relname) AS name,
               sum(pg_table_size(c.oid))::text AS heap, sum(pg_total_relation_size(c.oid))::text AS total
          FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
          LEFT JOIN pg_inherits i ON i.inhrelid = c.oid LEFT JOIN pg_class p ON p.oid = i.inhparent
         WHERE c.relkind = 'r' AND n.nspname IN ('command', 'read', 'webhooks') GROUP BY 1 ORDER BY sum(pg_total_relation_size(c.oid)) DESC`
      const perMessage = (bytes: number): string => (bytes / count).toFixed(0).padStart(7)
      log(`${count} messages, bytes per message (the same number is MB per million messages)`)
      for (const [topic, bytes] of [...topics].toSorted((a, b) => b[1] - a[1])) {
        if (bytes >= count) log(`${perMessage(bytes)}  ${topic}`)
      }
      for (const { heap, name, total } of tables) {
        if (Number(total) >= 5 * count) {
          log(
            `${perMessage(Number(total))}  ${name} (of which indexes ${((Number(total) - Number(heap)) / count).toFixed(0)})`,
          )
        }
      }
      const figures = [...topics, ...tables.map(({ name, total }) => [name, Number(total)] as const)]
      storeAlone(
        'disk',
        Object.fromEntries(
          figures
            .map(([name, bytes]) => [name, bytes / count] as const)
            .filter(([, bytes]) => bytes >= SHOWN_BYTES)
            .toSorted(([, a], [, b]) => b - a),
        ),
      )
    } finally {
      await sql.end()
    }
  } finally {
    await hub.stop()
  }
}
