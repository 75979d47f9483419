/** Reads the outcomes of messages from `read.messages`, its history and the ids of operators. */
import { encodeId, type MessageClass, minorUnits, type Mode, type ReasonCode, type Status } from '@hub/domain'
import type { MessageOutcome } from '@hub/kafka'
import { type Queries, sqlArray } from '@hub/store'

interface OutcomeRow {
  readonly id: string
  readonly account: string
  readonly mode: Mode
  readonly class: MessageClass
  readonly template: string
  readonly sender: string
  readonly batch_id: string | null
  readonly operator: string | null
  readonly parts: number
  readonly attempts: number
  readonly status: Status
  readonly reason_code: ReasonCode | null
  readonly price: string
  readonly currency: string
  readonly created_at: Date
  readonly sent_at: Date | null
  readonly final_at: Date | null
  readonly updated_at: Date
}

const outcomeOf = (row: OutcomeRow): MessageOutcome => ({
  type: 'MessageOutcome',
  messageId: encodeId('msg', row.id),
  accountId: encodeId('acc', row.account),
  messageMode: row.mode,
  messageClass: row.class,
  templateName: row.template,
  senderName: row.sender,
  batchId: row.batch_id === null ? null : encodeId('bat', row.batch_id),
  operatorName: row.operator,
  partCount: row.parts,
  attemptCount: row.attempts,
  finalStatus: row.status,
  reasonCode: row.reason_code,
  priceHundredths: Number(minorUnits({ amount: row.price, currency: row.currency })),
  priceCurrency: row.currency,
  acceptedAt: row.created_at.getTime(),
  submittedAt: row.sent_at?.getTime() ?? null,
  finalAt: (row.final_at ?? row.updated_at).getTime(),
})

/**
 * The outcomes of those of the messages (UUIDs) that have a final status and exist. Each table is
 * probed by index in one monthly partition, as in `readMessages`.
 */
export const readOutcomes = async (
  q: Queries,
  messageIds: ReadonlyArray<string>,
): Promise<ReadonlyArray<MessageOutcome>> => {
  const ids = messageIds.toSorted()
  const [first, last] = [ids[0] ?? null, ids.at(-1) ?? null]
  const rows = await q<OutcomeRow[]>`
    SELECT m.id, m.account, m.mode, m.class, m.template, m.sender, m.batch_id, o.operator, m.parts, m.attempts, m.status,
           m.reason_code, m.price, m.currency, m.created_at, h.sent_at, h.final_at, m.updated_at
      FROM unnest(${sqlArray(ids)}::uuid[]) AS w (id)
     CROSS JOIN LATERAL (
           SELECT * FROM read.messages
            WHERE id = w.id AND id BETWEEN ${first} AND ${last} AND final AND account IS NOT NULL LIMIT 1) AS m
      LEFT JOIN LATERAL (
           SELECT max(at) FILTER (WHERE status = 'sent') AS sent_at, max(at) FILTER (WHERE status = m.status) AS final_at
             FROM read.message_history WHERE message_id = w.id AND message_id BETWEEN ${first} AND ${last}) AS h ON true
      LEFT JOIN LATERAL (
           SELECT operator FROM read.operator_ids WHERE message_id = w.id AND message_id BETWEEN ${first} AND ${last}
            ORDER BY sent_at DESC LIMIT 1) AS o ON true`
  return rows.map(outcomeOf)
}
