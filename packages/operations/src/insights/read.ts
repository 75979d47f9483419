/** What becomes of messages, by hour or day, against the period before. */
import {
  decodeId,
  DELIVERY_HOURS,
  encodeId,
  fromTimestamp,
  MESSAGE_CLASSES,
  toTimestamp,
  type UnusualDelivery,
} from '@hub/domain'
import { CommandAccounts, ReadInsights, Sql } from '@hub/store'
import { Clock, Duration, Effect, Schema } from 'effect'
import { addedField, Count, Mode, NumberRange, publicId, Timestamp } from '../fields.ts'
import { defineUseCase } from '../use-case.ts'
import { percentilesOf, type WeightedSample } from './percentiles.ts'
import { LENGTH_MS, partsOf, periodBefore, periodUntil, type Period, type Unit } from './period.ts'

const UNITS = ['hour', 'day'] as const
const SPLITS = ['class', 'range', 'account', 'template'] as const

/** Groups of one answer: those with the most messages. */
const MOST_GROUPS = 50
/** Groups of the period before that are read, because other ones had the most messages then. */
const MOST_GROUPS_BEFORE = 1000

const counts = {
  accepted: Count,
  sent: Count.annotate({ description: 'Those that were ever handed to an SMS operator.' }),
  delivered: Count,
  undelivered: Count,
  rejected: Count,
  expired: Count,
  delivery_rate: Schema.NullOr(Schema.Number).annotate({
    description: 'Delivered among the messages with a final status, from 0 to 1; `null` without any.',
  }),
}
const Outcomes = Schema.Struct(counts)
type Outcomes = typeof Outcomes.Type

const Milliseconds = Schema.NullOr(Schema.Int)
const Percentiles = Schema.Struct({
  measured: Count.annotate({ description: 'Messages of the sample.' }),
  p50_ms: Milliseconds,
  p95_ms: Milliseconds,
  p99_ms: Milliseconds,
})
type Percentiles = typeof Percentiles.Type

const times = {
  submit: Percentiles.annotate({ description: 'From the acceptance to the answer of the SMS operator.' }),
  final: Percentiles.annotate({ description: 'From the acceptance to the final status.' }),
}

const Part = Schema.Struct({ at: Timestamp, ...counts, ...times })

/** One period: sums, parts in order without gaps, and times. */
const InsightPeriod = Schema.Struct({
  from: Timestamp,
  to: Timestamp.annotate({ description: 'Not included.' }),
  ...counts,
  ...times,
  parts: Schema.Array(Part).annotate({ description: 'One for each hour or day, in order.' }),
}).annotate({ identifier: 'InsightPeriod' })
type InsightPeriod = typeof InsightPeriod.Type

const Insights = Schema.Struct({
  object: Schema.Literal('insights'),
  by: Schema.Literals(UNITS),
  now: InsightPeriod,
  before: InsightPeriod.annotate({ description: 'The period of the same length before.' }),
  reasons: Schema.Array(
    Schema.Struct({ reason_code: Schema.String, messages: Count, before: Count }),
  ).annotate({ description: 'Messages by reason code, the most frequent first.' }),
  groups: Schema.Array(
    Schema.Struct({
      value: Schema.String.annotate({ description: 'A class, a number range, an account or a template.' }),
      name: Schema.NullOr(Schema.String).annotate({ description: 'The name of an account.' }),
      ...counts,
      before: Outcomes,
    }),
  ).annotate({
    description: `With \`split\`: those with the most messages, at most ${MOST_GROUPS}. Otherwise empty.`,
  }),
  ranges: Schema.Array(
    Schema.Struct({
      range: Schema.String,
      at: Timestamp,
      accepted: Count,
      delivered: Count,
      final: Count.annotate({ description: 'Messages with a final status.' }),
    }),
  ).annotate({
    description:
      'The messages of each number range in each hour or day. Without messages, there is no entry.',
  }),
  unusual: addedField(
    Schema.Array(
      Schema.Struct({
        range: Schema.NullOr(Schema.String).annotate({ description: '`null`: all ranges alike.' }),
        since: Timestamp.annotate({
          description: `The start of its first hour, at most ${DELIVERY_HOURS} hours ago.`,
        }),
        delivered: Count,
        final: Count.annotate({ description: 'Messages with a final status that were accepted since then.' }),
        delivery_rate: Schema.Number,
        usual_rate: Schema.Number.annotate({
          description: 'The delivery rate in the same hours of earlier weeks.',
        }),
      }),
    ).annotate({
      description:
        'The number ranges whose delivery rate is unusually low in the last hours of the period, those that lose the most ' +
        'messages first.',
    }),
    [],
  ),
}).annotate({
  identifier: 'Insights',
  title: 'Insights',
  description:
    'What becomes of messages. Counts are exact. Times are those of a sample: of each hour or day the newest ' +
    `${ReadInsights.EXAMINED} messages of the hub are looked at, and ${ReadInsights.SAMPLED} of those that pass the filter measured.`,
})

