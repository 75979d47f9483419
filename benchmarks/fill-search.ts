/** Fills the read models with many messages of many accounts, and some failed ones, for searches and lists. */
import { REJECTED_REASONS, UNDELIVERED_REASONS } from '@hub/domain'
import type postgres from 'postgres'

/** As many accounts as a typical hub has. */
const ACCOUNTS = 30
export const TEMPLATES = 10
/** All messages were accepted within this time, or since the beginning of the month. */
const SPAN_SECONDS = Math.floor(
  Math.min(3 * 86_400_000, Date.now() - Date.UTC(new Date().getUTCFullYear(), new Date().getUTCMonth())) /
    1000,
)
export const FILL_CONNECTION = {
  application_name: 'bench',
  maintenance_work_mem: '512MB',
  synchronous_commit: false,
}

/** The account of row `n`: most messages are of few accounts. */
const ACCOUNT = `accounts[1 + floor(${ACCOUNTS} * pow((n * 7919 % 10007) / 10007.0, 3))::integer]`

/** One message in 50 failed. One in 10,000 is of a rare template. */
const FILL: Readonly<Record<string, string>> = {
  messages: `
    INSERT INTO read.messages_filled (id, account, mode, class, recipient, template, sender, client_ref, parts, price, currency,
                                      variables, created_at, updated_at, status, reason_code, rank, final, attempts, handed_over)
    SELECT id, account, CASE WHEN n % 20 = 0 THEN 'test' ELSE 'live' END::command.mode,
           CASE WHEN n % 3 = 0 THEN 'otp' ELSE 'service' END::command.class, sha256(int8send(n)),
           CASE WHEN n % 10000 = 7 THEN 'rare' ELSE 'template_' || n % ${TEMPLATES} END, 'HUB', 'order-' || n, 1, 1.50, 'RUB', '{}',
           at, at, CASE WHEN n % 50 <> 0 THEN 'delivered' WHEN n % 100 = 0 THEN 'undelivered' ELSE 'rejected' END,
           CASE WHEN n % 50 <> 0 THEN NULL
                WHEN n % 100 = 0 THEN (ARRAY['${UNDELIVERED_REASONS.join("','")}'])[1 + n / 100 % ${UNDELIVERED_REASONS.length}]
                ELSE (ARRAY['${REJECTED_REASONS.join("','")}'])[1 + n / 100 % ${REJECTED_REASONS.length}] END,
           3, true, 1, true
      FROM search_rows`,
  personal_data: `
    INSERT INTO read.personal_data_filled (message_id, recipient, created_at, sealing_key, sealed)
    SELECT id, sha256(int8send(n)), at, 'filled', decode(repeat('00', 128), 'hex') FROM search_rows`,
  operator_ids: `
    INSERT INTO read.operator_ids_filled (operator, operator_id, message_id, sent_at)
    SELECT 'smpp', 'part-' || n, id, at FROM search_rows`,
}

/** Fills this month's partitions without indexes, which are created afterwards. */
export const fillSearch = async (sql: postgres.Sql, messages: number): Promise<void> => {
  await sql`CREATE UNLOGGED TABLE search_accounts (n integer, id uuid)`
  await sql`INSERT INTO search_accounts SELECT n, gen_random_uuid() FROM generate_series(1, ${ACCOUNTS}::integer) n`
  await sql`INSERT INTO command.accounts (id, name) SELECT id, 'account ' || n FROM search_accounts`
  await sql`CREATE UNLOGGED TABLE search_rows (n bigint, id uuid, at timestamptz, account uuid)`
  await sql.unsafe(
    `INSERT INTO search_rows
     SELECT n, uuidv7(make_interval(secs => -${SPAN_SECONDS} * (1 - n::float8 / $1::bigint))),
            now() - make_interval(secs => ${SPAN_SECONDS} * (1 - n::float8 / $1::bigint)), ${ACCOUNT}
       FROM generate_series(1, $1::bigint) n,
            (SELECT array_agg(id ORDER BY n) AS accounts FROM search_accounts) AS all_accounts`,
    [messages],
  )
  const month = new Date().toISOString().slice(0, 7).replace('-', '')
  for (const [table, statement] of Object.entries(FILL)) {
    const [row] = await sql<{ bound: string }[]>`
      SELECT pg_get_expr(relpartbound, oid) AS bound FROM pg_class WHERE oid = ${`read.${table}_${month}`}::regclass`
    await sql.begin(async (q) => {
      await q.unsafe(`CREATE TABLE read.${table}_filled (LIKE read.${table} INCLUDING DEFAULTS)`)
      await q.unsafe(statement)
    })
    await sql.begin(async (q) => {
      await q.unsafe(`ALTER TABLE read.${table} DETACH PARTITION read.${table}_${month}`)
      await q.unsafe(`DROP TABLE read.${table}_${month}`)
      await q.unsafe(`ALTER TABLE read.${table}_filled RENAME TO ${table}_${month}`)
      await q.unsafe(`ALTER TABLE read.${table} ATTACH PARTITION read.${table}_${month} ${row!.bound}`)
    })
    await sql.unsafe(`ANALYZE read.${table}_${month}`)
    console.log(`filled ${table}`)
  }
  await sql`
    INSERT INTO command.client_refs (account, mode, client_ref, message_id, created_at)
    SELECT account, 'live', 'order-' || n, id, at FROM search_rows WHERE n % 10 = 1`
  await sql`ANALYZE command.client_refs`
}
