/** What becomes of messages: delivery, times and failures, against the period before. */
import type { ComponentChildren } from 'preact'
import { CHOICES } from '../api/choices.ts'
import { ownAccounts } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type {
  Insights as Answer,
  InsightGroup,
  InsightPart,
  InsightReason,
  RangeBlock,
  SuspiciousRange,
  UnusualDelivery,
} from '../api/types.ts'
import { HeatMap } from '../charts/heat-map.tsx'
import { floorOfShares, type HeatCell, rateOf } from '../charts/series.ts'
import { SeriesChart } from '../charts/series-chart.tsx'
import { Empty, Id, PageTitle, ResourceState } from '../components/basics.tsx'
import { ACCOUNT_FIELD, currentFilters, FilterBar, type FilterField } from '../components/filters.tsx'
import { ChartNumbers, type Column, Table } from '../components/table.tsx'
import { countText, percentText, wordsOf } from '../format/number.ts'
import { dateText, durationText, localMinute, localText, shortDate } from '../format/time.ts'
import { withFilters } from '../routing/routes.ts'
import { strings } from '../strings.ts'
import { BlockedRanges, SuspiciousRequests } from './traffic-guard.tsx'

const { by: UNITS, class: CLASSES, mode: MODES, split: SPLITS } = CHOICES['insights.read']

const FIELDS: ReadonlyArray<FilterField> = [
  ACCOUNT_FIELD,
  { name: 'mode', label: strings.columns.mode, kind: 'choice', choices: MODES, fallback: 'live' },
  { name: 'class', label: strings.columns.class, kind: 'choice', choices: CLASSES },
  { name: 'range', label: strings.insights.range, kind: 'text', placeholder: '912' },
  { name: 'by', label: strings.insights.by, kind: 'choice', choices: UNITS, fallback: 'hour' },
  { name: 'split', label: strings.insights.split, kind: 'choice', choices: SPLITS },
  { name: 'until', label: strings.insights.until, kind: 'time' },
]

type Unit = Answer['by']

/** A part in a chart: the hour in the zone of the viewer, or the day in UTC. */
const partText = (at: string, by: Unit): string =>
  by === 'hour' ? localMinute(at) : shortDate(at.slice(0, 10))

const longPart = (at: string, by: Unit): string =>
  by === 'hour' ? localText(at).slice(0, -3) : dateText(at.slice(0, 10))

/** The digits that fit into a cell. */
const shortPart = (at: string, by: Unit): string =>
  by === 'hour' ? localMinute(at).slice(0, 2) : at.slice(8, 10)

const shareText = (share: number | null): string => (share === null ? strings.none : percentText(share))
const timeText = (ms: number | null): string => (ms === null ? strings.none : durationText(ms))

const HOUR_MS = 3_600_000
const LENGTH_MS: Readonly<Record<Unit, number>> = { hour: HOUR_MS, day: 24 * HOUR_MS }

type Filters = Readonly<Record<string, string>>

/** The messages of a period that pass the filters of this page. Both ends of the filter of the list are exclusive. */
const messagesOf = (filters: Filters, from: string, to: string, more: Filters = {}): string => {
  const { account, class: messageClass, mode = 'live', range } = filters
  return withFilters('/messages', {
    account,
    class: messageClass,
    mode,
    range,
    created_after: new Date(Date.parse(from) - 1).toISOString(),
    created_before: to,
    ...more,
  })
}

/** Sentences that are read before the charts. The heat map shows all ranges of a network. */
const MOST_SENTENCES = 5

/** `14:00`, with the day before it unless it is that of the end of the period. */
const sinceText = (since: string, to: string): string => {
  const last = longPart(new Date(Date.parse(to) - 1).toISOString(), 'hour')
  const day = (text: string): string => text.slice(0, -localMinute(since).length)
  return day(longPart(since, 'hour')) === day(last) ? localMinute(since) : longPart(since, 'hour')
}

