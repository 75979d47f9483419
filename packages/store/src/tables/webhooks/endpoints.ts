/**
 * `webhooks.endpoints`: webhook subscriptions.
 *
 * Owners: command-api creates, changes and deletes them; webhook-fanout records endpoint health and
 * disables them. Ids here are UUIDs.
 */
import type { Mode, SubscriptionStatus } from '@hub/domain'
import type { Queries } from '../../pool.ts'

export interface EndpointRow {
  readonly id: string
  readonly account: string
  readonly mode: Mode
  readonly url: string
  readonly event_types: ReadonlyArray<string>
  readonly status: SubscriptionStatus
  readonly consecutive_failures: number
  readonly disabled_at: Date | null
  readonly disabled_reason: string | null
  readonly created_at: Date
}

/** Filters; `null`: any. */
interface EndpointFilter {
  readonly account: string | null
  readonly mode: Mode | null
  readonly status: SubscriptionStatus | null
  readonly limit: number
}

/** The newest endpoints that match the filter, without deleted ones. */
export const readNewest = async (
  q: Queries,
  { account, limit, mode, status }: EndpointFilter,
): Promise<ReadonlyArray<EndpointRow>> =>
  q<EndpointRow[]>`
    SELECT id, account, mode, url, event_types, status, consecutive_failures, disabled_at, disabled_reason, created_at
      FROM webhooks.endpoints
     WHERE deleted_at IS NULL AND (${account}::uuid IS NULL OR account = ${account})
       AND (${mode}::command.mode IS NULL OR mode = ${mode}) AND (${status}::text IS NULL OR status = ${status})
     ORDER BY created_at DESC, id DESC LIMIT ${limit}`

/** The account and mode of an endpoint; `null` if it does not exist. */
export const readOwner = async (
  q: Queries,
  id: string,
): Promise<{ readonly account: string; readonly mode: Mode } | null> => {
  const [row] = await q<{ account: string; mode: Mode }[]>`
    SELECT account, mode FROM webhooks.endpoints WHERE id = ${id}`
  return row ?? null
}
