/** The search box: an id, a reference, an id of the SMS operator, or a phone number. */
import { signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import { type Failure, ownAccounts, request, RequestFailed } from '../api/client.ts'
import type { Hit, SearchResult } from '../api/types.ts'
import { Code, Empty, Failed, Id, Loading, PageTitle, Status, Time } from '../components/basics.tsx'
import { type Column, Table } from '../components/table.tsx'
import { wordsOf } from '../format/number.ts'
import { location, navigate } from '../routing/location.ts'
import { filtersOf, isPhoneNumber, pageOfId, withFilters } from '../routing/routes.ts'
import { strings } from '../strings.ts'

/**
 * The number that the user searches for. It is only in the memory of the page: an address with it would
 * stay in the history of the browser and in the chats to which people copy it.
 */
const number = signal<string | null>(null)

/** Opens what a text names: the page of an id at once, and the search for anything else. */
export const searchFor = (text: string): void => {
  if (isPhoneNumber(text)) {
    number.value = text
    navigate('/search')
    return
  }
  number.value = null
  navigate(pageOfId(text) ?? withFilters('/search', { q: text }))
}

/** The page of a result; `null`: it has none. */
const pageOfHit = ({ account, id, message, type, webhook_endpoint: subscription }: Hit): string | null => {
  if (message !== null) return `/messages/${message.id}`
  if (type === 'webhook_batch') return `/webhooks/${subscription ?? ''}`
  if (type === 'api_key') return `/accounts/${account ?? ''}`
  const page = pageOfId(id)
  return page === null || page.startsWith('/search') ? null : page
}

const COLUMNS: ReadonlyArray<Column<Hit>> = [
  { title: strings.columns.type, cell: (hit) => wordsOf(hit.type) },
  {
    title: strings.columns.id,
    cell: (hit) => {
      const page = pageOfHit(hit)
      return page === null ? <Code text={hit.id} /> : <Id id={hit.id} href={page} />
    },
  },
  { title: strings.columns.account, cell: (hit) => <Id id={hit.account} /> },
  {
    title: strings.columns.status,
    cell: (hit) => (hit.message === null ? null : <Status value={hit.message.status} />),
  },
  { title: strings.columns.reason, cell: (hit) => wordsOf(hit.message?.reason_code ?? '') },
  { title: strings.columns.template, cell: (hit) => hit.message?.template ?? '' },
  { title: strings.columns.created, cell: (hit) => <Time at={hit.message?.created_at ?? hit.at} /> },
]

const Results = ({ result }: { readonly result: SearchResult }) => {
  const { data, explanation } = result
  const recipient = ['number', 'recipient'].includes(result.kind) ? data[0]?.message?.recipient : undefined
  return (
    <>
      {data.length > 0 ? (
        <Table
          label={strings.search.results}
          rows={data}
          columns={COLUMNS}
          rowKey={({ id, webhook_endpoint }) => `${id} ${webhook_endpoint ?? ''}`}
        />
      ) : null}
      {explanation === null ? null : <Empty>{explanation}</Empty>}
      {recipient === undefined ? null : (
        <p>
          <a href={withFilters('/search', { q: recipient })}>{strings.search.byHash}</a>
        </p>
      )}
    </>
  )
}

/**
 * Searches in the accounts of the user: hub staff in all at once, a member in one after another until something is found.
 * The text is in the body of the request: an address would be written to logs.
 */
const search = async (q: string, signal: AbortSignal): Promise<SearchResult> => {
  let result: SearchResult | null = null
  for (const account of ownAccounts() ?? [null]) {
    result = await request<SearchResult>('/v1/search', { method: 'POST', body: { q, account }, signal })
    if (result.data.length > 0) break
  }
  return result ?? { object: 'search_result', kind: 'text', data: [], explanation: strings.member.none }
}

const Found = ({ searched }: { readonly searched: string }) => {
  const [result, setResult] = useState<SearchResult | null>(null)
  const [failure, setFailure] = useState<Failure | null>(null)
  const [round, setRound] = useState(0)
  useEffect(() => {
    const abort = new AbortController()
    setResult(null)
    setFailure(null)
    search(searched, abort.signal).then(
      (found) => {
        const only = found.data.length === 1 ? found.data[0] : undefined
        const page = only === undefined ? null : pageOfHit(only)
        if (page === null) setResult(found)
        else navigate(page, { replace: true })
      },
      (error: unknown) => {
        if (abort.signal.aborted) return
        if (!(error instanceof RequestFailed)) throw error
        setFailure(error.failure)
      },
    )
    return () => abort.abort()
  }, [searched, round])
  if (failure !== null) return <Failed failure={failure} retry={() => setRound(round + 1)} />
  return result === null ? <Loading /> : <Results result={result} />
}

export const Search = () => {
  const text = filtersOf(location.value.search, ['q'])['q'] ?? null
  const byNumber = number.value
  const searched = text ?? byNumber
  return (
    <>
      <PageTitle text={text === null ? strings.search.title : strings.search.titleOf(text)} />
      {text === null && byNumber !== null ? <p class="muted">{strings.search.numberNote}</p> : null}
      {searched === null ? <Empty>{strings.search.empty}</Empty> : <Found searched={searched} />}
    </>
  )
}
