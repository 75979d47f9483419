/**
 * Fills the read models with any number of rows. It replaces this month's partitions with filled
 * tables. Some thousand rows are complete, as the projector writes them, and the API can read them;
 * the others only take space. Tables are filled without indexes, which are created afterwards:
 * inserting into indexes row by row would take minutes.
 */
import { randomBytes } from 'node:crypto'
import { decodeId, encodeId, newId } from '@hub/domain'
import { encodePayload, PayloadEncryption } from '@hub/store'
import { Effect } from 'effect'
import postgres from 'postgres'
import { EVENT_JSON } from '../test/support/fanout-fixture.ts'
import type { ReadModelEnvironment } from './read-model-environment.ts'

export interface FilledTables {
  /** Ids (`msg_…`) of complete messages, spread over the table. */
  readonly messages: ReadonlyArray<string>
  /** Events before complete ones: id (`evt_…`), sequence number, time of recording (ISO). */
  readonly cursors: ReadonlyArray<{ readonly event: string; readonly sequence: number; readonly at: string }>
}

const COMPLETE_MESSAGES = 20_000
/** Number of ranges of complete events in the event journal. Each range is two pages long. */
const RANGES = 20
const COMPLETE_EVENTS = 2000
/** All messages were accepted within this time, or since the beginning of the month. */
const SPAN_MS = 6 * 3_600_000

const HASH = `sha256(int8send(n))`
/** The time of row `n`, seconds since the epoch. Exact numbers would double the cost of a row. */
const secondsOf = (from: string, to: string, rows: string): string =>
  `((${from}::bigint + n * (${to}::bigint - ${from}::bigint) / ${rows}::bigint)::float8 / 1000)`

/** Ids and times that the tables share. Computing them costs more than writing them. */
const COMMON = `
  INSERT INTO read.filled (n, id, at)
  SELECT n, uuidv7(make_interval(secs => ${secondsOf('$1', '$2', '$3')} - extract(epoch FROM now())::float8)),
         to_timestamp(${secondsOf('$1', '$2', '$3')})
    FROM generate_series(1, $3::bigint) n`

/** Parameters: account, first and last time (milliseconds since the epoch), number of rows. */
const FILLERS: Readonly<Record<string, string>> = {
  messages: `
    INSERT INTO read.messages_filled (id, account, mode, class, recipient, template, sender, client_ref, parts, price, currency, variables,
                                      created_at, updated_at, status, rank, final, attempts, handed_over)
    SELECT id, $1::uuid, 'test', 'service', ${HASH}, 'order_ready', 'HUB', n::text, 1, 1.50, 'RUB', '{order}', at, at,
           'delivered', 3, true, 1, true
      FROM read.filled`,
  message_history: `
    INSERT INTO read.message_history_filled (message_id, fact_id, status, at)
    SELECT id, gen_random_uuid(), 'delivered', at FROM read.filled`,
  personal_data: `
    INSERT INTO read.personal_data_filled (message_id, recipient, created_at, sealing_key, sealed)
    SELECT id, ${HASH}, at, 'filled', decode(repeat('00', 128), 'hex') FROM read.filled`,
  operator_ids: `
    INSERT INTO read.operator_ids_filled (operator, operator_id, message_id, sent_at)
    SELECT 'smpp', gen_random_uuid()::text, id, at FROM read.filled`,
  events: `
    INSERT INTO read.events_filled (account, mode, sequence, id, type, created_at, body)
    SELECT $1::uuid, 'test', n, gen_random_uuid(), 'message.delivered', to_timestamp(${secondsOf('$2', '$3', '$4')}),
           CASE WHEN n % ($4::bigint / ${RANGES}) < ${COMPLETE_EVENTS} THEN ${EVENT_JSON} ELSE '{}' END
      FROM generate_series(1, $4::bigint) n`,
}
/** The same messages in the ledger. */
const LEDGER_FILLERS: Readonly<Record<string, string>> = {
  client_refs: `
    INSERT INTO command.client_refs (account, mode, client_ref, message_id, created_at)
    SELECT $1::uuid, 'test', 'filled-' || n, id, at FROM read.filled`,
  acceptances: `
    INSERT INTO command.acceptances (message_id, account, mode, class, recipient, to_masked, template, sender, client_ref, parts, price,
                                     currency, variables, created_at, expires_at, sealing_key, sealed)
    SELECT id, $1::uuid, 'test', 'service', ${HASH}, '+7900***0000', 'order_ready', 'HUB', 'filled-' || n, 1, 1.50,
           'RUB', '{order}', at, at + interval '1 day', 'filled', decode(repeat('00', 128), 'hex')
      FROM read.filled`,
}
/** How many of the parameters each statement uses, counted from the first. */
const PARAMETERS: Readonly<Record<string, number>> = { messages: 1, events: 4 }

