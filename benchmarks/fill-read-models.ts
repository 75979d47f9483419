/**
 * Fills the tables of messages with any number of rows. Tables are filled without indexes, which are
 * created afterwards: to insert into indexes row by row takes several times as long.
 */
import { randomBytes } from 'node:crypto'
import { decodeId, encodeId, newId } from '@hub/domain'
import { encodePayload, PayloadEncryption } from '@hub/store'
import { Effect } from 'effect'
import type postgres from 'postgres'
import { EVENT_JSON } from '../test/support/fanout-fixture.ts'
import { bulkConnection, withBulkSettings, withoutIndexes } from './bulk-fill.ts'
import { EVENTS_PER_MESSAGE } from './event-journal.ts'
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
/** Of the newest message, in a hub that runs: all messages that it has accepted are newer. */
const AGE_MS = 1_800_000

/** Encrypted bytes. */
const SEALED = `decode(repeat('00', 128), 'hex')`

/** The messages of a fill. */
interface Filling {
  /** UUID of their account. */
  readonly account: string
  readonly mode: 'live' | 'test'
  /** The times of the first and of the last message, ms since the epoch. */
  readonly from: number
  readonly to: number
  readonly rows: number
}

/** The time of row `n` of `rows`, seconds since the epoch. Exact numbers would double the cost of a row. */
const secondsOf = ({ from, to }: Filling, rows: number): string =>
  `((${from}::bigint + n * ${to - from}::bigint / ${rows}::bigint)::float8 / 1000)`

/** Runs `fill` while `read.filled` has what the tables share. Computing that costs more than writing it. */
const withCommon = async (
  sql: postgres.Sql,
  filling: Filling,
  fill: (filled: Promise<unknown>) => Promise<unknown>,
): Promise<void> => {
  const seconds = secondsOf(filling, filling.rows)
  await sql`CREATE UNLOGGED TABLE read.filled (n bigint, id uuid, at timestamptz, recipient bytea)`
  await fill(
    sql
      .unsafe(
        `INSERT INTO read.filled (n, id, at, recipient)
         SELECT n, uuidv7(make_interval(secs => ${seconds} - extract(epoch FROM now())::float8)), to_timestamp(${seconds}),
                sha256(int8send(n))
           FROM generate_series(1, ${filling.rows}::bigint) n`,
      )
      .execute(),
  )
  await sql`DROP TABLE read.filled`
}

