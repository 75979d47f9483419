/** `command.audit`: the audit trail of hubctl. Rows are never changed or deleted. */
import type { Queries } from '@hub/store'

/** JSON without personal data. A recipient is identified by its hash. */
export type AuditFacts = Readonly<Record<string, string | number | boolean | null | ReadonlyArray<string>>>

export interface AuditEntry {
  /** Joins the two rows of one run: `begun`, then `done` or `failed`. */
  readonly run: string
  readonly actor: string
  /** Without flags: `keys issue`. */
  readonly command: string
  readonly arguments: AuditFacts
  readonly outcome: 'begun' | 'done' | 'failed'
  readonly detail: AuditFacts | null
}

export interface AuditRow extends Pick<AuditEntry, 'actor' | 'command'> {
  readonly at: Date
  readonly arguments: Readonly<Record<string, unknown>>
  readonly outcome: string
  readonly detail: Readonly<Record<string, unknown>> | null
  readonly ended_at: Date | null
}

export const insert = async (q: Queries, entry: AuditEntry): Promise<void> => {
  const facts = JSON.stringify(entry.arguments)
  const detail = entry.detail === null ? null : JSON.stringify(entry.detail)
  await q`
    INSERT INTO command.audit (run, actor, command, arguments, outcome, detail)
    VALUES (${entry.run}, ${entry.actor}, ${entry.command}, ${facts}::text::jsonb, ${entry.outcome}, ${detail}::text::jsonb)`
}

/** The newest runs. `command` selects a command or all commands of a group; `null`: all. */
export const readNewest = async (
  q: Queries,
  actor: string | null,
  command: string | null,
  limit: number,
): Promise<ReadonlyArray<AuditRow>> =>
  q<AuditRow[]>`
    SELECT b.at, b.actor, b.command, b.arguments, coalesce(e.outcome, 'begun') AS outcome, e.detail, e.at AS ended_at
      FROM command.audit b
      LEFT JOIN command.audit e ON e.run = b.run AND e.outcome <> 'begun'
     WHERE b.outcome = 'begun'
       AND (${actor}::text IS NULL OR b.actor = ${actor})
       AND (${command}::text IS NULL OR b.command = ${command} OR starts_with(b.command, ${command} || ' '))
     ORDER BY b.place DESC LIMIT ${limit}`
