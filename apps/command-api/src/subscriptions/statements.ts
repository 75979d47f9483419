/**
 * `webhooks.endpoints`: statements for commands and queries of clients. The fan-out writes the
 * columns of endpoint health. All ids here are UUIDs.
 */
import type { WebhookEndpointChanges } from '@hub/contract'
import type { EventType, SigningSecrets } from '@hub/domain'
import { type Queries, WebhooksEndpoints } from '@hub/store'
import type { Owner } from '../accounts/account.ts'

export type SubscriptionRow = WebhooksEndpoints.SubscriptionRow

/** The static headers and the client certificate of a subscription, as they are stored. */
export interface StoredCredentials {
  readonly headers: {
    readonly names: ReadonlyArray<string>
    /** Names and values; `null`: there are none. */
    readonly encrypted: Buffer | null
  }
  /** `null`: it has none. `notAfter`: milliseconds since the epoch. */
  readonly clientCertificate: {
    readonly encrypted: Buffer
    readonly fingerprint: string
    readonly notAfter: number
  } | null
}

interface NewSubscription extends StoredCredentials {
  readonly id: string
  readonly url: string
  readonly description: string | null
  readonly eventTypes: ReadonlyArray<EventType>
  /** Encrypted. */
  readonly secret: Buffer
}

/** Members that are absent keep their values. */
type SubscriptionChanges = Omit<WebhookEndpointChanges, keyof StoredCredentials> & Partial<StoredCredentials>

const dateOf = (clientCertificate: StoredCredentials['clientCertificate']): Date | null =>
  clientCertificate === null ? null : new Date(clientCertificate.notAfter)

/** Rows of the owner that are not deleted. */
const isOwned = (q: Queries, owner: Owner) =>
  q`account = ${owner.accountUuid} AND mode = ${owner.mode} AND deleted_at IS NULL`

/**
 * Inserts a subscription; `null` when the owner already has `most` of them. An advisory lock
 * serializes the insertions of an owner, so that the count holds.
 */
export const insert = async (
  q: Queries,
  owner: Owner,
  { clientCertificate, description, eventTypes, headers, id, secret, url }: NewSubscription,
  most: number,
): Promise<SubscriptionRow | null> => {
  await q`SELECT pg_advisory_xact_lock(hashtextextended(${`webhook_endpoints ${owner.accountUuid} ${owner.mode}`}, 0))`
  const [row] = await q<SubscriptionRow[]>`
    INSERT INTO webhooks.endpoints AS e
           (id, account, mode, url, description, event_types, secret, header_names, headers,
            client_certificate, client_certificate_fingerprint, client_certificate_not_after)
    SELECT ${id}, ${owner.accountUuid}, ${owner.mode}::command.mode, ${url}, ${description}, ${[...eventTypes]}::text[],
           ${secret}, ${[...headers.names]}::text[], ${headers.encrypted}::bytea,
           ${clientCertificate?.encrypted ?? null}::bytea, ${clientCertificate?.fingerprint ?? null}::text,
           ${dateOf(clientCertificate)}::timestamptz
     WHERE (SELECT count(*) FROM webhooks.endpoints WHERE ${isOwned(q, owner)}) < ${most}
    RETURNING ${WebhooksEndpoints.columns(q)}`
  return row ?? null
}

/** Deletes the row itself. Only for a creation that is rolled back. */
export const remove = (q: Queries, id: string) => q`DELETE FROM webhooks.endpoints WHERE id = ${id}`

export const find = async (q: Queries, owner: Owner, id: string): Promise<SubscriptionRow | null> => {
  const [row] = await q<SubscriptionRow[]>`
    SELECT ${WebhooksEndpoints.columns(q)} FROM webhooks.endpoints e WHERE id = ${id} AND ${isOwned(q, owner)}`
  return row ?? null
}

/** Locks a subscription of the owner until the transaction ends; false without one. */
export const lock = async (q: Queries, owner: Owner, id: string): Promise<boolean> => {
  const rows = await q`
    SELECT 1 FROM webhooks.endpoints WHERE id = ${id} AND ${isOwned(q, owner)} FOR NO KEY UPDATE`
  return rows.length > 0
}

