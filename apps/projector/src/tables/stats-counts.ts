/** The columns that `read.daily_stats`, `read.hourly_stats` and `read.range_stats` count. */
import type { StatsCounts } from '../messages/aggregate-deltas.ts'
import type { Column } from './bulk-rows.ts'

export const COUNT_COLUMNS: ReadonlyArray<Column<StatsCounts>> = [
  { name: 'accepted', type: 'integer', value: (counts) => counts.accepted },
  { name: 'sent', type: 'integer', value: (counts) => counts.sent },
  { name: 'delivered', type: 'integer', value: (counts) => counts.delivered },
  { name: 'undelivered', type: 'integer', value: (counts) => counts.undelivered },
  { name: 'rejected', type: 'integer', value: (counts) => counts.rejected },
  { name: 'expired', type: 'integer', value: (counts) => counts.expired },
  { name: 'parts', type: 'bigint', value: (counts) => counts.parts },
  { name: 'price', type: 'numeric', value: (counts) => counts.price },
]
