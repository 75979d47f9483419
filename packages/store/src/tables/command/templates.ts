/**
 * `command.templates`: the texts of messages, with placeholders.
 *
 * Owner: command-api. Hub staff record the decisions of the SMS operator. Ids here are UUIDs.
 */
import type { MessageClass, ModerationState, SenderStatus, TemplateStatus } from '@hub/domain'
import { firstRow, type Queries } from '../../sql.ts'
import {
  type ModeratedRow,
  type ModerationFilter,
  removeModerated,
  type WaitingForDecision,
} from './moderated.ts'

export interface TemplateRow extends ModeratedRow {
  readonly class: MessageClass
  readonly sender: string
  readonly body: string
  readonly language: string | null
  readonly status: TemplateStatus
  readonly sender_status: SenderStatus
}

/** A template without the status of its sender. */
export type StoredTemplate = Omit<TemplateRow, 'sender_status'>

const columns = (q: Queries) =>
  q`id, account, mode, name, class, sender, body, language, status, reason, created_at`

/** Inserts a template. `null`: the name is taken. Violates `SENDER_FOREIGN_KEY` without its sender. */
export const insert = async (
  q: Queries,
  template: Omit<StoredTemplate, 'reason' | 'created_at'>,
): Promise<StoredTemplate | null> => {
  const { account, body, id, language, mode, name, sender, status } = template
  return firstRow(q<StoredTemplate[]>`
    INSERT INTO command.templates (id, account, mode, name, class, sender, body, language, status)
    VALUES (${id}, ${account}, ${mode}, ${name}, ${template.class}, ${sender}, ${body}, ${language}, ${status})
    ON CONFLICT (account, mode, name) DO NOTHING
    RETURNING ${columns(q)}`)
}

/**
 * Submits a declined template again under its name: the row gets the new id and content, and the
 * declined one moves to `command.superseded_templates`. `null`: the template of the name is not
 * declined. Violates `SENDER_FOREIGN_KEY` like `insert`.
 */
export const supersede = async (
  q: Queries,
  template: Omit<StoredTemplate, 'reason' | 'created_at'>,
): Promise<StoredTemplate | null> => {
  const { account, body, id, language, mode, name, sender, status } = template
  return firstRow(q<StoredTemplate[]>`
    WITH declined AS (
      SELECT ${columns(q)} FROM command.templates
       WHERE account = ${account} AND mode = ${mode} AND name = ${name} AND status = 'declined' FOR UPDATE),
    kept AS (
      INSERT INTO command.superseded_templates (${columns(q)}) SELECT * FROM declined)
    UPDATE command.templates
       SET id = ${id}, class = ${template.class}, sender = ${sender}, body = ${body}, language = ${language},
           status = ${status}, reason = NULL, created_at = clock_timestamp()
     WHERE id = (SELECT id FROM declined)
    RETURNING ${columns(q)}`)
}

/**
 * Removes a template with which nothing can be sent: it is not approved, or its sender is not registered.
 * Otherwise an approved template would keep a declined sender for ever. False: the account has no such
 * template.
 */
export const removeUnusable = (
  q: Queries,
  template: Pick<StoredTemplate, 'account' | 'id' | 'mode'>,
): Promise<boolean> =>
  removeModerated(
    q,
    {
      table: 'command.templates',
      superseded: 'command.superseded_templates',
      removable: q`status <> 'approved' OR EXISTS (
        SELECT 1 FROM command.senders s
         WHERE s.account = this.account AND s.mode = this.mode AND s.name = this.sender
           AND s.status <> 'registered')`,
    },
    template,
  )

/** The names of some templates with this sender (id), at most `limit`, in order of their names. */
export const namesWithSender = async (
  q: Queries,
  sender: Pick<StoredTemplate, 'account' | 'id' | 'mode'>,
  limit: number,
): Promise<ReadonlyArray<string>> =>
  (
    await q<{ name: string }[]>`
      SELECT t.name FROM command.templates t
        JOIN command.senders s ON s.account = t.account AND s.mode = t.mode AND s.name = t.sender
       WHERE s.id = ${sender.id} AND s.account = ${sender.account} AND s.mode = ${sender.mode}
       ORDER BY t.name LIMIT ${limit}`
  ).map(({ name }) => name)

/** The constraint that a template with an unknown sender violates. */
export const SENDER_FOREIGN_KEY = 'templates_account_mode_sender_fkey'

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
       AND (${filter.after?.id ?? null}::uuid IS NULL
            OR (t.created_at, t.id) > (${filter.after?.created_at ?? null}, ${filter.after?.id ?? null}))
     ORDER BY t.created_at, t.id LIMIT ${filter.limit}`

/** Locks the row of the template for the rest of the transaction. */
export const lock = async (q: Queries, id: string): Promise<TemplateRow | null> =>
  firstRow(q<TemplateRow[]>`${rows(q)} WHERE t.id = ${id} FOR UPDATE OF t`)

export const saveDecision = async (
  q: Queries,
  id: string,
  { reason, status }: ModerationState<TemplateStatus>,
): Promise<void> => {
  await q`UPDATE command.templates SET status = ${status}, reason = ${reason} WHERE id = ${id}`
}

/** The live templates that wait for a decision: how many, and since when the oldest. */
export const readWaiting = async (q: Queries): Promise<WaitingForDecision> =>
  (await firstRow(q<WaitingForDecision[]>`
    SELECT count(*)::integer AS rows, min(created_at) AS oldest_at FROM command.templates
     WHERE mode = 'live' AND status = 'pending_moderation'`)) ?? { rows: 0, oldest_at: null }
