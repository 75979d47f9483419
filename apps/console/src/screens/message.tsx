/** One message: its record, its timeline, and what the hub keeps encrypted about it. */
import { useState } from 'preact/hooks'
import { may, request } from '../api/client.ts'
import { useResource } from '../api/resource.ts'
import type { OperatorRecord, RevealedMessage, Timeline, TimelineEntry } from '../api/types.ts'
import { performerOf } from '../charts/timeline.ts'
import { TimelineChart } from '../charts/timeline-chart.tsx'
import { Code, Facts, Id, Json, PageTitle, ResourceState, Status, Time } from '../components/basics.tsx'
import { ActionButton, ReasonField, textOf } from '../components/dialog.tsx'
import { moneyText, wordsOf } from '../format/number.ts'
import { durationText } from '../format/time.ts'
import { withFilters } from '../routing/routes.ts'
import { strings } from '../strings.ts'

const isTime = (text: string): boolean => /^\d{4}-\d\d-\d\dT[\d:.]+Z$/u.test(text)

/** The values of an entry. Ids are links. */
const Detail = ({ entry }: { readonly entry: TimelineEntry }) => (
  <ul class="detail">
    {Object.entries(entry.detail).flatMap(([name, value]) => {
      if (value === null || (Array.isArray(value) && value.length === 0)) return []
      const values = Array.isArray(value) ? value : [String(value)]
      return [
        <li key={name}>
          <span class="muted">{wordsOf(name)}</span>{' '}
          {values.map((one, i) => (
            <span key={one}>
              {i > 0 ? ', ' : ''}
              {isTime(one) ? <Time at={one} precise /> : <Id id={one} />}
            </span>
          ))}
        </li>,
      ]
    })}
  </ul>
)

const Entries = ({ entries }: { readonly entries: ReadonlyArray<TimelineEntry> }) => {
  const first = entries[0]
  return (
    <ol class="timeline">
      {entries.map((entry, i) => {
        const before = entries[i - 1]
        const gap = before === undefined ? 0 : Date.parse(entry.at) - Date.parse(before.at)
        return (
          // Two entries can be equal, and their order never changes.
          <li key={i} class={entry.kind}>
            <p>
              <Time at={entry.at} precise /> <span class="muted">+{durationText(gap)}</span>{' '}
              <span class="muted">{strings.message.by(entry.by)}</span>
            </p>
            <p>
              <strong>{strings.sentence(entry.title)}</strong>
            </p>
            <Detail entry={entry} />
          </li>
        )
      })}
      {first === undefined ? <li>{strings.message.noEntries}</li> : null}
    </ol>
  )
}

