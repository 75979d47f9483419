/** `read.hourly_stats`: counts and prices by hour, account, mode, reason code and currency. */
import type { Queries } from '@hub/store'
import type { HourlyDelta } from '../messages/aggregate-deltas.ts'
import { addToRows, type Column } from './bulk-rows.ts'
import { accountUuid, type ReadSchema } from './read-schema.ts'
import { COUNT_COLUMNS } from './stats-counts.ts'

/** The primary key, in its order. Messages without a reason code have an empty text. */
const KEY: ReadonlyArray<Column<HourlyDelta>> = [
  { name: 'account', type: 'uuid', value: (change) => accountUuid(change.account) },
  { name: 'mode', type: 'command.mode', value: (change) => change.mode },
  { name: 'hour', type: 'timestamptz', value: (change) => change.hour },
  { name: 'reason_code', type: 'text', isFree: true, value: (change) => change.reason ?? '' },
  { name: 'currency', type: 'text', value: (change) => change.currency },
]

/**
 * Adds to rows, locking them in the order of their keys. A row whose messages have all moved to other rows
 * stays and counts none. It equals a missing row: which of the two remains depends on the bounds of the
 * transaction batches.
 */
export const writeHourlyStats = (
  q: Queries,
  changes: ReadonlyArray<HourlyDelta>,
  schema: ReadSchema = 'read',
) => addToRows(q, `${schema}.hourly_stats`, KEY, COUNT_COLUMNS, changes)
