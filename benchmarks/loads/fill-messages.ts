/**
 * Fills the tables of messages with any number of rows. Tables are filled without indexes, which are
 * created afterwards: to insert into indexes row by row takes several times as long.
 */
import type postgres from 'postgres'
import { bulkConnection, withBulkSettings, withoutIndexes } from './bulk-fill.ts'
import { EVENTS_PER_MESSAGE } from '../measure/event-journal.ts'

/** All messages were accepted within this time, or since midnight. */
const SPAN_MS = 6 * 3_600_000
/** Of the newest message, in a hub that runs: all messages that it has accepted are newer. */
const AGE_MS = 1_800_000

/** Encrypted bytes. */
const SEALED = `decode(repeat('00', 128), 'hex')`

/** The messages of a fill. */
interface Filling {
  /** UUID of their account. */
  readonly account: string
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
  fill: () => Promise<unknown>,
): Promise<void> => {
  const seconds = secondsOf(filling, filling.rows)
  await sql`CREATE UNLOGGED TABLE read.filled (n bigint, id uuid, at timestamptz, recipient bytea)`
  await sql.unsafe(
    `INSERT INTO read.filled (n, id, at, recipient)
     SELECT n, uuidv7(make_interval(secs => ${seconds} - extract(epoch FROM now())::float8)), to_timestamp(${seconds}),
            sha256(int8send(n))
       FROM generate_series(1, ${filling.rows}::bigint) n`,
  )
  await fill()
  await sql`DROP TABLE read.filled`
}

/** Inserts delivered messages into the tables, by their names. `into`: the name of the table that gets them. */
const fillers = (filling: Filling) => {
  const { account, rows } = filling
  const events = EVENTS_PER_MESSAGE * rows
  return {
    messages: (into: string) => `
      INSERT INTO ${into} (id, account, mode, class, recipient, template, sender, client_ref, parts, price, currency, variables,
                           created_at, updated_at, status, rank, final, attempts, handed_over, sent_at, final_at)
      SELECT id, '${account}', 'live', 'service', recipient, 'order_ready', 'HUB', n::text, 1, 1.50, 'RUB', '{order}', at, at,
             'delivered', 3, true, 1, true, at, at
        FROM read.filled`,
    personalData: (into: string) => `
      INSERT INTO ${into} (message_id, recipient, created_at, sealing_key, sealed)
      SELECT id, recipient, at, 'filled', ${SEALED} FROM read.filled`,
    operatorIds: (into: string) => `
      INSERT INTO ${into} (operator, operator_id, message_id, sent_at)
      SELECT 'smpp', gen_random_uuid()::text, id, at FROM read.filled`,
    charges: (into: string) => `
      INSERT INTO ${into} (message_id, kind, account, period, amount, currency, created_at)
      SELECT id, 'charge', '${account}', date_trunc('month', at AT TIME ZONE 'UTC'), 1.50, 'RUB', at FROM read.filled`,
    /** As event-bodies.ts of @hub/store stores the texts. All have the message and the reference of the first one. */
    events: (into: string) => `
      INSERT INTO ${into} (account, mode, sequence, id, type, created_at, body)
      SELECT '${account}', 'live', n, gen_random_uuid(),
             (ARRAY['message.accepted', 'message.sent', 'message.delivered'])[1 + (n - 1) % ${EVENTS_PER_MESSAGE}],
             to_timestamp(${secondsOf(filling, events)}),
             lpad('1', 26, '0') || E'\\tservice\\t\\t"order-1"\\t\\torder_ready\\t1160\\t1\\t1.50\\tRUB'
        FROM generate_series(1, ${events}::bigint) n`,
    clientRefs: (into: string) => `
      INSERT INTO ${into} (account, mode, client_ref, message_id, created_at)
      SELECT '${account}', 'live', 'filled-' || n, id, at FROM read.filled`,
    acceptances: (into: string) => `
      INSERT INTO ${into} (message_id, account, mode, class, recipient, to_masked, template, sender, client_ref, parts, price,
                           currency, variables, created_at, expires_at, sealing_key, sealed)
      SELECT id, '${account}', 'live', 'service', recipient, '+7900***0000', 'order_ready', 'HUB', 'filled-' || n, 1, 1.50,
             'RUB', '{order}', at, at + interval '1 day', 'filled', ${SEALED}
        FROM read.filled`,
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
  const filling: Filling = { account, from: Math.max(today, to - SPAN_MS), to, rows }
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
    withCommon(sql, filling, async () => {
      // Two branches that take about equally long, one for each core.
      const branches = [
        async () => {
          await add('read.messages', insert.messages, month)
          await add('read.operator_ids', insert.operatorIds, month)
          await add('read.charges', insert.charges)
          await add('command.client_refs', insert.clientRefs)
          // Last: the reconciler would append a message that is not in `read.messages` to Kafka again.
          await add('command.acceptances', insert.acceptances, day)
        },
        async () => {
          await add('read.event_journal', insert.events, month)
          await add('read.personal_data', insert.personalData, month)
        },
      ]
      await Promise.all(branches.map((branch) => branch()))
    }),
  )
  await sql.end()
}
