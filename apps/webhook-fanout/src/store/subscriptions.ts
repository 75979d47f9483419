/** `webhooks.endpoints`. Owner: command-api; the fan-out writes health and `cleared_at`. */
import { encodeId, type EndpointHealth, type Mode, subscriptionDisabled } from '@hub/domain'
import { CommandEventInbox, type Queries, uuidOf, WebhooksEndpoints } from '@hub/store'
import type { EventSource } from './store.port.ts'
import { toDate, toMs } from './times.ts'

interface OwnedRow extends WebhooksEndpoints.SubscriptionRow {
  readonly account: string
  readonly mode: Mode
  readonly backlog_released_at: Date | null
}

const ownedColumns = (q: Queries) =>
  q`${WebhooksEndpoints.columns(q)}, e.account, e.mode, e.backlog_released_at`

/** A subscription with its secrets and the state of its deliveries. */
export interface DeliveryRow extends OwnedRow, WebhooksEndpoints.SecretColumns {
  readonly last_disabled_at: Date | null
  readonly last_enabled_at: Date | null
  readonly disabled_by_batch: string | null
  readonly after_sequence: string
  /** The earliest next attempt of its batches. */
  readonly next_attempt_at: Date | null
  /** When the oldest of its batches was queued. */
  readonly queued_at: Date | null
}

/** The subqueries of the two times each read one entry of an index. */
const columns = (q: Queries) => q`
  ${ownedColumns(q)}, ${WebhooksEndpoints.secretColumns(q)}, e.last_disabled_at, e.last_enabled_at,
  e.disabled_by_batch, e.after_sequence,
  (SELECT min(b.next_attempt_at) FROM webhooks.batches b
    WHERE b.endpoint_id = e.id) AS next_attempt_at,
  least(
    (SELECT b.queued_at FROM webhooks.batches b
      WHERE b.endpoint_id = e.id AND b.redelivery IS NULL
      ORDER BY b.first_sequence LIMIT 1),
    (SELECT min(b.queued_at) FROM webhooks.batches b
      WHERE b.endpoint_id = e.id AND b.redelivery IS NOT NULL)) AS queued_at`

export const selectSubscription = async (q: Queries, uuid: string): Promise<DeliveryRow | null> => {
  const [row] = await q<DeliveryRow[]>`
    SELECT ${columns(q)} FROM webhooks.endpoints e WHERE e.id = ${uuid} AND e.deleted_at IS NULL`
  return row ?? null
}

export const selectEndpointsOf = async (
  q: Queries,
  sources: ReadonlyArray<EventSource>,
): Promise<ReadonlyArray<DeliveryRow>> => q<DeliveryRow[]>`
  SELECT ${columns(q)} FROM webhooks.endpoints e
  WHERE e.deleted_at IS NULL AND (e.account, e.mode) IN (
    SELECT * FROM unnest(${sources.map(({ account }) => uuidOf('acc', account))}::uuid[],
                         ${sources.map(({ mode }) => mode)}::command.mode[]))`

/** Accounts and modes that have subscriptions. */
export const selectSources = async (q: Queries): Promise<ReadonlyArray<EventSource>> => {
  const rows = await q<{ account: string; mode: Mode }[]>`
    SELECT DISTINCT account, mode FROM webhooks.endpoints WHERE deleted_at IS NULL`
  return rows.map(({ account, mode }) => ({ account: encodeId('acc', account), mode }))
}

/** Prevents deletion of the subscription (UUID) in the transaction. False: it is deleted. */
export const lockUndeleted = async (q: Queries, uuid: string): Promise<boolean> => {
  const rows = await q`
    SELECT 1 FROM webhooks.endpoints WHERE id = ${uuid} AND deleted_at IS NULL FOR KEY SHARE`
  return rows.length === 1
}

/** The endpoint health, and what the event `webhook.endpoint_disabled` shows. */
export interface HealthRow extends OwnedRow {
  readonly first_failure_at: Date | null
}

/** Locks subscriptions (UUIDs) for a change of their health. Deleted ones are missing. */
export const lockHealth = async (
  q: Queries,
  uuids: ReadonlyArray<string>,
): Promise<ReadonlyArray<HealthRow>> => q<HealthRow[]>`
  SELECT ${ownedColumns(q)}, e.first_failure_at
  FROM webhooks.endpoints e WHERE e.id = ANY(${uuids}::uuid[]) AND e.deleted_at IS NULL
  ORDER BY e.id FOR NO KEY UPDATE`

export const healthOf = (row: HealthRow): EndpointHealth => ({
  status: row.status,
  consecutiveFailures: row.consecutive_failures,
  firstFailureAt: toMs(row.first_failure_at),
  backlogReleasedAt: toMs(row.backlog_released_at),
})

export const updateHealth = (q: Queries, id: string, health: EndpointHealth) => q`
  UPDATE webhooks.endpoints SET
    status = ${health.status},
    consecutive_failures = ${health.consecutiveFailures},
    first_failure_at = ${toDate(health.firstFailureAt)},
    backlog_released_at = ${toDate(health.backlogReleasedAt)}
  WHERE id = ${id}`

/** The failure that disabled a subscription. */
interface Disabled {
  readonly at: number
  readonly reason: string
  /** UUID. */
  readonly batch: string
  readonly consecutiveFailures: number
}

/** Stores why a subscription was disabled, and inserts the event that informs the account. */
export const recordDisabled = async (q: Queries, row: HealthRow, disabled: Disabled): Promise<void> => {
  await q`
    UPDATE webhooks.endpoints SET disabled_at = ${toDate(disabled.at)}, disabled_reason = ${disabled.reason},
           disabled_by_batch = ${disabled.batch}
    WHERE id = ${row.id}`
  const event = subscriptionDisabled(
    {
      ...WebhooksEndpoints.toView(row),
      status: 'disabled_by_failures',
      disabledAt: disabled.at,
      disabledReason: disabled.reason,
      consecutiveFailures: disabled.consecutiveFailures,
    },
    disabled.at,
  )
  await CommandEventInbox.insert(q, row, event)
}
