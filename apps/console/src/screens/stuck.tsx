/** Stuck work: what waits, since when, and whose it is; and dead letters. */
import { may, request } from '../api/client.ts'
import { usePages, useResource } from '../api/resource.ts'
import type { DeadLetter, DoctorReport, Finding, SmsOperator, StuckWork } from '../api/types.ts'
import {
  Age,
  Code,
  Empty,
  Facts,
  Id,
  Json,
  PageTitle,
  ResourceState,
  Status,
  Time,
} from '../components/basics.tsx'
import { ActionButton, ReasonField, textOf } from '../components/dialog.tsx'
import { currentFilters, FilterBar, type FilterField } from '../components/filters.tsx'
import { ActOnMany } from '../many/act-on-many.tsx'
import { type Column, PagedTable, Table } from '../components/table.tsx'
import { countText, rateText, wordsOf } from '../format/number.ts'
import { durationText } from '../format/time.ts'
import { location } from '../routing/location.ts'
import { filtersOf, withFilters } from '../routing/routes.ts'
import { strings } from '../strings.ts'

type Row<Name extends 'consumers' | 'oldest_open' | 'outboxes' | 'dead_letters' | 'webhook_endpoints'> =
  StuckWork[Name][number]

const CONSUMERS: ReadonlyArray<Column<Row<'consumers'>>> = [
  { title: strings.stuck.consumer, cell: ({ consumer }) => consumer },
  { title: strings.stuck.members, numeric: true, cell: ({ members }) => countText(members) },
  { title: strings.stuck.lag, numeric: true, cell: ({ lag }) => countText(lag) },
  {
    title: strings.stuck.shards,
    wide: true,
    cell: ({ shards }) =>
      shards
        .slice(0, 5)
        .map(({ lag, shard, topic }) => `${topic}/${shard}: ${countText(lag)}`)
        .join(', '),
  },
]

const OPERATORS: ReadonlyArray<Column<SmsOperator>> = [
  { title: strings.stuck.operator, cell: ({ operator }) => operator },
  { title: strings.stuck.members, numeric: true, cell: ({ dispatchers }) => countText(dispatchers) },
  {
    title: strings.stuck.binds,
    cell: ({ binds, incomplete }) =>
      binds.length === 0 ? (
        strings.stuck.noBinds
      ) : (
        <>
          <Status value={incomplete.length === 0 ? 'ok' : 'problem'} />{' '}
          {binds
            .map(({ established, role, wanted }) => strings.stuck.bindsOf(role, established, wanted))
            .join(', ')}
        </>
      ),
  },
  {
    title: strings.stuck.incomplete,
    cell: ({ incomplete }) =>
      incomplete.map(({ dispatcher, established, role, since, wanted }) => (
        <div key={`${dispatcher} ${role}`}>
          {strings.stuck.missingBinds(dispatcher, role, established, wanted)} <Age at={since} />
        </div>
      )),
  },
  {
    title: strings.stuck.rate,
    numeric: true,
    cell: ({ configured_rate, rate }) =>
      `${rate === null ? strings.stuck.noRate : rateText(rate)}${
        configured_rate === null ? '' : ` ${strings.stuck.configured(rateText(configured_rate))}`
      }`,
  },
  {
    title: strings.stuck.passed,
    numeric: true,
    cell: ({ passed_per_second }) => rateText(passed_per_second),
  },
  {
    title: strings.stuck.throttled,
    numeric: true,
    cell: ({ throttled_per_second }) => rateText(throttled_per_second),
  },
]

/** The words of verdicts in the output of hubctl are older. */
const VERDICTS = { well: 'ok', note: 'notice', ill: 'problem', unknown: 'unknown' } as const

const FINDINGS: ReadonlyArray<Column<Finding>> = [
  { title: strings.stuck.subject, cell: ({ subject }) => subject },
  {
    title: strings.stuck.verdict,
    cell: ({ verdict }) => <Status value={VERDICTS[verdict]} />,
  },
  { title: strings.stuck.finding, wide: true, cell: ({ said }) => said },
  { title: strings.stuck.repair, wide: true, cell: ({ mend }) => mend ?? '' },
]

