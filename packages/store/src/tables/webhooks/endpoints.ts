/**
 * `webhooks.endpoints`: webhook subscriptions.
 *
 * Owners: command-api creates, changes and deletes them; webhook-fanout records endpoint health and
 * disables them. Ids here are UUIDs.
 */
import {
  type ClientCertificateView,
  encodeId,
  type EventType,
  type Mode,
  type SigningSecrets,
  type SubscriptionStatus,
  type SubscriptionView,
} from '@hub/domain'
import { firstRow, type Queries } from '../../sql.ts'

/** What clients see of a subscription. */
export interface SubscriptionRow {
  readonly id: string
  readonly url: string
  readonly description: string | null
  readonly event_types: ReadonlyArray<EventType>
  readonly status: SubscriptionStatus
  readonly created_at: Date
  readonly disabled_at: Date | null
  readonly disabled_reason: string | null
  readonly consecutive_failures: number
  /** When the last transition of an earlier secret ends. */
  readonly secret_rotation_ends_at: Date | null
  /** In the order sent. */
  readonly header_names: ReadonlyArray<string>
  /** SHA-256 of the client certificate; both are `null` without one. */
  readonly client_certificate_fingerprint: string | null
  readonly client_certificate_not_after: Date | null
}

/** The columns of `SubscriptionRow`, of `webhooks.endpoints e`. */
export const columns = (q: Queries) => q`
  e.id, e.url, e.description, e.event_types, e.status, e.created_at, e.disabled_at, e.disabled_reason,
  e.consecutive_failures, greatest(e.secret_rotation_ends_at, e.older_secret_ends_at) AS secret_rotation_ends_at,
  e.header_names, e.client_certificate_fingerprint, e.client_certificate_not_after`

/**
 * The secrets of a subscription, encrypted: those that sign, with the ends of their transitions, the static
 * headers, and the client certificate with its key.
 */
export interface SecretColumns {
  readonly secret: Buffer
  readonly previous_secret: Buffer | null
  readonly previous_secret_ends_at: Date | null
  readonly older_secret: Buffer | null
  readonly older_secret_ends_at: Date | null
  readonly headers: Buffer | null
  readonly client_certificate: Buffer | null
}

/** The columns of `SecretColumns`, of `webhooks.endpoints e`. */
export const secretColumns = (q: Queries) => q`
  e.secret, e.previous_secret, e.secret_rotation_ends_at AS previous_secret_ends_at, e.older_secret,
  e.older_secret_ends_at, e.headers, e.client_certificate`

export const secretsOf = (row: SecretColumns): SigningSecrets<Buffer> => ({
  current: row.secret,
  earlier: [
    { secret: row.previous_secret, endsAt: row.previous_secret_ends_at },
    { secret: row.older_secret, endsAt: row.older_secret_ends_at },
  ].flatMap(({ endsAt, secret }) =>
    secret === null || endsAt === null ? [] : [{ secret, signsUntil: endsAt.getTime() }],
  ),
})

/** What is shown of the client certificate; `null` without one. */
export const clientCertificateOf = (
  row: Pick<SubscriptionRow, 'client_certificate_fingerprint' | 'client_certificate_not_after'>,
): ClientCertificateView | null => {
  const { client_certificate_fingerprint: fingerprint, client_certificate_not_after: notAfter } = row
  return fingerprint === null || notAfter === null ? null : { fingerprint, notAfter: notAfter.getTime() }
}

export const toView = (row: SubscriptionRow): SubscriptionView => ({
  id: encodeId('we', row.id),
  url: row.url,
  description: row.description,
  eventTypes: row.event_types,
  status: row.status,
  createdAt: row.created_at.getTime(),
  disabledAt: row.disabled_at?.getTime() ?? null,
  disabledReason: row.disabled_reason,
  consecutiveFailures: row.consecutive_failures,
  rotationEndsAt: row.secret_rotation_ends_at?.getTime() ?? null,
  headerNames: row.header_names,
  clientCertificate: clientCertificateOf(row),
})

export interface OwnedSubscriptionRow extends Omit<
  SubscriptionRow,
  'secret_rotation_ends_at' | 'description'
> {
  readonly account: string
  readonly mode: Mode
}

const ownedColumns = (q: Queries) => q`
  id, account, mode, url, event_types, status, consecutive_failures, disabled_at, disabled_reason, created_at,
  header_names, client_certificate_fingerprint, client_certificate_not_after`

/** Filters; `null`: any. */
interface SubscriptionFilter {
  readonly account: string | null
  readonly mode: Mode | null
  readonly status: SubscriptionStatus | null
  readonly limit: number
  /** Only subscriptions behind this one in the list. */
  readonly after?: { readonly created_at: Date; readonly id: string } | null
}

