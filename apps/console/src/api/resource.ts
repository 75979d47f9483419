/** Reads of the API as hooks: one resource, and the pages of a list. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { type Failure, request, RequestFailed } from './client.ts'
import { exportPath } from '../routing/routes.ts'
import { type KeptRows, withPage } from './kept-rows.ts'

export interface Resource<A> {
  /** The last answer. It stays while a newer one is loaded, and after a failure. */
  readonly data: A | null
  readonly failure: Failure | null
  readonly loading: boolean
  readonly reload: () => void
}

const failureOf = (error: unknown): Failure => {
  if (error instanceof RequestFailed) return error.failure
  throw error
}

/** Reads `path` again whenever it changes. `null` reads nothing. */
export const useResource = <A>(path: string | null): Resource<A> => {
  const [state, setState] = useState<{ path: string | null; data: A | null; failure: Failure | null }>({
    path: null,
    data: null,
    failure: null,
  })
  const [loading, setLoading] = useState(path !== null)
  const [round, setRound] = useState(0)
  const reload = useCallback(() => setRound((n) => n + 1), [])
  useEffect(() => {
    if (path === null) return
    const abort = new AbortController()
    setLoading(true)
    request<A>(path, { signal: abort.signal })
      .then(
        (data) => setState({ path, data, failure: null }),
        (error: unknown) => {
          if (abort.signal.aborted) return
          const failure = failureOf(error)
          setState((last) => ({ path, data: last.path === path ? last.data : null, failure }))
        },
      )
      .finally(() => {
        if (!abort.signal.aborted) setLoading(false)
      })
    return () => abort.abort()
  }, [path, round])
  const isCurrent = state.path === path
  return {
    data: isCurrent ? state.data : null,
    failure: isCurrent ? state.failure : null,
    loading: loading || (path !== null && !isCurrent),
    reload,
  }
}

interface Page<Row> {
  readonly data: ReadonlyArray<Row>
  /** Absent: the list has no further pages. */
  readonly next_cursor?: string | null
  /** A list that looks at a limited number of rows per page: it has found all rows until this time. */
  readonly searched_until?: string | null
}

export interface Pages<Row> extends KeptRows<Row> {
  /** The address of the same list as CSV. */
  readonly csv: string
  readonly failure: Failure | null
  readonly loading: boolean
  readonly hasMore: boolean
  /** The last page had no row, although more may follow: the list has found all until this time. */
  readonly searchedUntil: string | null
  /** Loads the next page, or repeats a page that failed. */
  readonly loadMore: () => void
  readonly reload: () => void
}

interface PagesState<Row> extends KeptRows<Row> {
  readonly path: string
  /** Where the next page begins. `null`: there is none. */
  readonly next: string | null
  readonly searchedUntil: string | null
  readonly failure: Failure | null
  readonly loading: boolean
}

/** From so many rows on, who reads on reads far: pages are larger, so that fewer requests delay the scrolling. */
const FAR_ROWS = 500
const FAR_LIMIT = '500'

const pageAddress = (path: string, cursor: string, rows: number): string => {
  const [pathname, query] = path.split('?')
  const given = new URLSearchParams(query)
  given.set('cursor', cursor)
  if (rows >= FAR_ROWS && given.has('limit')) given.set('limit', FAR_LIMIT)
  return `${pathname}?${given.toString()}`
}

/** The pages of a list, from its beginning. A changed `path` begins again. */
export const usePages = <Row>(path: string): Pages<Row> => {
  const initial: PagesState<Row> = {
    path,
    rows: [],
    dropped: 0,
    next: null,
    searchedUntil: null,
    failure: null,
    loading: true,
  }
  const [state, setState] = useState(initial)
  const running = useRef<AbortController | null>(null)

  const load = (cursor: string | null, before: KeptRows<Row>): void => {
    running.current?.abort()
    const abort = new AbortController()
    running.current = abort
    const begun: PagesState<Row> = { ...initial, rows: before.rows, dropped: before.dropped, next: cursor }
    setState(begun)
    const address = cursor === null ? path : pageAddress(path, cursor, before.rows.length)
    request<Page<Row>>(address, { signal: abort.signal }).then(
      (page) => {
        const searchedUntil = page.data.length === 0 ? (page.searched_until ?? null) : null
        const kept = withPage(before, page.data)
        setState({
          path,
          ...kept,
          next: page.next_cursor ?? null,
          searchedUntil,
          failure: null,
          loading: false,
        })
      },
      (error: unknown) => {
        if (abort.signal.aborted) return
        setState({ ...begun, failure: failureOf(error), loading: false })
      },
    )
  }
  useEffect(() => {
    load(null, initial)
    return () => running.current?.abort()
  }, [path])

  const shown = state.path === path ? state : initial
  return {
    csv: exportPath(path),
    rows: shown.rows,
    dropped: shown.dropped,
    failure: shown.failure,
    loading: shown.loading,
    hasMore: shown.next !== null,
    searchedUntil: shown.searchedUntil,
    loadMore: () => {
      if (!shown.loading && (shown.next !== null || shown.failure !== null)) load(shown.next, shown)
    },
    reload: () => load(null, initial),
  }
}
