/** Accounts: their limits, keys, spend, and how their messages end. */
import { may, request } from '../api/client.ts'
import { usePages, useResource } from '../api/resource.ts'
import type { Account, AccountRow, DaySpend, TemplatePerformance } from '../api/types.ts'
import { Code, Empty, Facts, PageTitle, ResourceState, Time } from '../components/basics.tsx'
import { ActionButton } from '../components/dialog.tsx'
import {
  currentFilters,
  FilterBar,
  type FilterField,
  MONTH_FIELD,
  thisMonth,
} from '../components/filters.tsx'
import { type Column, ListTools, PagedTable, Table } from '../components/table.tsx'
import { countText, moneyText, percentText, wordsOf } from '../format/number.ts'
import { dateText, durationText, monthText } from '../format/time.ts'
import { exportPath, withFilters } from '../routing/routes.ts'
import { strings } from '../strings.ts'
import { Certification } from './account-certification.tsx'
import { Keys } from './account-keys.tsx'
import { Settings } from './account-settings.tsx'
import { HubStop } from './hub-stop.tsx'

const COLUMNS: ReadonlyArray<Column<AccountRow>> = [
  { title: strings.columns.name, cell: ({ id, name }) => <a href={`/accounts/${id}`}>{name}</a> },
  { title: strings.columns.id, cell: ({ id }) => <Code text={id} /> },
  { title: strings.accounts.liveKeys, numeric: true, cell: ({ live_keys }) => countText(live_keys) },
  { title: strings.accounts.testKeys, numeric: true, cell: ({ test_keys }) => countText(test_keys) },
  {
    title: strings.accounts.certification,
    cell: ({ certified }) => (certified ? strings.accounts.certified : strings.accounts.notCertified),
  },
  { title: strings.columns.created, cell: ({ created_at }) => <Time at={created_at} /> },
]

/** The accounts that the user sees. `empty`: what to do if there is none. */
export const AccountTable = ({ empty, title }: { readonly title: string; readonly empty: string }) => {
  const pages = usePages<AccountRow>('/v1/accounts?limit=100')
  return (
    <>
      <PageTitle text={title} />
      <PagedTable label={title} pages={pages} columns={COLUMNS} rowKey={({ id }) => id} empty={empty} />
    </>
  )
}

export const Accounts = () => (
  <>
    <AccountTable title={strings.accounts.title} empty={strings.accounts.empty} />
    {may('hub.read') ? <HubStop /> : null}
  </>
)

const latency = (ms: number | null): string => (ms === null ? '' : durationText(ms))

const templatesOf = (account: string): ReadonlyArray<Column<TemplatePerformance>> => [
  {
    title: strings.columns.template,
    cell: ({ template }) => <a href={withFilters('/messages', { account, template })}>{template}</a>,
  },
  { title: strings.columns.class, cell: (row) => wordsOf(row.class) },
  { title: strings.accounts.accepted, numeric: true, cell: ({ accepted }) => countText(accepted) },
  { title: strings.charts.delivered, numeric: true, cell: ({ delivered }) => countText(delivered) },
  { title: strings.charts.failed, numeric: true, cell: ({ failed }) => countText(failed) },
  {
    title: strings.accounts.failureRate,
    numeric: true,
    cell: ({ failure_rate }) => (failure_rate === null ? '' : percentText(failure_rate)),
  },
  { title: strings.accounts.sent50, numeric: true, cell: ({ sent_p50_ms }) => latency(sent_p50_ms) },
  { title: strings.accounts.sent99, numeric: true, cell: ({ sent_p99_ms }) => latency(sent_p99_ms) },
  {
    title: strings.accounts.delivered50,
    numeric: true,
    cell: ({ delivered_p50_ms }) => latency(delivered_p50_ms),
  },
  {
    title: strings.accounts.delivered99,
    numeric: true,
    cell: ({ delivered_p99_ms }) => latency(delivered_p99_ms),
  },
]

const DAY_MS = 86_400_000
const PERIOD_DAYS = 30

/** One set of filters for the page: those of another set would be lost. */
const FIELDS: ReadonlyArray<FilterField> = [
  MONTH_FIELD,
  { name: 'mode', label: strings.columns.mode, kind: 'choice', choices: ['live', 'test'], fallback: 'live' },
]

