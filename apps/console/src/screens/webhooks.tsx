/** Webhook subscriptions, the attempts to deliver to them, and one attempt with its signed body. */
import { CHOICES } from '../api/choices.ts'
import { useState } from 'preact/hooks'
import { may, request } from '../api/client.ts'
import { usePages, useResource } from '../api/resource.ts'
import type { Attempt, AttemptDetails, Subscription } from '../api/types.ts'
import {
  Age,
  Code,
  CopyButton,
  Facts,
  Id,
  Json,
  PageTitle,
  ResourceState,
  Status,
  Time,
} from '../components/basics.tsx'
import { ActionButton, textOf } from '../components/dialog.tsx'
import { ACCOUNT_FIELD, currentFilters, FilterBar, type FilterField } from '../components/filters.tsx'
import { ActOnMany } from '../many/act-on-many.tsx'
import { type Column, PagedTable } from '../components/table.tsx'
import { countText, wordsOf } from '../format/number.ts'
import { durationText, utcOfField } from '../format/time.ts'
import { withFilters } from '../routing/routes.ts'
import { strings } from '../strings.ts'

const PAGE = '100'

const SUBSCRIPTION_FIELDS: ReadonlyArray<FilterField> = [
  ACCOUNT_FIELD,
  { name: 'mode', label: strings.columns.mode, kind: 'choice', choices: CHOICES['webhooks.list'].mode },
  {
    name: 'status',
    label: strings.columns.status,
    kind: 'choice',
    choices: CHOICES['webhooks.list'].status,
  },
]

const SUBSCRIPTION_COLUMNS: ReadonlyArray<Column<Subscription>> = [
  {
    title: strings.webhooks.endpoint,
    wide: true,
    cell: ({ id, url }) => <a href={`/webhooks/${id}`}>{url}</a>,
  },
  { title: strings.columns.status, cell: ({ status }) => <Status value={status} /> },
  {
    title: strings.webhooks.failures,
    numeric: true,
    cell: ({ consecutive_failures }) => countText(consecutive_failures),
  },
  { title: strings.webhooks.backlog, numeric: true, cell: ({ backlog }) => countText(backlog.batches) },
  { title: strings.webhooks.oldest, cell: ({ backlog }) => <Age at={backlog.oldest_at} /> },
  { title: strings.columns.mode, cell: ({ mode }) => wordsOf(mode) },
  { title: strings.columns.account, cell: ({ account }) => <Id id={account} /> },
]

export const Webhooks = () => {
  const filters = currentFilters(SUBSCRIPTION_FIELDS)
  const pages = usePages<Subscription>(withFilters('/v1/webhook_endpoints', { ...filters, limit: PAGE }))
  return (
    <>
      <PageTitle text={strings.webhooks.title} />
      <FilterBar fields={SUBSCRIPTION_FIELDS} view="webhooks" />
      <PagedTable
        label={strings.webhooks.title}
        pages={pages}
        columns={SUBSCRIPTION_COLUMNS}
        rowKey={({ id }) => id}
        empty={Object.keys(filters).length > 0 ? strings.webhooks.emptyFilter : strings.webhooks.empty}
      />
    </>
  )
}

const ATTEMPT_FIELDS: ReadonlyArray<FilterField> = [
  {
    name: 'status',
    label: strings.columns.status,
    kind: 'choice',
    choices: CHOICES['webhooks.list_attempts'].status,
  },
  { name: 'response_code', label: strings.webhooks.code, kind: 'text', placeholder: '503' },
  { name: 'event', label: strings.webhooks.event, kind: 'text', placeholder: 'evt_…' },
  { name: 'created_after', label: strings.filters.after, kind: 'time' },
  { name: 'created_before', label: strings.filters.before, kind: 'time' },
]

const originOf = ({ redelivery, resend, trial }: Attempt): string =>
  trial
    ? strings.webhooks.origins.trial
    : resend
      ? strings.webhooks.origins.resend
      : redelivery
        ? strings.webhooks.origins.redelivery
        : strings.webhooks.origins.schedule

const ATTEMPT_COLUMNS: ReadonlyArray<Column<Attempt>> = [
  { title: strings.columns.created, cell: ({ created_at }) => <Time at={created_at} /> },
  {
    title: strings.webhooks.attempt,
    cell: ({ id }) => <Id id={id} />,
  },
  { title: strings.columns.status, cell: ({ status }) => <Status value={status} /> },
  { title: strings.webhooks.code, numeric: true, cell: ({ response_code }) => response_code ?? '' },
  { title: strings.columns.reason, cell: ({ reason }) => wordsOf(reason ?? '') },
  { title: strings.webhooks.number, numeric: true, cell: ({ attempt }) => attempt },
  { title: strings.webhooks.duration, numeric: true, cell: ({ duration_ms }) => durationText(duration_ms) },
  { title: strings.webhooks.events, numeric: true, cell: ({ event_ids }) => event_ids.length },
  { title: strings.webhooks.origin, cell: originOf },
  { title: strings.webhooks.next, cell: ({ next_attempt_at }) => <Time at={next_attempt_at} /> },
]

