/** The API keys of an account: issue, rotate, networks, revoke, and live keys that another person must confirm. */
import { useState } from 'preact/hooks'
import { may, request, RequestFailed } from '../api/client.ts'
import { usePages } from '../api/resource.ts'
import type { ApiKey, KeyRequest, NewKey } from '../api/types.ts'
import { Code, Facts, Status, Time } from '../components/basics.tsx'
import { ActionButton, textOf } from '../components/dialog.tsx'
import { type Column, PagedTable } from '../components/table.tsx'
import { wordsOf } from '../format/number.ts'
import { durationText } from '../format/time.ts'
import { withFilters } from '../routing/routes.ts'
import { strings } from '../strings.ts'

const networksText = (networks: ReadonlyArray<string> | null): string =>
  networks === null
    ? strings.accounts.anywhere
    : networks.length === 0
      ? strings.accounts.nowhere
      : networks.join(', ')

/** What a key may do, with a sentence for each. */
const SCOPES = Object.entries(strings.accounts.scopeNames)

/** Without scopes, an API of the previous version has answered: it knows only keys that may do everything. */
const scopesText = (scopes: ReadonlyArray<string> = SCOPES.map(([scope]) => scope)): string =>
  scopes.join(', ')

/** When a key ends: a replaced key works until its revocation. `null`: never. */
const endOf = ({ expires_at, revoked_at }: ApiKey): string | null => {
  const [first = null] = [expires_at, revoked_at].filter((at) => at !== null).toSorted()
  return first
}

const KEYS: ReadonlyArray<Column<ApiKey>> = [
  { title: strings.accounts.key, cell: ({ id }) => <Code text={id} /> },
  { title: strings.accounts.lastFour, cell: ({ last_four }) => <code>…{last_four}</code> },
  { title: strings.columns.mode, cell: ({ mode }) => wordsOf(mode) },
  {
    title: strings.columns.status,
    cell: ({ revoked_at, works }) => (
      <Status value={works ? 'enabled' : revoked_at === null ? 'expired' : 'revoked'} />
    ),
  },
  {
    title: strings.accounts.lastUsed,
    cell: ({ last_used_at, last_used_from }) => (
      <>
        <Time at={last_used_at} /> {last_used_from === null ? null : <code>{last_used_from}</code>}
      </>
    ),
  },
  { title: strings.accounts.networks, cell: ({ allowed_addresses }) => networksText(allowed_addresses) },
  { title: strings.accounts.scopes, cell: ({ scopes }) => scopesText(scopes) },
  { title: strings.accounts.ends, cell: (key) => <Time at={endOf(key)} /> },
  { title: strings.columns.created, cell: ({ created_at }) => <Time at={created_at} /> },
]

/** The scopes in a form, as the input of the API. All of them are left out: the previous version has no such field. */
const scopesOf = (fields: FormData): { readonly scopes?: ReadonlyArray<string> } => {
  const scopes = SCOPES.map(([scope]) => scope).filter((scope) => fields.has(`scope_${scope}`))
  return scopes.length === SCOPES.length ? {} : { scopes }
}

const HOUR_SECONDS = 3600
const DAY_SECONDS = 86_400

/** The longest overlap of a rotation that the API admits: 30 days. */
const MAX_OVERLAP_HOURS = 720

const networksOf = (fields: FormData): ReadonlyArray<string> =>
  textOf(fields, 'networks')
    .split(/[\s,]+/u)
    .filter((network) => network !== '')

/** The lifetime of a new key in a form, as the input of the API. */
const lifetimeOf = (fields: FormData): number | null => {
  const days = textOf(fields, 'days')
  return days === '' ? null : Number(days) * DAY_SECONDS
}

const LifetimeField = ({ label }: { readonly label: string }) => (
  <label>
    {label}
    <input name="days" autocomplete="off" inputMode="numeric" pattern="[1-9]\d{0,3}" placeholder="365" />
  </label>
)

/** Performs an operation. `null`: the hub requires that another person confirms a request. */
const unlessSecondPerson = async <Result,>(path: string, body: object): Promise<Result | null> => {
  try {
    return await request<Result>(path, { method: 'POST', body })
  } catch (error) {
    const isRequired =
      error instanceof RequestFailed &&
      error.failure.kind === 'refused' &&
      error.failure.code === 'second_person_required'
    if (!isRequired) throw error
    return null
  }
}

