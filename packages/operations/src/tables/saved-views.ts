/** `command.saved_views`: lists with filters that hub staff have saved under a name. Ids are UUIDs. */
import type { Person, Queries } from '@hub/store'

export interface SavedView {
  readonly id: string
  readonly name: string
  readonly list: string
  /** As in the address of the list. */
  readonly filters: Readonly<Record<string, string>>
  readonly shared: boolean
  readonly owner_id: string
  readonly owner: string
  readonly created_at: Date
  readonly changed_at: Date
}

/** The indexes that keep the names of views different. */
export const NAME_INDEXES: ReadonlyArray<string> = ['saved_views_shared_name', 'saved_views_private_name']

const columns = (q: Queries) => q`id, name, list, filters, shared, owner_id, owner, created_at, changed_at`

/** A condition: the person sees the view. */
const isVisible = (q: Queries, viewer: string) => q`(shared OR owner_id = ${viewer})`

/** The views that a person (by identity) sees, by name. */
export const readVisible = (q: Queries, viewer: string): Promise<ReadonlyArray<SavedView>> =>
  q<SavedView[]>`
    SELECT ${columns(q)} FROM command.saved_views WHERE ${isVisible(q, viewer)} ORDER BY lower(name), shared, id`

/** A view that a person sees; `null`: there is none. */
export const read = async (q: Queries, id: string, viewer: string): Promise<SavedView | null> => {
  const [row] = await q<SavedView[]>`
    SELECT ${columns(q)} FROM command.saved_views WHERE id = ${id} AND ${isVisible(q, viewer)}`
  return row ?? null
}

/**
 * Inserts a view, unless its owner has `most` of the same kind (private or shared) already. A name that is taken is
 * rejected with one of {@link NAME_INDEXES}.
 */
export const insert = async (
  q: Queries,
  view: Pick<SavedView, 'id' | 'name' | 'list' | 'filters' | 'shared'>,
  owner: Person,
  most: number,
): Promise<SavedView | null> => {
  const { filters, id, list, name, shared } = view
  const [row] = await q<SavedView[]>`
    INSERT INTO command.saved_views (id, name, list, filters, shared, owner_id, owner)
    SELECT ${id}::uuid, ${name}::text, ${list}::text, ${JSON.stringify(filters)}::text::jsonb, ${shared}::boolean,
           ${owner.id}::text, ${owner.name}::text
     WHERE (SELECT count(*) FROM command.saved_views WHERE owner_id = ${owner.id} AND shared = ${shared}) < ${most}
    RETURNING ${columns(q)}`
  return row ?? null
}

/** Changes a view. A name that is taken is rejected with one of {@link NAME_INDEXES}. `null`: there is none. */
export const update = async (
  q: Queries,
  id: string,
  { name, shared }: Pick<SavedView, 'name' | 'shared'>,
): Promise<SavedView | null> => {
  const [row] = await q<SavedView[]>`
    UPDATE command.saved_views SET name = ${name}, shared = ${shared}, changed_at = now() WHERE id = ${id}
    RETURNING ${columns(q)}`
  return row ?? null
}

/** Deletes a view. Returns whether there was one. */
export const remove = async (q: Queries, id: string): Promise<boolean> =>
  (await q`DELETE FROM command.saved_views WHERE id = ${id} RETURNING 1`).length > 0