/** What somebody on call should read first. */
const Unusual = ({
  now: { to },
  unusual,
}: Pick<Answer, 'now'> & { readonly unusual: ReadonlyArray<UnusualDelivery> }) => {
  if (unusual.length === 0) return null
  const filters = currentFilters(FIELDS)
  const more = unusual.length - MOST_SENTENCES
  return (
    <section aria-label={strings.insights.unusualTitle}>
      <h2>{strings.insights.unusualTitle}</h2>
      <ul>
        {unusual.slice(0, MOST_SENTENCES).map(({ delivery_rate, range, since, usual_rate }) => (
          <li key={range}>
            <span class="status bad">{strings.insights.unusualMark}</span>{' '}
            {strings.insights.unusual(
              sinceText(since, to),
              range,
              percentText(delivery_rate),
              percentText(usual_rate),
            )}{' '}
            <a href={messagesOf(filters, since, to, range === null ? {} : { range })}>
              {strings.insights.unusualMessages(range)}
            </a>
          </li>
        ))}
      </ul>
      {more > 0 ? <p>{strings.insights.unusualMore(more)}</p> : null}
    </section>
  )
}

const Tile = ({
  before,
  children,
  label,
  value,
}: {
  readonly label: string
  readonly value: string
  readonly before: string
  readonly children?: ComponentChildren
}) => (
  <li class="tile">
    {label}
    <span class="value">{value}</span>
    {children === undefined ? null : <div>{children}</div>}
    <div>{strings.insights.before(before)}</div>
  </li>
)

const Tiles = ({ before, now }: Pick<Answer, 'now' | 'before'>) => {
  const times = ({ measured, p50_ms, p95_ms, p99_ms }: Answer['now']['final']): string =>
    measured === 0
      ? strings.none
      : strings.insights.percentiles(timeText(p50_ms), timeText(p95_ms), timeText(p99_ms))
  return (
    <ul class="tiles">
      <Tile
        label={strings.insights.rate}
        value={shareText(now.delivery_rate)}
        before={shareText(before.delivery_rate)}
      />
      <Tile
        label={strings.messages.title}
        value={countText(now.accepted)}
        before={countText(before.accepted)}
      />
      <Tile label={strings.insights.submit} value={timeText(now.submit.p50_ms)} before={times(before.submit)}>
        {times(now.submit)}
      </Tile>
      <Tile label={strings.insights.final} value={timeText(now.final.p50_ms)} before={times(before.final)}>
        {times(now.final)}
      </Tile>
    </ul>
  )
}

interface PartRow extends InsightPart {
  readonly before: InsightPart | undefined
}

type Outcomes = InsightPart | InsightGroup

const failedOf = ({ expired, rejected, undelivered }: Outcomes): number => undelivered + rejected + expired

const MESSAGES: Column<Pick<Outcomes, 'accepted'>> = {
  title: strings.messages.title,
  numeric: true,
  cell: ({ accepted }) => countText(accepted),
}
const DELIVERED: Column<Pick<Outcomes, 'delivered'>> = {
  title: strings.charts.delivered,
  numeric: true,
  cell: ({ delivered }) => countText(delivered),
}
const FAILED: Column<Outcomes> = {
  title: strings.charts.failed,
  numeric: true,
  cell: (row) => countText(failedOf(row)),
}
const RATE: Column<Outcomes> = {
  title: strings.insights.rate,
  numeric: true,
  cell: ({ delivery_rate }) => shareText(delivery_rate),
}

const atColumn = (by: Unit): Column<{ readonly at: string }> => ({
  title: by === 'hour' ? strings.insights.hour : strings.insights.day,
  cell: ({ at }) => longPart(at, by),
})

