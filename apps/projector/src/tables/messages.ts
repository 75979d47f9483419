/** `read.messages`: one row for each message, with its current status. */
import {
  encodeId,
  type MessageAccepted,
  type MessageClass,
  type Mode,
  type ReasonCode,
  type Status,
  toTimestamp,
} from '@hub/domain'
import { type Queries, sqlArray, sqlBytesArray } from '@hub/store'
import { derivedColumns } from '../messages/fold.ts'
import type { MessageRow } from '../messages/row.ts'
import { accountUuid, batchUuid, booleanText, messageUuid, type ReadSchema, tableIn } from './read-schema.ts'

interface MessageRecord {
  readonly id: string
  readonly account: string | null
  readonly mode: Mode
  readonly class: MessageClass
  readonly template: string
  readonly client_ref: string | null
  readonly batch_id: string | null
  readonly parts: number
  readonly price: string
  readonly currency: string
  readonly created_at: Date
  readonly updated_at: Date
  readonly status: Status
  readonly reason_code: ReasonCode | null
  readonly attempts: number
  /** `null` if it equals `attempts`. */
  readonly claims: number | null
  /** `null`: false. */
  readonly claim_open: boolean | null
  readonly handed_over: boolean
  readonly seen: boolean
  readonly waiting: ReadonlyArray<{
    readonly status: Status
    readonly reason: ReasonCode | null
    readonly at: number
  }> | null
}

/**
 * The stored rows of messages, by id (`msg_…`). The statement finds each row by one index probe in
 * its monthly partition, and opens no partition outside the range of the ids (docs/decisions/0009
 * and 0018).
 */
export const readMessages = async (
  q: Queries,
  messageIds: ReadonlyArray<string>,
  schema: ReadSchema = 'read',
): Promise<ReadonlyMap<string, MessageRow>> => {
  const ids = messageIds.map(messageUuid).toSorted()
  const [first, last] = [ids[0] ?? null, ids.at(-1) ?? null]
  const rows = await q<MessageRecord[]>`
    SELECT m.id, m.account, m.mode, m.class, m.template, m.client_ref, m.batch_id, m.parts, m.price, m.currency,
           m.created_at, m.updated_at, m.status, m.reason_code, m.attempts, m.claims, m.claim_open, m.handed_over, m.seen,
           CASE WHEN m.account IS NULL THEN (
             SELECT json_agg(json_build_object('status', h.status, 'reason', h.reason_code,
                                               'at', (extract(epoch FROM h.at) * 1000)::bigint))
               FROM ${tableIn(q, schema, 'message_history')} h
              WHERE h.message_id = m.id AND h.message_id BETWEEN ${first} AND ${last}) END AS waiting
      FROM unnest(${sqlArray(ids)}::uuid[]) AS w (id)
     CROSS JOIN LATERAL (
           SELECT * FROM ${tableIn(q, schema, 'messages')} WHERE id = w.id AND id BETWEEN ${first} AND ${last} LIMIT 1) AS m`
  return new Map(
    rows.map((row): [string, MessageRow] => {
      const messageId = encodeId('msg', row.id)
      return [
        messageId,
        {
          messageId,
          subject:
            row.account === null
              ? null
              : {
                  messageId,
                  account: encodeId('acc', row.account),
                  mode: row.mode,
                  class: row.class,
                  template: row.template,
                  clientRef: row.client_ref,
                  batch: row.batch_id === null ? null : encodeId('bat', row.batch_id),
                  parts: row.parts,
                  price: { amount: row.price, currency: row.currency },
                  at: row.created_at.getTime(),
                },
          status: row.status,
          reason: row.reason_code,
          attempts: row.attempts,
          // A projector of an older version changes `attempts` alone.
          claims: Math.max(row.claims ?? 0, row.attempts),
          claimOpen: row.claim_open ?? false,
          acceptedByOperator: row.handed_over,
          seen: row.seen,
          updatedAt: row.updated_at.getTime(),
          waiting: row.waiting ?? [],
        },
      ]
    }),
  )
}

const claimsOf = ({ attempts, claims }: MessageRow): number | null => (claims === attempts ? null : claims)

const batchOf = ({ subject }: MessageRow): string | null =>
  subject === null || subject.batch === null ? null : batchUuid(subject.batch)

