/** Who performs an operation, and the roles of hub staff. */
import { createHash } from 'node:crypto'
import { containsWrittenNumber } from '@hub/domain'
import type { Person } from '@hub/store'
import { maskNumbers } from '@hub/telemetry'

/**
 * The roles, the weakest first. `permission.ts` says what each may do.
 *
 * - `member`: an engineer of a client. Sees only the own accounts (`scope.ts`). All others are hub staff.
 * - `viewer`: sees the hub, without personal data.
 * - `support`: may also reveal a number and send webhooks again.
 * - `moderator`: decides about templates and senders.
 * - `operator`: changes limits, keys and dead letters, and erases recipients.
 * - `admin`: everything.
 */
export const ROLES = ['member', 'viewer', 'support', 'moderator', 'operator', 'admin'] as const
export type Role = (typeof ROLES)[number]

/** Who performs an operation: a person or a job. */
export interface Actor extends Person {
  /** From `actorId`. The same person has the same one in each session and each token. */
  readonly id: string
  /** For people, in the audit trail. */
  readonly name: string
  readonly roles: ReadonlyArray<Role>
  /** The accounts (`acc_…`) of a member. Hub staff need none: they see all. */
  readonly accounts?: ReadonlyArray<string>
  readonly via: 'hubctl' | 'api'
}

/** The accounts that an actor may see; `null`: all. Only a role of hub staff opens all. */
export const accountsOf = ({
  accounts = [],
  roles,
}: Pick<Actor, 'accounts' | 'roles'>): ReadonlyArray<string> | null =>
  roles.some((role) => role !== 'member') ? null : accounts

/**
 * The identity of an actor. `source`: the issuer (`iss`) that names it, or one of `SELF_NAMED_SOURCES`.
 * `subject`: its `sub`, or its name. The identity is stored for good, so a subject with a phone number is replaced by
 * its hash.
 */
export const actorId = (source: string, subject: string): string => {
  const id = `${source}|${subject}`
  const hasNumber = maskNumbers(id) !== id || containsWrittenNumber(id)
  return hasNumber ? `${source}|sha256:${createHash('sha256').update(subject).digest('hex')}` : id
}
