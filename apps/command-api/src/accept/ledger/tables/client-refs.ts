/** `command.client_refs`: the used client references, with a unique index. */
import type { Mode } from '@hub/domain'
import { type Queries, uuidOf } from '@hub/store'
import { refKey } from '../../batch/decide.ts'
import type { LedgerEntry, Reference } from '../ledger.port.ts'

/** A reference is used for this time after the acceptance. Its row may stay longer: retention takes turns. */
const USED_FOR = '3 years'

/** PostgreSQL's clock (ms) and the used ones of the references, in one round trip. */
export const selectClockAndUsed = (q: Queries, references: ReadonlyArray<Reference>) => q<
  {
    at: string
    used: ReadonlyArray<{ account: string; mode: Mode; client_ref: string; message_id: string }>
  }[]
>`
  SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS at,
         (SELECT coalesce(json_agg(r), '[]')
            FROM unnest(${references.map(({ owner }) => owner.accountUuid)}::uuid[],
                        ${references.map(({ owner }) => owner.mode)}::text[],
                        ${references.map(({ clientRef }) => clientRef)}::text[]) AS asked (account, mode, client_ref)
           CROSS JOIN LATERAL (
                 SELECT c.account, c.mode, c.client_ref, c.message_id FROM command.client_refs c
                  WHERE c.account = asked.account AND c.mode = asked.mode::command.mode AND c.client_ref = asked.client_ref
                    AND c.created_at > clock_timestamp() - ${USED_FOR}::interval
                  LIMIT 1) AS r) AS used`

/**
 * Inserts references and returns the message ids of those that were free. A reference that is free
 * again after three years changes to the new message. An insert waits for an open transaction that
 * has inserted the same reference. The rows are sorted, so that two
 * transactions with common references cannot deadlock.
 */
export const insertReferences = (q: Queries, entries: ReadonlyArray<LedgerEntry>) => {
  const sorted = entries.toSorted((a, b) => {
    const left = refKey(a.owner, a.fact.clientRef ?? '')
    const right = refKey(b.owner, b.fact.clientRef ?? '')
    return left < right ? -1 : left > right ? 1 : 0
  })
  return q<{ message_id: string }[]>`
    INSERT INTO command.client_refs AS c (account, mode, client_ref, message_id, created_at)
    SELECT account, mode::command.mode, client_ref, message_id, timestamptz 'epoch' + at * interval '1 millisecond'
      FROM unnest(${sorted.map(({ owner }) => owner.accountUuid)}::uuid[],
                  ${sorted.map(({ owner }) => owner.mode)}::text[],
                  ${sorted.map(({ fact }) => fact.clientRef)}::text[],
                  ${sorted.map(({ fact }) => uuidOf('msg', fact.messageId))}::uuid[],
                  ${sorted.map(({ fact }) => String(fact.at))}::bigint[])
           AS new (account, mode, client_ref, message_id, at)
    ON CONFLICT (account, mode, client_ref) DO UPDATE
       SET message_id = excluded.message_id, created_at = excluded.created_at
     WHERE c.created_at <= clock_timestamp() - ${USED_FOR}::interval
    RETURNING message_id`
}

/**
 * The message (UUID) that has a `client_ref`; `null` without one. A reference is used for three
 * years. A code that was refunded is not accepted, so its reference names no message.
 */
export const selectReference = async (
  q: Queries,
  owner: { readonly account: string; readonly mode: Mode },
  clientRef: string,
): Promise<string | null> => {
  const [row] = await q<{ message_id: string }[]>`
    SELECT c.message_id FROM command.client_refs c
     WHERE c.account = ${owner.account} AND c.mode = ${owner.mode} AND c.client_ref = ${clientRef}
       AND c.created_at > now() - ${USED_FOR}::interval
       AND NOT EXISTS (SELECT 1 FROM command.acceptances a WHERE a.message_id = c.message_id AND a.given_back)`
  return row?.message_id ?? null
}
