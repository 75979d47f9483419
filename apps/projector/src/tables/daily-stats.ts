/** `read.daily_stats`: counts and prices by day, account, mode, class, template and currency. */
import type { Queries } from '@hub/store'
import type { StatsDelta } from '../aggregates/deltas.ts'
import { accountUuid, type ReadSchema, tableIn } from './read-schema.ts'

/** Adds to rows, locking them in the order of their keys. */
export const writeStats = (q: Queries, changes: ReadonlyArray<StatsDelta>, schema: ReadSchema = 'read') => q`
  INSERT INTO ${tableIn(q, schema, 'daily_stats')} AS s (day, account, mode, class, template, currency, accepted, sent, delivered,
                                     undelivered, rejected, expired, parts, price)
  SELECT day, account, mode::command.mode, class::command.class, template, currency, accepted, sent, delivered,
         undelivered, rejected, expired, parts, price
    FROM unnest(${changes.map((c) => c.day)}::date[], ${changes.map((c) => accountUuid(c.account))}::uuid[],
                ${changes.map((c) => c.mode)}::text[], ${changes.map((c) => c.class)}::text[],
                ${changes.map((c) => c.template)}::text[], ${changes.map((c) => c.currency)}::text[],
                ${changes.map((c) => c.accepted)}::integer[], ${changes.map((c) => c.sent)}::integer[],
                ${changes.map((c) => c.delivered)}::integer[], ${changes.map((c) => c.undelivered)}::integer[],
                ${changes.map((c) => c.rejected)}::integer[], ${changes.map((c) => c.expired)}::integer[],
                ${changes.map((c) => c.parts)}::bigint[], ${changes.map((c) => c.price)}::numeric[])
      AS w (day, account, mode, class, template, currency, accepted, sent, delivered, undelivered, rejected, expired,
            parts, price)
   ORDER BY account, mode, day, class, template, currency
  ON CONFLICT (account, mode, day, class, template, currency) DO UPDATE SET
    accepted = s.accepted + excluded.accepted, sent = s.sent + excluded.sent,
    delivered = s.delivered + excluded.delivered, undelivered = s.undelivered + excluded.undelivered,
    rejected = s.rejected + excluded.rejected, expired = s.expired + excluded.expired,
    parts = s.parts + excluded.parts, price = s.price + excluded.price`
