/** `read.charges`: an append-only list of charges and of reversals of charges. */
import { toTimestamp } from '@hub/domain'
import { CommandSpendPeriods, type Queries, sqlArray } from '@hub/store'
import type { Charge } from '../messages/fold.ts'
import { accountUuid, messageUuid, type ReadSchema, tableIn } from './read-schema.ts'

/** Appends the charges and reversals that are not stored yet. */
export const appendCharges = (q: Queries, charges: ReadonlyArray<Charge>, schema: ReadSchema) => q`
  INSERT INTO ${tableIn(q, schema, 'charges')} (message_id, kind, account, period, amount, currency, created_at)
  SELECT * FROM unnest(${sqlArray(charges.map((c) => messageUuid(c.messageId)))}::uuid[], ${sqlArray(charges.map((c) => c.kind))}::text[],
                       ${sqlArray(charges.map((c) => accountUuid(c.account)))}::uuid[],
                       ${sqlArray(charges.map((c) => c.period))}::date[], ${sqlArray(charges.map((c) => c.amount.amount))}::numeric[],
                       ${sqlArray(charges.map((c) => c.amount.currency))}::text[],
                       ${sqlArray(charges.map((c) => toTimestamp(c.at)))}::timestamptz[])
  ON CONFLICT DO NOTHING`

/**
 * Appends charges and reversals, and refunds the appended reversals. Rows outlive their messages,
 * so a replay refunds nothing twice.
 */
export const appendAndRefund = (q: Queries, charges: ReadonlyArray<Charge>) => q`
  WITH appended AS (
    ${appendCharges(q, charges, 'read')}
    RETURNING kind, account, period, amount),
  reversed AS (
    SELECT account, period, sum(amount) AS amount FROM appended WHERE kind = 'reversal' GROUP BY account, period)
  ${CommandSpendPeriods.refund(q, 'reversed')}`
