/** The audit trail: who did what, in which role, and why. Its lines never change. */
import { usePages } from '../api/resource.ts'
import type { AuditRow } from '../api/types.ts'
import { Id, PageTitle, Status, Time } from '../components/basics.tsx'
import { currentFilters, FilterBar, type FilterField } from '../components/filters.tsx'
import { type Column, PagedTable } from '../components/table.tsx'
import { wordsOf } from '../format/number.ts'
import { withFilters } from '../routing/routes.ts'
import { strings } from '../strings.ts'

const FIELDS: ReadonlyArray<FilterField> = [
  { name: 'actor', label: strings.audit.actor, kind: 'text' },
  { name: 'command', label: strings.audit.operation, kind: 'text', placeholder: 'messages reveal' },
]

const Values = ({ values }: { readonly values: Readonly<Record<string, unknown>> | null }) => (
  <ul class="detail">
    {Object.entries(values ?? {}).flatMap(([name, value]) =>
      value === null
        ? []
        : [
            <li key={name}>
              <span class="muted">{wordsOf(name)}</span>{' '}
              {typeof value === 'string' ? <Id id={value} /> : JSON.stringify(value)}
            </li>,
          ],
    )}
  </ul>
)

const COLUMNS: ReadonlyArray<Column<AuditRow>> = [
  { title: strings.audit.at, cell: ({ at }) => <Time at={at} /> },
  { title: strings.audit.actor, cell: ({ actor }) => actor },
  { title: strings.audit.role, cell: ({ role }) => strings.roles[role ?? ''] ?? role },
  { title: strings.audit.operation, cell: ({ command }) => command },
  { title: strings.audit.values, wide: true, cell: (row) => <Values values={row.arguments} /> },
  { title: strings.columns.reason, cell: ({ reason }) => reason ?? '' },
  { title: strings.audit.outcome, cell: ({ outcome }) => <Status value={outcome} /> },
  { title: strings.audit.detail, wide: true, cell: ({ detail }) => <Values values={detail} /> },
]

export const Audit = () => {
  const filters = currentFilters(FIELDS)
  const pages = usePages<AuditRow>(withFilters('/v1/audit', { ...filters, limit: '100' }))
  return (
    <>
      <PageTitle text={strings.audit.title} />
      <FilterBar fields={FIELDS} view="audit" />
      <PagedTable
        label={strings.audit.title}
        pages={pages}
        columns={COLUMNS}
        rowKey={({ actor, at, command }) => `${at} ${actor} ${command}`}
        empty={Object.keys(filters).length > 0 ? strings.audit.emptyFilter : strings.audit.empty}
      />
    </>
  )
}
