/** Saves a list with its filters as a view. */
import { useState } from 'preact/hooks'
import { may, request } from '../api/client.ts'
import type { SavedView } from '../api/types.ts'
import { ActionButton, textOf } from '../components/dialog.tsx'
import type { Filters } from '../routing/routes.ts'
import { strings } from '../strings.ts'
import type { ViewList } from './address.ts'

/** The name of a view, and who sees it. */
export const ViewFields = ({ view = null }: { readonly view?: SavedView | null }) => (
  <>
    <label>
      {strings.views.name}
      <input name="name" required maxLength={80} autocomplete="off" defaultValue={view?.name ?? ''} />
    </label>
    {may('views.share') ? (
      <label class="check">
        <input type="checkbox" name="shared" defaultChecked={view?.shared ?? false} /> {strings.views.share}
      </label>
    ) : null}
  </>
)

/** What the fields say. */
export const viewOf = (fields: FormData) => ({
  name: textOf(fields, 'name'),
  shared: fields.get('shared') !== null,
})

export const SaveView = ({ filters, list }: { readonly list: ViewList; readonly filters: Filters }) => {
  const [saved, setSaved] = useState<SavedView | null>(null)
  if (!may('views.change')) return null
  return (
    <div class="list-tools">
      {saved === null ? null : (
        <span role="status">
          {strings.views.saved} <a href={`/views/${saved.id}`}>{saved.name}</a>
        </span>
      )}
      <ActionButton
        label={strings.views.save}
        about={strings.views.saveAbout}
        onSubmit={async (fields) => {
          const body = { ...viewOf(fields), list, filters }
          setSaved(await request<SavedView>('/v1/views', { method: 'POST', body }))
        }}
      >
        <ViewFields />
      </ActionButton>
    </div>
  )
}
