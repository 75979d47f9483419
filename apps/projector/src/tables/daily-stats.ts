/** `read.daily_stats`: counts and prices by day, account, mode, class, template and currency. */
import type { Queries } from '@hub/store'
import type { DailyDelta } from '../messages/aggregate-deltas.ts'
import { accountUuid, type ReadSchema, tableIn } from './read-schema.ts'
import { addCounts, countArrays, countColumns } from './stats-counts.ts'

/** Adds to rows, locking them in the order of their keys. */
export const writeDailyStats = (
  q: Queries,
  changes: ReadonlyArray<DailyDelta>,
  schema: ReadSchema = 'read',
) => q`
  INSERT INTO ${tableIn(q, schema, 'daily_stats')} AS s (day, account, mode, class, template, currency, ${countColumns(q)})
  SELECT day, account, mode::command.mode, class::command.class, template, currency, ${countColumns(q)}
    FROM unnest(${changes.map((c) => c.day)}::date[], ${changes.map((c) => accountUuid(c.account))}::uuid[],
                ${changes.map((c) => c.mode)}::text[], ${changes.map((c) => c.class)}::text[],
                ${changes.map((c) => c.template)}::text[], ${changes.map((c) => c.currency)}::text[],
                ${countArrays(q, changes)})
      AS w (day, account, mode, class, template, currency, ${countColumns(q)})
   ORDER BY account, mode, day, class, template, currency
  ON CONFLICT (account, mode, day, class, template, currency) DO UPDATE SET ${addCounts(q)}`
