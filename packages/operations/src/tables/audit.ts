/** `command.audit`: the audit trail. Rows are never changed or deleted. */
import { asRead } from '@hub/domain'
import type { Queries } from '@hub/store'
import type { Role } from '../actor.ts'
import { hasNoNumber } from '../fields.ts'

/** JSON without personal data. A recipient is identified by its hash. */
export type AuditFacts = Readonly<Record<string, string | number | boolean | null | ReadonlyArray<string>>>

export interface AuditEntry {
  /** Joins the two rows of one run: `begun`, then `done` or `failed`. */
  readonly run: string
  readonly actor: string
  /** The identity of the actor. */
  readonly actorId: string
  /** The role that allowed the operation. */
  readonly role: Role
  /** Without flags: `keys issue`. */
  readonly command: string
  readonly arguments: AuditFacts
  /** Why the actor revealed data of a person; `null` for other operations. */
  readonly reason: string | null
  readonly outcome: 'begun' | 'done' | 'failed'
  readonly detail: AuditFacts | null
  /** It counts for the limit of look-ups of the actor. */
  readonly counted: boolean
}

export interface AuditRow extends Pick<AuditEntry, 'actor' | 'command' | 'reason' | 'outcome'> {
  /** The order of the runs. */
  readonly place: number
  readonly at: Date
  /** `null`: recorded by a version without identities, or by a process of the hub. */
  readonly actor_id: string | null
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
  /\+\d{11}/u.test(asRead(JSON.stringify([facts, reason]))) || (reason !== null && !hasNoNumber(reason))

/** The constraints that refuse a phone number in a row. */
export const NUMBER_CONSTRAINTS: ReadonlyArray<string> = [
  'audit_holds_no_number',
  'audit_reason_holds_no_number',
]

export const insert = async (q: Queries, entry: AuditEntry): Promise<void> => {
  const facts = JSON.stringify(entry.arguments)
  const detail = entry.detail === null ? null : JSON.stringify(entry.detail)
  await q`
    INSERT INTO command.audit (run, actor, actor_id, role, command, arguments, reason, outcome, detail, counted)
    VALUES (${entry.run}, ${entry.actor}, ${entry.actorId}, ${entry.role}, ${entry.command}, ${facts}::text::jsonb,
            ${entry.reason}, ${entry.outcome}, ${detail}::text::jsonb, ${entry.counted || null})`
}

/** The look-ups of an hour count. */
const LOOKUP_WINDOW_SECONDS = 3600

/**
 * Inserts a counted run unless its actor has `limit` of the last hour, and returns the whole seconds until the
 * oldest of them does not count any more; `null`: the run is inserted. Needs a transaction: the runs of one
 * actor are counted one after the other, in all processes.
 */
export const insertCounted = async (q: Queries, entry: AuditEntry, limit: number): Promise<number | null> => {
  await q`SELECT pg_advisory_xact_lock(hashtextextended(${`look-ups of ${entry.actorId}`}, 0))`
  const [oldest] = await q<{ wait: number }[]>`
    SELECT ceil(extract(epoch FROM at - clock_timestamp()) + ${LOOKUP_WINDOW_SECONDS})::integer AS wait
      FROM command.audit
     WHERE counted AND actor_id = ${entry.actorId}
       AND at > clock_timestamp() - make_interval(secs => ${LOOKUP_WINDOW_SECONDS})
     ORDER BY at DESC OFFSET ${limit - 1} LIMIT 1`
  if (oldest !== undefined) return Math.max(1, oldest.wait)
  await insert(q, entry)
  return null
}

/** Why an attempt is refused before it begins. */
type AttemptRefusal = 'forbidden' | 'lookup_limit_reached'

/**
 * Inserts a refused attempt, unless there is one of the same actor, command and refusal in the last hour: so
 * nobody can fill the table with attempts.
 */
export const insertAttempt = async (
  q: Queries,
  {
    actor,
    actorId,
    code,
    command,
    facts,
    run,
  }: Pick<AuditEntry, 'run' | 'actor' | 'actorId' | 'command'> & {
    readonly code: AttemptRefusal
    readonly facts: AuditFacts
  },
): Promise<void> => {
  await q`
    WITH attempt AS (
      INSERT INTO command.audit (run, actor, actor_id, command, arguments, outcome)
      SELECT ${run}::uuid, ${actor}::text, ${actorId}::text, ${command}::text, ${JSON.stringify(facts)}::text::jsonb,
             'begun'
       WHERE NOT EXISTS (
             SELECT 1 FROM command.audit
              WHERE actor_id = ${actorId} AND command = ${command} AND detail ->> 'code' = ${code}
                AND at > clock_timestamp() - interval '1 hour' AND outcome = 'failed'
                AND detail ->> 'code' IN ('forbidden', 'lookup_limit_reached'))
      RETURNING run, actor, actor_id, command, arguments)
    INSERT INTO command.audit (run, actor, actor_id, command, arguments, outcome, detail)
    SELECT run, actor, actor_id, command, arguments, 'failed', jsonb_build_object('code', ${code}::text) FROM attempt`
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
    SELECT b.place::float8 AS place, b.at, b.actor, b.actor_id, b.role, b.command, b.arguments, b.reason,
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
