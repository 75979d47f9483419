/**
 * `command.operations_sessions`: the sessions of hub staff. Owner: operations-api. A token is stored as
 * its hash, so nobody can use a session who only reads the table.
 */
import type { Queries } from '@hub/store'

/** A session is over when nobody has used it for this time. */
export const IDLE_MINUTES = 30
/** A session is over after this time, however much it is used: roles may have changed. */
export const LONGEST_HOURS = 12

export interface SessionRow {
  readonly actor_id: string
  readonly name: string
  readonly roles: ReadonlyArray<string>
  readonly accounts: ReadonlyArray<string>
  readonly created_at: Date
  /** Whether the time of its last use is older than the precision of `markUsed`. */
  readonly use_is_old: boolean
}

export interface NewSession {
  readonly tokenHash: Buffer
  /** What created it: one sign-in or one login link, which creates no second session. */
  readonly loginId: string
  readonly actorId: string
  readonly name: string
  readonly roles: ReadonlyArray<string>
  readonly accounts: ReadonlyArray<string>
  /** Encrypted; `null`: the sign-in had none. */
  readonly idToken: Buffer | null
}

/** Creates a session. False: its login has created one before. */
export const insert = async (
  q: Queries,
  { accounts, actorId, idToken, loginId, name, roles, tokenHash }: NewSession,
): Promise<boolean> => {
  const rows = await q`
    INSERT INTO command.operations_sessions (token_hash, login_id, actor_id, name, roles, accounts, id_token)
    VALUES (${tokenHash}, ${loginId}, ${actorId}, ${name}, ${[...roles]}::text[], ${[...accounts]}::text[], ${idToken})
    ON CONFLICT (login_id) DO NOTHING
    RETURNING 1`
  return rows.length > 0
}

/** The session of a token; `null`: there is none, it is over, or an earlier version began it without an identity. */
export const find = async (q: Queries, tokenHash: Buffer): Promise<SessionRow | null> => {
  const [row] = await q<SessionRow[]>`
    SELECT actor_id, name, roles, accounts, created_at, last_used_at < now() - interval '1 minute' AS use_is_old
      FROM command.operations_sessions
     WHERE token_hash = ${tokenHash} AND ended_at IS NULL AND actor_id IS NOT NULL
       AND last_used_at > now() - make_interval(mins => ${IDLE_MINUTES})
       AND created_at > now() - make_interval(hours => ${LONGEST_HOURS})`
  return row ?? null
}

export const markUsed = async (q: Queries, tokenHash: Buffer): Promise<void> => {
  await q`UPDATE command.operations_sessions SET last_used_at = now() WHERE token_hash = ${tokenHash}`
}

export interface EndedSession {
  readonly login_id: string
  readonly id_token: Buffer | null
}

/** Ends a session, and returns what it was. The row stays, so that its login creates no second session. */
export const end = async (q: Queries, tokenHash: Buffer): Promise<EndedSession | null> => {
  const [row] = await q<EndedSession[]>`
    UPDATE command.operations_sessions s SET ended_at = now(), id_token = NULL
      FROM (SELECT token_hash, id_token FROM command.operations_sessions
             WHERE token_hash = ${tokenHash} AND ended_at IS NULL FOR UPDATE) AS old
     WHERE s.token_hash = old.token_hash
    RETURNING s.login_id, old.id_token`
  return row ?? null
}

/** Deletes the rows of which neither the session nor the login can be used any more. */
export const deleteOld = async (q: Queries): Promise<void> => {
  await q`
    DELETE FROM command.operations_sessions
     WHERE created_at < now() - make_interval(hours => ${LONGEST_HOURS})`
}
