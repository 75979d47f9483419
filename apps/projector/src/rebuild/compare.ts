/**
 * Compares the rebuilt tables with the live ones row by row, in a snapshot in which both are at the
 * same positions. PostgreSQL compares whole rows, one page of keys at a time. The result contains
 * counts, keys and names of columns, and never values.
 */
import { encodeId, type IdPrefix } from '@hub/domain'
import {
  NIL_UUID,
  type Queries,
  type RebuildComparison,
  type RebuildDifference,
  type SqlFragment,
} from '@hub/store'
import { type Bounds, LAST } from './horizon.ts'

interface ComparedTable {
  readonly table: string
  /** The id column that divides the table into pages. */
  readonly page: string
  /** The prefix of the public form of that id. */
  readonly prefix: IdPrefix
  /** The columns of the primary key. */
  readonly key: ReadonlyArray<string>
  /** The smallest value of `page` that is compared. */
  readonly from: (bounds: Bounds) => string
  /** Another condition on the compared rows, which begins with `AND`. */
  readonly also?: (q: Queries, bounds: Bounds) => SqlFragment
  /** The live rows with what earlier versions stored elsewhere. */
  readonly completed?: (q: Queries, rows: SqlFragment) => SqlFragment
}

/** The compared rows of statistics by hour. A row that counts no message equals a missing row. */
const countsMessages = (q: Queries, { day }: Bounds): SqlFragment =>
  q`AND hour >= ${day}::date::timestamp AT TIME ZONE 'UTC' AND accepted <> 0`

/** Messages with the times of `read.earlier_history`. */
const withEarlierTimes = (q: Queries, rows: SqlFragment): SqlFragment => q`
  SELECT completed.* FROM (${rows}) AS m
   CROSS JOIN LATERAL jsonb_populate_record(m::read.messages, (
         SELECT coalesce(jsonb_object_agg(CASE WHEN status = 'sent' THEN 'sent_at'
                                               WHEN reason_code = 'dlr_timeout_local' THEN 'timed_out_at'
                                               ELSE 'final_at' END, at), '{}')
           FROM read.earlier_history WHERE message_id = m.id AND status <> 'accepted')) AS completed`

const TABLES: ReadonlyArray<ComparedTable> = [
  {
    table: 'messages',
    page: 'id',
    prefix: 'msg',
    key: ['id'],
    from: ({ rows }) => rows,
    completed: withEarlierTimes,
  },
  {
    table: 'operator_ids',
    page: 'message_id',
    prefix: 'msg',
    key: ['operator', 'operator_id', 'message_id'],
    from: ({ operatorIds }) => operatorIds,
  },
  { table: 'batches', page: 'id', prefix: 'bat', key: ['id'], from: ({ batches }) => batches },
  {
    table: 'charges',
    page: 'message_id',
    prefix: 'msg',
    key: ['message_id', 'kind'],
    from: ({ rows }) => rows,
  },
  {
    table: 'daily_stats',
    page: 'account',
    prefix: 'acc',
    key: ['account', 'mode', 'day', 'class', 'template', 'currency'],
    from: () => NIL_UUID,
    also: (q, { day }) => q`AND day >= ${day}`,
  },
  {
    table: 'hourly_stats',
    page: 'account',
    prefix: 'acc',
    key: ['account', 'mode', 'hour', 'reason_code', 'currency'],
    from: () => NIL_UUID,
    also: countsMessages,
  },
  {
    table: 'range_stats',
    page: 'account',
    prefix: 'acc',
    key: ['account', 'mode', 'hour', 'class', 'number_range', 'reason_code', 'currency'],
    from: () => NIL_UUID,
    also: countsMessages,
  },
]

/** Rows of a page, which takes some tens of milliseconds. */
const ROWS_PER_PAGE = 5000
/** Examples of differences for each table. */
const MAX_EXAMPLES = 20

interface Page {
  readonly live: number
  readonly rebuilt: number
  readonly differences: number
  readonly examples: ReadonlyArray<{
    readonly key: Readonly<Record<string, string>>
    readonly missing: 'live' | 'rebuilt' | null
    readonly columns: ReadonlyArray<string> | null
  }>
}

/**
 * The key of the row `ROWS_PER_PAGE` further on, the smaller one of both tables. `null`: the rest
 * is one page.
 */
const endOfPage = async (
  q: Queries,
  { page, table }: ComparedTable,
  after: string,
): Promise<string | null> => {
  const [row] = await q<{ end: string | null }[]>`
    SELECT least(
      (SELECT ${q(page)} FROM ${q(`read.${table}`)} WHERE ${q(page)} > ${after} ORDER BY ${q(page)} OFFSET ${ROWS_PER_PAGE} LIMIT 1),
      (SELECT ${q(page)} FROM ${q(`rebuild.${table}`)} WHERE ${q(page)} > ${after} ORDER BY ${q(page)} OFFSET ${ROWS_PER_PAGE} LIMIT 1)
    ) AS end`
  return row?.end ?? null
}