const IssueKey = ({
  account,
  onIssued,
  onRequested,
}: {
  readonly account: string
  readonly onIssued: (key: NewKey) => void
  readonly onRequested: () => void
}) => (
  <ActionButton
    label={strings.accounts.issue}
    about={strings.accounts.issueAbout}
    onSubmit={async (fields) => {
      const networks = networksOf(fields)
      const key = {
        allowed_addresses: networks.length === 0 ? null : networks,
        ...scopesOf(fields),
        expires_after_seconds: lifetimeOf(fields),
      }
      const body = { account, mode: textOf(fields, 'mode'), ...key }
      const issued = await unlessSecondPerson<NewKey>('/v1/keys', body)
      if (issued !== null) return onIssued(issued)
      await request('/v1/key_requests', { method: 'POST', body: { account, ...key } })
      onRequested()
    }}
  >
    <label>
      {strings.columns.mode}
      <select name="mode">
        <option value="test">{wordsOf('test')}</option>
        <option value="live">{wordsOf('live')}</option>
      </select>
    </label>
    <label>
      {strings.accounts.networksField}
      <input name="networks" autocomplete="off" spellcheck={false} placeholder="192.0.2.0/24" />
    </label>
    <fieldset>
      <legend>{strings.accounts.scopesField}</legend>
      {SCOPES.map(([scope, text]) => (
        <label key={scope}>
          <input type="checkbox" name={`scope_${scope}`} defaultChecked />
          {text}
        </label>
      ))}
    </fieldset>
    <LifetimeField label={strings.accounts.daysField} />
  </ActionButton>
)

const Issued = ({ issued }: { readonly issued: NewKey }) => (
  <section aria-labelledby="issued" class="revealed">
    <h3 id="issued">{strings.accounts.issued}</h3>
    <Facts
      rows={[
        [strings.accounts.key, <Code text={issued.key} whole />],
        [strings.columns.id, <Code text={issued.id} />],
        [strings.columns.mode, wordsOf(issued.mode)],
        [strings.accounts.scopes, scopesText(issued.scopes)],
        ...(issued.expires_at === undefined
          ? []
          : [[strings.accounts.expires, <Time at={issued.expires_at} exact />] as const]),
        ...(issued.replaces == null
          ? []
          : [[strings.accounts.oldEnds, <Time at={issued.replaces.revoked_at} exact />] as const]),
      ]}
    />
    <p>{strings.accounts.issuedAbout}</p>
  </section>
)

const RotateKey = ({
  apiKey,
  onIssued,
  onRequested,
}: {
  readonly apiKey: ApiKey
  readonly onIssued: (key: NewKey) => void
  readonly onRequested: () => void
}) => (
  <ActionButton
    label={strings.accounts.rotate}
    about={strings.accounts.rotateAbout(apiKey.mode, apiKey.last_four)}
    confirmName={apiKey.id}
    onSubmit={async (fields) => {
      const body = {
        overlap_seconds: Number(textOf(fields, 'hours')) * HOUR_SECONDS,
        expires_after_seconds: lifetimeOf(fields),
      }
      const issued = await unlessSecondPerson<NewKey>(`/v1/keys/${apiKey.id}/rotate`, body)
      if (issued !== null) return onIssued(issued)
      await request(`/v1/keys/${apiKey.id}/request_rotation`, { method: 'POST', body })
      onRequested()
    }}
  >
    <label>
      {strings.accounts.overlapField}
      <input name="hours" type="number" required min={0} max={MAX_OVERLAP_HOURS} defaultValue="24" />
    </label>
    <LifetimeField label={strings.accounts.sameDaysField} />
  </ActionButton>
)

/** "Anywhere" is a choice of its own: an emptied field must not open a key to all addresses. */
const ChangeNetworks = ({ apiKey, reload }: { readonly apiKey: ApiKey; readonly reload: () => void }) => {
  const [anywhere, setAnywhere] = useState(false)
  return (
    <ActionButton
      label={strings.accounts.changeNetworks}
      about={strings.accounts.changeNetworksAbout(apiKey.mode, apiKey.last_four)}
      action={strings.accounts.change}
      onSubmit={async (fields) => {
        const body = { allowed_addresses: anywhere ? null : networksOf(fields) }
        await request(`/v1/keys/${apiKey.id}/allowed_addresses`, { method: 'POST', body })
        reload()
      }}
    >
      <label>
        {strings.accounts.changedNetworksField}
        <input
          name="networks"
          required
          disabled={anywhere}
          autocomplete="off"
          spellcheck={false}
          placeholder="192.0.2.0/24"
          defaultValue={apiKey.allowed_addresses?.join(', ') ?? ''}
        />
      </label>
      <label>
        <input
          type="checkbox"
          checked={anywhere}
          onChange={(event) => setAnywhere(event.currentTarget.checked)}
        />
        {strings.accounts.fromAnywhere}
      </label>
    </ActionButton>
  )
}

