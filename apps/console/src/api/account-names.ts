/** The names of accounts, for pages whose data have only their ids. They are read once. */
import { signal } from '@preact/signals'
import { may, request, RequestFailed } from './client.ts'
import type { AccountRow } from './types.ts'

/** By account id. */
const names = signal<ReadonlyMap<string, string>>(new Map())

/** The largest page of the API. Accounts beyond the pages below show their ids. */
const PAGE = 1000
const MOST_PAGES = 5

/** A failure leads back to `unread`: the next page tries again. */
type State = 'unread' | 'reading' | 'read'
let state: State = 'unread'

interface Page {
  readonly data: ReadonlyArray<AccountRow>
  readonly next_cursor?: string | null
}

const read = async (): Promise<void> => {
  let cursor: string | null = null
  for (let pages = 0; pages < MOST_PAGES; pages++) {
    const query = new URLSearchParams({ limit: String(PAGE), ...(cursor === null ? {} : { cursor }) })
    const page: Page = await request<Page>(`/v1/accounts?${query.toString()}`)
    names.value = new Map([...names.value, ...page.data.map(({ id, name }) => [id, name] as const)])
    cursor = page.next_cursor ?? null
    if (cursor === null) return
  }
}

/** Reads the names, if nobody has done so. */
export const readAccountNames = (): void => {
  if (state !== 'unread' || !may('accounts.read')) return
  state = 'reading'
  read().then(
    () => {
      state = 'read'
    },
    (error: unknown) => {
      if (!(error instanceof RequestFailed)) throw error
      // The next page tries again. Until then it shows ids.
      state = 'unread'
    },
  )
}

/** The name of an account. `null`: the id is no account, or its name is not known (yet). */
export const nameOfAccount = (id: string): string | null => {
  if (!id.startsWith('acc_')) return null
  const name = names.value.get(id)
  if (name === undefined) readAccountNames()
  return name ?? null
}

/** All names, for the choice in a filter. */
export const accountNames = (): ReadonlyArray<string> => {
  readAccountNames()
  return [...names.value.values()].toSorted()
}

/** The id of the account of a name or an id. Several accounts may have a name: then the text stays as it is. */
export const accountOf = (text: string): string => {
  const [first, ...others] = [...names.value].filter(([, name]) => name === text)
  return first === undefined || others.length > 0 ? text : first[0]
}
