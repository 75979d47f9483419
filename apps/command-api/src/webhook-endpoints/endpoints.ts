/**
 * `webhooks.endpoints`: statements for commands and queries of clients. The fan-out writes the
 * columns of endpoint health. All ids here are UUIDs.
 */
import type { EventType, SubscriptionStatus } from '@hub/domain'
import type { Queries } from '@hub/store'
import type { Owner } from '../accounts/account.ts'

export interface EndpointRow {
  readonly id: string
  readonly url: string
  readonly event_types: ReadonlyArray<EventType>
  readonly status: SubscriptionStatus
  readonly created_at: Date
  readonly disabled_at: Date | null
  readonly disabled_reason: string | null
  readonly consecutive_failures: number
  readonly secret_rotation_ends_at: Date | null
}

interface NewEndpoint {
  readonly id: string
  readonly url: string
  readonly eventTypes: ReadonlyArray<EventType>
  /** Encrypted. */
  readonly secret: Buffer
}

const columns = (q: Queries) => q`
  id, url, event_types, status, created_at, disabled_at, disabled_reason, consecutive_failures, secret_rotation_ends_at`

/** Rows of the owner that are not deleted. */
const isOwned = (q: Queries, owner: Owner) =>
  q`account = ${owner.accountUuid} AND mode = ${owner.mode} AND deleted_at IS NULL`

/**
 * Inserts an endpoint; `null` when the owner already has `most` of them. An advisory lock
 * serializes the insertions of an owner, so that the count holds.
 */
export const insert = async (
  q: Queries,
  owner: Owner,
  { eventTypes, id, secret, url }: NewEndpoint,
  most: number,
): Promise<EndpointRow | null> => {
  await q`SELECT pg_advisory_xact_lock(hashtextextended(${`webhook_endpoints ${owner.accountUuid} ${owner.mode}`}, 0))`
  const [row] = await q<EndpointRow[]>`
    INSERT INTO webhooks.endpoints (id, account, mode, url, event_types, secret)
    SELECT ${id}, ${owner.accountUuid}, ${owner.mode}::command.mode, ${url}, ${[...eventTypes]}::text[], ${secret}
     WHERE (SELECT count(*) FROM webhooks.endpoints WHERE ${isOwned(q, owner)}) < ${most}
    RETURNING ${columns(q)}`
  return row ?? null
}

/** Deletes the row itself. Only for a creation that is rolled back. */
export const remove = (q: Queries, id: string) => q`DELETE FROM webhooks.endpoints WHERE id = ${id}`

export const find = async (q: Queries, owner: Owner, id: string): Promise<EndpointRow | null> => {
  const [row] = await q<EndpointRow[]>`
    SELECT ${columns(q)} FROM webhooks.endpoints WHERE id = ${id} AND ${isOwned(q, owner)}`
  return row ?? null
}

/** Locks an endpoint of the owner until the transaction ends; false without one. */
export const lock = async (q: Queries, owner: Owner, id: string): Promise<boolean> => {
  const rows = await q`
    SELECT 1 FROM webhooks.endpoints WHERE id = ${id} AND ${isOwned(q, owner)} FOR NO KEY UPDATE`
  return rows.length > 0
}

export const isDeleted = async (q: Queries, id: string): Promise<boolean> => {
  const rows = await q`SELECT 1 FROM webhooks.endpoints WHERE id = ${id} AND deleted_at IS NULL`
  return rows.length === 0
}

/** All endpoints of the owner, newest first. */
export const findAll = async (q: Queries, owner: Owner): Promise<ReadonlyArray<EndpointRow>> =>
  q<EndpointRow[]>`SELECT ${columns(q)} FROM webhooks.endpoints WHERE ${isOwned(q, owner)} ORDER BY id DESC`

/**
 * Marks an endpoint as deleted and erases its address and secrets. The fan-out deletes the rest.
 */
export const markDeleted = async (q: Queries, owner: Owner, id: string): Promise<EndpointRow | null> => {
  const [row] = await q<EndpointRow[]>`
    UPDATE webhooks.endpoints
       SET deleted_at = now(), url = '', secret = ''::bytea, previous_secret = NULL, secret_rotation_ends_at = NULL
     WHERE id = ${id} AND ${isOwned(q, owner)}
    RETURNING ${columns(q)}`
  return row ?? null
}

/**
 * Makes the current secret the previous one, until `endsAt`, and stores the (encrypted) new one.
 */
export const rotateSecret = async (
  q: Queries,
  owner: Owner,
  id: string,
  rotation: { readonly secret: Buffer; readonly endsAt: Date },
): Promise<EndpointRow | null> => {
  const [row] = await q<EndpointRow[]>`
    UPDATE webhooks.endpoints
       SET previous_secret = secret, secret = ${rotation.secret}, secret_rotation_ends_at = ${rotation.endsAt}
     WHERE id = ${id} AND ${isOwned(q, owner)}
    RETURNING ${columns(q)}`
  return row ?? null
}