const Steps = ({ timeline }: { readonly timeline: Timeline }) => {
  const [showsRaw, setShowsRaw] = useState(false)
  const { entries, missing, trace_id: trace, trace_url: traceUrl } = timeline
  // A deadline of an open message is in the future, and would push the steps together.
  const steps = entries
    .filter(({ kind }) => kind !== 'deadline')
    .map(({ at, by, title }) => ({ at, by: performerOf(by), title: strings.sentence(title) }))
  return (
    <section aria-labelledby="timeline">
      <div class="page-title">
        <h2 id="timeline">{strings.message.timeline}</h2>
        <label class="check">
          <input
            type="checkbox"
            checked={showsRaw}
            onChange={(event) => setShowsRaw(event.currentTarget.checked)}
          />{' '}
          {strings.message.rawFacts}
        </label>
      </div>
      {trace === null ? null : (
        <p>
          {strings.message.trace}{' '}
          {traceUrl === null ? <Code text={trace} whole /> : <Id id={trace} href={traceUrl} />}
        </p>
      )}
      <TimelineChart steps={steps} />
      {showsRaw ? <Json label={strings.message.rawFacts} value={entries} /> : <Entries entries={entries} />}
      {missing.length === 0 ? null : (
        <>
          <h3>{strings.message.missing}</h3>
          <ul>
            {missing.map(({ what, why }) => (
              <li key={what}>
                <strong>{strings.sentence(what)}.</strong> {strings.sentence(why)}
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  )
}

const Revealed = ({ revealed }: { readonly revealed: RevealedMessage }) => (
  <section aria-labelledby="revealed" class="revealed">
    <h2 id="revealed">{strings.message.revealed}</h2>
    <Facts
      rows={[
        [strings.message.number, revealed.to ?? strings.none],
        [
          strings.columns.text,
          revealed.text === null ? strings.none : <span class="message-text">{revealed.text}</span>,
        ],
        revealed.variables === null
          ? null
          : [
              strings.message.variables,
              <Json label={strings.message.variables} value={revealed.variables} />,
            ],
      ]}
    />
    {revealed.explanation === null ? null : <p>{revealed.explanation}</p>}
  </section>
)

const Records = ({ records }: { readonly records: ReadonlyArray<OperatorRecord> }) => (
  <section aria-labelledby="records" class="revealed">
    <h2 id="records">{strings.message.records}</h2>
    {records.length === 0 ? <p>{strings.message.noRecords}</p> : null}
    <ol class="timeline">
      {records.map((record) => (
        <li key={`${record.received_at} ${record.operator_id ?? ''}`}>
          <p>
            <Time at={record.received_at} precise /> {wordsOf(record.kind)} {record.operator}{' '}
            {record.outcome === null ? null : <Status value={record.outcome} />}
          </p>
          {record.raw === null ? (
            <p>{strings.message.recordGone}</p>
          ) : (
            <Json label={strings.message.records} value={record.raw} />
          )}
        </li>
      ))}
    </ol>
  </section>
)

/** Personal data. It is shown until the page is left, and every view is in the audit trail. */
const PersonalData = ({ id }: { readonly id: string }) => {
  const [revealed, setRevealed] = useState<RevealedMessage | null>(null)
  const [records, setRecords] = useState<ReadonlyArray<OperatorRecord> | null>(null)
  const path = `/v1/messages/${encodeURIComponent(id)}`
  const reason = <ReasonField label={strings.message.reason} hint={strings.message.reasonHint} />
  return (
    <>
      <div class="actions">
        <ActionButton
          label={strings.message.reveal}
          about={strings.message.revealAbout}
          onSubmit={async (fields) => {
            const body = { reason: textOf(fields, 'reason') }
            setRevealed(await request<RevealedMessage>(`${path}/reveal`, { method: 'POST', body }))
          }}
        >
          {reason}
        </ActionButton>
        <ActionButton
          label={strings.message.openRecords}
          about={strings.message.recordsAbout}
          onSubmit={async (fields) => {
            const body = { reason: textOf(fields, 'reason') }
            const page = await request<{ readonly data: ReadonlyArray<OperatorRecord> }>(`${path}/raw`, {
              method: 'POST',
              body,
            })
            setRecords(page.data)
          }}
        >
          {reason}
        </ActionButton>
      </div>
      {revealed === null ? null : <Revealed revealed={revealed} />}
      {records === null ? null : <Records records={records} />}
    </>
  )
}

const Record = ({ timeline: { message } }: { readonly timeline: Timeline }) => (
  <Facts
    rows={[
      [
        strings.columns.status,
        <>
          <Status value={message.status} /> {wordsOf(message.reason_code ?? '')}
        </>,
      ],
      [strings.columns.created, <Time at={message.created_at} precise />],
      [strings.message.changed, <Time at={message.updated_at} precise />],
      [strings.columns.account, <Id id={message.account} />],
      [strings.columns.class, wordsOf(message.class)],
      [strings.columns.mode, wordsOf(message.mode)],
      [
        strings.columns.template,
        <a href={withFilters('/messages', { account: message.account, template: message.template })}>
          {message.template}
        </a>,
      ],
      [strings.columns.sender, message.sender],
      [strings.message.parts, String(message.parts)],
      [strings.message.attempts, String(message.attempts)],
      [strings.message.price, moneyText({ amount: message.price, currency: message.currency })],
      message.client_ref === null
        ? null
        : [strings.columns.clientRef, <Code text={message.client_ref} whole />],
      message.batch === null ? null : [strings.columns.batch, <Id id={message.batch} />],
      [
        strings.message.recipient,
        <a href={withFilters('/search', { q: message.recipient })} title={message.recipient}>
          {strings.message.sameRecipient}
        </a>,
      ],
    ]}
  />
)

export const MessagePage = ({ id }: { readonly id: string }) => {
  const { data, failure, loading, reload } = useResource<Timeline>(
    `/v1/messages/${encodeURIComponent(id)}/timeline`,
  )
  return (
    <>
      <PageTitle text={strings.message.title}>
        <Code text={id} whole />
        <button type="button" class="quiet" onClick={reload} disabled={loading}>
          {strings.reload}
        </button>
      </PageTitle>
      <ResourceState data={data} failure={failure} reload={reload} />
      {data === null ? null : (
        <>
          <Record timeline={data} />
          {may('messages.reveal') ? (
            <PersonalData id={id} />
          ) : (
            <p class="muted">{strings.message.notPermitted}</p>
          )}
          <Steps timeline={data} />
        </>
      )}
    </>
  )
}
