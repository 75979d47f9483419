/** The start page: is everything all right? Each number links to the list behind it. */
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { useOverview } from '../api/live.ts'
import type { Mode, Overview } from '../api/types.ts'
import { lastHour } from '../charts/minutes.ts'
import { TrafficChart } from '../charts/traffic-chart.tsx'
import { Age, Loading, PageTitle, Time } from '../components/basics.tsx'
import { countText, rateText, wordsOf } from '../format/number.ts'
import { durationText } from '../format/time.ts'
import { withFilters } from '../routing/routes.ts'
import { strings } from '../strings.ts'

const CLASSES = ['otp', 'service'] as const
const MODES = ['live', 'test'] as const

const Tile = ({
  children,
  href,
  isBad = false,
  label,
  value,
}: {
  readonly label: string
  readonly value: string
  readonly href: string
  readonly isBad?: boolean
  readonly children?: ComponentChildren
}) => (
  <li>
    <a class={isBad ? 'tile bad' : 'tile'} href={href}>
      {label}
      <span class="value">{value}</span>
      {children === undefined ? null : <span class="muted">{children}</span>}
    </a>
  </li>
)

/** Hub staff get the alert HubModerationWaits then: two days. */
const LONG_WAIT_MS = 2 * 86_400_000

const waitsLong = (oldestAt: string | null, now: string): boolean =>
  oldestAt !== null && Date.parse(now) - Date.parse(oldestAt) > LONG_WAIT_MS

/** The address of a list of messages of the last hour. */
const hourOf = (overview: Overview, filters: Readonly<Record<string, string>>): string =>
  withFilters('/messages', {
    ...filters,
    created_after: new Date(Date.parse(overview.at) - 3_600_000).toISOString(),
  })

const Waiting = ({ overview }: { readonly overview: Overview }) => {
  const { consumers, endpoints, hub, moderation, operators, unanswered, waiting } = overview
  const binds = operators.flatMap((operator) => operator.binds)
  const established = binds.reduce((sum, one) => sum + one.established, 0)
  const wanted = binds.reduce((sum, one) => sum + one.wanted, 0)
  const records = consumers.reduce((sum, { lag }) => sum + lag, 0)
  const missing = consumers.filter(({ members }) => members === 0).map(({ consumer }) => consumer)
  const open = waiting.reduce((sum, { messages }) => sum + messages, 0)
  const oldest = waiting.map(({ oldest_at }) => oldest_at).toSorted()[0] ?? null
  return (
    <ul class="tiles">
      {hub.stopped ? (
        <Tile label={strings.start.hub} value={strings.start.stopped} href="/accounts" isBad>
          {hub.stopped_until === null ? null : (
            <>
              {strings.start.until} <Time at={hub.stopped_until} exact />
            </>
          )}
        </Tile>
      ) : null}
      <Tile
        label={strings.start.waiting}
        value={countText(open)}
        href={withFilters('/messages', { status: 'accepted' })}
      >
        {oldest === null ? (
          strings.start.nothingWaits
        ) : (
          <>
            {strings.start.oldest} <Age at={oldest} />
          </>
        )}
      </Tile>
      <Tile
        label={strings.start.unanswered}
        value={countText(unanswered.sent + unanswered.expired)}
        href="/stuck"
      >
        {strings.start.unansweredOf(countText(unanswered.sent), countText(unanswered.expired))}
      </Tile>
      <Tile
        label={strings.start.lag}
        value={strings.start.records(records)}
        href="/stuck"
        isBad={missing.length > 0}
      >
        {missing.length > 0
          ? strings.start.noMember(missing.join(', '))
          : consumers.map(({ consumer, lag }) => `${consumer} ${countText(lag)}`).join(', ')}
      </Tile>
      <Tile
        label={strings.start.operators}
        value={wanted === 0 ? strings.start.noBinds : strings.start.binds(established, wanted)}
        href="/stuck"
        isBad={established < wanted}
      >
        {operators.length === 0
          ? strings.start.noReport
          : operators
              .map(({ operator, passed_per_second, rate }) =>
                strings.start.pace(
                  operator,
                  rateText(passed_per_second),
                  rate === null ? null : rateText(rate),
                ),
              )
              .join(', ')}
      </Tile>
      <Tile
        label={strings.start.failing}
        value={countText(endpoints.failing + endpoints.disabled)}
        href={withFilters('/webhooks', { status: endpoints.disabled > 0 ? 'disabled_by_failures' : '' })}
        isBad={endpoints.disabled > 0}
      >
        {strings.start.endpoints(endpoints.failing, endpoints.disabled, endpoints.enabled)}
      </Tile>
      <Tile
        label={strings.start.templates}
        value={countText(moderation.templates.waiting)}
        href="/moderation/templates"
        isBad={waitsLong(moderation.templates.oldest_at, overview.at)}
      >
        {moderation.templates.oldest_at === null ? null : (
          <>
            {strings.start.oldest} <Age at={moderation.templates.oldest_at} />
          </>
        )}
      </Tile>
      <Tile
        label={strings.start.senders}
        value={countText(moderation.senders.waiting)}
        href="/moderation/senders"
        isBad={waitsLong(moderation.senders.oldest_at, overview.at)}
      >
        {moderation.senders.oldest_at === null ? null : (
          <>
            {strings.start.oldest} <Age at={moderation.senders.oldest_at} />
          </>
        )}
      </Tile>
    </ul>
  )
}