const Performance = ({ id }: { readonly id: string }) => {
  const now = Date.now()
  const day = (at: number): string => new Date(at).toISOString().slice(0, 10)
  const { mode = 'live' } = currentFilters(FIELDS)
  const path = withFilters('/v1/usage/templates', {
    account: id,
    mode,
    from: day(now - PERIOD_DAYS * DAY_MS),
    to: day(now),
  })
  const { data, failure, reload } = useResource<{ readonly data: ReadonlyArray<TemplatePerformance> }>(path)
  return (
    <section aria-labelledby="performance">
      <h2 id="performance">{strings.accounts.performance(PERIOD_DAYS)}</h2>
      <ResourceState data={data} failure={failure} reload={reload} />
      {data === null ? null : data.data.length === 0 ? (
        <Empty>{strings.accounts.noMessages}</Empty>
      ) : (
        <>
          <ListTools csv={exportPath(path)} label={strings.accounts.performance(PERIOD_DAYS)} />
          <Table
            label={strings.accounts.performance(PERIOD_DAYS)}
            rows={data.data}
            columns={templatesOf(id)}
            rowKey={({ class: of, template }) => `${of} ${template}`}
          />
        </>
      )}
    </section>
  )
}

const amountOf = ({ currency }: DaySpend, amount: string): string => moneyText({ amount, currency })

const DAYS: ReadonlyArray<Column<DaySpend>> = [
  { title: strings.usage.day, cell: ({ day }) => dateText(day) },
  { title: strings.messages.title, numeric: true, cell: ({ messages }) => countText(messages) },
  { title: strings.usage.charged, numeric: true, cell: (row) => amountOf(row, row.charged) },
  { title: strings.usage.returned, numeric: true, cell: (row) => amountOf(row, row.returned) },
  { title: strings.message.price, numeric: true, cell: (row) => amountOf(row, row.price) },
]

const Spend = ({ id }: { readonly id: string }) => {
  const { month = thisMonth() } = currentFilters(FIELDS)
  const path = withFilters('/v1/usage/days', { account: id, month })
  const { data, failure, reload } = useResource<{ readonly data: ReadonlyArray<DaySpend> }>(path)
  return (
    <section aria-labelledby="spend">
      <h2 id="spend">{strings.usage.byDay(monthText(month))}</h2>
      <FilterBar fields={FIELDS} />
      <ResourceState data={data} failure={failure} reload={reload} />
      {data === null ? null : data.data.length === 0 ? (
        <Empty>{strings.usage.empty}</Empty>
      ) : (
        <>
          <ListTools csv={exportPath(path)} label={strings.usage.byDay(monthText(month))} />
          <Table
            label={strings.usage.byDay(monthText(month))}
            rows={data.data}
            columns={DAYS}
            rowKey={({ currency, day }) => `${day} ${currency}`}
          />
        </>
      )}
    </section>
  )
}

const ResetSpend = ({ account, reload }: { readonly account: Account; readonly reload: () => void }) => (
  <ActionButton
    label={strings.accounts.resetSpend}
    about={strings.accounts.resetSpendAbout}
    confirmName={account.name}
    onSubmit={async () => {
      await request(`/v1/accounts/${account.id}/reset_spend`, { method: 'POST', body: {} })
      reload()
    }}
  />
)

export const AccountPage = ({ id }: { readonly id: string }) => {
  const { data, failure, reload } = useResource<Account>(`/v1/accounts/${encodeURIComponent(id)}`)
  return (
    <>
      <PageTitle text={data === null ? id : data.name}>
        <Code text={id} />
      </PageTitle>
      <ResourceState data={data} failure={failure} reload={reload} />
      {data === null ? null : (
        <>
          <Facts
            rows={[
              [
                strings.accounts.spend(monthText(data.spending.period)),
                <>
                  {moneyText({ amount: data.spending.spent, currency: data.spending.currency })}{' '}
                  {data.spending.threshold_told ? strings.accounts.told : ''}{' '}
                  {may('accounts.change') ? <ResetSpend account={data} reload={reload} /> : null}
                </>,
              ],
              [
                strings.accounts.lists,
                <span class="links">
                  <a href={withFilters('/messages', { account: id })}>{strings.messages.title}</a>{' '}
                  <a href={withFilters('/moderation/templates', { account: id })}>
                    {strings.moderation.templates}
                  </a>{' '}
                  <a href={withFilters('/webhooks', { account: id })}>{strings.webhooks.title}</a>{' '}
                  <a href={withFilters('/usage', { account: id })}>{strings.usage.title}</a>
                </span>,
              ],
            ]}
          />
          <Settings account={data} reload={reload} />
          <Keys id={id} name={data.name} />
          <Certification account={data} reloadAccount={reload} />
          <Spend id={id} />
          <Performance id={id} />
        </>
      )}
    </>
  )
}
