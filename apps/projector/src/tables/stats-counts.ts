/** The columns that `read.daily_stats` and `read.hourly_stats` count, as parts of a statement. */
import type { Queries } from '@hub/store'
import type { StatsCounts } from '../messages/aggregate-deltas.ts'

/** Their names. */
export const countColumns = (q: Queries) =>
  q`accepted, sent, delivered, undelivered, rejected, expired, parts, price`

/** Their arrays for `unnest`, in the same order. */
export const countArrays = (q: Queries, changes: ReadonlyArray<StatsCounts>) => q`
  ${changes.map((c) => c.accepted)}::integer[], ${changes.map((c) => c.sent)}::integer[],
  ${changes.map((c) => c.delivered)}::integer[], ${changes.map((c) => c.undelivered)}::integer[],
  ${changes.map((c) => c.rejected)}::integer[], ${changes.map((c) => c.expired)}::integer[],
  ${changes.map((c) => c.parts)}::bigint[], ${changes.map((c) => c.price)}::numeric[]`

/** `SET`: adds the new counts to those of the stored row `s`. */
export const addCounts = (q: Queries) => q`
  accepted = s.accepted + excluded.accepted, sent = s.sent + excluded.sent,
  delivered = s.delivered + excluded.delivered, undelivered = s.undelivered + excluded.undelivered,
  rejected = s.rejected + excluded.rejected, expired = s.expired + excluded.expired,
  parts = s.parts + excluded.parts, price = s.price + excluded.price`