/** What an attempt on demand returned: the receiver's answer. */
const Outcome = ({ attempt }: { readonly attempt: Attempt }) => (
  <p role="status">
    <Status value={attempt.status} />{' '}
    {strings.webhooks.outcome(
      attempt.response_code,
      wordsOf(attempt.reason ?? ''),
      durationText(attempt.duration_ms),
    )}{' '}
    <a href={`/attempts/${attempt.id}`}>{strings.webhooks.openAttempt}</a>
  </p>
)

const SubscriptionActions = ({
  reload,
  subscription,
}: {
  readonly subscription: Subscription
  readonly reload: () => void
}) => {
  const [outcome, setOutcome] = useState<Attempt | null>(null)
  const [period, setPeriod] = useState<string | null>(null)
  const path = `/v1/webhook_endpoints/${subscription.id}`
  return (
    <>
      <div class="actions">
        {subscription.status !== 'enabled' && may('webhooks.change') ? (
          <ActionButton
            label={strings.webhooks.enable}
            tone="primary"
            about={strings.webhooks.enableAbout}
            onSubmit={async () => {
              await request(`${path}/enable`, { method: 'POST', body: {} })
              reload()
            }}
          />
        ) : null}
        {may('messages.resend') ? (
          <>
            <ActionButton
              label={strings.webhooks.test}
              about={strings.webhooks.testAbout(subscription.url)}
              onSubmit={async () => {
                setOutcome(await request<Attempt>(`${path}/test`, { method: 'POST', body: {} }))
                reload()
              }}
            />
            <ActionButton
              label={strings.webhooks.redeliver}
              about={strings.webhooks.redeliverAbout}
              onSubmit={async (fields) => {
                const from = utcOfField(textOf(fields, 'from'))
                const until = utcOfField(textOf(fields, 'until'))
                const queued = await request<{ readonly id: string }>(`${path}/redeliver`, {
                  method: 'POST',
                  body: { from, ...(until === null ? {} : { until }) },
                })
                setPeriod(queued.id)
              }}
            >
              <label>
                {strings.filters.after}
                <input type="datetime-local" name="from" required />
              </label>
              <label>
                {strings.webhooks.until}
                <input type="datetime-local" name="until" />
              </label>
            </ActionButton>
          </>
        ) : null}
      </div>
      {outcome === null ? null : <Outcome attempt={outcome} />}
      {period === null ? null : <p role="status">{strings.webhooks.queued(period)}</p>}
    </>
  )
}

const SubscriptionFacts = ({ subscription }: { readonly subscription: Subscription }) => {
  // An API of the previous version does not have them.
  const { client_certificate: certificate = null, header_names: headers = [] } = subscription
  return (
    <Facts
      rows={[
        [strings.columns.status, <Status value={subscription.status} />],
        subscription.disabled_at === null
          ? null
          : [strings.webhooks.disabled, <Time at={subscription.disabled_at} />],
        subscription.disabled_reason === null
          ? null
          : [strings.webhooks.disabledReason, wordsOf(subscription.disabled_reason)],
        [strings.webhooks.failures, countText(subscription.consecutive_failures)],
        [strings.webhooks.backlog, countText(subscription.backlog.batches)],
        [strings.webhooks.oldest, <Age at={subscription.backlog.oldest_at} />],
        [strings.webhooks.next, <Time at={subscription.backlog.next_attempt_at} />],
        headers.length === 0 ? null : [strings.webhooks.headers, headers.join(', ')],
        certificate === null
          ? null
          : [strings.webhooks.certificateUntil, <Time at={certificate.not_after} />],
        [
          strings.webhooks.types,
          subscription.event_types.length === 0
            ? strings.webhooks.allTypes
            : subscription.event_types.join(', '),
        ],
        [strings.columns.account, <Id id={subscription.account} />],
        [strings.columns.mode, wordsOf(subscription.mode)],
        [strings.columns.created, <Time at={subscription.created_at} />],
        [strings.columns.id, <Code text={subscription.id} />],
      ]}
    />
  )
}

