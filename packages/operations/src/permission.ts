/** Which role may do what. */
import type { Actor, Role } from './actor.ts'

/** The roles that have each permission, the weakest first. */
const PERMISSIONS = {
  'messages.read': ['member', 'viewer', 'support', 'moderator', 'operator', 'admin'],
  /** A number, a text, or what an SMS operator sent about a message. */
  'messages.reveal': ['support', 'admin'],
  /** To receivers of webhooks, and never to recipients of messages. */
  'messages.resend': ['member', 'support', 'operator', 'admin'],
  'webhooks.read': ['member', 'viewer', 'support', 'moderator', 'operator', 'admin'],
  'webhooks.change': ['member', 'support', 'operator', 'admin'],
  'moderation.read': ['member', 'viewer', 'support', 'moderator', 'operator', 'admin'],
  'moderation.decide': ['moderator', 'admin'],
  'accounts.read': ['member', 'viewer', 'support', 'moderator', 'operator', 'admin'],
  'accounts.change': ['operator', 'admin'],
  'members.read': ['viewer', 'support', 'moderator', 'operator', 'admin'],
  /** Who of a client sees its account. */
  'members.change': ['operator', 'admin'],
  'keys.change': ['operator', 'admin'],
  'keys.confirm': ['operator', 'admin'],
  'usage.read': ['member', 'viewer', 'support', 'moderator', 'operator', 'admin'],
  'hub.read': ['viewer', 'support', 'moderator', 'operator', 'admin'],
  'hub.change': ['operator', 'admin'],
  'dead_letters.change': ['operator', 'admin'],
  /** Whether one person is opted out is data of a person. */
  'opt_outs.read': ['support', 'operator', 'admin'],
  'opt_outs.change': ['support', 'operator', 'admin'],
  'erasures.request': ['operator', 'admin'],
  'erasures.confirm': ['operator', 'admin'],
  'audit.read': ['operator', 'admin'],
  'views.read': ['viewer', 'support', 'moderator', 'operator', 'admin'],
  /** One's own saved views. */
  'views.change': ['viewer', 'support', 'moderator', 'operator', 'admin'],
  /** To make a view one of all hub staff, and to change those of others. */
  'views.share': ['support', 'moderator', 'operator', 'admin'],
} as const satisfies Readonly<Record<string, ReadonlyArray<Role>>>

export type Permission = keyof typeof PERMISSIONS

export const PERMISSION_NAMES = Object.keys(PERMISSIONS) as ReadonlyArray<Permission>

export const rolesWith = (permission: Permission): ReadonlyArray<Role> => PERMISSIONS[permission]

/** The roles that may use a use case: those with its permission, and members only if it is for them. */
export const rolesOf = ({
  members,
  permission,
}: {
  readonly members?: 'named' | 'self'
  readonly permission: Permission
}): ReadonlyArray<Role> => rolesWith(permission).filter((role) => role !== 'member' || members !== undefined)

/** The weakest role of the actor among some; `null`: it has none of them. */
export const roleAmong = ({ roles }: Pick<Actor, 'roles'>, allowed: ReadonlyArray<Role>): Role | null =>
  allowed.find((role) => roles.includes(role)) ?? null

/** The weakest role of the actor that has the permission; `null`: none has it. */
export const allowingRole = (actor: Pick<Actor, 'roles'>, permission: Permission): Role | null =>
  roleAmong(actor, rolesWith(permission))
