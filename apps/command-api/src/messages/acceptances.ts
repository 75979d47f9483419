/** `command.acceptances`: reads of messages that the projector may not have applied yet. */
import type { Mode } from '@hub/domain'
import { CommandErasures, type Queries, ReadMessages, type SqlFragment } from '@hub/store'

/**
 * A condition: the acceptance `a` is a code whose batch was sealed after its last try. A process seals a
 * batch when Kafka has acknowledged each of its codes, or the code was refunded. Such a code may be
 * published again behind the seal, which does not prove it. The sweeper may seal a batch with codes that
 * were never published, but only after they have expired.
 */
export const isAcknowledged = (q: Queries): SqlFragment => q`
  (a.class = 'otp' AND NOT a.given_back AND a.expires_at > now()
   AND EXISTS (SELECT 1 FROM command.batches b WHERE b.id = a.batch_id AND b.sealed_at >= a.created_at))`

/** The id is a UUID. */
export interface AcceptanceRow extends ReadMessages.MessageColumns {
  /** Empty after an erasure of the recipient. */
  readonly to_masked: string
  readonly sealing_key: string | null
  /** The encrypted payload; `null` if it is deleted, or must not be shown. */
  readonly sealed: Buffer | null
  /** A code that Kafka has acknowledged, because its batch is sealed. */
  readonly acknowledged: boolean
  /** A code that Kafka certainly does not contain: none of its tries was given to Kafka. */
  readonly unpublished: boolean
}

/** The acceptances of these messages (UUIDs), of any owner. */
export const readAcceptances = async (
  q: Queries,
  ids: ReadonlyArray<string>,
): Promise<ReadonlyArray<AcceptanceRow>> => q<AcceptanceRow[]>`
  SELECT message_id AS id, account, mode, class, recipient, template, sender, client_ref, batch_id, parts, price, currency,
         variables, created_at, CASE WHEN shown.may_show THEN to_masked ELSE '' END AS to_masked, sealing_key,
         CASE WHEN shown.may_show THEN sealed END AS sealed, ${isAcknowledged(q)} AS acknowledged,
         given_back AND unpublished AS unpublished
    FROM command.acceptances a
   CROSS JOIN LATERAL (SELECT ${CommandErasures.mayShow(q, 'a.recipient', 'a.created_at')} AS may_show) AS shown
   WHERE message_id = ANY (${[...ids]}::uuid[])`

interface LedgerOwner {
  readonly account: string
  readonly mode: Mode
}

/** Where the ledger may contain messages that the read model lacks: UUIDs. */
interface UnprojectedRange {
  /** The read model contains everything up to this id, except the late messages. */
  readonly after: string
  readonly late: ReadonlyArray<string>
}

/**
 * A query: the newest `limit` acceptances that pass a filter and are not in the read model. Without
 * a filter by status, only the newest `limit` acceptances are compared: what follows them is older
 * than a full page of the read model. Acceptances have no status: the caller reads them for `accepted`.
 */
export const selectUnprojected = (
  q: Queries,
  owner: LedgerOwner,
  filter: ReadMessages.ListFilter,
  { after, late }: UnprojectedRange,
  limit: number,
): SqlFragment => {
  const select = (place: SqlFragment) => q`
    SELECT message_id AS id, created_at FROM command.acceptances
     WHERE ${place} AND account = ${owner.account} AND mode = ${owner.mode} AND NOT given_back
       AND ${ReadMessages.isListed(q, 'message_id', filter, ['status'])}`
  const recent = select(q`message_id > ${after}`)
  const all =
    late.length === 0
      ? recent
      : q`${recent} UNION ALL ${select(q`message_id <= ${after} AND message_id = ANY (${[...late]}::uuid[])`)}`
  const candidates = filter.status === null ? q`${all} ORDER BY created_at DESC, id DESC LIMIT ${limit}` : all
  return q`
    (SELECT a.id, a.created_at FROM (${candidates}) AS a WHERE NOT ${ReadMessages.isProjected(q, 'a.id')}
      ORDER BY a.created_at DESC, a.id DESC LIMIT ${limit})`
}

/** The position of an acceptance (UUID) in the list of its owner; `null` without one. */
export const readLedgerPosition = async (
  q: Queries,
  { account, mode }: LedgerOwner,
  message: string,
): Promise<ReadMessages.ListPosition | null> => {
  const [row] = await q<ReadMessages.ListPosition[]>`
    SELECT message_id AS id, created_at FROM command.acceptances
     WHERE message_id = ${message} AND account = ${account} AND mode = ${mode} AND NOT given_back`
  return row ?? null
}