/** What `hubctl doctor` finds, without the checks of the environment of hubctl. */
const Checks = () => {
  const { data, failure, loading, reload } = useResource<DoctorReport>('/v1/doctor')
  return (
    <section aria-label={strings.stuck.checks}>
      <h2>{strings.stuck.checks}</h2>
      <p class="muted">
        {strings.stuck.checking}{' '}
        <button type="button" class="quiet" disabled={loading} onClick={reload}>
          {strings.stuck.checkAgain}
        </button>
      </p>
      <ResourceState data={data} failure={failure} reload={reload} />
      {data === null ? null : (
        <Table
          label={strings.stuck.checks}
          rows={data.findings}
          columns={FINDINGS}
          rowKey={({ subject }) => subject}
        />
      )}
    </section>
  )
}

const OLDEST: ReadonlyArray<Column<Row<'oldest_open'>>> = [
  { title: strings.columns.class, cell: (row) => wordsOf(row.class) },
  { title: strings.columns.mode, cell: ({ mode }) => wordsOf(mode) },
  { title: strings.columns.status, cell: ({ status }) => <Status value={status} /> },
  { title: strings.columns.waiting, cell: ({ accepted_at }) => <Age at={accepted_at} /> },
  { title: strings.columns.message, cell: ({ message }) => <Id id={message} /> },
  { title: strings.columns.account, cell: ({ account }) => <Id id={account} /> },
]

const OUTBOXES: ReadonlyArray<Column<Row<'outboxes'>>> = [
  { title: strings.stuck.content, cell: ({ content }) => content },
  { title: strings.stuck.rows, numeric: true, cell: ({ rows }) => countText(rows) },
  {
    title: strings.stuck.oldest,
    numeric: true,
    cell: ({ age_ms }) => (age_ms === null ? strings.none : durationText(age_ms)),
  },
]

const LETTER_TOPICS: ReadonlyArray<Column<Row<'dead_letters'>>> = [
  { title: strings.stuck.topic, cell: ({ topic }) => topic },
  { title: strings.stuck.records, numeric: true, cell: ({ records }) => countText(records) },
]

const ENDPOINTS: ReadonlyArray<Column<Row<'webhook_endpoints'>>> = [
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
  { title: strings.columns.account, cell: ({ account }) => <Id id={account} /> },
]

interface SectionProps<Item> {
  readonly title: string
  readonly rows: ReadonlyArray<Item>
  readonly columns: ReadonlyArray<Column<Item>>
  readonly rowKey: (row: Item) => string
  readonly empty: string
}

const Section = <Item,>({ columns, empty, rowKey, rows, title }: SectionProps<Item>) => (
  <section aria-label={title}>
    <h2>{title}</h2>
    {rows.length === 0 ? (
      <Empty>{empty}</Empty>
    ) : (
      <Table label={title} rows={rows} columns={columns} rowKey={rowKey} />
    )}
  </section>
)

export const Stuck = () => {
  const { data, failure, loading, reload } = useResource<StuckWork>('/v1/stuck')
  return (
    <>
      <PageTitle text={strings.stuck.title}>
        {data === null ? null : (
          <span class="muted">
            {strings.start.at} <Time at={data.at} exact />
          </span>
        )}
        <button type="button" class="quiet" disabled={loading} onClick={reload}>
          {strings.reload}
        </button>
      </PageTitle>
      <ResourceState data={data} failure={failure} reload={reload} />
      {data === null ? null : (
        <>
          {data.missing.map(({ what, why }) => (
            <p key={what} class="failure" role="alert">
              <strong>{what}.</strong> {why}
            </p>
          ))}
          <Section
            title={strings.stuck.consumers}
            rows={data.consumers}
            columns={CONSUMERS}
            rowKey={({ consumer }) => consumer}
            empty={strings.stuck.unknown}
          />
          <Section
            title={strings.stuck.operators}
            rows={data.operators}
            columns={OPERATORS}
            rowKey={({ operator }) => operator}
            empty={strings.stuck.noOperator}
          />
          <Section
            title={strings.stuck.oldestOpen}
            rows={data.oldest_open}
            columns={OLDEST}
            rowKey={({ message }) => message}
            empty={strings.stuck.noneOpen}
          />
          <Section
            title={strings.stuck.outboxes}
            rows={data.outboxes}
            columns={OUTBOXES}
            rowKey={({ content }) => content}
            empty={strings.stuck.noOutbox}
          />
          <Section
            title={strings.stuck.endpoints}
            rows={data.webhook_endpoints}
            columns={ENDPOINTS}
            rowKey={({ id }) => id}
            empty={strings.stuck.noEndpoint}
          />
          <Section
            title={strings.deadLetters.title}
            rows={data.dead_letters}
            columns={LETTER_TOPICS}
            rowKey={({ topic }) => topic}
            empty={strings.deadLetters.empty}
          />
          <p class="links">
            <a href="/dead-letters">{strings.deadLetters.open}</a>
            <a href="/moderation/templates">
              {strings.stuck.moderation(data.moderation.templates.rows, data.moderation.senders.rows)}
            </a>
          </p>
        </>
      )}
      <Checks />
    </>
  )
}

