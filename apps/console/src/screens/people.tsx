/** Opt-outs and erasures: what a recipient may ask of the hub. A number never becomes part of an address. */
import { CHOICES } from '../api/choices.ts'
import { useState } from 'preact/hooks'
import { type Failure, may, request, RequestFailed } from '../api/client.ts'
import { usePages } from '../api/resource.ts'
import type { ErasureOutcome, ErasureReceipt, ErasureRequest, OptOut, OptOutCheck } from '../api/types.ts'
import { Code, Empty, Facts, Failed, Id, Json, PageTitle, Status, Time } from '../components/basics.tsx'
import { ActionButton, ReasonField, textOf } from '../components/dialog.tsx'
import { currentFilters, FilterBar, type FilterField } from '../components/filters.tsx'
import { type Column, PagedTable, Table } from '../components/table.tsx'
import { wordsOf } from '../format/number.ts'
import { withFilters } from '../routing/routes.ts'
import { strings } from '../strings.ts'

const Tabs = ({ current }: { readonly current: 'optOuts' | 'erasures' }) => (
  <nav aria-label={strings.people.kinds}>
    <ul class="tabs">
      <li>
        <a href="/opt-outs" aria-current={current === 'optOuts' ? 'page' : undefined}>
          {strings.people.optOuts}
        </a>
      </li>
      {may('erasures.request') ? (
        <li>
          <a href="/erasures" aria-current={current === 'erasures' ? 'page' : undefined}>
            {strings.people.erasures}
          </a>
        </li>
      ) : null}
    </ul>
  </nav>
)

/** A recipient as people name it: a number, a hash, or a receipt. */
const RecipientField = () => (
  <label>
    {strings.people.recipient}
    <input name="recipient" required autocomplete="off" spellcheck={false} placeholder="+79…" />
  </label>
)

type History = OptOutCheck['history'][number]

const HISTORY: ReadonlyArray<Column<History>> = [
  { title: strings.people.at, cell: ({ at }) => <Time at={at} /> },
  { title: strings.people.change, cell: ({ change }) => wordsOf(change) },
  { title: strings.people.source, cell: ({ source }) => strings.people.sources[source] ?? source },
  { title: strings.people.word, cell: ({ word }) => word ?? '' },
  { title: strings.people.actor, cell: ({ actor }) => actor ?? '' },
]

const Checked = ({
  checked,
  recheck,
}: {
  readonly checked: OptOutCheck
  readonly recheck: () => Promise<void>
}) => (
  <section aria-labelledby="checked" class="revealed">
    <h2 id="checked">{checked.opted_out ? strings.people.isOptedOut : strings.people.isNotOptedOut}</h2>
    <Facts rows={[[strings.people.hash, <Code text={checked.recipient} />]]} />
    {checked.history.length === 0 ? (
      <Empty>{strings.people.noHistory}</Empty>
    ) : (
      <Table
        label={strings.people.history}
        rows={checked.history}
        columns={HISTORY}
        rowKey={({ at, change }) => `${at} ${change}`}
      />
    )}
    {may('opt_outs.change') ? (
      <div class="actions">
        {checked.opted_out ? (
          <ActionButton
            label={strings.people.lift}
            about={strings.people.liftAbout}
            confirmName={checked.recipient.slice(0, HASH_TO_TYPE)}
            onSubmit={async () => {
              await request('/v1/opt_outs/lift', { method: 'POST', body: { recipient: checked.recipient } })
              await recheck()
            }}
          />
        ) : (
          <ActionButton
            label={strings.people.add}
            about={strings.people.addAbout}
            onSubmit={async () => {
              await request('/v1/opt_outs', { method: 'POST', body: { recipient: checked.recipient } })
              await recheck()
            }}
          />
        )}
      </div>
    ) : null}
  </section>
)

/** The first digits of a hash: enough to compare, and possible to type. */
const HASH_TO_TYPE = 8

const Check = () => {
  const [checked, setChecked] = useState<OptOutCheck | null>(null)
  const [failure, setFailure] = useState<Failure | null>(null)
  const check = async (recipient: string): Promise<void> => {
    try {
      setChecked(await request<OptOutCheck>('/v1/opt_outs/check', { method: 'POST', body: { recipient } }))
      setFailure(null)
    } catch (error) {
      if (!(error instanceof RequestFailed)) throw error
      setChecked(null)
      setFailure(error.failure)
    }
  }
  return (
    <>
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault()
          void check(textOf(new FormData(event.currentTarget), 'recipient'))
        }}
      >
        <div class="field recipient">
          <RecipientField />
        </div>
        <button type="submit" class="primary">
          {strings.people.check}
        </button>
      </form>
      {failure === null ? null : <Failed failure={failure} />}
      {checked === null ? null : <Checked checked={checked} recheck={() => check(checked.recipient)} />}
    </>
  )
}

const OPT_OUT_FIELDS: ReadonlyArray<FilterField> = [
  {
    name: 'source',
    label: strings.people.source,
    kind: 'choice',
    choices: CHOICES['people.list_opt_outs'].source,
  },
  { name: 'since', label: strings.filters.after, kind: 'time' },
]