/** Inserts delivered messages into the tables, by their names. `into`: the name of the table that gets them. */
const fillers = (filling: Filling) => {
  const { account, mode, rows } = filling
  const events = EVENTS_PER_MESSAGE * rows
  return {
    messages: (into: string) => `
      INSERT INTO ${into} (id, account, mode, class, recipient, template, sender, client_ref, parts, price, currency, variables,
                           created_at, updated_at, status, rank, final, attempts, handed_over)
      SELECT id, '${account}', '${mode}', 'service', recipient, 'order_ready', 'HUB', n::text, 1, 1.50, 'RUB', '{order}', at, at,
             'delivered', 3, true, 1, true
        FROM read.filled`,
    /** One line of each message. */
    lastHistory: (into: string) => `
      INSERT INTO ${into} (message_id, fact_id, status, at)
      SELECT id, gen_random_uuid(), 'delivered', at FROM read.filled`,
    /** The ids of facts are unique within a message. */
    history: (into: string) => `
      INSERT INTO ${into} (message_id, fact_id, status, at)
      SELECT id, fact, status, at
        FROM read.filled,
             (SELECT gen_random_uuid() AS fact, status FROM unnest('{accepted,sent,delivered}'::text[]) AS status) AS changes`,
    personalData: (into: string) => `
      INSERT INTO ${into} (message_id, recipient, created_at, sealing_key, sealed)
      SELECT id, recipient, at, 'filled', ${SEALED} FROM read.filled`,
    operatorIds: (into: string) => `
      INSERT INTO ${into} (operator, operator_id, message_id, sent_at)
      SELECT 'smpp', gen_random_uuid()::text, id, at FROM read.filled`,
    charges: (into: string) => `
      INSERT INTO ${into} (message_id, kind, account, period, amount, currency, created_at)
      SELECT id, 'charge', '${account}', date_trunc('month', at AT TIME ZONE 'UTC'), 1.50, 'RUB', at FROM read.filled`,
    /** One event of each message. Most of them have no body. */
    emptyEvents: (into: string) => `
      INSERT INTO ${into} (account, mode, sequence, id, type, created_at, body)
      SELECT '${account}', '${mode}', n, gen_random_uuid(), 'message.delivered', to_timestamp(${secondsOf(filling, rows)}),
             CASE WHEN n % (${rows}::bigint / ${RANGES}) < ${COMPLETE_EVENTS} THEN ${EVENT_JSON} ELSE '{}' END
        FROM generate_series(1, ${rows}::bigint) n`,
    /** All have the body of the first one, which is as long as theirs. */
    events: (into: string) => `
      INSERT INTO ${into} (account, mode, sequence, id, type, created_at, body)
      SELECT '${account}', '${mode}', n, gen_random_uuid(),
             (ARRAY['message.accepted', 'message.sent', 'message.delivered'])[1 + (n - 1) % ${EVENTS_PER_MESSAGE}],
             to_timestamp(${secondsOf(filling, events)}), body
        FROM generate_series(1, ${events}::bigint) n,
             (SELECT ${EVENT_JSON} AS body FROM generate_series(1, 1) n OFFSET 0) AS first`,
    clientRefs: (into: string) => `
      INSERT INTO ${into} (account, mode, client_ref, message_id, created_at)
      SELECT '${account}', '${mode}', 'filled-' || n, id, at FROM read.filled`,
    acceptances: (into: string) => `
      INSERT INTO ${into} (message_id, account, mode, class, recipient, to_masked, template, sender, client_ref, parts, price,
                           currency, variables, created_at, expires_at, sealing_key, sealed)
      SELECT id, '${account}', '${mode}', 'service', recipient, '+7900***0000', 'order_ready', 'HUB', 'filled-' || n, 1, 1.50,
             'RUB', '{order}', at, at + interval '1 day', 'filled', ${SEALED}
        FROM read.filled`,
  }
}

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
  const sql = bulkConnection(environment.databaseUrl)
  const owner = decodeId('acc', account)!
  const now = Date.now()
  const monthBegan = Date.UTC(new Date(now).getUTCFullYear(), new Date(now).getUTCMonth())
  const from = Math.max(monthBegan, now - SPAN_MS)
  const month = new Date(now).toISOString().slice(0, 7).replace('-', '')
  const filling: Filling = { account: owner, mode: 'test', from, to: now, rows }
  const insert = fillers(filling)
  const fill = async (table: string, statement: (into: string) => string): Promise<void> => {
    // In one transaction: with wal_level minimal, PostgreSQL then writes no log for the rows.
    await sql.begin(async (q) => {
      await q.unsafe(`CREATE TABLE read.${table}_filled (LIKE read.${table} INCLUDING DEFAULTS)`)
      await q.unsafe(statement(`read.${table}_filled`))
    })
  }
  const attachAll = async (...tables: ReadonlyArray<string>): Promise<void> => {
    for (const table of tables) await attach(sql, table, month)
  }
  const messages = await withBulkSettings(sql, async () => {
    // Two branches that take about equally long, one for each core.
    await withCommon(sql, filling, (filled) =>
      Promise.all([
        filled
          .then(() => fill('messages', insert.messages))
          .then(() => fill('message_history', insert.lastHistory)),
        fill('events', insert.emptyEvents)
          .then(() => filled)
          .then(() => fill('personal_data', insert.personalData))
          .then(() => fill('operator_ids', insert.operatorIds)),
      ]),
    )
    const complete = await writeComplete(environment, sql, owner, from, now)
    await Promise.all([
      attachAll('messages', 'message_history', 'operator_ids'),
      attachAll('events', 'personal_data'),
    ])
    return complete
  })
  await sql`
    INSERT INTO read.event_heads (account, mode, sequence, last_at) VALUES (${owner}, 'test', ${rows}, now())
    ON CONFLICT (account, mode) DO UPDATE SET sequence = excluded.sequence`
  const sequences = Array.from({ length: RANGES - 1 }, (_, i) => Math.floor(rows / RANGES) * (i + 1))
  const events = await sql<{ id: string; sequence: string; at: Date }[]>`
    SELECT id, sequence, created_at AS at FROM read.events WHERE account = ${owner} AND mode = 'test' AND sequence = ANY (${sequences})`
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
 * Adds `rows` delivered messages of an account (UUID) to all tables of a running hub: read models and
 * ledger. The account must get no other messages, and nobody may send meanwhile.
 */
export const addRows = async (
  databaseUrl: string,
  account: string,
  rows: number,
  log: (line: string) => void,
): Promise<void> => {
  const sql = bulkConnection(databaseUrl)
  const now = Date.now()
  const today = new Date(now).setUTCHours(0, 0, 0, 0)
  const to = Math.max(today + 1, now - AGE_MS)
  const filling: Filling = { account, mode: 'live', from: Math.max(today, to - SPAN_MS), to, rows }
  const insert = fillers(filling)
  const day = new Date(to).toISOString().slice(0, 10).replaceAll('-', '')
  const month = day.slice(0, 6)
  /** `partition`: of the day or of the month. PostgreSQL need not find it for each row. */
  const add = async (
    table: string,
    statement: (into: string) => string,
    partition?: string,
  ): Promise<void> => {
    const started = performance.now()
    const into = partition === undefined ? table : `${table}_${partition}`
    await withoutIndexes(sql, table, () => sql.unsafe(statement(into)))
    log(`${table} has ${rows} more messages after ${((performance.now() - started) / 1000).toFixed(1)} s`)
  }
  await withBulkSettings(sql, () =>
    withCommon(sql, filling, async (filled) => {
      await filled
      // Two branches that take about equally long, one for each core.
      const branches = [
        async () => {
          await add('read.messages', insert.messages, month)
          await add('read.message_history', insert.history, month)
          await add('read.operator_ids', insert.operatorIds, month)
          await add('read.charges', insert.charges)
          await add('command.client_refs', insert.clientRefs)
          // Last: the reconciler would append a message that is not in `read.messages` to Kafka again.
          await add('command.acceptances', insert.acceptances, day)
        },
        async () => {
          await add('read.events', insert.events, month)
          await add('read.personal_data', insert.personalData, month)
        },
      ]
      await Promise.all(branches.map((branch) => branch()))
    }),
  )
  await sql.end()
}
