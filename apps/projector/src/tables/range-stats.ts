/** `read.range_stats`: counts and prices by hour, account, mode, class, number range, reason code and currency. */
import type { Queries } from '@hub/store'
import type { RangeDelta } from '../messages/aggregate-deltas.ts'
import { addToRows, type Column } from './bulk-rows.ts'
import { accountUuid, type ReadSchema } from './read-schema.ts'
import { COUNT_COLUMNS } from './stats-counts.ts'

/** The primary key, in its order. Messages without a reason code have an empty text. */
const KEY: ReadonlyArray<Column<RangeDelta>> = [
  { name: 'account', type: 'uuid', value: (change) => accountUuid(change.account) },
  { name: 'mode', type: 'command.mode', value: (change) => change.mode },
  { name: 'hour', type: 'timestamptz', value: (change) => change.hour },
  { name: 'class', type: 'command.class', value: (change) => change.class },
  { name: 'number_range', type: 'text', value: (change) => change.numberRange },
  { name: 'reason_code', type: 'text', isFree: true, value: (change) => change.reason ?? '' },
  { name: 'currency', type: 'text', value: (change) => change.currency },
]

/**
 * Adds to rows, locking them in the order of their keys. As in `read.hourly_stats`, a row that counts no
 * message equals a missing row.
 */
export const writeRangeStats = (
  q: Queries,
  changes: ReadonlyArray<RangeDelta>,
  schema: ReadSchema = 'read',
) => addToRows(q, `${schema}.range_stats`, KEY, COUNT_COLUMNS, changes)