const OPT_OUTS: ReadonlyArray<Column<OptOut>> = [
  { title: strings.people.at, cell: ({ created_at }) => <Time at={created_at} /> },
  { title: strings.people.source, cell: ({ source }) => strings.people.sources[source] ?? source },
  {
    title: strings.people.hash,
    cell: ({ recipient }) => <Id id={recipient} href={withFilters('/search', { q: recipient })} />,
  },
]

export const OptOuts = () => {
  const filters = currentFilters(OPT_OUT_FIELDS)
  const pages = usePages<OptOut>(withFilters('/v1/opt_outs', { ...filters, limit: '100' }))
  return (
    <>
      <PageTitle text={strings.people.optOuts} />
      <Tabs current="optOuts" />
      <p>{strings.people.about}</p>
      <Check />
      <h2>{strings.people.list}</h2>
      <FilterBar fields={OPT_OUT_FIELDS} view="opt_outs" />
      <PagedTable
        label={strings.people.list}
        pages={pages}
        columns={OPT_OUTS}
        rowKey={({ recipient }) => recipient}
        empty={Object.keys(filters).length > 0 ? strings.people.emptyFilter : strings.people.empty}
      />
    </>
  )
}

const Receipt = ({ receipt }: { readonly receipt: ErasureReceipt }) => (
  <section aria-labelledby="receipt" class="revealed">
    <h2 id="receipt">{strings.people.receipt}</h2>
    <Facts
      rows={[
        [strings.columns.status, <Status value={receipt.status} />],
        [strings.people.hash, <Code text={receipt.recipient} />],
        [strings.people.requested, <Time at={receipt.requested_at} exact />],
        [strings.people.sealedUntil, <Time at={receipt.sealed_until} exact />],
      ]}
    />
    <p>{strings.people.receiptAbout}</p>
    <Json label={strings.people.receipt} value={receipt} />
  </section>
)

/** The person of a request must not confirm it. The API checks it; the page says it before. */
const ConfirmErasure = ({
  made,
  onReceipt,
}: {
  readonly made: ErasureRequest
  readonly onReceipt: (receipt: ErasureReceipt | null) => void
}) => (
  <ActionButton
    label={strings.people.confirm}
    about={strings.people.confirmAbout(made.requested_by)}
    action={strings.people.erase}
    confirmName={made.recipient.slice(0, HASH_TO_TYPE)}
    onSubmit={async () => {
      const outcome = await request<ErasureOutcome>(`/v1/erasures/${made.id}/confirm`, {
        method: 'POST',
        body: {},
      })
      onReceipt(outcome.receipt)
    }}
  />
)

export const Erasures = () => {
  const [receipt, setReceipt] = useState<ErasureReceipt | null>(null)
  const [requested, setRequested] = useState<ErasureRequest | null>(null)
  const pages = usePages<ErasureRequest>('/v1/erasures?open=false&limit=100')
  const columns: ReadonlyArray<Column<ErasureRequest>> = [
    { title: strings.people.requested, cell: ({ requested_at }) => <Time at={requested_at} /> },
    { title: strings.people.actor, cell: ({ requested_by }) => requested_by },
    { title: strings.columns.reason, cell: ({ reason }) => reason ?? '' },
    { title: strings.columns.status, cell: ({ status }) => <Status value={status} /> },
    {
      title: strings.people.confirmed,
      cell: ({ confirmed_at, confirmed_by }) =>
        confirmed_by === null ? null : (
          <>
            {confirmed_by} <Time at={confirmed_at} />
          </>
        ),
    },
    {
      title: strings.people.hash,
      cell: ({ recipient }) => <Code text={recipient} />,
    },
    {
      title: strings.people.action,
      cell: (made) =>
        made.status === 'waiting' && may('erasures.confirm') ? (
          <ConfirmErasure
            made={made}
            onReceipt={(written) => {
              setReceipt(written)
              pages.reload()
            }}
          />
        ) : null,
    },
  ]
  return (
    <>
      <PageTitle text={strings.people.erasures} />
      <Tabs current="erasures" />
      <p>{strings.people.eraseAbout}</p>
      {may('erasures.request') ? (
        <div class="actions">
          <ActionButton
            label={strings.people.erase}
            tone="danger"
            about={strings.people.eraseDialog}
            confirmName={strings.people.eraseName}
            onSubmit={async (fields) => {
              const outcome = await request<ErasureOutcome>('/v1/erasures', {
                method: 'POST',
                body: { recipient: textOf(fields, 'recipient'), reason: textOf(fields, 'reason') },
              })
              setReceipt(outcome.receipt)
              setRequested(outcome.receipt === null ? outcome.request : null)
              pages.reload()
            }}
          >
            <RecipientField />
            <ReasonField label={strings.message.reason} hint={strings.message.reasonHint} />
          </ActionButton>
        </div>
      ) : null}
      {requested === null ? null : <p role="status">{strings.people.waitsForSecond}</p>}
      {receipt === null ? null : <Receipt receipt={receipt} />}
      <h2>{strings.people.requests}</h2>
      <PagedTable
        label={strings.people.requests}
        pages={pages}
        columns={columns}
        rowKey={({ id }) => id}
        empty={strings.people.noRequests}
      />
    </>
  )
}