const EMPTY: ReadInsights.OutcomeCounts = {
  accepted: 0,
  sent: 0,
  delivered: 0,
  undelivered: 0,
  rejected: 0,
  expired: 0,
}

const withRate = (row: ReadInsights.OutcomeCounts): Outcomes => {
  const { accepted, delivered, expired, rejected, sent, undelivered } = row
  const final = delivered + undelivered + rejected + expired
  return {
    accepted,
    sent,
    delivered,
    undelivered,
    rejected,
    expired,
    delivery_rate: final === 0 ? null : delivered / final,
  }
}

const sumOf = (rows: ReadonlyArray<ReadInsights.OutcomeCounts>): ReadInsights.OutcomeCounts =>
  rows.reduce<ReadInsights.OutcomeCounts>(
    (sum, row) => ({
      accepted: sum.accepted + row.accepted,
      sent: sum.sent + row.sent,
      delivered: sum.delivered + row.delivered,
      undelivered: sum.undelivered + row.undelivered,
      rejected: sum.rejected + row.rejected,
      expired: sum.expired + row.expired,
    }),
    EMPTY,
  )

const SHARES = [0.5, 0.95, 0.99]

const percentiles = (samples: ReadonlyArray<WeightedSample>): Percentiles => {
  const [p50 = null, p95 = null, p99 = null] = percentilesOf(samples, SHARES).map((value) =>
    value === null ? null : Math.round(value),
  )
  return {
    measured: samples.reduce((sum, { values }) => sum + values.length, 0),
    p50_ms: p50,
    p95_ms: p95,
    p99_ms: p99,
  }
}

const toPeriod = (
  period: Period,
  unit: Unit,
  buckets: ReadonlyArray<ReadInsights.OutcomeCounts & { readonly at: number }>,
  sampled: ReadonlyArray<ReadInsights.TimesRow>,
): InsightPeriod => {
  const rows = new Map(buckets.map((row) => [row.at, row]))
  const samples = new Map(sampled.map((row) => [row.at, row]))
  const parts = partsOf(period, unit).map((at) => {
    const row = rows.get(at) ?? EMPTY
    const sample = (name: 'submit' | 'final'): WeightedSample => ({
      values: samples.get(at)?.[name] ?? [],
      messages: row.accepted,
    })
    return { at, row, submit: sample('submit'), final: sample('final') }
  })
  return {
    from: toTimestamp(period.from),
    to: toTimestamp(period.to),
    ...withRate(sumOf(buckets)),
    submit: percentiles(parts.map(({ submit }) => submit)),
    final: percentiles(parts.map(({ final }) => final)),
    parts: parts.map(({ at, final, row, submit }) => ({
      at: toTimestamp(at),
      ...withRate(row),
      submit: percentiles([submit]),
      final: percentiles([final]),
    })),
  }
}

