/** `hubctl usage`: the messages and prices of a month, for the bill of each account. */
import { NOTHING, show } from '@hub/command-line'
import { csv, Usage } from '@hub/operations'
import { Clock, Effect, Option } from 'effect'
import { Flag } from 'effect/cli'
import { accountFlag, modeFlag } from '../command-line/arguments.ts'
import { defineCommand } from '../command-line/command.ts'
import { run } from '../operations.ts'

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
  },
  {
    month: Flag.String('month').pipe(
      Flag.withDescription('The month in UTC (default: the current one)'),
      Flag.withMetavar('2026-11'),
      Flag.filter(
        (month) => Usage.MONTH_PATTERN.test(month),
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
    const usageOfMonth = yield* run(Usage.ofMonth, { month, account, mode })
    yield* show(usageOfMonth, ({ data }) => csv(data, Usage.USAGE_COLUMNS))
  }),
)
