/** Counts of a period, as the projector sums them up. Source: specification, Endpoints; contract, Account, stats. */
import type { Stats as StatsBody, StatsCounts, StatsRow, StatsWanted } from '@hub/contract'
import { Sql, type StorageError } from '@hub/store'
import { Context, Duration, Effect, Layer } from 'effect'
import { CURRENCY } from '@hub/domain'
import type { Owner } from '../accounts/account.ts'

const DEADLINE = { deadline: Duration.millis(2500) }

/** Sums come as text: a year of a large account is beyond 32 bits. */
interface SumRow {
  /** The day, class or template; `null` in the row of the totals. */
  readonly what: string | null
  readonly is_total: boolean
  readonly accepted: string
  readonly sent: string
  readonly delivered: string
  readonly undelivered: string
  readonly rejected: string
  readonly expired: string
  readonly parts: string
  readonly price: string
}

const countsOf = (row: SumRow): StatsCounts => ({
  accepted: Number(row.accepted),
  sent: Number(row.sent),
  delivered: Number(row.delivered),
  undelivered: Number(row.undelivered),
  rejected: Number(row.rejected),
  expired: Number(row.expired),
  parts: Number(row.parts),
  price: { amount: row.price, currency: CURRENCY },
})

export class Stats extends Context.Service<
  Stats,
  {
    /** Rows are in order of what they are grouped by; there is none for a day, class or template without messages. */
    readonly read: (owner: Owner, wanted: StatsWanted) => Effect.Effect<StatsBody, StorageError>
  }
>()('@hub/command-api/Stats') {
  static readonly layer: Layer.Layer<Stats, never, Sql> = Layer.effect(
    Stats,
    Effect.gen(function* () {
      const sql = yield* Sql
      return {
        read: Effect.fnUntraced(function* (owner, { from, groupBy, to }) {
          // Totals and rows in one statement, so that they are of one moment. Three years are what stats go back (specification,
          // Retention), whether the rows are still there or not.
          const rows = yield* sql.run((q) => {
            const group =
              groupBy === null
                ? null
                : { day: q`to_char(day, 'YYYY-MM-DD')`, class: q`class::text`, template: q`template` }[
                    groupBy
                  ]
            return q<SumRow[]>`
              SELECT ${group === null ? q`NULL` : group} AS what,
                     ${group === null ? q`true` : q`grouping(${group}) = 1`} AS is_total,
                     coalesce(sum(accepted), 0) AS accepted, coalesce(sum(sent), 0) AS sent,
                     coalesce(sum(delivered), 0) AS delivered, coalesce(sum(undelivered), 0) AS undelivered,
                     coalesce(sum(rejected), 0) AS rejected, coalesce(sum(expired), 0) AS expired,
                     coalesce(sum(parts), 0) AS parts, coalesce(sum(price), 0)::numeric(18, 2)::text AS price
                FROM read.daily_stats
               WHERE account = ${owner.accountUuid} AND mode = ${owner.mode} AND day BETWEEN ${from} AND ${to}
                 AND currency = ${CURRENCY}
                 AND day > (now() AT TIME ZONE 'UTC' - interval '3 years')::date
               ${group === null ? q`` : q`GROUP BY GROUPING SETS ((${group}), ()) ORDER BY 1`}`
          }, DEADLINE)
          const [totals] = rows.filter((row) => row.is_total)
          if (totals === undefined) return yield* Effect.die('a sum has no row')
          const data = rows
            .filter((row) => !row.is_total)
            .map(
              (row) =>
                ({ ...(groupBy === null ? {} : { [groupBy]: row.what }), ...countsOf(row) }) as StatsRow,
            )
          return { object: 'stats', from, to, totals: countsOf(totals), data }
        }),
      }
    }),
  )
}
