/**
 * Reads the live read models in the form of `reference-projection.ts`: every column as text,
 * timestamps in ms since the epoch.
 */
import { openDatabase } from '@hub/testkit'
import type { EachMessageColumn, Row, Table, TableName } from './reference-projection.ts'

type Sql = ReturnType<typeof openDatabase>

/** A row of `read.events`. */
export interface JournalRow {
  readonly account: string
  readonly mode: string
  readonly sequence: number
  /** UUID. */
  readonly id: string
  readonly type: string
  readonly createdAt: number
  readonly body: string
}

export interface LiveTables {
  readonly tables: Readonly<Record<TableName, Table>>
  /** Ordered by account, mode and sequence. */
  readonly journal: ReadonlyArray<JournalRow>
  /** The sequence of the last event, by `<account> <mode>`. */
  readonly heads: ReadonlyMap<string, number>
  /**
   * The sequence after which a journal has a subscription, by `<account> <mode>`. The checker does
   * not know of deleted subscriptions.
   */
  readonly subscribedAfter: ReadonlyMap<string, number>
  /** The number of records that the projector has applied. */
  readonly applied: number
}

const ms = (column: string): string => `(extract(epoch FROM ${column}) * 1000)::bigint::text AS ${column}`

const COUNTS = `accepted::text, sent::text, delivered::text, undelivered::text, rejected::text, expired::text, parts::text,
      price::text`

const MESSAGE_COLUMNS: EachMessageColumn<string> = {
  account: 'account::text',
  mode: 'mode::text',
  class: 'class::text',
  recipient: `encode(recipient, 'hex') AS recipient`,
  template: 'template',
  sender: 'sender',
  client_ref: 'client_ref',
  batch_id: 'batch_id::text',
  parts: 'parts::text',
  price: 'price::text',
  currency: 'currency',
  variables: `array_to_string(variables, ',') AS variables`,
  created_at: ms('created_at'),
  number_range: 'number_range',
  updated_at: ms('updated_at'),
  status: 'status',
  rank: 'rank::text',
  final: 'final::text',
  reason_code: 'reason_code',
  attempts: 'attempts::text',
  handed_over: 'handed_over::text',
  seen: 'seen::text',
  sent_at: ms('sent_at'),
  timed_out_at: ms('timed_out_at'),
  final_at: ms('final_at'),
}

interface Select {
  /** The key expression. */
  readonly key: string
  /** The other columns. */
  readonly columns: string
  /** The compared rows; all without it. */
  readonly where?: string
}

const SELECTS: Readonly<Record<TableName, Select>> = {
  messages: {
    key: 'id',
    columns: Object.values(MESSAGE_COLUMNS).join(', '),
  },
  operator_ids: {
    key: `operator || ' ' || operator_id || ' ' || message_id`,
    columns: ms('sent_at'),
  },
  personal_data: {
    key: 'message_id',
    columns: `encode(recipient, 'hex') AS recipient, ${ms('created_at')}`,
  },
  batches: {
    key: 'id',
    columns: `account::text, mode::text, ${ms('created_at')}, ${ms('sealed_at')}, total::text, accepted::text,
      duplicate::text, rejected::text, members::text, final::text, delivered::text, undelivered::text,
      rejected_by_operator::text, expired::text, closed::text`,
  },
  charges: {
    key: `message_id || ' ' || kind`,
    columns: `account::text, period::text, amount::text, currency, ${ms('created_at')}`,
  },
  daily_stats: {
    key: `day || ' ' || account || ' ' || mode || ' ' || class || ' ' || template || ' ' || currency`,
    columns: COUNTS,
  },
  hourly_stats: {
    key: `(extract(epoch FROM hour) * 1000)::bigint || ' ' || account || ' ' || mode || ' ' || reason_code || ' ' || currency`,
    columns: COUNTS,
    // A row that counts no message equals a missing row.
    where: 'WHERE accepted <> 0',
  },
  range_stats: {
    key: `(extract(epoch FROM hour) * 1000)::bigint || ' ' || account || ' ' || mode || ' ' || class || ' ' || number_range
      || ' ' || reason_code || ' ' || currency`,
    columns: COUNTS,
    where: 'WHERE accepted <> 0',
  },
}

/** The columns of the read models that are compared, or are part of the compared keys. */
export const readComparedColumns = async (
  sql: Sql,
): Promise<Readonly<Record<string, ReadonlyArray<string>>>> => {
  const compared: Record<string, ReadonlyArray<string>> = {}
  for (const [name, { columns, key }] of Object.entries(SELECTS)) {
    const rows = sql.unsafe(`SELECT ${columns} FROM read.${name} LIMIT 0`)
    compared[name] = [...(key.match(/[a-z_]+/gu) ?? []), ...(await rows).columns.map((column) => column.name)]
  }
  return compared
}

const tableOf = async (sql: Sql, name: TableName): Promise<Table> => {
  const { columns, key, where = '' } = SELECTS[name]
  const rows = await sql.unsafe<Array<Row & { readonly checker_key: string }>>(
    `SELECT (${key})::text AS checker_key, ${columns} FROM read.${name} ${where}`,
  )
  return new Map(rows.map(({ checker_key, ...row }) => [checker_key, row]))
}

const countApplied = async (sql: Sql): Promise<number> => {
  const [row] = await sql<[{ applied: number | null }]>`
    SELECT sum(position)::int AS applied FROM read.checkpoints WHERE projection = 'messages'`
  return row.applied ?? 0
}

/** Reads the number of records that the projector has applied. */
export const readAppliedCount = async (databaseUrl: string): Promise<number> => {
  const sql = openDatabase(databaseUrl)
  try {
    return await countApplied(sql)
  } finally {
    await sql.end()
  }
}

/** Reads every read model. */
export const readLiveTables = async (databaseUrl: string): Promise<LiveTables> => {
  const sql = openDatabase(databaseUrl)
  try {
    const tables: Partial<Record<TableName, Table>> = {}
    for (const name of Object.keys(SELECTS) as ReadonlyArray<TableName>) {
      tables[name] = await tableOf(sql, name)
    }
    const journal = await sql<ReadonlyArray<JournalRow>>`
      SELECT account, mode, sequence::float8, id, type, (extract(epoch FROM created_at) * 1000)::float8 AS "createdAt", body
        FROM read.events ORDER BY account, mode, read.events.sequence`
    const heads = await sql<ReadonlyArray<{ key: string; sequence: string }>>`
      SELECT account || ' ' || mode AS key, sequence::text FROM read.event_heads`
    const subscribed = await sql<ReadonlyArray<{ key: string; after: number }>>`
      SELECT account || ' ' || mode AS key, min(after_sequence)::float8 AS after
        FROM webhooks.endpoints GROUP BY account, mode`
    return {
      applied: await countApplied(sql),
      tables: tables as Record<TableName, Table>,
      journal,
      heads: new Map(heads.map(({ key, sequence }) => [key, Number(sequence)])),
      subscribedAfter: new Map(subscribed.map(({ after, key }) => [key, after])),
    }
  } finally {
    await sql.end()
  }
}