/** Writes the complete messages: three status changes each, and valid personal data. */
const writeComplete = async (
  environment: ReadModelEnvironment,
  sql: postgres.Sql,
  account: string,
  from: number,
  to: number,
): Promise<ReadonlyArray<string>> => {
  const key = await environment.runtime.runPromise(
    Effect.flatMap(PayloadEncryption, (encryption) => encryption.keyOfDay(to)),
  )
  const rows = Array.from({ length: COMPLETE_MESSAGES }, (_, i) => {
    const at = Math.floor(from + ((i + 0.5) * (to - from)) / COMPLETE_MESSAGES)
    const id = newId('msg', at, randomBytes(10))
    const content = {
      to: '+79001234567',
      text: 'Заказ 1234 готов, ждём вас до 20:00',
      variables: { order: '1234' },
    }
    const box = key!.encrypt(id, encodePayload(content))
    return {
      id,
      uuid: decodeId('msg', id)!,
      at: new Date(at).toISOString(),
      box: `\\x${box.toString('hex')}`,
    }
  })
  const [ids, moments] = [rows.map((row) => row.uuid), rows.map((row) => row.at)]
  await sql`
    INSERT INTO read.messages_filled (id, account, mode, class, recipient, template, sender, client_ref, parts, price, currency, variables,
                                      created_at, updated_at, status, rank, final, attempts, handed_over)
    SELECT id, ${account}, 'test', 'service', sha256(uuid_send(id)), 'order_ready', 'HUB', id::text, 1, 1.50, 'RUB', '{order}', at, at,
           'delivered', 3, true, 1, true
      FROM unnest(${ids}::uuid[], ${moments}::timestamptz[]) AS w (id, at)`
  await sql`
    INSERT INTO read.message_history_filled (message_id, fact_id, status, at)
    SELECT id, gen_random_uuid(), status, at
      FROM unnest(${ids}::uuid[], ${moments}::timestamptz[]) AS w (id, at), unnest('{accepted,sent,delivered}'::text[]) AS status`
  await sql`
    INSERT INTO read.personal_data_filled (message_id, recipient, created_at, sealing_key, sealed)
    SELECT id, sha256(uuid_send(id)), at, ${key!.id}, box::bytea
      FROM unnest(${ids}::uuid[], ${moments}::timestamptz[], ${rows.map((row) => row.box)}::text[]) AS w (id, at, box)`
  return rows.map((row) => row.id)
}

/** Replaces this month's partition of a table with the filled table. */
const attach = async (sql: postgres.Sql, table: string, month: string): Promise<void> => {
  const [{ bound } = { bound: '' }] = await sql<{ bound: string }[]>`
    SELECT pg_get_expr(relpartbound, oid) AS bound FROM pg_class WHERE oid = ${`read.${table}_${month}`}::regclass`
  await sql.begin(async (q) => {
    await q.unsafe(`ALTER TABLE read.${table} DETACH PARTITION read.${table}_${month}`)
    await q.unsafe(`DROP TABLE read.${table}_${month}`)
    await q.unsafe(`ALTER TABLE read.${table}_filled RENAME TO ${table}_${month}`)
    // ATTACH creates the indexes of the parent table on the partition.
    await q.unsafe(`ALTER TABLE read.${table} ATTACH PARTITION read.${table}_${month} ${bound}`)
  })
  await sql.unsafe(`ANALYZE read.${table}_${month}`)
}

