/** `hub stats`: counts and prices. */
import { defineCommand, NOTHING, show, table } from '@hub/command-line'
import { Effect, Option } from 'effect'
import { Flag } from 'effect/cli'
import { attempt, connect } from '../connection/connection.ts'

const GROUPS = ['day', 'hour', 'class', 'template', 'reason_code', 'range'] as const

const dayFlag = (name: string, about: string) =>
  Flag.String(name).pipe(
    Flag.withDescription(about),
    Flag.withMetavar('2026-11-21'),
    Flag.filter(
      (day) => /^\d{4}-\d{2}-\d{2}$/u.test(day),
      () => 'a day, such as 2026-11-21',
    ),
    Flag.optional,
  )

export const stats = defineCommand(
  'stats',
  {
    short: 'Show counts and prices of messages',
    about: 'Shows the counts and the price of the messages of a period (UTC), in total and by a group.',
    changes: NOTHING,
    examples: [
      { command: 'hub stats --from 2026-11-01 --to 2026-11-30 --group-by template' },
      { command: 'hub stats --group-by hour --json' },
    ],
  },
  {
    from: dayFlag('from', 'The first day'),
    to: dayFlag('to', 'The last day'),
    groupBy: Flag.Literals('group-by', GROUPS).pipe(
      Flag.withDescription('One row for each of these'),
      Flag.withDefault('day' as const),
    ),
  },
  Effect.fnUntraced(function* ({ from, groupBy, to }) {
    const { client } = yield* connect
    const answer = yield* attempt((signal) =>
      client.stats.get(
        { from: Option.getOrUndefined(from), to: Option.getOrUndefined(to), group_by: groupBy },
        { signal },
      ),
    )
    yield* show(answer, ({ data, totals }) => {
      const rows = [
        ...data.map((row) => ({ ...row, group: String(Reflect.get(row, groupBy) ?? '') })),
        { ...totals, group: 'total' },
      ]
      return table(rows, {
        [groupBy]: (row) => row.group,
        accepted: (row) => row.accepted,
        delivered: (row) => row.delivered,
        undelivered: (row) => row.undelivered,
        rejected: (row) => row.rejected,
        expired: (row) => row.expired,
        parts: (row) => row.parts,
        price: (row) => `${row.price.amount} ${row.price.currency}`,
      })
    })
  }),
)
