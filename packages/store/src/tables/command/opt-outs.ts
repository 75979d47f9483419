/**
 * `command.opt_outs`: recipients who do not want `service` messages, by recipient hash.
 *
 * Owner: dispatcher, which handles the inbound messages of recipients.
 */
import type { Queries } from '../../pool.ts'

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