const partColumns = (by: Unit): ReadonlyArray<Column<PartRow>> => [
  atColumn(by),
  MESSAGES,
  DELIVERED,
  FAILED,
  RATE,
  {
    title: strings.insights.beforeTitle,
    numeric: true,
    cell: ({ before }) => shareText(before?.delivery_rate ?? null),
  },
  {
    title: strings.insights.submitOf('p95'),
    numeric: true,
    cell: ({ submit }) => timeText(submit.p95_ms),
  },
  { title: strings.insights.finalOf('p50'), numeric: true, cell: ({ final }) => timeText(final.p50_ms) },
  { title: strings.insights.finalOf('p95'), numeric: true, cell: ({ final }) => timeText(final.p95_ms) },
  { title: strings.insights.finalOf('p99'), numeric: true, cell: ({ final }) => timeText(final.p99_ms) },
]

const Charts = ({ before, by, now }: Answer) => {
  const rows = now.parts.map((part, i): PartRow => ({ ...part, before: before.parts[i] }))
  const labels = now.parts.map(({ at }) => partText(at, by))
  const rates = now.parts.map(({ delivery_rate }) => delivery_rate)
  const ratesBefore = before.parts.map(({ delivery_rate }) => delivery_rate)
  const [p50, p95] = [now.parts.map(({ final }) => final.p50_ms), now.parts.map(({ final }) => final.p95_ms)]
  return (
    <>
      <div class="side-by-side">
        <section aria-label={strings.insights.rate}>
          <h2>{strings.insights.rate}</h2>
          <SeriesChart
            label={strings.insights.rateChart(by)}
            parts={labels}
            lines={[
              { name: strings.insights.nowTitle, look: 'now', values: rates },
              { name: strings.insights.beforeTitle, look: 'before', values: ratesBefore },
            ]}
            bottom={floorOfShares([rates, ratesBefore])}
            top={1}
            valueText={(share) => percentText(share)}
          />
        </section>
        <section aria-label={strings.insights.final}>
          <h2>{strings.insights.final}</h2>
          <SeriesChart
            label={strings.insights.timeChart(by)}
            parts={labels}
            lines={[
              { name: 'p50', look: 'now', values: p50 },
              { name: 'p95', look: 'slow', values: p95 },
            ]}
            bottom={0}
            top={Math.max(1000, ...p95.map((ms) => ms ?? 0))}
            valueText={durationText}
          />
        </section>
      </div>
      <ChartNumbers
        label={strings.insights.numbers}
        rows={rows.toReversed()}
        columns={partColumns(by)}
        rowKey={({ at }) => at}
      />
      <p class="muted">{strings.insights.sample}</p>
    </>
  )
}

const cellColumns = (by: Unit, filters: Filters): ReadonlyArray<Column<HeatCell>> => [
  {
    title: strings.insights.range,
    cell: (cell) => <a href={hrefOf(cell, by, filters)}>{cell.range}</a>,
  },
  atColumn(by),
  MESSAGES,
  DELIVERED,
  { title: strings.insights.rate, numeric: true, cell: (cell) => shareText(rateOf(cell)) },
]

const hrefOf = ({ at, range }: HeatCell, by: Unit, filters: Filters): string =>
  messagesOf(filters, at, new Date(Date.parse(at) + LENGTH_MS[by]).toISOString(), { range })

const Ranges = ({ by, now, ranges }: Answer) => {
  const filters = currentFilters(FIELDS)
  return (
    <section aria-label={strings.insights.ranges}>
      <h2>{strings.insights.ranges}</h2>
      {ranges.length === 0 ? (
        <Empty>{strings.insights.noRanges}</Empty>
      ) : (
        <>
          <p>{strings.insights.rangesAbout}</p>
          <figure class="chart">
            <HeatMap
              label={strings.insights.heatMap(by)}
              cells={ranges}
              parts={now.parts.map(({ at }) => ({
                at,
                short: shortPart(at, by),
                long: longPart(at, by),
              }))}
              hrefOf={(cell) => hrefOf(cell, by, filters)}
            />
            <ChartNumbers
              label={strings.insights.heatMap(by)}
              rows={ranges}
              columns={cellColumns(by, filters)}
              rowKey={({ at, range }) => `${range} ${at}`}
            />
          </figure>
        </>
      )}
    </section>
  )
}