/** All subscriptions of the owner, newest first. */
export const findAll = async (q: Queries, owner: Owner): Promise<ReadonlyArray<SubscriptionRow>> =>
  q<
    SubscriptionRow[]
  >`SELECT ${WebhooksEndpoints.columns(q)} FROM webhooks.endpoints e WHERE ${isOwned(q, owner)} ORDER BY id DESC`

/**
 * Marks a subscription as deleted and erases its address and secrets. The fan-out deletes the rest.
 */
export const markDeleted = async (q: Queries, owner: Owner, id: string): Promise<SubscriptionRow | null> => {
  const [row] = await q<SubscriptionRow[]>`
    UPDATE webhooks.endpoints e
       SET deleted_at = now(), url = '', description = NULL, secret = ''::bytea, previous_secret = NULL,
           secret_rotation_ends_at = NULL, older_secret = NULL, older_secret_ends_at = NULL,
           header_names = '{}', headers = NULL, client_certificate = NULL,
           client_certificate_fingerprint = NULL, client_certificate_not_after = NULL
     WHERE id = ${id} AND ${isOwned(q, owner)}
    RETURNING ${WebhooksEndpoints.columns(q)}`
  return row ?? null
}

/** Locks a subscription and reads its secrets (encrypted); `null` without one. */
export const lockSecrets = async (
  q: Queries,
  owner: Owner,
  id: string,
): Promise<SigningSecrets<Buffer> | null> => {
  const [row] = await q<WebhooksEndpoints.SecretColumns[]>`
    SELECT ${WebhooksEndpoints.secretColumns(q)} FROM webhooks.endpoints e
     WHERE id = ${id} AND ${isOwned(q, owner)} FOR NO KEY UPDATE`
  return row === undefined ? null : WebhooksEndpoints.secretsOf(row)
}

/** Stores the secrets (encrypted) of a locked subscription: the current one and at most two others. */
export const writeSecrets = async (
  q: Queries,
  id: string,
  { current, earlier: [previous, older] }: SigningSecrets<Buffer>,
): Promise<SubscriptionRow | null> => {
  const endOf = (one: typeof previous) => (one === undefined ? null : new Date(one.signsUntil))
  const [row] = await q<SubscriptionRow[]>`
    UPDATE webhooks.endpoints e
       SET secret = ${current}, previous_secret = ${previous?.secret ?? null},
           secret_rotation_ends_at = ${endOf(previous)}, older_secret = ${older?.secret ?? null},
           older_secret_ends_at = ${endOf(older)}
     WHERE id = ${id}
    RETURNING ${WebhooksEndpoints.columns(q)}`
  return row ?? null
}

/** Changes a subscription; members that are absent keep their values. `null`: there is none. */
export const update = async (
  q: Queries,
  owner: Owner,
  id: string,
  { clientCertificate, description, eventTypes, headers, url }: SubscriptionChanges,
): Promise<SubscriptionRow | null> => {
  const [row] = await q<SubscriptionRow[]>`
    UPDATE webhooks.endpoints e
       SET url = ${url === undefined ? q`url` : url},
           event_types = ${eventTypes === undefined ? q`event_types` : q`${[...eventTypes]}::text[]`},
           description = ${description === undefined ? q`description` : description},
           header_names = ${headers === undefined ? q`header_names` : q`${[...headers.names]}::text[]`},
           headers = ${headers === undefined ? q`headers` : headers.encrypted}
           ${
             clientCertificate === undefined
               ? q``
               : q`, client_certificate = ${clientCertificate?.encrypted ?? null},
                     client_certificate_fingerprint = ${clientCertificate?.fingerprint ?? null},
                     client_certificate_not_after = ${dateOf(clientCertificate)}`
           }
     WHERE id = ${id} AND ${isOwned(q, owner)}
    RETURNING ${WebhooksEndpoints.columns(q)}`
  return row ?? null
}
