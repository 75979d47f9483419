/** `command.acceptances`: reads that correct the counters in Redis. */
import type { Mode } from '@hub/domain'
import type { Queries } from '@hub/store'

export interface FloodRow {
  readonly id: string
  readonly account: string
  readonly mode: Mode
  /** Recipient hash. */
  readonly recipient: string
  readonly client_ref: string | null
  /** Milliseconds since the epoch. */
  readonly at: number
}

/**
 * Acceptances of the last `seconds` that flood windows count, in the order of ids, after the id
 * `after`. In test mode only the recipient hash `sandboxRecipient` has windows.
 */
export const selectFloodRows = (
  q: Queries,
  page: { readonly after: string | null; readonly seconds: number; readonly limit: number },
  sandboxRecipient: string,
) => q<FloodRow[]>`
  SELECT message_id AS id, account, mode, encode(recipient, 'hex') AS recipient, client_ref,
         (extract(epoch FROM created_at) * 1000)::float8 AS at
    FROM command.acceptances
   WHERE message_id > coalesce(${page.after}::uuid, command.uuid_floor(now() - make_interval(secs => ${page.seconds})))
     AND NOT given_back AND (mode = 'live' OR recipient = decode(${sandboxRecipient}, 'hex'))
   ORDER BY message_id LIMIT ${page.limit}`

/** The number of acceptances of a day (UTC, `2026-11-21`). */
export const countAcceptancesOf = async (q: Queries, day: string): Promise<number> => {
  const [row] = await q<{ count: number }[]>`
    SELECT count(*)::integer AS count FROM command.acceptances
     WHERE message_id >= command.uuid_floor(${day}::date::timestamp AT TIME ZONE 'UTC') AND NOT given_back`
  return row?.count ?? 0
}
