/** The messages, parts and prices of a month, from the daily statistics. */
import { encodeId, MESSAGE_CLASSES } from '@hub/domain'
import { ReadDailyStats, uuidOf } from '@hub/store'
import { Effect, Schema } from 'effect'
import { Day, Mode, publicId } from '../fields.ts'
import { query } from '../sql.ts'
import { defineUseCase } from '../use-case.ts'

/** A month in UTC: `2026-11`. */
export const MONTH_PATTERN = /^\d{4}-(?:0[1-9]|1[0-2])$/u

const isDay = Schema.is(Day)

export const Month = Schema.String.check(
  Schema.makeFilter((month: string) => isDay(`${month}-01`) || 'expected a month such as 2026-11'),
  // For the API description.
  Schema.isPattern(MONTH_PATTERN),
).annotate({
  description: 'The month (UTC) of acceptance.',
  examples: ['2026-11'],
})

export const UsageRow = Schema.Struct({
  month: Month,
  account: publicId('acc'),
  name: Schema.String,
  mode: Mode,
  class: Schema.Literals(MESSAGE_CLASSES),
  template: Schema.String,
  accepted: Schema.Int,
  sent: Schema.Int,
  delivered: Schema.Int,
  undelivered: Schema.Int,
  rejected: Schema.Int,
  expired: Schema.Int,
  parts: Schema.Int,
  /** A decimal amount as a text, so that no digit is lost. */
  price: Schema.String,
  currency: Schema.String,
})
export type UsageRow = typeof UsageRow.Type

/** The columns of the CSV, in order. */
export const USAGE_COLUMNS = Object.keys(UsageRow.fields) as ReadonlyArray<keyof UsageRow>

const toValue =
  (month: string) =>
  (row: ReadDailyStats.UsageRow): UsageRow => ({
    month,
    account: encodeId('acc', row.account),
    name: row.name,
    mode: row.mode,
    class: row.class,
    template: row.template,
    accepted: Number(row.accepted),
    sent: Number(row.sent),
    delivered: Number(row.delivered),
    undelivered: Number(row.undelivered),
    rejected: Number(row.rejected),
    expired: Number(row.expired),
    parts: Number(row.parts),
    price: row.price,
    currency: row.currency,
  })

/** A row for each account, mode, class, template and currency. */
export const ofMonth = defineUseCase({
  name: 'usage',
  permission: 'usage.read',
  members: 'named',
  input: Schema.Struct({
    month: Month,
    account: Schema.NullOr(publicId('acc')),
    mode: Schema.NullOr(Mode),
  }),
  output: Schema.Struct({ object: Schema.Literal('list'), month: Month, data: Schema.Array(UsageRow) }),
  audit: null,
  run: ({ account, mode, month }) =>
    Effect.map(
      query((q) =>
        ReadDailyStats.readUsage(q, `${month}-01`, {
          account: account === null ? null : uuidOf('acc', account),
          mode,
        }),
      ),
      (rows) => ({ object: 'list' as const, month, data: rows.map(toValue(month)) }),
    ),
})
