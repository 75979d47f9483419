/** `read.daily_stats`: counts and prices by day, account, mode, class, template and currency. */
import type { Queries } from '@hub/store'
import type { DailyDelta } from '../messages/aggregate-deltas.ts'
import { addToRows, type Column } from './bulk-rows.ts'
import { accountUuid, type ReadSchema } from './read-schema.ts'
import { COUNT_COLUMNS } from './stats-counts.ts'

/** The primary key, in its order. */
const KEY: ReadonlyArray<Column<DailyDelta>> = [
  { name: 'account', type: 'uuid', value: (change) => accountUuid(change.account) },
  { name: 'mode', type: 'command.mode', value: (change) => change.mode },
  { name: 'day', type: 'date', value: (change) => change.day },
  { name: 'class', type: 'command.class', value: (change) => change.class },
  { name: 'template', type: 'text', isFree: true, value: (change) => change.template },
  { name: 'currency', type: 'text', value: (change) => change.currency },
]

/** Adds to rows, locking them in the order of their keys. */
export const writeDailyStats = (
  q: Queries,
  changes: ReadonlyArray<DailyDelta>,
  schema: ReadSchema = 'read',
) => addToRows(q, `${schema}.daily_stats`, KEY, COUNT_COLUMNS, changes)
