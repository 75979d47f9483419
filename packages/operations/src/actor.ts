/** Who performs an operation, and the roles of hub staff. */

/**
 * The roles of hub staff, the weakest first. `permission.ts` says what each may do.
 *
 * - `viewer`: sees the hub, without personal data.
 * - `support`: may also reveal a number and send webhooks again.
 * - `moderator`: decides about templates and senders.
 * - `operator`: changes limits, keys and dead letters, and erases recipients.
 * - `admin`: everything.
 */
export const ROLES = ['viewer', 'support', 'moderator', 'operator', 'admin'] as const
export type Role = (typeof ROLES)[number]

/** Who performs an operation: a person or a job. */
export interface Actor {
  /** In the audit trail. */
  readonly name: string
  readonly roles: ReadonlyArray<Role>
  readonly via: 'hubctl' | 'api'
}
