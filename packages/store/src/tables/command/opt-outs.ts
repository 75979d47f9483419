/**
 * `command.opt_outs`: recipients who do not want `service` messages, by recipient hash, and
 * `command.opt_out_history`: the record of their opt-outs, which is never deleted.
 *
 * Owner: dispatcher, which handles the inbound messages of recipients. Hub staff add and lift
 * opt-outs.
 */
import type { OptOut } from '@hub/domain'
import { firstRow, type Queries } from '../../sql.ts'

export interface OptOutRow {
  /** The recipient hash, 64 hexadecimal digits. */
  readonly recipient: string
  readonly source: OptOut['source']
  readonly created_at: Date
}

/** The opted-out ones of recipient hashes (64 hexadecimal digits). */
export const readOptedOut = async (
  q: Queries,
  recipients: ReadonlyArray<string>,
): Promise<ReadonlySet<string>> => {
  const rows = await q<{ recipient: string }[]>`
    SELECT encode(recipient, 'hex') AS recipient FROM command.opt_outs
     WHERE recipient IN (SELECT decode(r, 'hex') FROM unnest(${[...recipients]}::text[]) AS r)`
  return new Set(rows.map((row) => row.recipient))
}

const columns = (q: Queries) => q`encode(recipient, 'hex') AS recipient, source, created_at`

export const read = async (q: Queries, recipient: string): Promise<OptOutRow | null> =>
  firstRow(q<OptOutRow[]>`
    SELECT ${columns(q)} FROM command.opt_outs WHERE recipient = decode(${recipient}, 'hex')`)

/** Filters; `null`: any. */
interface OptOutFilter {
  readonly source: OptOut['source'] | null
  readonly since: Date | null
  /** Only opt-outs behind this one. */
  readonly before: Pick<OptOutRow, 'created_at' | 'recipient'> | null
  readonly limit: number
}

/** The newest opt-outs. */
export const readNewest = async (
  q: Queries,
  { before, limit, since, source }: OptOutFilter,
): Promise<ReadonlyArray<OptOutRow>> =>
  q<OptOutRow[]>`
    SELECT ${columns(q)} FROM command.opt_outs
     WHERE true
       ${source === null ? q`` : q`AND source = ${source}`}
       ${since === null ? q`` : q`AND created_at >= ${since}`}
       ${
         before === null
           ? q``
           : q`AND created_at <= ${before.created_at}
               AND (created_at < ${before.created_at} OR recipient > decode(${before.recipient}, 'hex'))`
       }
     ORDER BY created_at DESC, recipient LIMIT ${limit}`

export const count = async (q: Queries): Promise<number> => {
  const [row] = await q<{ count: number }[]>`SELECT count(*)::integer AS count FROM command.opt_outs`
  return row?.count ?? 0
}

/**
 * Inserts opt-outs with their record, and returns how many of them are new. An earlier opt-out becomes one of
 * now: a start word that was received before it, and is applied later, then does not lift it.
 */
export const insert = async (
  q: Queries,
  recipients: ReadonlyArray<string>,
  source: OptOut['source'],
  actor: string,
): Promise<number> => {
  const inserted = await q`
    WITH inserted AS (
      INSERT INTO command.opt_outs (recipient, source)
      SELECT DISTINCT decode(r, 'hex'), ${source} FROM unnest(${[...recipients]}::text[]) AS r
      ON CONFLICT (recipient) DO UPDATE SET source = excluded.source, created_at = excluded.created_at
      -- The system column xmax is 0 in a row that was inserted and not updated.
      RETURNING recipient, source, created_at, xmax = 0 AS is_new)
    INSERT INTO command.opt_out_history (recipient, change, at, source, actor)
    SELECT recipient, 'opted_out', created_at, source, ${actor} FROM inserted WHERE is_new`
  return inserted.count
}

/** Lifts an opt-out, and records by whom. */
export const lift = async (q: Queries, recipient: string, actor: string): Promise<void> => {
  await q`
    WITH lifted AS (
      DELETE FROM command.opt_outs WHERE recipient = decode(${recipient}, 'hex') RETURNING recipient)
    INSERT INTO command.opt_out_history (recipient, change, source, actor)
    SELECT recipient, 'opted_in', 'operator', ${actor} FROM lifted`
}

/** A change of an opt-out: by a word of the recipient, or by hub staff. */
export interface OptOutChange {
  readonly change: 'opted_out' | 'opted_in'
  readonly at: Date
  readonly source: OptOut['source']
  readonly word: string | null
  readonly actor: string | null
}

/** Inserts the record of changes by words of recipients, in order. */
export const insertChanges = async (
  q: Queries,
  changes: ReadonlyArray<
    Pick<OptOutChange, 'change'> & {
      readonly recipient: string
      /** Milliseconds since the epoch. */
      readonly at: number
      readonly word: string
    }
  >,
): Promise<void> => {
  await q`
    INSERT INTO command.opt_out_history (recipient, change, at, source, word)
    SELECT decode(recipient, 'hex'), change, to_timestamp(at / 1000), 'inbound', word
      FROM unnest(${changes.map(({ recipient }) => recipient)}::text[], ${changes.map(({ change }) => change)}::text[],
                  ${changes.map(({ at }) => at)}::double precision[], ${changes.map(({ word }) => word)}::text[])
           WITH ORDINALITY AS changes (recipient, change, at, word, place)
     ORDER BY place`
}

/** The newest `limit` changes of a recipient, oldest first. */
export const readHistory = async (
  q: Queries,
  recipient: string,
  limit: number,
): Promise<ReadonlyArray<OptOutChange>> => {
  const rows = await q<OptOutChange[]>`
    SELECT change, at, source, word, actor FROM command.opt_out_history
     WHERE recipient = decode(${recipient}, 'hex') ORDER BY id DESC LIMIT ${limit}`
  return rows.toReversed()
}
