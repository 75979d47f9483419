/** Saved views: the list of them, and the page that opens one. */
import { useEffect } from 'preact/hooks'
import { nameOfAccount } from '../api/account-names.ts'
import { may, request } from '../api/client.ts'
import { usePages, useResource } from '../api/resource.ts'
import type { OpenedView, SavedView } from '../api/types.ts'
import { Loading, PageTitle, ResourceState, Time } from '../components/basics.tsx'
import { ActionButton } from '../components/dialog.tsx'
import { type Column, PagedTable } from '../components/table.tsx'
import { wordsOf } from '../format/number.ts'
import { navigate } from '../routing/location.ts'
import { strings } from '../strings.ts'
import { viewAddress, withoutFilter } from '../views/address.ts'
import { ViewFields, viewOf } from '../views/save-view.tsx'

const FilterTexts = ({ filters }: { readonly filters: SavedView['filters'] }) => (
  <ul class="detail">
    {Object.entries(filters).map(([name, value]) => (
      <li key={name}>
        <span class="muted">{strings.views.filters[name] ?? wordsOf(name)}</span>{' '}
        {nameOfAccount(value) ?? wordsOf(value)}
      </li>
    ))}
  </ul>
)

const listName = (list: string): string => strings.views.lists[list] ?? list

const Actions = ({ reload, view }: { readonly view: SavedView; readonly reload: () => void }) => {
  const path = `/v1/views/${view.id}`
  if (!may(view.shared ? 'views.share' : 'views.change')) return null
  return (
    <div class="actions">
      <ActionButton
        label={strings.views.change}
        title={strings.views.changeOf(view.name)}
        about={strings.views.changeAbout}
        onSubmit={async (fields) => {
          await request(path, { method: 'PATCH', body: viewOf(fields) })
          reload()
        }}
      >
        <ViewFields view={view} />
      </ActionButton>
      <ActionButton
        label={strings.views.remove}
        title={strings.views.removeOf(view.name)}
        about={view.shared ? strings.views.removeSharedAbout : strings.views.removeAbout}
        confirmName={view.name}
        onSubmit={async () => {
          await request(path, { method: 'DELETE' })
          reload()
        }}
      />
    </div>
  )
}

const columnsWith = (reload: () => void): ReadonlyArray<Column<SavedView>> => [
  { title: strings.columns.name, cell: ({ id, name }) => <a href={`/views/${id}`}>{name}</a> },
  { title: strings.views.list, cell: ({ list }) => listName(list) },
  { title: strings.filters.title, wide: true, cell: ({ filters }) => <FilterTexts filters={filters} /> },
  {
    title: strings.views.seenBy,
    cell: ({ shared }) => (shared ? strings.views.everybody : strings.views.onlyYou),
  },
  { title: strings.views.owner, cell: ({ owner }) => owner },
  { title: strings.views.changed, cell: ({ changed_at }) => <Time at={changed_at} /> },
  { title: strings.people.action, cell: (view) => <Actions view={view} reload={reload} /> },
]

export const SavedViews = () => {
  const pages = usePages<SavedView>('/v1/views')
  return (
    <>
      <PageTitle text={strings.views.title} />
      <p>{strings.views.about}</p>
      <PagedTable
        label={strings.views.title}
        pages={pages}
        columns={columnsWith(pages.reload)}
        rowKey={({ id }) => id}
        empty={strings.views.empty}
      />
    </>
  )
}

/** Why a view does not open, and the same list without the wrong filter. */
const Outdated = ({ view }: { readonly view: OpenedView }) => {
  const { filters, list, problem } = view
  const others = problem === null ? null : viewAddress(list, withoutFilter(filters, problem.filter))
  return (
    <>
      <div class="failure" role="alert">
        <strong>{strings.views.outdated}</strong>
        <p>
          {problem === null
            ? strings.views.unknownList
            : strings.views.problems[problem.code](strings.views.filters[problem.filter] ?? problem.filter)}
        </p>
      </div>
      <FilterTexts filters={filters} />
      <p class="links">
        {others === null ? null : <a href={others}>{strings.views.openOthers}</a>}
        <a href="/views">{strings.views.all}</a>
      </p>
    </>
  )
}

/** Opens the list of a view in its place. A view that cannot be opened says why. */
export const ViewPage = ({ id }: { readonly id: string }) => {
  const { data, failure, reload } = useResource<OpenedView>(`/v1/views/${encodeURIComponent(id)}`)
  const address = data === null || data.problem !== null ? null : viewAddress(data.list, data.filters)
  useEffect(() => {
    if (address !== null) navigate(address, { replace: true })
  }, [address])
  return (
    <>
      <PageTitle text={data === null ? strings.views.view : data.name} />
      <ResourceState data={data} failure={failure} reload={reload} />
      {failure === null ? null : (
        <p>
          <a href="/views">{strings.views.all}</a>
        </p>
      )}
      {data === null ? null : address === null ? <Outdated view={data} /> : <Loading />}
    </>
  )
}
