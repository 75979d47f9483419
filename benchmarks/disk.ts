/**
 * What a message leaves on disk: sends messages of both classes through a hub of its own, in the sandbox, and weighs topics and tables.
 *
 *   node benchmarks/disk.ts [messages]
 */
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { eventually, openDatabase } from '@hub/testkit'
import { startHub } from '../test/support/hub.ts'
import { client } from '../test/support/client.ts'

const MESSAGES = Number(process.argv[2] ?? 20_000)
const BATCH = 500
/** A bound on what hangs. */
const DRAINED_WITHIN_MS = 600_000

const hub = await startHub({ apiRps: 100_000 })
try {
  const { base_url, database_url, keys } = hub.describe()
  const sender = client(base_url, keys.test)
  for (let from = 0; from < MESSAGES;) {
    const messages = Array.from({ length: Math.min(BATCH, MESSAGES - from) }, (_, i) => ({
      to: `+7916${String(from + i).padStart(7, '0')}`,
      client_ref: `order-${from + i}`,
      ...((from + i) % 2 === 0
        ? { class: 'otp', template: 'otp_code', variables: { code: '4821' } }
        : { class: 'service', template: 'order_ready', variables: { order: `A-${from + i}` } }),
    }))
    const { body, status } = await sender.post('/v1/messages/batch', { messages })
    const isWhole = status === 202 && body.counts.rejected === 0
    // The same references again: what is there already is a duplicate.
    if (isWhole) from += messages.length
    else await new Promise((resolve) => setTimeout(resolve, 500))
  }
  const sql = openDatabase(database_url)
  try {
    await eventually(
      async () => {
        const [row] = await sql<[{ done: number }]>`
          SELECT count(*)::int AS done FROM read.messages WHERE status = 'delivered'`
        if (row.done < MESSAGES) throw new Error(`${row.done} of ${MESSAGES} are delivered`)
        return true
      },
      { withinMs: DRAINED_WITHIN_MS, everyMs: 1000 },
    )
    const topics = new Map<string, number>()
    const data = join(hub.dataDir, 'kafka/data')
    for (const folder of readdirSync(data)) {
      const topic = /^(?<topic>hub\..+)-\d+$/u.exec(folder)?.groups?.['topic']
      if (topic === undefined) continue
      for (const file of readdirSync(join(data, folder))) {
        if (!file.endsWith('.log')) continue
        topics.set(topic, (topics.get(topic) ?? 0) + statSync(join(data, folder, file)).size)
      }
    }
    await sql`VACUUM`
    const tables = await sql<ReadonlyArray<{ name: string; heap: string; total: string }>>`
      SELECT n.nspname || '.' || coalesce(p.relname, c.relname) AS name,
             sum(pg_table_size(c.oid))::text AS heap, sum(pg_total_relation_size(c.oid))::text AS total
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        LEFT JOIN pg_inherits i ON i.inhrelid = c.oid LEFT JOIN pg_class p ON p.oid = i.inhparent
       WHERE c.relkind = 'r' AND n.nspname IN ('command', 'read', 'webhooks') GROUP BY 1 ORDER BY sum(pg_total_relation_size(c.oid)) DESC`
    const each = (bytes: number): string => (bytes / MESSAGES).toFixed(0).padStart(7)
    console.log(`${MESSAGES} messages, bytes a message (the same number is MB a million messages)`)
    for (const [topic, bytes] of [...topics].toSorted((a, b) => b[1] - a[1])) {
      if (bytes >= MESSAGES) console.log(`${each(bytes)}  ${topic}`)
    }
    for (const { heap, name, total } of tables) {
      if (Number(total) >= 5 * MESSAGES) {
        console.log(
          `${each(Number(total))}  ${name} (of it indexes ${((Number(total) - Number(heap)) / MESSAGES).toFixed(0)})`,
        )
      }
    }
  } finally {
    await sql.end()
  }
} finally {
  await hub.stop()
}