const comparePage = async (
  q: Queries,
  { also, completed, from, key, page, table }: ComparedTable,
  bounds: Bounds,
  after: string,
  end: string,
  examples: number,
): Promise<Page> => {
  const rows = (schema: 'read' | 'rebuild'): SqlFragment => q`
    SELECT * FROM ${q(`${schema}.${table}`)}
     WHERE ${q(page)} > ${after} AND ${q(page)} <= ${end} AND ${q(page)} >= ${from(bounds)} ${also?.(q, bounds) ?? q``}`
  const live = completed?.(q, rows('read')) ?? rows('read')
  const first = key[0] ?? page
  const [row] = await q<Page[]>`
    WITH l AS MATERIALIZED (${live}), r AS MATERIALIZED (${rows('rebuild')}),
    differing AS MATERIALIZED (
      SELECT ${q(key as Array<string>)}, CASE WHEN l.${q(first)} IS NULL THEN 'live' WHEN r.${q(first)} IS NULL THEN 'rebuilt' END AS missing,
             to_jsonb(l) AS live_row, to_jsonb(r) AS rebuilt_row
        FROM l FULL JOIN r USING (${q(key as Array<string>)})
       WHERE l IS DISTINCT FROM r)
    SELECT (SELECT count(*)::integer FROM l) AS live, (SELECT count(*)::integer FROM r) AS rebuilt,
           (SELECT count(*)::integer FROM differing) AS differences,
           coalesce((SELECT json_agg(json_build_object(
                       'key', (SELECT json_object_agg(k.key, k.value) FROM jsonb_each_text(coalesce(live_row, rebuilt_row)) AS k
                                WHERE k.key = ANY (${key as Array<string>})),
                       'missing', missing,
                       'columns', CASE WHEN missing IS NULL THEN
                         (SELECT json_agg(c.key ORDER BY c.key) FROM jsonb_each(live_row) AS c
                           WHERE c.value IS DISTINCT FROM rebuilt_row -> c.key) END))
                       FROM (SELECT * FROM differing ORDER BY ${q(key as Array<string>)} LIMIT ${examples}) AS d), '[]') AS examples`
  return row ?? { live: 0, rebuilt: 0, differences: 0, examples: [] }
}

/** A key with its ids in their public form, so that staff can look it up. */
const publicKey = ({ key, page, prefix }: ComparedTable, values: Readonly<Record<string, string>>): string =>
  key
    .map((column) =>
      column === page ? encodeId(prefix, values[column] ?? NIL_UUID) : (values[column] ?? ''),
    )
    .join(' ')

const compareTable = async (
  q: Queries,
  compared: ComparedTable,
  bounds: Bounds,
  isWanted: () => boolean,
): Promise<RebuildComparison | null> => {
  const counts = { live: 0, rebuilt: 0, differences: 0 }
  const examples: Array<RebuildDifference> = []
  const from = compared.from(bounds)
  // A page begins after a key. No row has the nil UUID or the smallest UUID of a timestamp.
  for (let after: string | null = from; after !== null;) {
    if (!isWanted()) return null
    const end: string | null = await endOfPage(q, compared, after)
    const page = await comparePage(q, compared, bounds, after, end ?? LAST, MAX_EXAMPLES - examples.length)
    counts.live += page.live
    counts.rebuilt += page.rebuilt
    counts.differences += page.differences
    for (const { columns, key, missing } of page.examples) {
      examples.push({ key: publicKey(compared, key), missing, columns: columns ?? [] })
    }
    after = end
  }
  return { table: `read.${compared.table}`, ...counts, examples }
}

/** Takes the snapshot. Call it first in a transaction. Its statements have their own timeout. */
export const takeSnapshot = async (q: Queries): Promise<void> => {
  await q`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY`
  await q`SELECT set_config('statement_timeout', '60s', true), set_config('idle_in_transaction_session_timeout', '60s', true)`
}

/** Compares all tables in the snapshot. Returns `null` when `isWanted` becomes false. */
export const compareTables = async (
  q: Queries,
  bounds: Bounds,
  isWanted: () => boolean,
): Promise<ReadonlyArray<RebuildComparison> | null> => {
  const all: Array<RebuildComparison> = []
  for (const table of TABLES) {
    const compared = await compareTable(q, table, bounds, isWanted)
    if (compared === null) return null
    all.push(compared)
  }
  return all
}

export const countDifferences = (compared: ReadonlyArray<RebuildComparison>): number =>
  compared.reduce((sum, { differences }) => sum + differences, 0)
