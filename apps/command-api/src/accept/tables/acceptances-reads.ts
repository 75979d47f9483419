/**
 * `command.acceptances`: reads of unprojected messages, and reads that correct the counters in
 * Redis.
 */
import type { Mode } from '@hub/domain'
import type { Queries, ReadMessages } from '@hub/store'
import { isAcknowledged } from './acceptances.ts'

/** The id is a UUID. */
export interface AcceptanceRow extends ReadMessages.MessageColumns {
  /** Empty after an erasure of the recipient. */
  readonly to_masked: string
  readonly sealing_key: string | null
  /** The encrypted payload. */
  readonly sealed: Buffer | null
  /** A code that Kafka has acknowledged, because its batch is sealed. */
  readonly acknowledged: boolean
}

/** The acceptances of these messages (UUIDs), of any owner. */
export const readAcceptances = async (
  q: Queries,
  ids: ReadonlyArray<string>,
): Promise<ReadonlyArray<AcceptanceRow>> => q<AcceptanceRow[]>`
  SELECT message_id AS id, account, mode, class, recipient, template, sender, client_ref, batch_id, parts, price, currency,
         variables, created_at, to_masked, sealing_key, sealed, ${isAcknowledged(q)} AS acknowledged
    FROM command.acceptances a WHERE message_id = ANY (${[...ids]}::uuid[])`

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