/** Replaces this month's rows by `rows` test messages and events of an account (`acc_…`). */
export const fillTables = async (
  environment: ReadModelEnvironment,
  account: string,
  rows: number,
): Promise<FilledTables> => {
  const sql = postgres(environment.databaseUrl, {
    max: 3,
    onnotice: () => {},
    connection: {
      application_name: 'bench',
      maintenance_work_mem: '512MB',
      synchronous_commit: false,
    },
  })
  const owner = decodeId('acc', account)!
  const now = Date.now()
  const monthBegan = Date.UTC(new Date(now).getUTCFullYear(), new Date(now).getUTCMonth())
  const from = Math.max(monthBegan, now - SPAN_MS)
  const month = new Date(now).toISOString().slice(0, 7).replace('-', '')
  // One checkpoint at the end instead of one for each gigabyte.
  await sql`ALTER SYSTEM SET max_wal_size = '32GB'`
  await sql`SELECT pg_reload_conf()`
  const fill = async (...tables: ReadonlyArray<string>): Promise<void> => {
    for (const table of tables) {
      // In one transaction: with wal_level minimal, PostgreSQL then writes no log for the rows.
      await sql.begin(async (q) => {
        await q.unsafe(`CREATE TABLE read.${table}_filled (LIKE read.${table} INCLUDING DEFAULTS)`)
        await q.unsafe(FILLERS[table]!, [owner, from, now, rows].slice(0, PARAMETERS[table] ?? 0))
      })
    }
  }
  const attachAll = async (...tables: ReadonlyArray<string>): Promise<void> => {
    for (const table of tables) await attach(sql, table, month)
  }
  // Two branches that take about equally long, one for each core.
  await sql`CREATE UNLOGGED TABLE read.filled (n bigint, id uuid, at timestamptz)`
  const common = sql.unsafe(COMMON, [from, now, rows]).execute()
  await Promise.all([
    common.then(() => fill('messages', 'message_history')),
    fill('events').then(async () => {
      await common
      await fill('personal_data', 'operator_ids')
    }),
  ])
  const messages = await writeComplete(environment, sql, owner, from, now)
  await sql`DROP TABLE read.filled`
  await Promise.all([
    attachAll('messages', 'message_history', 'operator_ids'),
    attachAll('events', 'personal_data'),
  ])
  await sql`
    INSERT INTO read.event_heads (account, mode, sequence, last_at) VALUES (${owner}, 'test', ${rows}, now())
    ON CONFLICT (account, mode) DO UPDATE SET sequence = excluded.sequence`
  const sequences = Array.from({ length: RANGES - 1 }, (_, i) => Math.floor(rows / RANGES) * (i + 1))
  const events = await sql<{ id: string; sequence: string; at: Date }[]>`
    SELECT id, sequence, created_at AS at FROM read.events WHERE account = ${owner} AND mode = 'test' AND sequence = ANY (${sequences})`
  await sql`ALTER SYSTEM RESET max_wal_size`
  await sql`SELECT pg_reload_conf()`
  await sql`CHECKPOINT`
  await sql.end()
  return {
    messages,
    cursors: events.map(({ at, id, sequence }) => ({
      event: encodeId('evt', id),
      sequence: Number(sequence),
      at: at.toISOString(),
    })),
  }
}

/**
 * Adds `rows` messages of an account (UUID) to the tables of a running hub, one event each: read models,
 * and ledger. The account must get no other messages.
 */
export const addRows = async (databaseUrl: string, account: string, rows: number): Promise<void> => {
  const sql = postgres(databaseUrl, {
    max: 2,
    onnotice: () => {},
    connection: { application_name: 'bench', synchronous_commit: false },
  })
  const to = Date.now()
  const from = Math.max(Date.UTC(new Date(to).getUTCFullYear(), new Date(to).getUTCMonth()), to - SPAN_MS)
  const add = async (...tables: ReadonlyArray<string>): Promise<void> => {
    for (const table of tables) {
      const inLedger = LEDGER_FILLERS[table]
      const statement = inLedger ?? FILLERS[table]!.replace(`${table}_filled`, table)
      const count = inLedger === undefined ? (PARAMETERS[table] ?? 0) : 1
      await sql.unsafe(statement, [account, from, to, rows].slice(0, count))
      await sql.unsafe(`VACUUM (ANALYZE) ${inLedger === undefined ? 'read' : 'command'}.${table}`)
    }
  }
  await sql`CREATE UNLOGGED TABLE read.filled (n bigint, id uuid, at timestamptz)`
  await sql.unsafe(COMMON, [from, to, rows])
  await Promise.all([
    add('messages', 'message_history', 'client_refs'),
    add('events', 'personal_data', 'operator_ids', 'acceptances'),
  ])
  await sql`DROP TABLE read.filled`
  await sql`CHECKPOINT`
  await sql.end()
}
