/** Small parts of all pages: titles, times, ids, statuses, and the states of a read. */
import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { nameOfAccount } from '../api/account-names.ts'
import type { Failure } from '../api/client.ts'
import type { Resource } from '../api/resource.ts'
import { ageText, localText, relativeText, utcText } from '../format/time.ts'
import { wordsOf } from '../format/number.ts'
import { isShort, shorten } from '../format/shorten.ts'
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

/** Relative times are read again so often, in milliseconds. */
const TICK_MS = 10_000

const now = signal(Date.now())

/** Keeps the relative times of the page true. */
export const keepTime = (): void => {
  setInterval(() => {
    if (document.visibilityState === 'visible') now.value = Date.now()
  }, TICK_MS)
}

const exactText = (at: string): string => `${localText(at)} (${utcText(at)})`

const None = () => <span class="muted">{strings.none}</span>

/** `now` is that of the last tick: something newer must not be in the future. */
const current = (): number => Math.max(now.value, Date.now())

interface TimeProps {
  readonly at: string | null
  /** The time itself in the zone of the viewer. Otherwise: how long ago it was, or when it will be. */
  readonly exact?: boolean
  /** The time itself, with milliseconds. */
  readonly precise?: boolean
}

/** A time. On hover: UTC, and the time in the zone of the viewer. */
export const Time = ({ at, exact = false, precise = false }: TimeProps) => {
  if (at === null) return <None />
  return exact || precise ? (
    <time dateTime={at} title={utcText(at)}>
      {localText(at, { precise })}
    </time>
  ) : (
    <time dateTime={at} title={exactText(at)}>
      {relativeText(at, current())}
    </time>
  )
}

/** How long something has lasted since a time, with the time itself on hover. */
export const Age = ({ at }: { readonly at: string | null }) =>
  at === null ? (
    <None />
  ) : (
    <time dateTime={at} title={exactText(at)}>
      {ageText(at, current())}
    </time>
  )

/** What screen readers say after an action, and everybody sees for some seconds. */
const announcement = signal('')
/** Long enough to read a line. */
const ANNOUNCED_MS = 4_000

let announced: ReturnType<typeof setTimeout> | undefined
const announce = (text: string): void => {
  clearTimeout(announced)
  announcement.value = text
  announced = setTimeout(() => {
    announcement.value = ''
  }, ANNOUNCED_MS)
}

export const Announcement = () => (
  <p class="toast" role="status">
    {announcement.value}
  </p>
)

const copy = (text: string): void => {
  // Without a secure context there is no clipboard.
  const done = navigator.clipboard?.writeText(text) ?? Promise.reject(new Error('no clipboard'))
  done.then(
    () => announce(strings.copied),
    () => announce(strings.notCopied),
  )
}

/** Copies a text, for example the address of a list, to the clipboard. */
export const CopyButton = ({ text, label }: { readonly text: string; readonly label: string }) => (
  <button type="button" class="quiet" onClick={() => copy(text)}>
    {label}
  </button>
)

/** A button as small as a letter, beside the text that it copies. */
export const CopyIcon = ({ text }: { readonly text: string }) => (
  <button
    type="button"
    class="icon"
    aria-label={strings.copyText(text)}
    title={strings.copy}
    onClick={() => copy(text)}
  >
    <svg viewBox="0 0 16 16" aria-hidden="true">
      <rect x="5.5" y="5.5" width="8" height="8" rx="1.5" />
      <path d="M10.5 3.5v-1h-8v8h1" />
    </svg>
  </button>
)

/** The middle is invisible, and stays in the page: copies and screen readers get the whole text. */
const Shortened = ({ text }: { readonly text: string }) => {
  const [head, middle, tail] = shorten(text)
  return (
    <>
      {head}
      {middle === '' ? null : <span class="middle">{middle}</span>}
      {tail}
    </>
  )
}

/** A text for machines, such as a reference of a client: shortened in its middle, with a button to copy it. */
export const Code = ({ text, whole = false }: { readonly text: string | null; readonly whole?: boolean }) => {
  if (text === null || text === '') return null
  if (!whole && isShort(text)) return <code class="id">{text}</code>
  return (
    <span class="short">
      <code class={whole ? '' : 'id'} title={text}>
        {whole ? text : <Shortened text={text} />}
      </code>
      <CopyIcon text={text} />
    </span>
  )
}

/** Text that may be an id. An id links to its page, and the link of an account has its name. */
export const Id = ({ id, href }: { readonly id: string | null; readonly href?: string | null }) => {
  if (id === null || id === '') return <None />
  const page = href ?? pageOfId(id)
  if (page === null) return <Code text={id} />
  const name = nameOfAccount(id)
  if (name !== null) {
    return (
      <a href={page} title={id}>
        {name}
      </a>
    )
  }
  return (
    <span class="short">
      <a href={page} class="id" title={id}>
        <Shortened text={id} />
      </a>
      <CopyIcon text={id} />
    </span>
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

/** Grey lines in the place of what is being loaded. */
export const Loading = ({ lines = 3 }: { readonly lines?: number }) => (
  <div class="loading" role="status">
    <span class="unseen">{strings.loading}</span>
    {Array.from({ length: lines }, (_, i) => (
      <span key={i} class="bar" aria-hidden="true" />
    ))}
  </div>
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
