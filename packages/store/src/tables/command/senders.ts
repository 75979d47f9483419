/**
 * `command.senders`: the names that recipients see as senders.
 *
 * Owner: command-api. hub staff record the decisions of the SMS operator with hubctl. Senders are
 * inserted with `insertSender`. Ids here are UUIDs.
 */
import type { ModerationState, SenderStatus } from '@hub/domain'
import type { Queries } from '../../pool.ts'
import type { ModeratedRow, ModerationFilter } from './moderated.ts'

export interface SenderRow extends ModeratedRow {
  readonly registration: Readonly<Record<string, unknown>> | null
  readonly status: SenderStatus
}

const columns = (q: Queries) => q`id, account, mode, name, registration, status, reason, created_at`

export const find = async (q: Queries, filter: ModerationFilter): Promise<ReadonlyArray<SenderRow>> =>
  q<SenderRow[]>`
    SELECT ${columns(q)} FROM command.senders
     WHERE (${filter.id}::uuid IS NULL OR id = ${filter.id})
       AND (${filter.account}::uuid IS NULL OR account = ${filter.account})
       AND (${filter.mode}::command.mode IS NULL OR mode = ${filter.mode})
       AND (${filter.status}::text IS NULL OR status = ${filter.status})
     ORDER BY created_at, id LIMIT ${filter.limit}`

/** Locks the row for the rest of the transaction. */
export const lock = async (q: Queries, id: string): Promise<SenderRow | null> => {
  const [row] = await q<SenderRow[]>`SELECT ${columns(q)} FROM command.senders WHERE id = ${id} FOR UPDATE`
  return row ?? null
}

export const saveDecision = async (
  q: Queries,
  id: string,
  { reason, status }: ModerationState<SenderStatus>,
): Promise<void> => {
  await q`UPDATE command.senders SET status = ${status}, reason = ${reason} WHERE id = ${id}`
}
