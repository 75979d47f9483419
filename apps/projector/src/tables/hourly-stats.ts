/** `read.hourly_stats`: counts and prices by hour, account, mode, reason code and currency. */
import type { Queries } from '@hub/store'
import type { HourlyDelta } from '../messages/aggregate-deltas.ts'
import { accountUuid, type ReadSchema, tableIn } from './read-schema.ts'
import { addCounts, countArrays, countColumns } from './stats-counts.ts'

/**
 * Adds to rows, locking them in the order of their keys. Messages without a reason code have an
 * empty text. A row whose messages have all moved to other rows stays and counts none. It equals a
 * missing row: which of the two remains depends on the bounds of the transaction batches.
 */
export const writeHourlyStats = (
  q: Queries,
  changes: ReadonlyArray<HourlyDelta>,
  schema: ReadSchema = 'read',
) => q`
  INSERT INTO ${tableIn(q, schema, 'hourly_stats')} AS s (hour, account, mode, reason_code, currency, ${countColumns(q)})
  SELECT hour, account, mode::command.mode, reason_code, currency, ${countColumns(q)}
    FROM unnest(${changes.map((c) => c.hour)}::timestamptz[], ${changes.map((c) => accountUuid(c.account))}::uuid[],
                ${changes.map((c) => c.mode)}::text[], ${changes.map((c) => c.reason ?? '')}::text[],
                ${changes.map((c) => c.currency)}::text[], ${countArrays(q, changes)})
      AS w (hour, account, mode, reason_code, currency, ${countColumns(q)})
   ORDER BY account, mode, hour, reason_code, currency
  ON CONFLICT (account, mode, hour, reason_code, currency) DO UPDATE SET ${addCounts(q)}`
