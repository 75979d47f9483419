/** Small parts of all pages: titles, times, ids, statuses, and the states of a read. */
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import type { Failure } from '../api/client.ts'
import type { Resource } from '../api/resource.ts'
import { ageText, localText, utcText } from '../format/time.ts'
import { wordsOf } from '../format/number.ts'
import { pageOfId } from '../routing/routes.ts'
import { strings } from '../strings.ts'

/** The first page must not take the focus: the browser puts it at the beginning. */
let isFirstPage = true

/** The heading of a page. It gets the focus on arrival, so that screen readers announce the page. */
export const PageTitle = ({
  children,
  text,
}: {
  readonly text: string
  readonly children?: ComponentChildren
}) => {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    document.title = `${text} – ${strings.product}`
  }, [text])
  useEffect(() => {
    if (!isFirstPage) heading.current?.focus({ preventScroll: true })
    isFirstPage = false
  }, [])
  return (
    <div class="page-title">
      <h1 tabIndex={-1} ref={heading}>
        {text}
      </h1>
      {children}
    </div>
  )
}

/** A time in the zone of the viewer, with UTC on hover. */
export const Time = ({ at, precise = false }: { readonly at: string | null; readonly precise?: boolean }) =>
  at === null ? (
    <span class="muted">{strings.none}</span>
  ) : (
    <time dateTime={at} title={utcText(at)}>
      {localText(at, { precise })}
    </time>
  )

/** How long ago a time was, with the time itself on hover. */
export const Age = ({ at }: { readonly at: string | null }) =>
  at === null ? (
    <span class="muted">{strings.none}</span>
  ) : (
    <time dateTime={at} title={`${localText(at)} (${utcText(at)})`}>
      {ageText(at, Date.now())}
    </time>
  )

/** Text that may be an id. An id links to its page. */
export const Id = ({ id, label }: { readonly id: string | null; readonly label?: string }) => {
  if (id === null || id === '') return <span class="muted">{strings.none}</span>
  const page = pageOfId(id)
  if (page === null) return <code>{id}</code>
  return (
    <a href={page} class={label === undefined ? 'id' : ''} title={id}>
      {label ?? id}
    </a>
  )
}

const TONES: Readonly<Record<string, 'good' | 'bad' | 'waiting'>> = {
  delivered: 'good',
  approved: 'good',
  registered: 'good',
  succeeded: 'good',
  enabled: 'good',
  healthy: 'good',
  ok: 'good',
  done: 'good',
  connected: 'good',
  undelivered: 'bad',
  rejected: 'bad',
  expired: 'bad',
  declined: 'bad',
  failed: 'bad',
  failing: 'bad',
  problem: 'bad',
  disabled_by_failures: 'bad',
  revoked: 'bad',
  stopped: 'bad',
  accepted: 'waiting',
  sent: 'waiting',
  pending: 'waiting',
  pending_moderation: 'waiting',
  begun: 'waiting',
  notice: 'waiting',
  requested: 'waiting',
}

export const Status = ({ value }: { readonly value: string }) => (
  <span class={`status ${TONES[value] ?? 'plain'}`}>{wordsOf(value)}</span>
)

/** A value of unknown shape, as the API sent it. Preact escapes all text. */
export const Json = ({ value, label }: { readonly value: unknown; readonly label: string }) => (
  // A long text scrolls, so the keyboard must reach it.
  <pre tabIndex={0} role="group" aria-label={label}>
    {typeof value === 'string' ? value : JSON.stringify(value, null, 2)}
  </pre>
)

export const Loading = () => (
  <p class="loading" role="status">
    {strings.loading}
  </p>
)

export const Empty = ({ children }: { readonly children: ComponentChildren }) => (
  <p class="empty">{children}</p>
)

/** Says what failed and what to do. */
export const Failed = ({ failure, retry }: { readonly failure: Failure; readonly retry?: () => void }) => {
  // The page of the login replaces this page.
  if (failure.kind === 'signed_out') return null
  const unavailable = failure.kind === 'unavailable'
  const forbidden = failure.kind === 'refused' && failure.status === 403
  const canRetry =
    retry !== undefined && !forbidden && (unavailable || failure.status === 429 || failure.status >= 500)
  return (
    <div class="failure" role="alert">
      <strong>
        {unavailable
          ? strings.failures.unavailable.title
          : forbidden
            ? strings.failures.forbidden.title
            : strings.failures.refused.title}
      </strong>
      <p>
        {unavailable ? strings.failures.unavailable.advice : failure.message}
        {forbidden ? ` ${strings.failures.forbidden.advice(failure.roles)}` : ''}
      </p>
      {failure.kind === 'refused' && failure.requestId !== null ? (
        <p class="muted">
          {strings.failures.request} <code>{failure.requestId}</code>
        </p>
      ) : null}
      {canRetry ? (
        <button type="button" onClick={retry}>
          {strings.retry}
        </button>
      ) : null}
    </div>
  )
}

/** What a page says while its resource is not loaded: the failure, or that it is being loaded. */
export const ResourceState = ({
  data,
  failure,
  reload,
}: Pick<Resource<unknown>, 'data' | 'failure' | 'reload'>) => (
  <>
    {failure === null ? null : <Failed failure={failure} retry={reload} />}
    {data === null && failure === null ? <Loading /> : null}
  </>
)

/** Names and values of one item. */
export const Facts = ({
  rows,
}: {
  readonly rows: ReadonlyArray<readonly [string, ComponentChildren] | null>
}) => (
  <dl class="facts">
    {rows.flatMap((row) =>
      row === null
        ? []
        : [
            <div key={row[0]}>
              <dt>{row[0]}</dt>
              <dd>{row[1]}</dd>
            </div>,
          ],
    )}
  </dl>
)

/** Copies a text, for example the address of a list, to the clipboard. */
export const CopyButton = ({ text, label }: { readonly text: string; readonly label: string }) => {
  const output = useRef<HTMLSpanElement>(null)
  const say = (message: string): void => {
    if (output.current !== null) output.current.textContent = message
  }
  return (
    <>
      <button
        type="button"
        class="quiet"
        onClick={() => {
          // Without a secure context there is no clipboard.
          const done = navigator.clipboard?.writeText(text) ?? Promise.reject(new Error('no clipboard'))
          done.then(
            () => say(strings.copied),
            () => say(strings.notCopied),
          )
        }}
      >
        {label}
      </button>
      <span role="status" class="muted" ref={output} />
    </>
  )
}
