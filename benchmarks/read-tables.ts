/**
 * Read models of any size: the tables of this month are exchanged for ones with so many rows, some thousands of which are as the projector writes
 * them and can be read by the API, and the others only take their room. Filled without indexes, which are then made at once: row by row
 * into indexes it would take minutes.
 */
import { randomBytes } from 'node:crypto'
import { decodeId, encodeId, newId } from '@hub/domain'
import { PayloadEncryption } from '@hub/store'
import { Effect } from 'effect'
import postgres from 'postgres'
import type { KnowingWorld } from './knowing-world.ts'

export interface FilledTables {
  /** Ids of messages that are whole, all over the table (`msg_…`). */
  readonly messages: ReadonlyArray<string>
  /** Events all over the journal behind which are whole ones: id (`evt_…`), sequence number, and moment of recording (ISO). */
  readonly cursors: ReadonlyArray<{ readonly event: string; readonly sequence: number; readonly at: string }>
}

const WHOLE_MESSAGES = 20_000
/** Places in the journal with as many whole events as two pages have. */
const PLACES = 20
const WHOLE_EVENTS = 2000
/** Everything was accepted within so long, unless the month is younger. */
const SPAN_MS = 6 * 3_600_000

/** About as long as an event of a message is. */
const BODY = `
  '{"id":"evt_' || lpad(n::text, 26, '0') || '","object":"event","type":"message.delivered","created_at":"2026-11-21T09:30:01.260Z",'
  || '"mode":"test","data":{"object":{"id":"msg_' || lpad(n::text, 26, '0') || '","object":"message","status":"delivered","final":true,'
  || '"class":"service","reason_code":null,"client_ref":"order-' || n || '","batch":null,"template":"order_ready",'
  || '"created_at":"2026-11-21T09:30:00.100Z","parts":1,"price":{"amount":"1.50","currency":"RUB"}}}}'`

const HASH = `sha256(int8send(n))`
/** The moment of row `n`, seconds since the epoch. In floating point: with exact numbers it would cost as much as the row. */
const secondsOf = (from: string, to: string, rows: string): string =>
  `((${from}::bigint + n * (${to}::bigint - ${from}::bigint) / ${rows}::bigint)::float8 / 1000)`

/** What the tables have in common, made once because it costs more than to write it: ids, each of about the moment of its row, and moments. */
const COMMON = `
  INSERT INTO read.filled (n, id, at)
  SELECT n, uuidv7(make_interval(secs => ${secondsOf('$1', '$2', '$3')} - extract(epoch FROM now())::float8)),
         to_timestamp(${secondsOf('$1', '$2', '$3')})
    FROM generate_series(1, $3::bigint) n`

/** Parameters: account, first and last moment (milliseconds since the epoch), rows. */
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
           CASE WHEN n % ($4::bigint / ${PLACES}) < ${WHOLE_EVENTS} THEN ${BODY} ELSE '{}' END
      FROM generate_series(1, $4::bigint) n`,
}
/** How many of the parameters a statement takes, from the first on. */
const PARAMETERS: Readonly<Record<string, number>> = { messages: 1, events: 4 }

/** The messages that are whole: three changes of status, a box that opens. */
const writeWhole = async (
  world: KnowingWorld,
  sql: postgres.Sql,
  account: string,
  from: number,
  to: number,
): Promise<ReadonlyArray<string>> => {
  const key = await world.runtime.runPromise(
    Effect.flatMap(PayloadEncryption, (payloadEncryption) => payloadEncryption.keyOfDay(to)),
  )
  const rows = Array.from({ length: WHOLE_MESSAGES }, (_, i) => {
    const at = Math.floor(from + ((i + 0.5) * (to - from)) / WHOLE_MESSAGES)
    const id = newId('msg', at, randomBytes(10))
    const content = {
      to: '+79001234567',
      text: 'Заказ 1234 готов, ждём вас до 20:00',
      variables: { order: '1234' },
    }
    const box = key!.encrypt(id, Buffer.from(JSON.stringify(content)))
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

/** Exchanges this month's part of a table for the one that was filled. */
const attach = async (sql: postgres.Sql, table: string, month: string): Promise<void> => {
  const [{ bound } = { bound: '' }] = await sql<{ bound: string }[]>`
    SELECT pg_get_expr(relpartbound, oid) AS bound FROM pg_class WHERE oid = ${`read.${table}_${month}`}::regclass`
  await sql.begin(async (q) => {
    await q.unsafe(`ALTER TABLE read.${table} DETACH PARTITION read.${table}_${month}`)
    await q.unsafe(`DROP TABLE read.${table}_${month}`)
    await q.unsafe(`ALTER TABLE read.${table}_filled RENAME TO ${table}_${month}`)
    // What the table has indexes on, the part gets.
    await q.unsafe(`ALTER TABLE read.${table} ATTACH PARTITION read.${table}_${month} ${bound}`)
  })
  await sql.unsafe(`ANALYZE read.${table}_${month}`)
}

/** Fills the tables with so many messages and events of an account (`acc_…`) in test mode; what was there this month goes. */
export const fillTables = async (
  world: KnowingWorld,
  account: string,
  rows: number,
): Promise<FilledTables> => {
  const sql = postgres(world.databaseUrl, {
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
  // One checkpoint behind all of it, in place of one for each gigabyte.
  await sql`ALTER SYSTEM SET max_wal_size = '32GB'`
  await sql`SELECT pg_reload_conf()`
  const fill = async (...tables: ReadonlyArray<string>): Promise<void> => {
    for (const table of tables) {
      // In one transaction: what is in a new table is then not written to the log as well, where there is the least of that.
      await sql.begin(async (q) => {
        await q.unsafe(`CREATE TABLE read.${table}_filled (LIKE read.${table} INCLUDING DEFAULTS)`)
        await q.unsafe(FILLERS[table]!, [owner, from, now, rows].slice(0, PARAMETERS[table] ?? 0))
      })
    }
  }
  const attachAll = async (...tables: ReadonlyArray<string>): Promise<void> => {
    for (const table of tables) await attach(sql, table, month)
  }
  // Two cores, and what takes about as long on each.
  await sql`CREATE UNLOGGED TABLE read.filled (n bigint, id uuid, at timestamptz)`
  const common = sql.unsafe(COMMON, [from, now, rows]).execute()
  await Promise.all([
    common.then(() => fill('messages', 'message_history')),
    fill('events').then(async () => {
      await common
      await fill('personal_data', 'operator_ids')
    }),
  ])
  const messages = await writeWhole(world, sql, owner, from, now)
  await sql`DROP TABLE read.filled`
  await Promise.all([
    attachAll('messages', 'message_history', 'operator_ids'),
    attachAll('events', 'personal_data'),
  ])
  await sql`
    INSERT INTO read.event_heads (account, mode, sequence, last_at) VALUES (${owner}, 'test', ${rows}, now())
    ON CONFLICT (account, mode) DO UPDATE SET sequence = excluded.sequence`
  const sequences = Array.from({ length: PLACES - 1 }, (_, i) => Math.floor(rows / PLACES) * (i + 1))
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
