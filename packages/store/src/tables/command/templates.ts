/**
 * `command.templates`: the texts of messages, with placeholders.
 *
 * Owner: command-api. hub staff record the decisions of the SMS operator with hubctl. Templates are
 * inserted with `insertTemplate`. Ids here are UUIDs.
 */
import type { MessageClass, ModerationState, SenderStatus, TemplateStatus } from '@hub/domain'
import type { Queries } from '../../pool.ts'
import type { ModeratedRow, ModerationFilter } from './moderated.ts'

export interface TemplateRow extends ModeratedRow {
  readonly class: MessageClass
  readonly sender: string
  readonly body: string
  readonly language: string | null
  readonly status: TemplateStatus
  readonly sender_status: SenderStatus
}

/** Templates with the status of their sender. */
const rows = (q: Queries) => q`
  SELECT t.id, t.account, t.mode, t.name, t.class, t.sender, t.body, t.language, t.status, t.reason, t.created_at,
         s.status AS sender_status
    FROM command.templates t
    JOIN command.senders s ON s.account = t.account AND s.mode = t.mode AND s.name = t.sender`

export const find = async (q: Queries, filter: ModerationFilter): Promise<ReadonlyArray<TemplateRow>> =>
  q<TemplateRow[]>`
    ${rows(q)}
     WHERE (${filter.id}::uuid IS NULL OR t.id = ${filter.id})
       AND (${filter.account}::uuid IS NULL OR t.account = ${filter.account})
       AND (${filter.mode}::command.mode IS NULL OR t.mode = ${filter.mode})
       AND (${filter.status}::text IS NULL OR t.status = ${filter.status})
     ORDER BY t.created_at, t.id LIMIT ${filter.limit}`

/** Locks the row of the template for the rest of the transaction. */
export const lock = async (q: Queries, id: string): Promise<TemplateRow | null> => {
  const [row] = await q<TemplateRow[]>`${rows(q)} WHERE t.id = ${id} FOR UPDATE OF t`
  return row ?? null
}

export const saveDecision = async (
  q: Queries,
  id: string,
  { reason, status }: ModerationState<TemplateStatus>,
): Promise<void> => {
  await q`UPDATE command.templates SET status = ${status}, reason = ${reason} WHERE id = ${id}`
}