const reasonColumns = (answer: Answer): ReadonlyArray<Column<InsightReason>> => [
  {
    title: strings.columns.reason,
    cell: ({ reason_code }) => (
      <a
        href={messagesOf(currentFilters(FIELDS), answer.now.from, answer.now.to, {
          reason: reason_code,
        })}
      >
        {wordsOf(reason_code)}
      </a>
    ),
  },
  { title: strings.insights.nowTitle, numeric: true, cell: ({ messages }) => countText(messages) },
  { title: strings.insights.beforeTitle, numeric: true, cell: ({ before }) => countText(before) },
]

const SPLIT_TITLES: Readonly<Record<string, string>> = {
  account: strings.columns.account,
  class: strings.columns.class,
  range: strings.insights.range,
  template: strings.columns.template,
}

const groupColumns = (split: string): ReadonlyArray<Column<InsightGroup>> => [
  {
    title: SPLIT_TITLES[split] ?? split,
    cell: ({ value }) => (split === 'account' ? <Id id={value} /> : wordsOf(value)),
  },
  MESSAGES,
  {
    title: strings.insights.messagesBefore,
    numeric: true,
    cell: ({ before }) => countText(before.accepted),
  },
  DELIVERED,
  FAILED,
  RATE,
  {
    title: strings.insights.beforeTitle,
    numeric: true,
    cell: ({ before }) => shareText(before.delivery_rate),
  },
]

const Groups = ({ groups, split }: Pick<Answer, 'groups'> & { readonly split: string | undefined }) => (
  <section aria-label={strings.insights.groups}>
    <h2>{strings.insights.groups}</h2>
    {split === undefined || groups.length === 0 ? (
      <Empty>{split === undefined ? strings.insights.noSplit : strings.insights.noGroups}</Empty>
    ) : (
      <Table
        label={strings.insights.groups}
        rows={groups}
        columns={groupColumns(split)}
        rowKey={({ value }) => value}
      />
    )}
    <p class="muted">{strings.insights.missing}</p>
  </section>
)

export const Insights = () => {
  const filters = currentFilters(FIELDS)
  const { data, failure, reload } = useResource<Answer>(withFilters('/v1/insights', filters))
  const { account } = filters
  // Members see neither: both say what hub staff think of an account.
  const isStaff = ownAccounts() === null
  const suspicious = useResource<{ data: ReadonlyArray<SuspiciousRange> }>(
    isStaff ? withFilters('/v1/ranges/suspicious', { account }) : null,
  )
  const blocks = useResource<{ data: ReadonlyArray<RangeBlock> }>(
    isStaff ? withFilters('/v1/ranges/blocks', { account }) : null,
  )
  const changed = (): void => {
    suspicious.reload()
    blocks.reload()
  }
  return (
    <>
      <PageTitle text={strings.insights.title} />
      <FilterBar fields={FIELDS} />
      {isStaff ? <SuspiciousRequests suspicious={suspicious} changed={changed} /> : null}
      <ResourceState data={data} failure={failure} reload={reload} />
      {data === null ? null : (
        <>
          <Unusual now={data.now} unusual={data.unusual ?? []} />
          <Tiles now={data.now} before={data.before} />
          <Charts {...data} />
          <Ranges {...data} />
          <section aria-label={strings.insights.reasons}>
            <h2>{strings.insights.reasons}</h2>
            {data.reasons.length === 0 ? (
              <Empty>{strings.insights.noReasons}</Empty>
            ) : (
              <Table
                label={strings.insights.reasons}
                rows={data.reasons}
                columns={reasonColumns(data)}
                rowKey={({ reason_code }) => reason_code}
              />
            )}
          </section>
          <Groups groups={data.groups} split={filters['split']} />
        </>
      )}
      {isStaff ? <BlockedRanges account={account} blocks={blocks} changed={changed} /> : null}
    </>
  )
}
