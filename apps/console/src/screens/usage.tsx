/** What the messages of a month cost, by account, class and template. */
import { useResource } from '../api/resource.ts'
import type { ChargedUsage } from '../api/types.ts'
import { Empty, PageTitle, ResourceState } from '../components/basics.tsx'
import {
  ACCOUNT_FIELD,
  currentFilters,
  FilterBar,
  type FilterField,
  MONTH_FIELD,
  thisMonth,
} from '../components/filters.tsx'
import { type Column, ListTools, Table } from '../components/table.tsx'
import { countText, moneyText, wordsOf } from '../format/number.ts'
import { monthText } from '../format/time.ts'
import { exportPath, withFilters } from '../routing/routes.ts'
import { strings } from '../strings.ts'

const FIELDS: ReadonlyArray<FilterField> = [MONTH_FIELD, ACCOUNT_FIELD]

const money = ({ currency }: ChargedUsage, amount: string): string => moneyText({ amount, currency })

const COLUMNS: ReadonlyArray<Column<ChargedUsage>> = [
  {
    title: strings.columns.account,
    cell: ({ account, name }) => <a href={`/accounts/${account}`}>{name}</a>,
  },
  { title: strings.columns.class, cell: (row) => (row.class === null ? strings.none : wordsOf(row.class)) },
  { title: strings.columns.template, cell: ({ template }) => template ?? strings.none },
  { title: strings.messages.title, numeric: true, cell: ({ messages }) => countText(messages) },
  { title: strings.message.parts, numeric: true, cell: ({ parts }) => countText(parts) },
  { title: strings.usage.charged, numeric: true, cell: (row) => money(row, row.charged) },
  { title: strings.usage.returned, numeric: true, cell: (row) => money(row, row.returned) },
  { title: strings.message.price, numeric: true, cell: (row) => money(row, row.price) },
]

export const Usage = () => {
  const filters = currentFilters(FIELDS)
  const { month = thisMonth() } = filters
  const path = withFilters('/v1/usage/charges', { ...filters, month })
  const { data, failure, reload } = useResource<{ readonly data: ReadonlyArray<ChargedUsage> }>(path)
  return (
    <>
      <PageTitle text={strings.usage.titleOf(monthText(month))} />
      <FilterBar fields={FIELDS} view="usage" />
      <ResourceState data={data} failure={failure} reload={reload} />
      {data === null ? null : data.data.length === 0 ? (
        <Empty>{strings.usage.empty}</Empty>
      ) : (
        <>
          <ListTools csv={exportPath(path)} label={strings.usage.titleOf(monthText(month))} />
          <Table
            label={strings.usage.titleOf(monthText(month))}
            rows={data.data}
            columns={COLUMNS}
            rowKey={(row) => `${row.account} ${row.class ?? ''} ${row.template ?? ''} ${row.currency}`}
          />
        </>
      )}
    </>
  )
}
