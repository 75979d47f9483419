/**
 * `command.opt_outs`: recipients who do not want `service` messages, by recipient hash.
 *
 * Owner: dispatcher, which handles the inbound messages of recipients. hub staff add and remove
 * opt-outs with hubctl.
 */
import type { OptOut } from '@hub/domain'
import type { Queries } from '../../pool.ts'

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

export const read = async (q: Queries, recipient: string): Promise<OptOutRow | null> => {
  const [row] = await q<OptOutRow[]>`
    SELECT ${columns(q)} FROM command.opt_outs WHERE recipient = decode(${recipient}, 'hex')`
  return row ?? null
}

/** The newest opt-outs; `null`: any source, any time. */
export const readNewest = async (
  q: Queries,
  source: OptOut['source'] | null,
  since: Date | null,
  limit: number,
): Promise<ReadonlyArray<OptOutRow>> =>
  q<OptOutRow[]>`
    SELECT ${columns(q)} FROM command.opt_outs
     WHERE (${source}::text IS NULL OR source = ${source}) AND (${since}::timestamptz IS NULL OR created_at >= ${since})
     ORDER BY created_at DESC, recipient LIMIT ${limit}`

export const count = async (q: Queries): Promise<number> => {
  const [row] = await q<{ count: number }[]>`SELECT count(*)::integer AS count FROM command.opt_outs`
  return row?.count ?? 0
}

/** Inserts opt-outs, and returns how many of them are new. */
export const insert = async (
  q: Queries,
  recipients: ReadonlyArray<string>,
  source: OptOut['source'],
): Promise<number> => {
  const inserted = await q`
    INSERT INTO command.opt_outs (recipient, source)
    SELECT decode(r, 'hex'), ${source} FROM unnest(${[...recipients]}::text[]) AS r
    ON CONFLICT (recipient) DO NOTHING`
  return inserted.count
}

export const remove = async (q: Queries, recipient: string): Promise<void> => {
  await q`DELETE FROM command.opt_outs WHERE recipient = decode(${recipient}, 'hex')`
}
