/** Counts of a period. Source: docs/contract/stats.md. */
import { MESSAGE_CLASSES } from '@hub/domain'
import { Schema } from 'effect'
import { Day, Money, Timestamp } from './common.ts'
import { atLeast, constant } from './fields.ts'

/** Groupings of the rows of a summary. */
export const STATS_GROUPS = [
  'day',
  'class',
  'template',
  'hour',
  'reason_code',
  'range',
  'day,template',
] as const
export type StatsGroup = (typeof STATS_GROUPS)[number]

const countFields = {
  accepted: atLeast(0).annotate({ description: 'All messages that were accepted.' }),
  sent: atLeast(0).annotate({ description: 'Those that were ever handed to the operator.' }),
  delivered: atLeast(0).annotate({ description: 'Those whose status is `delivered` now.' }),
  undelivered: atLeast(0).annotate({ description: 'Those whose status is `undelivered` now.' }),
  rejected: atLeast(0).annotate({ description: 'Those whose status is `rejected` now.' }),
  expired: atLeast(0).annotate({ description: 'Those whose status is `expired` now.' }),
  parts: atLeast(0).annotate({ description: 'SMS parts of all of them.' }),
  price: Money.annotate({ description: 'What was charged for all of them.' }),
}

export const StatsCounts = Schema.Struct(countFields).annotate({
  identifier: 'StatsCounts',
  title: 'Counts of a summary',
  description: 'Counts over messages that were accepted on certain days.',
})
export type StatsCounts = typeof StatsCounts.Type

/** A row of a summary. It has the columns that `group_by` names. */
export const StatsRow = Schema.Struct({
  day: Schema.optionalKey(
    Day.annotate({ description: 'With `group_by=day`: the day of acceptance, in UTC.' }),
  ),
  class: Schema.optionalKey(
    Schema.Literals(MESSAGE_CLASSES).annotate({ description: 'With `group_by=class`: the traffic class.' }),
  ),
  template: Schema.optionalKey(
    Schema.String.annotate({ description: 'With `group_by=template`: name of the template.' }),
  ),
  hour: Schema.optionalKey(
    Timestamp.annotate({ description: 'With `group_by=hour`: the start of the hour of acceptance, in UTC.' }),
  ),
  reason_code: Schema.optionalKey(
    Schema.NullOr(Schema.String).annotate({
      description: 'With `group_by=reason_code`: the reason code now; `null` for messages without one.',
    }),
  ),
  range: Schema.optionalKey(
    Schema.NullOr(Schema.String).annotate({
      description:
        'With `group_by=range`: the number range, which is the three digits after +7 of the numbers; `null` for ' +
        'messages that the hub accepted before it recorded ranges.',
    }),
  ),
  ...countFields,
}).annotate({
  identifier: 'StatsRow',
  title: 'Row of a summary',
  description: 'The counts of a group, such as a day, an hour or a template.',
})
export type StatsRow = typeof StatsRow.Type

const countsExample = {
  accepted: 120,
  sent: 119,
  delivered: 110,
  undelivered: 6,
  rejected: 1,
  expired: 1,
  parts: 131,
  price: { amount: '260.00', currency: 'RUB' },
} as const

/** A summary by class. */
export const STATS_EXAMPLE = {
  object: 'stats',
  from: '2026-11-01',
  to: '2026-11-21',
  totals: countsExample,
  data: [{ class: 'service', ...countsExample }],
} as const

/** `STATS_EXAMPLE` as CSV. */
export const STATS_CSV_EXAMPLE =
  'class,accepted,sent,delivered,undelivered,rejected,expired,parts,price,currency\r\n' +
  'service,120,119,110,6,1,1,131,260.00,RUB\r\n'

/** Response of `GET /v1/stats`. */
export const Stats = Schema.Struct({
  object: constant('stats'),
  from: Day.annotate({ description: 'First day of the period, in UTC.' }),
  to: Day.annotate({ description: 'Last day of the period, in UTC; it is included.' }),
  totals: StatsCounts,
  data: Schema.Array(StatsRow).annotate({
    description: 'A row for each group that has messages; empty without `group_by`.',
  }),
}).annotate({
  identifier: 'Stats',
  title: 'Stats',
  description: 'A summary of the messages that were accepted in a period.',
  examples: [STATS_EXAMPLE],
})
export type Stats = typeof Stats.Type