/** Writes all columns of messages that are accepted in this transaction. */
export const writeAccepted = (
  q: Queries,
  accepted: ReadonlyArray<{ readonly row: MessageRow; readonly fact: MessageAccepted }>,
  schema: ReadSchema = 'read',
) => {
  const facts = accepted.map(({ fact }) => fact)
  const rows = accepted.map(({ row }) => ({ ...row, ...derivedColumns(row) }))
  return q`
    INSERT INTO ${tableIn(q, schema, 'messages')} (id, account, mode, class, recipient, template, sender, client_ref, batch_id, parts, price,
                               currency, variables, created_at, updated_at, status, rank, final, reason_code, attempts,
                               claims, claim_open, handed_over, seen)
    SELECT id, account, mode::command.mode, class::command.class, recipient::bytea, template, sender, client_ref, batch_id,
           parts, price, currency, ARRAY(SELECT json_array_elements_text(variables::json)), created_at, updated_at,
           status, rank, final::boolean, reason_code, attempts, claims, claim_open::boolean, handed_over::boolean,
           seen::boolean
      FROM unnest(${sqlArray(facts.map((f) => messageUuid(f.messageId)))}::uuid[], ${sqlArray(facts.map((f) => accountUuid(f.account)))}::uuid[],
                  ${sqlArray(facts.map((f) => f.mode))}::text[], ${sqlArray(facts.map((f) => f.class))}::text[],
                  ${sqlBytesArray(facts.map((f) => f.recipient))}::text[], ${facts.map((f) => f.template)}::text[],
                  ${facts.map((f) => f.sender)}::text[], ${facts.map((f) => f.clientRef)}::text[],
                  ${sqlArray(rows.map(batchOf))}::uuid[],
                  ${sqlArray(facts.map((f) => f.parts))}::smallint[], ${sqlArray(rows.map((r) => r.price?.amount ?? null))}::numeric[],
                  ${sqlArray(facts.map((f) => f.price.currency))}::text[],
                  ${facts.map((f) => JSON.stringify(f.variables))}::text[],
                  ${sqlArray(facts.map((f) => toTimestamp(f.at)))}::timestamptz[],
                  ${sqlArray(rows.map((r) => toTimestamp(r.updatedAt)))}::timestamptz[], ${sqlArray(rows.map((r) => r.status))}::text[],
                  ${sqlArray(rows.map((r) => r.rank))}::smallint[], ${sqlArray(rows.map((r) => booleanText(r.final)))}::text[],
                  ${sqlArray(rows.map((r) => r.reason))}::text[], ${sqlArray(rows.map((r) => r.attempts))}::smallint[],
                  ${sqlArray(rows.map(claimsOf))}::smallint[],
                  ${sqlArray(rows.map((r) => (r.claimOpen ? booleanText(true) : null)))}::text[],
                  ${sqlArray(rows.map((r) => booleanText(r.acceptedByOperator)))}::text[], ${sqlArray(rows.map((r) => booleanText(r.seen)))}::text[])
        AS m (id, account, mode, class, recipient, template, sender, client_ref, batch_id, parts, price, currency, variables,
              created_at, updated_at, status, rank, final, reason_code, attempts, claims, claim_open, handed_over, seen)
    ON CONFLICT (id) DO UPDATE SET
      account = excluded.account, mode = excluded.mode, class = excluded.class, recipient = excluded.recipient,
      template = excluded.template, sender = excluded.sender, client_ref = excluded.client_ref,
      batch_id = excluded.batch_id, parts = excluded.parts, price = excluded.price, currency = excluded.currency,
      variables = excluded.variables, created_at = excluded.created_at, updated_at = excluded.updated_at,
      status = excluded.status, rank = excluded.rank, final = excluded.final, reason_code = excluded.reason_code,
      attempts = excluded.attempts, claims = excluded.claims, claim_open = excluded.claim_open,
      handed_over = excluded.handed_over, seen = excluded.seen`
}

/**
 * Writes the columns that facts of the log change, for rows with and without an acceptance. A row
 * that exists is a conflict on its id. So PostgreSQL finds it in its monthly partition, where the
 * plan of a join would read all partitions.
 */
export const writeStatuses = (
  q: Queries,
  changed: ReadonlyArray<MessageRow>,
  schema: ReadSchema = 'read',
) => {
  const rows = changed.map((row) => ({ ...row, ...derivedColumns(row) }))
  return q`
    INSERT INTO ${tableIn(q, schema, 'messages')} (id, updated_at, status, rank, final, reason_code, attempts,
                                                  claims, claim_open, handed_over, seen, price, batch_id)
    SELECT id, updated_at, status, rank, final::boolean, reason_code, attempts, claims, claim_open::boolean,
           handed_over::boolean, seen::boolean, price, batch_id
      FROM unnest(${sqlArray(rows.map((r) => messageUuid(r.messageId)))}::uuid[],
                  ${sqlArray(rows.map((r) => toTimestamp(r.updatedAt)))}::timestamptz[],
                  ${sqlArray(rows.map((r) => r.status))}::text[], ${sqlArray(rows.map((r) => r.rank))}::smallint[],
                  ${sqlArray(rows.map((r) => booleanText(r.final)))}::text[],
                  ${sqlArray(rows.map((r) => r.reason))}::text[],
                  ${sqlArray(rows.map((r) => r.attempts))}::smallint[],
                  ${sqlArray(rows.map(claimsOf))}::smallint[],
                  ${sqlArray(rows.map((r) => (r.claimOpen ? booleanText(true) : null)))}::text[],
                  ${sqlArray(rows.map((r) => booleanText(r.acceptedByOperator)))}::text[],
                  ${sqlArray(rows.map((r) => booleanText(r.seen)))}::text[],
                  ${sqlArray(rows.map((r) => r.price?.amount ?? null))}::numeric[],
                  ${sqlArray(rows.map(batchOf))}::uuid[])
        AS w (id, updated_at, status, rank, final, reason_code, attempts, claims, claim_open, handed_over, seen, price, batch_id)
    ON CONFLICT (id) DO UPDATE SET
      updated_at = excluded.updated_at, status = excluded.status, rank = excluded.rank, final = excluded.final,
      reason_code = excluded.reason_code, attempts = excluded.attempts, claims = excluded.claims, claim_open = excluded.claim_open,
      handed_over = excluded.handed_over, seen = excluded.seen, price = excluded.price, batch_id = excluded.batch_id`
}
