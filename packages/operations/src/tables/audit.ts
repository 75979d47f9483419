/** `command.audit`: the audit trail. Rows are never changed or deleted. */
import { containsWrittenNumber } from '@hub/domain'
import type { Queries } from '@hub/store'
import type { Role } from '../actor.ts'

/** JSON without personal data. A recipient is identified by its hash. */
export type AuditFacts = Readonly<Record<string, string | number | boolean | null | ReadonlyArray<string>>>

export interface AuditEntry {
  /** Joins the two rows of one run: `begun`, then `done` or `failed`. */
  readonly run: string
  readonly actor: string
  /** The role that allowed the operation. */
  readonly role: Role
  /** Without flags: `keys issue`. */
  readonly command: string
  readonly arguments: AuditFacts
  /** Why the actor revealed data of a person; `null` for other operations. */
  readonly reason: string | null
  readonly outcome: 'begun' | 'done' | 'failed'
  readonly detail: AuditFacts | null
}

export interface AuditRow extends Pick<AuditEntry, 'actor' | 'command' | 'reason' | 'outcome'> {
  /** The order of the runs. */
  readonly place: number
  readonly at: Date
  /**
   * `null`: no role of the actor allows the operation. Also: recorded by a version without roles, or by a
   * process of the hub.
   */
  readonly role: string | null
  readonly arguments: AuditFacts
  readonly detail: AuditFacts | null
  readonly ended_at: Date | null
}

/**
 * Whether a row would contain a phone number. The constraints of the table refuse most forms too, but
 * PostgreSQL writes a refused row to its log.
 */
export const containsNumber = ({
  arguments: facts,
  reason,
}: Pick<AuditEntry, 'arguments' | 'reason'>): boolean =>
  /\+\d{11}/u.test(JSON.stringify([facts, reason])) || (reason !== null && containsWrittenNumber(reason))

/** The constraints that refuse a phone number in a row. */
export const NUMBER_CONSTRAINTS: ReadonlyArray<string> = [
  'audit_holds_no_number',
  'audit_reason_holds_no_number',
]

export const insert = async (q: Queries, entry: AuditEntry): Promise<void> => {
  const facts = JSON.stringify(entry.arguments)
  const detail = entry.detail === null ? null : JSON.stringify(entry.detail)
  await q`
    INSERT INTO command.audit (run, actor, role, command, arguments, reason, outcome, detail)
    VALUES (${entry.run}, ${entry.actor}, ${entry.role}, ${entry.command}, ${facts}::text::jsonb, ${entry.reason},
            ${entry.outcome}, ${detail}::text::jsonb)`
}

/**
 * Inserts an attempt for which the actor has no role, unless there is one of the same actor and command in
 * the last hour: so nobody can fill the table with attempts.
 */
export const insertForbidden = async (
  q: Queries,
  {
    actor,
    command,
    permission,
    run,
  }: Pick<AuditEntry, 'run' | 'actor' | 'command'> & { readonly permission: string },
): Promise<void> => {
  await q`
    WITH attempt AS (
      INSERT INTO command.audit (run, actor, command, arguments, outcome)
      SELECT ${run}::uuid, ${actor}::text, ${command}::text, jsonb_build_object('permission', ${permission}::text), 'begun'
       WHERE NOT EXISTS (
             SELECT 1 FROM command.audit
              WHERE actor = ${actor} AND command = ${command} AND at > clock_timestamp() - interval '1 hour'
                AND outcome = 'failed' AND detail ->> 'code' = 'forbidden')
      RETURNING run, actor, command, arguments)
    INSERT INTO command.audit (run, actor, command, arguments, outcome, detail)
    SELECT run, actor, command, arguments, 'failed', '{"code": "forbidden"}' FROM attempt`
}

/** Filters of runs; `null`: any. */
interface AuditFilter {
  readonly actor: string | null
  /** A command, or all commands of a group. */
  readonly command: string | null
  /** Only runs before this place. */
  readonly before: number | null
  readonly limit: number
}

/** The newest runs, in the order of their start. */
export const readNewest = async (
  q: Queries,
  { actor, before, command, limit }: AuditFilter,
): Promise<ReadonlyArray<AuditRow>> =>
  q<AuditRow[]>`
    SELECT b.place::float8 AS place, b.at, b.actor, b.role, b.command, b.arguments, b.reason,
           coalesce(e.outcome, 'begun') AS outcome, e.detail, e.at AS ended_at
      FROM command.audit b
      LEFT JOIN command.audit e ON e.run = b.run AND e.outcome <> 'begun'
     WHERE b.outcome = 'begun'
       AND (${actor}::text IS NULL OR b.actor = ${actor})
       AND (${command}::text IS NULL OR b.command = ${command} OR starts_with(b.command, ${command} || ' '))
       AND (${before}::bigint IS NULL OR b.place < ${before})
     ORDER BY b.place DESC LIMIT ${limit}`

/** A decision about a template or a sender. */
export interface DecisionRow {
  readonly actor: string
  readonly at: Date
}

/** The last decision about a template or a sender, by its public id; `null`: there was none. */
export const readDecision = async (q: Queries, id: string): Promise<DecisionRow | null> => {
  const [row] = await q<DecisionRow[]>`
    SELECT actor, at FROM command.audit
     WHERE coalesce(arguments ->> 'template', arguments ->> 'sender') = ${id}
       AND outcome = 'done'
       AND command IN ('templates approve', 'templates decline', 'senders approve', 'senders decline')
     ORDER BY place DESC LIMIT 1`
  return row ?? null
}