const Traffic = ({ mode, overview }: { readonly overview: Overview; readonly mode: Mode }) => (
  <div class="side-by-side">
    {CLASSES.map((messageClass) => {
      const minutes = lastHour(overview, mode, messageClass)
      const times = overview.submission.find((one) => one.mode === mode && one.class === messageClass)
      const failed = minutes.reduce((sum, minute) => sum + minute.failed, 0)
      return (
        <section key={messageClass} aria-label={strings.start.classOf(messageClass)}>
          <h2>{strings.start.classOf(messageClass)}</h2>
          <TrafficChart label={strings.start.classOf(messageClass)} minutes={minutes} />
          <p>
            {times === undefined
              ? strings.start.noTimes
              : strings.start.times(
                  durationText(times.p50_ms),
                  durationText(times.p99_ms),
                  countText(times.messages),
                )}{' '}
            <a href={hourOf(overview, { mode, class: messageClass })}>{strings.start.openHour}</a>
            {failed === 0
              ? null
              : ['undelivered', 'rejected', 'expired'].map((status) => (
                  <span key={status}>
                    {' '}
                    <a href={hourOf(overview, { mode, class: messageClass, status })}>{wordsOf(status)}</a>
                  </span>
                ))}
          </p>
        </section>
      )
    })}
  </div>
)

export const Start = () => {
  const { isConnected, overview } = useOverview()
  const [mode, setMode] = useState<Mode>('live')
  return (
    <>
      <PageTitle text={strings.start.title}>
        <label>
          {strings.columns.mode}{' '}
          <select
            value={mode}
            onChange={(event) => setMode(MODES.find((one) => one === event.currentTarget.value) ?? 'live')}
          >
            {MODES.map((one) => (
              <option key={one} value={one}>
                {wordsOf(one)}
              </option>
            ))}
          </select>
        </label>
        {overview === null ? null : (
          <span class="muted">
            {strings.start.at} <Time at={overview.at} exact />
          </span>
        )}
      </PageTitle>
      {isConnected ? null : (
        <p class="failure" role="alert">
          {strings.start.disconnected}
        </p>
      )}
      {overview === null ? (
        <Loading />
      ) : (
        <>
          {overview.unavailable.length === 0 ? null : (
            <p class="failure" role="alert">
              {strings.start.unavailable(overview.unavailable.join(', '))}
            </p>
          )}
          <Waiting overview={overview} />
          <Traffic overview={overview} mode={mode} />
        </>
      )}
    </>
  )
}