const LETTER_FIELDS: ReadonlyArray<FilterField> = [
  { name: 'topic', label: strings.stuck.topic, kind: 'text', placeholder: 'hub.messages.v1' },
  { name: 'all', label: strings.deadLetters.handled, kind: 'choice', choices: ['true', 'false'] },
]

const LETTER_COLUMNS: ReadonlyArray<Column<DeadLetter>> = [
  { title: strings.deadLetters.at, cell: ({ set_aside_at }) => <Time at={set_aside_at} /> },
  {
    title: strings.deadLetters.letter,
    cell: ({ id }) => (
      <a class="id" href={withFilters('/dead-letters', { id })}>
        {id}
      </a>
    ),
  },
  { title: strings.columns.type, cell: ({ type }) => type },
  { title: strings.columns.reason, cell: ({ reason }) => reason ?? '' },
  {
    title: strings.deadLetters.handled,
    cell: ({ handled }) =>
      handled === null ? (
        ''
      ) : (
        <>
          <Status value={handled.outcome} /> <Time at={handled.at} />
        </>
      ),
  },
]

const Letters = () => {
  const filters = currentFilters(LETTER_FIELDS)
  const pages = usePages<DeadLetter>(withFilters('/v1/dead_letters', { ...filters, limit: '100' }))
  const tools = may('dead_letters.change') ? (
    <ActOnMany<DeadLetter>
      kind="retry"
      path={withFilters('/v1/dead_letters', filters)}
      idOf={({ handled, id }) => (handled === null ? id : null)}
      reload={pages.reload}
    />
  ) : null
  return (
    <>
      <PageTitle text={strings.deadLetters.title} />
      <FilterBar fields={LETTER_FIELDS} view="dead_letters" />
      <PagedTable
        label={strings.deadLetters.title}
        pages={pages}
        tools={tools}
        columns={LETTER_COLUMNS}
        rowKey={({ id }) => id}
        empty={strings.deadLetters.empty}
      />
    </>
  )
}

const Letter = ({ id }: { readonly id: string }) => {
  const { data, failure, reload } = useResource<DeadLetter & Readonly<Record<string, unknown>>>(
    withFilters('/v1/dead_letters/read', { id }),
  )
  const act = async (action: 'retry' | 'drop', body: Readonly<Record<string, unknown>>): Promise<void> => {
    await request(`/v1/dead_letters/${action}`, { method: 'POST', body: { id, ...body } })
    reload()
  }
  return (
    <>
      <p>
        <a href="/dead-letters">{strings.deadLetters.back}</a>
      </p>
      <PageTitle text={strings.deadLetters.letter}>
        <Code text={id} whole />
      </PageTitle>
      <ResourceState data={data} failure={failure} reload={reload} />
      {data === null ? null : (
        <>
          <Facts
            rows={[
              [strings.deadLetters.at, <Time at={data.set_aside_at} />],
              [strings.columns.reason, data.reason ?? strings.none],
              [strings.columns.type, data.type],
              [strings.deadLetters.source, <Code text={data.source ?? strings.none} whole />],
              data.handled === null
                ? null
                : [strings.deadLetters.handled, <Status value={data.handled.outcome} />],
            ]}
          />
          {may('dead_letters.change') ? (
            <div class="actions">
              <ActionButton
                label={strings.deadLetters.retry}
                tone="primary"
                about={strings.deadLetters.retryAbout}
                onSubmit={() => act('retry', { again: data.handled !== null })}
              />
              <ActionButton
                label={strings.deadLetters.drop}
                about={strings.deadLetters.dropAbout}
                confirmName={id}
                onSubmit={(fields) =>
                  act('drop', { reason: textOf(fields, 'reason'), again: data.handled !== null })
                }
              >
                <ReasonField label={strings.deadLetters.reason} hint={strings.message.reasonHint} />
              </ActionButton>
            </div>
          ) : null}
          <h2>{strings.deadLetters.content}</h2>
          <Json label={strings.deadLetters.content} value={data} />
        </>
      )}
    </>
  )
}

export const DeadLetters = () => {
  const id = filtersOf(location.value.search, ['id'])['id']
  // The id contains slashes, so it is not a part of the path.
  return id === undefined ? <Letters /> : <Letter key={id} id={id} />
}
