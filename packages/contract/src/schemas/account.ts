/** The account of a key. Source: docs/contract/account.md. */
import { Schema } from 'effect'
import { Mode, moment, Money, Timestamp } from './common.ts'
import { atLeast, constant, id } from './fields.ts'

export const Account = Schema.Struct({
  id: id('acc_', 'the account'),
  object: constant('account'),
  name: Schema.String.annotate({ description: 'Name of the account.' }),
  mode: Mode,
  limits: Schema.Struct({
    api_rps: atLeast(1).annotate({ description: 'Requests per second, for each key.' }),
    batch_max: atLeast(1).annotate({ description: 'Most messages of a batch.' }),
  }).annotate({ description: 'What is in force for this account.' }),
  flood_windows: Schema.Struct({
    pause_seconds: atLeast(0).annotate({
      description: 'Least time between messages to a number, in seconds.',
    }),
    per_hour: atLeast(1).annotate({ description: 'Most messages to a number within an hour.' }),
    per_day: atLeast(1).annotate({ description: 'Most messages to a number within a day.' }),
  }).annotate({
    description:
      'Windows per recipient, in force for this account. In test mode only the number `+79000000009` has one, a pause of 300 ' +
      'seconds: `per_hour` and `per_day` then tell what it allows.',
  }),
  spend_limit: Schema.optionalKey(
    Schema.NullOr(
      Schema.Struct({
        limit: Money.annotate({ description: 'The boundary that the hub operator set.' }),
        spent: Money.annotate({ description: 'What was charged in the period.' }),
        period: Schema.Struct({
          from: moment('Start of the period.'),
          to: moment('End of the period, not included.'),
        }).annotate({ description: 'A calendar month in UTC.' }),
        soft_threshold_percent: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 100 })).annotate({
          description: 'At this share of the limit `account.spend_threshold` is sent, once a period.',
        }),
        soft_threshold_reached_at: Schema.NullOr(Timestamp).annotate({
          description:
            'When `account.spend_threshold` was recorded in this period; `null` before. A later change of the limit keeps it.',
        }),
      }),
    ).annotate({ description: '`null` when no limit is set. Absent in test mode.' }),
  ),
}).annotate({
  identifier: 'Account',
  title: 'Account',
  description: 'The account of the key, with the values in force for it.',
  examples: [
    {
      id: 'acc_06e9c2v5k4r8x1m7n3p0q2s6tw',
      object: 'account',
      name: 'Shop',
      mode: 'live',
      limits: { api_rps: 100, batch_max: 1000 },
      flood_windows: { pause_seconds: 60, per_hour: 5, per_day: 20 },
      spend_limit: {
        limit: { amount: '10000.00', currency: 'RUB' },
        spent: { amount: '412.50', currency: 'RUB' },
        period: { from: '2026-11-01T00:00:00.000Z', to: '2026-12-01T00:00:00.000Z' },
        soft_threshold_percent: 80,
        soft_threshold_reached_at: null,
      },
    },
  ],
})
export type Account = typeof Account.Type
