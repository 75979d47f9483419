/**
 * Whether PostgreSQL still works for a connection that waits for an answer. PostgreSQL itself says
 * so, on another connection: a slow statement and a dead connection look the same to the client.
 */

/** A row of `pg_stat_activity`. */
export interface Session {
  readonly pid: number
  readonly application: string
  /** `active`, `idle`, `idle in transaction`, `disabled` and others. */
  readonly state: string | null
  /** `Client` if PostgreSQL waits for the client. */
  readonly waitEventType: string | null
  readonly ageMs: number
}

/** What the hub knows about a connection. */
export interface Waiting {
  readonly pid: number
  readonly application: string
  /** Time since the connection was opened. */
  readonly openedMs: number
  /** Time since PostgreSQL accepted the login. */
  readonly readyMs: number
}

/**
 * - `working`: PostgreSQL executes a statement of this connection.
 * - `gone`: PostgreSQL has no such session. It was reset there, or another server answers now.
 * - `lost`: PostgreSQL waits for the connection. A request or an answer was lost.
 */
export type Verdict = 'working' | 'gone' | 'lost'

/** Tolerance for the time between an event and its measurement. */
const TOLERANCE_MS = 1000

/** Process ids are used again, and another server may have the same one: the age must agree, too. */
export const isSessionOf = (session: Session, { application, openedMs, pid, readyMs }: Waiting): boolean =>
  session.pid === pid &&
  session.application === application &&
  session.ageMs >= readyMs - TOLERANCE_MS &&
  session.ageMs <= openedMs + TOLERANCE_MS

export const verdictOn = (waiting: Waiting, sessions: ReadonlyArray<Session>): Verdict => {
  const session = sessions.find((candidate) => isSessionOf(candidate, waiting))
  if (session === undefined) return 'gone'
  // Without `track_activities`, PostgreSQL does not say what a session does.
  if (session.state === 'disabled') return 'working'
  // An active session that waits for the client has an answer that it cannot send, or expects the
  // rest of a request.
  return session.state === 'active' && session.waitEventType !== 'Client' ? 'working' : 'lost'
}