export const SubscriptionPage = ({ id }: { readonly id: string }) => {
  const path = `/v1/webhook_endpoints/${encodeURIComponent(id)}`
  const { data, failure, reload } = useResource<Subscription>(path)
  const filters = currentFilters(ATTEMPT_FIELDS)
  const list = withFilters('/v1/webhook_attempts', { ...filters, webhook_endpoint: id })
  const pages = usePages<Attempt>(`${list}&limit=${PAGE}`)
  return (
    <>
      <PageTitle text={data === null ? id : data.url} />
      <ResourceState data={data} failure={failure} reload={reload} />
      {data === null ? null : (
        <>
          <SubscriptionFacts subscription={data} />
          <SubscriptionActions
            subscription={data}
            reload={() => {
              reload()
              pages.reload()
            }}
          />
          <h2>{strings.webhooks.attempts}</h2>
          <FilterBar fields={ATTEMPT_FIELDS} view="attempts" fixed={{ webhook_endpoint: id }} />
          <PagedTable
            label={strings.webhooks.attempts}
            pages={pages}
            tools={
              may('messages.resend') ? (
                <ActOnMany<Attempt>
                  kind="resend"
                  of={id}
                  path={list}
                  // The events of a test delivery are not kept.
                  idOf={({ event_batch, trial }) => (trial ? null : event_batch)}
                  reload={pages.reload}
                />
              ) : null
            }
            columns={ATTEMPT_COLUMNS}
            rowKey={(attempt) => attempt.id}
            empty={
              Object.keys(filters).length > 0
                ? strings.webhooks.noAttemptsFilter
                : strings.webhooks.noAttempts
            }
          />
        </>
      )}
    </>
  )
}

/** JSON in lines for people. The button copies the bytes that were signed. */
const pretty = (body: string): string => {
  try {
    return JSON.stringify(JSON.parse(body), null, 2)
  } catch {
    return body
  }
}

const SignedBody = ({ body }: { readonly body: string | null }) => {
  const [isExact, setIsExact] = useState(false)
  return (
    <section aria-labelledby="body">
      <h2 id="body">{strings.webhooks.body}</h2>
      {body === null ? (
        <p>{strings.webhooks.noBody}</p>
      ) : (
        <>
          <p class="muted">{strings.webhooks.bodyAbout}</p>
          <div class="actions">
            <label class="check">
              <input
                type="checkbox"
                checked={isExact}
                onChange={(event) => setIsExact(event.currentTarget.checked)}
              />{' '}
              {strings.webhooks.exact}
            </label>
            <CopyButton text={body} label={strings.webhooks.copyBody} />
          </div>
          <Json label={strings.webhooks.body} value={isExact ? body : pretty(body)} />
        </>
      )}
    </section>
  )
}

export const AttemptPage = ({ id }: { readonly id: string }) => {
  const { data, failure, reload } = useResource<AttemptDetails>(
    `/v1/webhook_attempts/${encodeURIComponent(id)}`,
  )
  const [outcome, setOutcome] = useState<Attempt | null>(null)
  const [queued, setQueued] = useState(false)
  return (
    <>
      {data === null ? null : (
        <p>
          <a href={`/webhooks/${data.webhook_endpoint}`}>{strings.webhooks.back}</a>
        </p>
      )}
      <PageTitle text={strings.webhooks.attempt}>
        <Code text={id} whole />
      </PageTitle>
      <ResourceState data={data} failure={failure} reload={reload} />
      {data === null ? null : (
        <>
          <Facts
            rows={[
              [strings.columns.status, <Status value={data.status} />],
              [strings.webhooks.code, data.response_code ?? strings.none],
              [strings.columns.reason, wordsOf(data.reason ?? '') || strings.none],
              [strings.columns.created, <Time at={data.created_at} precise />],
              [strings.webhooks.duration, durationText(data.duration_ms)],
              [strings.webhooks.number, data.attempt],
              [strings.webhooks.origin, originOf(data)],
              [strings.webhooks.next, <Time at={data.next_attempt_at} />],
              [strings.webhooks.batch, <Code text={data.event_batch} />],
            ]}
          />
          {may('messages.resend') && !data.trial ? (
            <div class="actions">
              <ActionButton
                label={strings.webhooks.resend}
                tone="primary"
                about={strings.webhooks.resendAbout}
                onSubmit={async () => {
                  setOutcome(
                    await request<Attempt>(`/v1/webhook_endpoints/${data.webhook_endpoint}/resend`, {
                      method: 'POST',
                      body: { delivery: id },
                    }),
                  )
                }}
              />
            </div>
          ) : null}
          {outcome === null ? null : <Outcome attempt={outcome} />}
          <h2>{strings.webhooks.events}</h2>
          <ul>
            {data.event_ids.map((event) => (
              <li key={event}>
                <Id id={event} />{' '}
                {may('messages.resend') && !data.trial ? (
                  <ActionButton
                    label={strings.webhooks.resendEvent}
                    about={strings.webhooks.resendEventAbout}
                    onSubmit={async () => {
                      const path = `/v1/webhook_endpoints/${data.webhook_endpoint}/redeliver_event`
                      await request(path, { method: 'POST', body: { event } })
                      setQueued(true)
                    }}
                  />
                ) : null}
              </li>
            ))}
          </ul>
          {queued ? <p role="status">{strings.webhooks.eventQueued}</p> : null}
          <SignedBody body={data.signed_body} />
        </>
      )}
    </>
  )
}
