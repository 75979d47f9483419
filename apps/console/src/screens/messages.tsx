/** The recent messages of all accounts, newest first. */
import { CHOICES } from '../api/choices.ts'
import { usePages } from '../api/resource.ts'
import type { Message } from '../api/types.ts'
import { Code, Id, PageTitle, Status, Time } from '../components/basics.tsx'
import { ACCOUNT_FIELD, currentFilters, FilterBar, type FilterField } from '../components/filters.tsx'
import { type Column, PagedTable } from '../components/table.tsx'
import { wordsOf } from '../format/number.ts'
import { withFilters } from '../routing/routes.ts'
import { strings } from '../strings.ts'

const { class: CLASSES, mode: MODES, reason: REASONS, status: STATUSES } = CHOICES['messages.list']

const FIELDS: ReadonlyArray<FilterField> = [
  ACCOUNT_FIELD,
  { name: 'mode', label: strings.columns.mode, kind: 'choice', choices: MODES },
  { name: 'class', label: strings.columns.class, kind: 'choice', choices: CLASSES },
  { name: 'template', label: strings.columns.template, kind: 'text' },
  { name: 'status', label: strings.columns.status, kind: 'choice', choices: STATUSES },
  { name: 'reason', label: strings.columns.reason, kind: 'choice', choices: REASONS },
  { name: 'range', label: strings.insights.range, kind: 'text', placeholder: '912' },
  { name: 'batch', label: strings.columns.batch, kind: 'text', placeholder: 'bat_…' },
  { name: 'created_after', label: strings.filters.after, kind: 'time' },
  { name: 'created_before', label: strings.filters.before, kind: 'time' },
]

const COLUMNS: ReadonlyArray<Column<Message>> = [
  { title: strings.columns.created, cell: ({ created_at }) => <Time at={created_at} /> },
  { title: strings.columns.message, cell: ({ id }) => <Id id={id} /> },
  { title: strings.columns.status, cell: ({ status }) => <Status value={status} /> },
  { title: strings.columns.reason, cell: ({ reason_code }) => wordsOf(reason_code ?? '') },
  { title: strings.columns.class, cell: (message) => wordsOf(message.class) },
  { title: strings.columns.template, cell: ({ template }) => template },
  { title: strings.columns.mode, cell: ({ mode }) => wordsOf(mode) },
  { title: strings.columns.account, cell: ({ account }) => <Id id={account} /> },
  { title: strings.columns.clientRef, cell: ({ client_ref }) => <Code text={client_ref} /> },
]

/** Rows of a page. Two screens of rows load in one request. */
const PAGE = 100

export const Messages = () => {
  const filters = currentFilters(FIELDS)
  const pages = usePages<Message>(withFilters('/v1/messages', { ...filters, limit: String(PAGE) }))
  return (
    <>
      <PageTitle text={strings.messages.title} />
      <FilterBar fields={FIELDS} view="messages" />
      <PagedTable
        label={strings.messages.title}
        pages={pages}
        columns={COLUMNS}
        rowKey={({ id }) => id}
        empty={Object.keys(filters).length > 0 ? strings.messages.emptyFilter : strings.messages.empty}
      />
    </>
  )
}