const toUnusual = ({ delivered, final, range, rate, since, usual }: UnusualDelivery) => ({
  range,
  since: toTimestamp(since),
  delivered,
  final,
  delivery_rate: rate,
  usual_rate: usual,
})

/** 30 days of a hub with a million rows of ranges take PostgreSQL seconds. */
const DEADLINE = { deadline: Duration.seconds(9) }

export const read = defineUseCase({
  name: 'insights',
  permission: 'usage.read',
  members: 'named',
  input: Schema.Struct({
    account: Schema.NullOr(publicId('acc')),
    /** `null`: live. */
    mode: Schema.NullOr(Mode),
    class: Schema.NullOr(Schema.Literals(MESSAGE_CLASSES)),
    range: Schema.NullOr(NumberRange),
    /** By hour: 24 hours. By day: 30 days. `null`: by hour. */
    by: Schema.NullOr(Schema.Literals(UNITS)),
    /** The last hour or day is the one of this time. `null`: now. */
    until: Schema.NullOr(Timestamp),
    split: Schema.NullOr(Schema.Literals(SPLITS)),
  }),
  output: Insights,
  check: ({ by, range, split }) =>
    split === 'template' && (by !== 'day' || range !== null)
      ? 'The statistics have templates by day only, and without number ranges: use by=day without a range, or another split.'
      : null,
  audit: null,
  run: ({ account, by, range, split, until, ...of }) =>
    Effect.gen(function* () {
      const unit = by ?? 'hour'
      const time = until === null ? null : fromTimestamp(until)
      const end = time ?? (yield* Clock.currentTimeMillis)
      const period = periodUntil(end, unit)
      const earlier = periodBefore(period)
      const base = {
        account: account === null ? null : decodeId('acc', account),
        mode: of.mode ?? 'live',
        class: of.class,
        range,
      } as const
      const sql = yield* Sql
      const found = yield* sql.run(async (q) => {
        const one = async (filter: ReadInsights.InsightFilter, groups: number) => ({
          buckets: await ReadInsights.readBuckets(q, filter, unit),
          reasons: await ReadInsights.readReasons(q, filter),
          groups: split === null ? [] : await ReadInsights.readGroups(q, filter, split, groups),
          times: await ReadInsights.readTimes(q, filter, partsOf(filter, unit), LENGTH_MS[unit]),
        })
        const now = await one({ ...base, ...period }, MOST_GROUPS)
        const before = await one({ ...base, ...earlier }, MOST_GROUPS_BEFORE)
        const names =
          split === 'account'
            ? await CommandAccounts.readNames(
                q,
                now.groups.map(({ value }) => value),
              )
            : new Map<string, string>()
        const heat = await ReadInsights.readHeat(q, { ...base, ...period }, unit)
        return { now, before, names, heat, unusual: await ReadInsights.readUnusualDelivery(q, base, end) }
      }, DEADLINE)
      const reasonsBefore = new Map(found.before.reasons.map(({ messages, reason }) => [reason, messages]))
      const groupsBefore = new Map(found.before.groups.map((group) => [group.value, group]))
      return {
        object: 'insights' as const,
        by: unit,
        now: toPeriod(period, unit, found.now.buckets, found.now.times),
        before: toPeriod(earlier, unit, found.before.buckets, found.before.times),
        reasons: found.now.reasons.map(({ messages, reason }) => ({
          reason_code: reason,
          messages,
          before: reasonsBefore.get(reason) ?? 0,
        })),
        groups: found.now.groups.map((group) => ({
          value: split === 'account' ? encodeId('acc', group.value) : group.value,
          name: found.names.get(group.value) ?? null,
          ...withRate(group),
          before: withRate(groupsBefore.get(group.value) ?? EMPTY),
        })),
        ranges: found.heat.map(({ at, ...row }) => ({ ...row, at: toTimestamp(at) })),
        unusual: found.unusual.filter((one) => range === null || one.range === range).map(toUnusual),
      }
    }),
})
