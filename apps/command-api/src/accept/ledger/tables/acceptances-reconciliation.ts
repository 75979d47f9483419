/** `command.acceptances`: the statements of the reconciler. Ids are UUIDs. */
import { encodeId, type MessageAccepted, type MessageClass, numberRangeOf, republish } from '@hub/domain'
import { type Queries, ReadMessages } from '@hub/store'
import { addCharges, subtractCharges } from './spend-periods.ts'

/** The next acceptances after `after` that are late, and whether the read model contains them. */
export const selectLate = (
  q: Queries,
  page: {
    readonly after: string | null
    readonly lookBackHours: number
    readonly lateAfterSeconds: number
    readonly limit: number
  },
) => q<
  {
    readonly id: string
    readonly class: MessageClass
    readonly recipient: string
    readonly projected: boolean
  }[]
>`
  SELECT a.message_id AS id, a.class, encode(a.recipient, 'hex') AS recipient,
         ${ReadMessages.isProjected(q, 'a.message_id')} AS projected
    FROM (SELECT message_id, class, recipient FROM command.acceptances
           WHERE message_id > coalesce(${page.after}::uuid,
                                       command.uuid_floor(now() - make_interval(hours => ${page.lookBackHours})))
             AND message_id < command.uuid_floor(now() - make_interval(secs => ${page.lateAfterSeconds}))
           ORDER BY message_id LIMIT ${page.limit}) AS a
   ORDER BY a.message_id`

/**
 * Late messages as they are now. `resolved`: the read model contains the message, or it was refunded and
 * is a code or has expired. `inOutbox`: the record of a `service` message may still be in the
 * outbox, because a row exists that is older than the acceptance and one minute. `acceptedAt`:
 * milliseconds since the epoch.
 */
export const selectLateAgain = (q: Queries, ids: ReadonlyArray<string>) => q<
  {
    readonly id: string
    readonly resolved: boolean
    readonly inOutbox: boolean
    readonly acceptedAt: string
  }[]
>`
  SELECT a.message_id AS id, floor(extract(epoch FROM a.created_at) * 1000)::bigint AS "acceptedAt",
         ${ReadMessages.isProjected(q, 'a.message_id')}
           OR (a.given_back AND (a.class = 'otp' OR a.expires_at < now())) AS resolved,
         a.class = 'service' AND coalesce((SELECT min(o.created_at) FROM command.outbox o) < greatest(a.created_at, a.republished_at)
                                                                    + interval '1 minute', false) AS "inOutbox"
    FROM command.acceptances a
   WHERE a.message_id = ANY (${[...ids]}::uuid[])`

interface RepublishedRow extends ReadMessages.MessageColumns {
  readonly expires_at: Date
  readonly sealing_key: string
  readonly sealed: Buffer
  /** The masked number; empty after an erasure. */
  readonly to_masked: string
}

const republishedFact = (row: RepublishedRow): MessageAccepted =>
  republish({
    type: 'MessageAccepted',
    messageId: encodeId('msg', row.id),
    at: row.created_at.getTime(),
    account: encodeId('acc', row.account),
    mode: row.mode,
    class: row.class,
    recipient: row.recipient.toString('hex'),
    template: row.template,
    sender: row.sender,
    clientRef: row.client_ref,
    batch: row.batch_id === null ? null : encodeId('bat', row.batch_id),
    parts: row.parts,
    price: { amount: row.price, currency: row.currency },
    variables: row.variables,
    expiresAt: row.expires_at.getTime(),
    payloadKey: row.sealing_key,
    ciphertext: row.sealed,
    republished: false,
    numberRange: numberRangeOf(row.to_masked),
  })

/**
 * Marks `service` messages that can still be sent as republished, and returns their facts, in the
 * order of ids. A message that was republished in the last `againAfterMinutes` is left out: another
 * process may have done it, or the record is in Kafka but cannot be read.
 */
export const markRepublished = async (
  q: Queries,
  ids: ReadonlyArray<string>,
  againAfterMinutes: number,
): Promise<ReadonlyArray<MessageAccepted>> => {
  const rows = await q<RepublishedRow[]>`
    UPDATE command.acceptances a SET republished_at = clock_timestamp()
     WHERE a.message_id = ANY (${[...ids]}::uuid[])
       AND a.class = 'service' AND a.sealed IS NOT NULL AND NOT a.given_back AND a.expires_at > now()
       AND (a.republished_at IS NULL OR a.republished_at < now() - make_interval(mins => ${againAfterMinutes}))
       AND NOT ${ReadMessages.isProjected(q, 'a.message_id')}
    RETURNING a.message_id AS id, a.account, a.mode, a.class, a.recipient, a.template, a.sender, a.client_ref,
              a.batch_id, a.parts, a.price, a.currency, a.variables, a.created_at, a.expires_at,
              a.sealing_key, a.sealed, a.to_masked`
  return rows.toSorted((a, b) => (a.id < b.id ? -1 : 1)).map(republishedFact)
}

/**
 * Refunds messages that Kafka does not contain: codes, after no connection can carry their append any
 * more, and expired `service` messages. Each with the time of its acceptance, which a repeat
 * changes. Returns their number.
 */
export const refundMissing = async (
  q: Queries,
  missing: ReadonlyArray<readonly [id: string, acceptedAt: string]>,
): Promise<number> => {
  const rows = await q`
    WITH refunded AS (
      UPDATE command.acceptances a SET given_back = true, unpublished = a.class = 'otp'
        FROM unnest(${missing.map(([id]) => id)}::uuid[], ${missing.map(([, at]) => at)}::bigint[]) AS m (id, at)
       WHERE a.message_id = m.id AND NOT a.given_back
         AND (a.class = 'otp' AND a.created_at < now() - interval '5 seconds' OR a.expires_at < now())
         AND a.created_at = timestamptz 'epoch' + m.at * interval '1 millisecond'
         AND NOT ${ReadMessages.isProjected(q, 'a.message_id')}
      RETURNING a.message_id, a.account, a.mode, a.created_at, a.price),
    lowered AS (${subtractCharges(q, 'refunded')})
    SELECT message_id FROM refunded`
  return rows.length
}

/** Charges refunded messages that the read model contains nevertheless. Returns their number. */
export const chargeProjected = async (q: Queries, lookBackHours: number): Promise<number> => {
  const rows = await q`
    WITH charged AS (
      UPDATE command.acceptances a SET given_back = false
       WHERE a.given_back AND a.message_id > command.uuid_floor(now() - make_interval(hours => ${lookBackHours}))
         AND ${ReadMessages.isProjected(q, 'a.message_id')}
      RETURNING a.message_id, a.account, a.mode, a.created_at, a.price),
    raised AS (${addCharges(q, 'charged')})
    SELECT message_id FROM charged`
  return rows.length
}