const RevokeKey = ({ apiKey, reload }: { readonly apiKey: ApiKey; readonly reload: () => void }) => (
  <ActionButton
    label={strings.accounts.revoke}
    about={strings.accounts.revokeAbout(apiKey.mode, apiKey.last_four)}
    confirmName={apiKey.id}
    onSubmit={async () => {
      await request(`/v1/keys/${apiKey.id}/revoke`, { method: 'POST', body: {} })
      reload()
    }}
  />
)

/** The person of a request must not confirm it. The API checks it; the page says it before. */
const ConfirmKey = ({
  made,
  name,
  onIssued,
}: {
  readonly made: KeyRequest
  /** Of the account. */
  readonly name: string
  readonly onIssued: (key: NewKey) => void
}) => (
  <ActionButton
    label={strings.people.confirm}
    title={strings.accounts.confirmKey}
    about={
      <>
        <p>{strings.accounts.confirmKeyAbout(made.requested_by)}</p>
        {made.replaces === null ? null : (
          <p>
            {strings.accounts.confirmReplacesAbout(
              made.replaces,
              durationText((made.overlap_seconds ?? 0) * 1000),
            )}
          </p>
        )}
      </>
    }
    action={strings.accounts.confirmKey}
    confirmName={name}
    onSubmit={async () => {
      const path = `/v1/key_requests/${made.id}/confirm`
      onIssued(await request<NewKey>(path, { method: 'POST', body: {} }))
    }}
  />
)

export const Keys = ({ id, name }: { readonly id: string; readonly name: string }) => {
  const [issued, setIssued] = useState<NewKey | null>(null)
  const [requested, setRequested] = useState(false)
  const pages = usePages<ApiKey>(withFilters('/v1/keys', { account: id, ended: 'true', limit: '100' }))
  const requests = usePages<KeyRequest>(
    withFilters('/v1/key_requests', { account: id, open: 'false', limit: '20' }),
  )
  const onIssued = (key: NewKey): void => {
    setIssued(key)
    setRequested(false)
    pages.reload()
    requests.reload()
  }
  const onRequested = (): void => {
    setRequested(true)
    requests.reload()
  }
  const keyColumns: ReadonlyArray<Column<ApiKey>> = may('keys.change')
    ? [
        ...KEYS,
        {
          title: strings.people.action,
          cell: (key) =>
            key.works ? (
              <div class="actions">
                <RotateKey apiKey={key} onIssued={onIssued} onRequested={onRequested} />
                <ChangeNetworks apiKey={key} reload={pages.reload} />
                <RevokeKey apiKey={key} reload={pages.reload} />
              </div>
            ) : null,
        },
      ]
    : KEYS
  const requestColumns: ReadonlyArray<Column<KeyRequest>> = [
    { title: strings.people.requested, cell: ({ requested_at }) => <Time at={requested_at} /> },
    { title: strings.people.actor, cell: ({ requested_by }) => requested_by },
    { title: strings.columns.status, cell: ({ status }) => <Status value={status} /> },
    { title: strings.accounts.networks, cell: ({ allowed_addresses }) => networksText(allowed_addresses) },
    { title: strings.accounts.scopes, cell: ({ scopes }) => scopesText(scopes) },
    {
      title: strings.accounts.replaces,
      cell: ({ replaces }) => <Code text={replaces} />,
    },
    { title: strings.people.confirmed, cell: ({ confirmed_by }) => confirmed_by ?? '' },
    { title: strings.accounts.key, cell: ({ key }) => <Code text={key} /> },
    {
      title: strings.people.action,
      cell: (made) =>
        made.status === 'waiting' && may('keys.confirm') ? (
          <ConfirmKey made={made} name={name} onIssued={onIssued} />
        ) : null,
    },
  ]
  return (
    <section aria-labelledby="keys">
      <h2 id="keys">{strings.accounts.keys}</h2>
      {may('keys.change') ? (
        <div class="actions">
          <IssueKey account={id} onIssued={onIssued} onRequested={onRequested} />
        </div>
      ) : null}
      {requested ? <p role="status">{strings.people.waitsForSecond}</p> : null}
      {issued === null ? null : <Issued issued={issued} />}
      <PagedTable
        label={strings.accounts.keys}
        pages={pages}
        columns={keyColumns}
        rowKey={(key) => key.id}
        empty={strings.accounts.noKeys(id)}
      />
      {requests.rows.length === 0 ? null : (
        <>
          <h3>{strings.accounts.keyRequests}</h3>
          <PagedTable
            label={strings.accounts.keyRequests}
            pages={requests}
            columns={requestColumns}
            rowKey={(made) => made.id}
            empty={strings.none}
          />
        </>
      )}
    </section>
  )
}
