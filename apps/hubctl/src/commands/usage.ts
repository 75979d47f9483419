/** `hubctl usage`: the messages and prices of a month, for the bill of each account. */
import { encodeId } from '@hub/domain'
import { ReadDailyStats } from '@hub/store'
import { Clock, Effect, Option } from 'effect'
import { Flag } from 'effect/cli'
import { accountFlag, modeFlag } from '../command-line/arguments.ts'
import { defineCommand, NOTHING } from '../command-line/command.ts'
import { database, query } from '../command-line/connections.ts'
import { csv, show } from '../command-line/output.ts'

const MONTH = /^\d{4}-(?:0[1-9]|1[0-2])$/u

const toJson = (month: string) => (row: ReadDailyStats.UsageRow) => ({
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
  // A decimal text, so that no digit is lost.
  price: row.price,
  currency: row.currency,
})
type UsageJson = ReturnType<ReturnType<typeof toJson>>

/** In the order of the columns. */
const COLUMNS = [
  'month',
  'account',
  'name',
  'mode',
  'class',
  'template',
  'accepted',
  'sent',
  'delivered',
  'undelivered',
  'rejected',
  'expired',
  'parts',
  'price',
  'currency',
] as const satisfies ReadonlyArray<keyof UsageJson>

export const usage = defineCommand(
  'usage',
  {
    short: 'Messages, parts and prices of a month, as CSV',
    about:
      'Prints the usage of all accounts or of one: a row for each account, mode, class, template and ' +
      'currency, with the messages accepted in the month (UTC) by their current status. price is what ' +
      'they cost, after the return of charges. Messages that are not final yet can still change the row.',
    changes: NOTHING,
    examples: [
      { command: 'hubctl usage --month 2026-10 --mode live > usage.csv', description: 'For billing' },
      { command: 'hubctl usage', description: 'The current month until now' },
    ],
    needs: database,
  },
  {
    month: Flag.String('month').pipe(
      Flag.withDescription('The month in UTC (default: the current one)'),
      Flag.withMetavar('2026-11'),
      Flag.filter(
        (month) => MONTH.test(month),
        () => 'a month, such as 2026-11',
      ),
      Flag.optional,
    ),
    account: accountFlag,
    mode: modeFlag,
  },
  Effect.fnUntraced(function* ({ account, mode, ...flags }) {
    const now = new Date(yield* Clock.currentTimeMillis).toISOString().slice(0, 7)
    const month = Option.getOrElse(flags.month, () => now)
    const rows = yield* query((q) => ReadDailyStats.readUsage(q, `${month}-01`, { account, mode }))
    const data = rows.map(toJson(month))
    yield* show({ object: 'list', month, data }, () => csv(data, COLUMNS))
  }),
)
