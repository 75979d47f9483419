/** Decisions of the operator about templates and senders, written down: the row and the event that tells it are one transaction. */
import {
  type ModerationState,
  encodeId,
  type MessageClass,
  type Mode,
  moderateTemplate,
  moderateSender,
  senderDecided,
  type SenderStatus,
  templateDecided,
  type TemplateStatus,
  type ModerationDecision,
} from '@hub/domain'
import { CommandEventInbox, Sql } from '@hub/store'
import { Clock, Effect } from 'effect'
import { refused } from '../command-line/failure.ts'
import type { Id } from '../command-line/arguments.ts'

interface Row {
  readonly id: string
  readonly account: string
  readonly mode: Mode
  readonly name: string
  readonly reason: string | null
  readonly created_at: Date
}
export interface TemplateRow extends Row {
  readonly class: MessageClass
  readonly sender: string
  readonly body: string
  readonly language: string | null
  readonly status: TemplateStatus
  readonly sender_status: SenderStatus
}
export interface SenderRow extends Row {
  readonly registration: Readonly<Record<string, unknown>> | null
  readonly status: SenderStatus
}

/** Of all accounts, those of a status, oldest first: who has waited longest comes first. */
interface Wanted<Status> {
  readonly account: string | null
  readonly mode: Mode | null
  readonly status: Status | null
  readonly limit: number
}

export const findTemplates = Effect.fnUntraced(function* (
  wanted: Wanted<TemplateStatus>,
  id: string | null = null,
) {
  const sql = yield* Sql
  return yield* sql.run(
    (q) => q<TemplateRow[]>`
      SELECT t.id, t.account, t.mode, t.name, t.class, t.sender, t.body, t.language, t.status, t.reason, t.created_at,
             s.status AS sender_status
        FROM command.templates t
        JOIN command.senders s ON s.account = t.account AND s.mode = t.mode AND s.name = t.sender
       WHERE (${id}::uuid IS NULL OR t.id = ${id}) AND (${wanted.account}::uuid IS NULL OR t.account = ${wanted.account})
         AND (${wanted.mode}::command.mode IS NULL OR t.mode = ${wanted.mode})
         AND (${wanted.status}::text IS NULL OR t.status = ${wanted.status})
       ORDER BY t.created_at, t.id LIMIT ${wanted.limit}`,
  )
})

export const findSenders = Effect.fnUntraced(function* (
  wanted: Wanted<SenderStatus>,
  id: string | null = null,
) {
  const sql = yield* Sql
  return yield* sql.run(
    (q) => q<SenderRow[]>`
      SELECT id, account, mode, name, registration, status, reason, created_at FROM command.senders
       WHERE (${id}::uuid IS NULL OR id = ${id}) AND (${wanted.account}::uuid IS NULL OR account = ${wanted.account})
         AND (${wanted.mode}::command.mode IS NULL OR mode = ${wanted.mode})
         AND (${wanted.status}::text IS NULL OR status = ${wanted.status})
       ORDER BY created_at, id LIMIT ${wanted.limit}`,
  )
})

const NOT_FOUND = 'not found'
const UNCHANGED = 'unchanged'

const told = <R>(outcome: R | typeof NOT_FOUND | typeof UNCHANGED, what: string, id: string) => {
  if (outcome === NOT_FOUND) return refused(`${what}_not_found`, `There is no ${what} ${id}.`)
  return outcome === UNCHANGED
    ? refused('already_decided', `That is what was decided about ${id} before. Nothing was changed.`)
    : Effect.succeed(outcome)
}

/** Decides about a template. Fails with `template_not_found`, or `already_decided`. */
export const decideTemplate = Effect.fnUntraced(function* (template: Id, verdict: ModerationDecision) {
  const sql = yield* Sql
  const now = yield* Clock.currentTimeMillis
  const outcome = yield* sql.transaction(
    async (q): Promise<TemplateRow | typeof NOT_FOUND | typeof UNCHANGED> => {
      const [row] = await q<TemplateRow[]>`
        SELECT id, account, mode, name, class, sender, body, language, status, reason, created_at FROM command.templates
         WHERE id = ${template.uuid} FOR UPDATE`
      if (row === undefined) return NOT_FOUND
      const after: ModerationState<TemplateStatus> | null = moderateTemplate(row, verdict)
      if (after === null) return UNCHANGED
      await q`UPDATE command.templates SET status = ${after.status}, reason = ${after.reason} WHERE id = ${row.id}`
      const decided = { ...row, ...after }
      await CommandEventInbox.insert(
        q,
        row,
        templateDecided(
          { ...decided, id: encodeId('tpl', row.id), createdAt: row.created_at.getTime() },
          now,
        ),
      )
      return decided
    },
  )
  return yield* told(outcome, 'template', template.id)
})

/** Decides about a sender. Fails with `sender_not_found`, or `already_decided`. */
export const decideSender = Effect.fnUntraced(function* (sender: Id, verdict: ModerationDecision) {
  const sql = yield* Sql
  const now = yield* Clock.currentTimeMillis
  const outcome = yield* sql.transaction(
    async (q): Promise<SenderRow | typeof NOT_FOUND | typeof UNCHANGED> => {
      const [row] = await q<SenderRow[]>`
        SELECT id, account, mode, name, registration, status, reason, created_at FROM command.senders
         WHERE id = ${sender.uuid} FOR UPDATE`
      if (row === undefined) return NOT_FOUND
      const after: ModerationState<SenderStatus> | null = moderateSender(row, verdict)
      if (after === null) return UNCHANGED
      await q`UPDATE command.senders SET status = ${after.status}, reason = ${after.reason} WHERE id = ${row.id}`
      const decided = { ...row, ...after }
      await CommandEventInbox.insert(
        q,
        row,
        senderDecided({ ...decided, id: encodeId('snd', row.id), createdAt: row.created_at.getTime() }, now),
      )
      return decided
    },
  )
  return yield* told(outcome, 'sender', sender.id)
})
