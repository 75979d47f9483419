/**
 * The bytes of a delivered message in PostgreSQL, by table and index: growth of the files, write-ahead log and rows.
 * They depend on the schema, and hardly on the machine. Prints them, and writes nothing.
 */
import type { Sql } from 'postgres'
import { startHubProcess } from '../../test/support/hub.ts'
import type { Log } from './section.ts'
import { makeMeasurement } from './cost-loads.ts'
import { awaitEvents } from './event-journal.ts'

const BATCHES = 5
/** Ends a run that hangs: a busy machine may be slow, because no time is measured. */
const JOURNAL_WITHIN_MS = 600_000

/** Bytes, without full pages in the log, and its records. Updates that change no index are hot. */
interface Relation {
  readonly name: string
  readonly size: number
  readonly log: number
  readonly inserts: number
  readonly updates: number
  readonly hot: number
}

/** Partitions count for their table or index. */
const nameOf = (sql: Sql) => sql`n.nspname || '.' || coalesce(p.relname, c.relname)`
const joined = (sql: Sql) => sql`
  JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_inherits i ON i.inhrelid = c.oid LEFT JOIN pg_class p ON p.oid = i.inhparent`

export const runBytes = async (log: Log, [batches]: ReadonlyArray<string>): Promise<void> => {
  const hub = await startHubProcess({ apiRps: 1_000_000 })
  try {
    const { senders, sql } = makeMeasurement(hub, log)
    const { keys } = hub.describe()
    let sent = 0
    const send = async (count: number): Promise<number> => {
      const { accepted } = await senders.batches(keys.live, count)
      sent += accepted
      await awaitEvents(sql, sent, JOURNAL_WITHIN_MS)
      return accepted
    }
    await sql`CREATE EXTENSION pg_walinspect`
    // The first pages of empty tables would count for a few thousand messages.
    await send(1)
    await sql`CHECKPOINT`
    const sizes = async () => {
      const rows = await sql<ReadonlyArray<{ name: string; size: string }>>`
        SELECT ${nameOf(sql)} AS name, sum(pg_table_size(c.oid))::text AS size
          FROM pg_class c ${joined(sql)}
         WHERE c.relkind IN ('r', 'i') AND n.nspname IN ('command', 'read', 'webhooks') GROUP BY 1`
      return new Map(rows.map(({ name, size }) => [name, Number(size)]))
    }
    const lsn = async () => (await sql<[{ lsn: string }]>`SELECT pg_current_wal_lsn()::text AS lsn`)[0].lsn
    const [before, start] = [await sizes(), await lsn()]
    const messages = await send(Number(batches ?? BATCHES))
    const [after, end] = [await sizes(), await lsn()]
    const written = await sql<ReadonlyArray<Omit<Relation, 'size'>>>`
      SELECT ${nameOf(sql)} AS name, sum(r.record_length - r.fpi_length)::float8 AS log,
             sum(CASE WHEN r.record_type = 'MULTI_INSERT' THEN substring(r.description FROM 'ntuples: ([0-9]+)')::int
                      WHEN r.record_type IN ('INSERT', 'INSERT+INIT', 'INSERT_LEAF') THEN 1 ELSE 0 END)::int AS inserts,
             count(*) FILTER (WHERE r.record_type LIKE 'UPDATE%')::int AS updates,
             count(*) FILTER (WHERE r.record_type LIKE 'HOT_UPDATE%')::int AS hot
        FROM pg_get_wal_records_info(${start}, ${end}) r
       CROSS JOIN LATERAL (SELECT (regexp_match(r.block_ref, 'rel [0-9]+/[0-9]+/([0-9]+)'))[1]::oid AS node) AS b
        JOIN pg_class c ON pg_relation_filenode(c.oid) = b.node ${joined(sql)}
       WHERE n.nspname IN ('command', 'read', 'webhooks', 'pg_toast') GROUP BY 1`
    const relations = written.map((one) => ({
      ...one,
      size: (after.get(one.name) ?? 0) - (before.get(one.name) ?? 0),
    }))
    const each = (value: number): number => Number((value / messages).toFixed(value / messages < 10 ? 2 : 0))
    const sum = (of: (one: Relation) => number): number => relations.reduce((all, one) => all + of(one), 0)
    console.table(
      [
        ...relations.toSorted((a, b) => b.log - a.log),
        {
          name: 'all',
          size: sum(({ size }) => size),
          log: sum((one) => one.log),
          inserts: sum(({ inserts }) => inserts),
          updates: sum(({ updates }) => updates),
          hot: sum(({ hot }) => hot),
        },
      ]
        .filter((one) => one.log >= messages)
        .map(({ hot, inserts, log: wal, name, size, updates }) => ({
          name,
          'on disk': each(size),
          log: each(wal),
          inserted: each(inserts),
          updated: each(updates),
          hot: each(hot),
        })),
    )
    log(`${messages} messages`)
  } finally {
    await hub.stop()
  }
}
