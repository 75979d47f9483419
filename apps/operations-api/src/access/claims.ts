/** Reads the subject, the name and the roles of a person or a program from the claims of a token. */
import { settings, refineSetting } from '@hub/config'
import { decodeId } from '@hub/domain'
import { type Role, ROLES } from '@hub/operations'
import { maskNumbers } from '@hub/telemetry'
import { Result } from 'effect'
import { knownRoles } from './sessions.ts'

/** The roles by value of the claim. */
export type RoleMap = ReadonlyMap<string, ReadonlyArray<Role>>

type Claims = Readonly<Record<string, unknown>>

const isRole = (value: unknown): value is Role => ROLES.some((role) => role === value)

/** Parses `HUB_OIDC_ROLES`: each value of the claim has one role or a list of roles. */
export const roleMapFrom = (text: string): Result.Result<RoleMap, string> => {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch {
    return Result.fail('is not JSON')
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed))
    return Result.fail('is no JSON object')
  const map = new Map<string, ReadonlyArray<Role>>()
  for (const [value, given] of Object.entries(parsed)) {
    const roles: ReadonlyArray<unknown> = Array.isArray(given) ? given : [given]
    if (roles.length === 0 || !roles.every(isRole)) {
      return Result.fail(`has a value that is no role: the roles are ${ROLES.join(', ')}`)
    }
    map.set(value, roles)
  }
  return map.size === 0 ? Result.fail('gives nobody a role') : Result.succeed(map)
}

export const roleMapConfig = refineSetting(settings.oidcRoles, (text) =>
  text === null ? Result.succeed<RoleMap>(new Map()) : roleMapFrom(text),
)

/** A claim by its name, or by its path: `realm_access.roles`. Some names of claims contain dots. */
const claimAt = (claims: Claims, name: string): unknown =>
  Object.hasOwn(claims, name)
    ? claims[name]
    : name
        .split('.')
        .reduce<unknown>(
          (value, key) =>
            typeof value === 'object' && value !== null && Object.hasOwn(value, key)
              ? Reflect.get(value, key)
              : undefined,
          claims,
        )

/** The texts of a claim: of a text, or of a list. */
const textsAt = (claims: Claims, name: string): ReadonlyArray<string> => {
  const value = claimAt(claims, name)
  const values = Array.isArray(value) ? (value as ReadonlyArray<unknown>) : [value]
  return values.filter((one) => typeof one === 'string')
}

export const rolesOf = (claims: Claims, claim: string, map: RoleMap): ReadonlyArray<Role> =>
  knownRoles(textsAt(claims, claim).flatMap((one) => map.get(one) ?? []))

/** The accounts (`acc_…`) of a member. Other texts are left out. `claim`: `null` if there is no such claim. */
export const accountsIn = (claims: Claims, claim: string | null): ReadonlyArray<string> =>
  claim === null ? [] : textsAt(claims, claim).filter((text) => decodeId('acc', text) !== null)

/** Longer names do not fit into a line of the audit trail. */
const MAX_NAME_LENGTH = 100

/**
 * The name of a person for people. Characters that are not printable are removed, and phone numbers are
 * masked: the name is stored with what the person does. `null`: the claim has no name.
 */
export const nameOf = (claims: Claims, claim: string): string | null => {
  const value = claimAt(claims, claim)
  const text =
    typeof value === 'string' ? value.replaceAll(/\p{C}/gu, '').trim().slice(0, MAX_NAME_LENGTH) : ''
  return text === '' ? null : maskNumbers(text)
}

/** OpenID Connect Core 1.0, section 2: `sub` has at most 255 ASCII characters. */
const SUBJECT = /^[\x20-\x7e]{1,255}$/u

/** What identifies a person or a program at its provider, for good; `null`: nothing does. */
export const subjectOf = ({ sub }: Claims): string | null =>
  typeof sub === 'string' && SUBJECT.test(sub) ? sub : null

/**
 * The name of a program: its client id. Only a token without a person has it as its subject (RFC 9068, section
 * 2.2). `null`: the token may be that of a person.
 */
export const programOf = (claims: Claims): string | null =>
  claims['sub'] === claims['client_id']
    ? nameOf(claims, 'client_id')
    : claims['sub'] === claims['azp']
      ? nameOf(claims, 'azp')
      : null