/** The newest subscriptions that match the filter, without deleted ones. */
export const readNewest = async (
  q: Queries,
  { account, after = null, limit, mode, status }: SubscriptionFilter,
): Promise<ReadonlyArray<OwnedSubscriptionRow>> =>
  q<OwnedSubscriptionRow[]>`
    SELECT ${ownedColumns(q)}
      FROM webhooks.endpoints
     WHERE deleted_at IS NULL AND (${account}::uuid IS NULL OR account = ${account})
       AND (${mode}::command.mode IS NULL OR mode = ${mode}) AND (${status}::text IS NULL OR status = ${status})
       ${after === null ? q`` : q`AND (created_at, id) < (${after.created_at}, ${after.id})`}
     ORDER BY created_at DESC, id DESC LIMIT ${limit}`

interface JournalOwner {
  /** UUID. */
  readonly account: string
  readonly mode: Mode
}

/**
 * Those of the journals that have a subscription. A disabled one counts, because its events
 * accumulate; a deleted one does not. The creation of a subscription locks the journal head. So
 * ask after the journal heads are locked: the answer then holds for all events that this
 * transaction records.
 */
export const findSubscribedJournals = async (
  q: Queries,
  journals: ReadonlyArray<JournalOwner>,
): Promise<ReadonlyArray<JournalOwner>> =>
  q<JournalOwner[]>`
    SELECT j.account, j.mode
      FROM unnest(${journals.map(({ account }) => account)}::uuid[],
                  ${journals.map(({ mode }) => mode)}::command.mode[]) AS j (account, mode)
     WHERE EXISTS (SELECT 1 FROM webhooks.endpoints e
                    WHERE e.account = j.account AND e.mode = j.mode AND e.deleted_at IS NULL)`

/** The subscriptions that are disabled, or whose last attempts failed: the most failures first. */
export const readFailing = async (q: Queries, limit: number): Promise<ReadonlyArray<OwnedSubscriptionRow>> =>
  q<OwnedSubscriptionRow[]>`
    SELECT ${ownedColumns(q)}
      FROM webhooks.endpoints
     WHERE deleted_at IS NULL AND (status = 'disabled_by_failures' OR consecutive_failures > 0)
     ORDER BY disabled_at NULLS LAST, consecutive_failures DESC, id LIMIT ${limit}`

/** A subscription with its owner, without a deleted one. */
export const readOwned = async (q: Queries, id: string): Promise<OwnedSubscriptionRow | null> =>
  firstRow(q<OwnedSubscriptionRow[]>`
    SELECT ${ownedColumns(q)}
      FROM webhooks.endpoints WHERE id = ${id} AND deleted_at IS NULL`)

/** Whether a subscription exists and is not deleted. */
export const exists = async (q: Queries, id: string): Promise<boolean> => {
  const rows = await q`SELECT 1 FROM webhooks.endpoints WHERE id = ${id} AND deleted_at IS NULL`
  return rows.length === 1
}

/** The account and mode of a subscription, also of a deleted one; `null` if it never existed. */
export const readOwner = async (
  q: Queries,
  id: string,
): Promise<Pick<OwnedSubscriptionRow, 'account' | 'mode'> | null> =>
  firstRow(q<Pick<OwnedSubscriptionRow, 'account' | 'mode'>[]>`
    SELECT account, mode FROM webhooks.endpoints WHERE id = ${id}`)

/**
 * The subscriptions whose client certificate has expired or expires before a moment, the first one first: how many,
 * how many of them are enabled, and the id and the end of the first.
 */
export const findExpiringCertificates = async (
  q: Queries,
  before: Date,
): Promise<{
  readonly count: number
  readonly enabled: number
  readonly first: { readonly id: string; readonly notAfter: Date } | null
}> => {
  const rows = await q<{ id: string; notAfter: Date; count: number; enabled: number }[]>`
    SELECT id, client_certificate_not_after AS "notAfter", count(*) OVER ()::int AS count,
           (count(*) FILTER (WHERE status = 'enabled') OVER ())::int AS enabled
      FROM webhooks.endpoints
     WHERE deleted_at IS NULL AND client_certificate_not_after < ${before}
     ORDER BY client_certificate_not_after, id LIMIT 1`
  const [first] = rows
  return first === undefined
    ? { count: 0, enabled: 0, first: null }
    : { count: first.count, enabled: first.enabled, first }
}

/** How many subscriptions do not work. */
export interface FailingCounts {
  readonly enabled: number
  /** Enabled, with a failed last attempt. */
  readonly failing: number
  readonly disabled: number
}

export const countFailing = async (q: Queries): Promise<FailingCounts> => {
  const [row] = await q<FailingCounts[]>`
    SELECT count(*) FILTER (WHERE status = 'enabled')::int AS enabled,
           count(*) FILTER (WHERE status = 'enabled' AND consecutive_failures > 0)::int AS failing,
           count(*) FILTER (WHERE status <> 'enabled')::int AS disabled
      FROM webhooks.endpoints WHERE deleted_at IS NULL`
  return row ?? { enabled: 0, failing: 0, disabled: 0 }
}
