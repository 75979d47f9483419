/** Ranges for which an account requests far too many codes, and the ranges that staff have blocked for an account. */
import { accountOf } from '../api/account-names.ts'
import { may, request } from '../api/client.ts'
import type { Resource } from '../api/resource.ts'
import type { RangeBlock, SuspiciousRange } from '../api/types.ts'
import { Empty, Id, ResourceState, Time } from '../components/basics.tsx'
import { ActionButton, ReasonField, textOf } from '../components/dialog.tsx'
import { type Column, Table } from '../components/table.tsx'
import { countText, percentText } from '../format/number.ts'
import { withFilters } from '../routing/routes.ts'
import { strings } from '../strings.ts'

interface Listed<Row> {
  readonly data: ReadonlyArray<Row>
}

const HOUR_SECONDS = 3600
/** A day: time for the client to protect its form. */
const DEFAULT_HOURS = '24'

const pathOf = (account: string, range: string): string =>
  `/v1/accounts/${encodeURIComponent(account)}/ranges/${encodeURIComponent(range)}`

interface BlockButtonProps {
  /** What is known already. Otherwise the dialog asks for it. */
  readonly account?: string
  readonly range?: string
  readonly changed: () => void
}

const BlockButton = ({ account, changed, range }: BlockButtonProps) => (
  <ActionButton
    label={range === undefined ? strings.ranges.blockAny : strings.ranges.block}
    title={range === undefined ? strings.ranges.blockAny : strings.ranges.blockTitle(range)}
    action={strings.ranges.block}
    tone="danger"
    about={strings.ranges.blockAbout}
    onSubmit={async (fields) => {
      const of = pathOf(account ?? accountOf(textOf(fields, 'account')), range ?? textOf(fields, 'range'))
      await request(`${of}/block`, {
        method: 'POST',
        body: {
          seconds: Number(textOf(fields, 'hours')) * HOUR_SECONDS,
          reason: textOf(fields, 'reason'),
        },
      })
      changed()
    }}
  >
    {account === undefined ? (
      <label>
        {strings.ranges.account}
        <input name="account" required autocomplete="off" spellcheck={false} />
      </label>
    ) : null}
    {range === undefined ? (
      <label>
        {strings.insights.range}
        <input
          name="range"
          required
          autocomplete="off"
          inputMode="numeric"
          pattern="9\d\d"
          placeholder="912"
        />
      </label>
    ) : null}
    <label>
      {strings.ranges.hours}
      <input
        name="hours"
        required
        autocomplete="off"
        inputMode="numeric"
        pattern="[1-9]\d{0,2}"
        defaultValue={DEFAULT_HOURS}
      />
    </label>
    <ReasonField label={strings.ranges.reason} hint={strings.message.reasonHint} />
  </ActionButton>
)

const suspiciousColumns = (changed: () => void): ReadonlyArray<Column<SuspiciousRange>> => [
  { title: strings.columns.account, cell: ({ account }) => <Id id={account} /> },
  {
    title: strings.insights.range,
    cell: ({ account, range, since }) => (
      <a
        href={withFilters('/messages', { account, range, class: 'otp', mode: 'live', created_after: since })}
      >
        {range}
      </a>
    ),
  },
  { title: strings.ranges.requests, numeric: true, cell: ({ requests }) => countText(requests) },
  { title: strings.ranges.expected, numeric: true, cell: ({ expected }) => countText(expected) },
  {
    title: strings.insights.rate,
    numeric: true,
    cell: ({ delivery_rate }) => (delivery_rate === null ? strings.none : percentText(delivery_rate)),
  },
  {
    title: strings.ranges.usualRate,
    numeric: true,
    cell: ({ usual_rate }) => (usual_rate === null ? strings.none : percentText(usual_rate)),
  },
  {
    title: strings.columns.status,
    cell: ({ account, blocked_until, range }) => {
      if (blocked_until !== null) return strings.ranges.blocked
      return may('accounts.change') ? (
        <BlockButton account={account} range={range} changed={changed} />
      ) : (
        strings.ranges.notBlocked
      )
    },
  },
]

export const SuspiciousRequests = ({
  changed,
  suspicious: { data, failure, reload },
}: {
  readonly suspicious: Resource<Listed<SuspiciousRange>>
  readonly changed: () => void
}) => {
  if (data === null || data.data.length === 0) {
    return failure === null ? null : <ResourceState data={data} failure={failure} reload={reload} />
  }
  return (
    <section aria-label={strings.ranges.suspicious}>
      <h2>{strings.ranges.suspicious}</h2>
      <p>{strings.ranges.suspiciousAbout}</p>
      <Table
        label={strings.ranges.suspicious}
        rows={data.data}
        columns={suspiciousColumns(changed)}
        rowKey={({ account, range }) => `${account} ${range}`}
      />
    </section>
  )
}

const blockColumns = (changed: () => void): ReadonlyArray<Column<RangeBlock>> => [
  { title: strings.columns.account, cell: ({ account }) => <Id id={account} /> },
  { title: strings.insights.range, cell: ({ range }) => range },
  { title: strings.ranges.until, cell: ({ until }) => <Time at={until} exact /> },
  { title: strings.ranges.by, cell: ({ blocked_by }) => blocked_by },
  { title: strings.columns.reason, cell: ({ reason }) => reason },
  ...(may('accounts.change')
    ? [
        {
          title: strings.columns.status,
          cell: ({ account, range }: RangeBlock) => (
            <ActionButton
              label={strings.ranges.unblock}
              title={strings.ranges.unblockTitle(range)}
              about={strings.ranges.unblockAbout}
              onSubmit={async () => {
                await request(`${pathOf(account, range)}/unblock`, { method: 'POST', body: {} })
                changed()
              }}
            />
          ),
        },
      ]
    : []),
]

export const BlockedRanges = ({
  account,
  blocks: { data, failure, reload },
  changed,
}: {
  /** That of the filter. */
  readonly account: string | undefined
  readonly blocks: Resource<Listed<RangeBlock>>
  readonly changed: () => void
}) => (
  <section aria-label={strings.ranges.blocks}>
    <h2>{strings.ranges.blocks}</h2>
    <p>{strings.ranges.blocksAbout}</p>
    <ResourceState data={data} failure={failure} reload={reload} />
    {data === null ? null : data.data.length === 0 ? (
      <Empty>{strings.ranges.noBlocks}</Empty>
    ) : (
      <Table
        label={strings.ranges.blocks}
        rows={data.data}
        columns={blockColumns(changed)}
        rowKey={({ account: of, range }) => `${of} ${range}`}
      />
    )}
    {may('accounts.change') ? (
      <div class="actions">
        <BlockButton {...(account === undefined ? {} : { account })} changed={changed} />
      </div>
    ) : null}
  </section>
)
