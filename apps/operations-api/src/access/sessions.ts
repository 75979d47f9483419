/**
 * Sessions of hub staff in PostgreSQL: each instance knows all of them, and a restart ends none. A
 * session has the roles of its sign-in (docs/decisions/0069).
 */
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { type Role, ROLES } from '@hub/operations'
import { Sql, type StorageError } from '@hub/store'
import { maskNumbers } from '@hub/telemetry'
import { Context, Effect, Layer } from 'effect'
import { deleteOld, end, find, insert, LONGEST_HOURS, markUsed } from './sessions-table.ts'

const TOKEN_BYTES = 32
/** A token in base64url. Anything else in the cookie is not looked up. */
const TOKEN = /^[A-Za-z0-9_-]{43}$/u

export interface Session {
  readonly name: string
  readonly roles: ReadonlyArray<Role>
  readonly token: string
  /** Milliseconds since the epoch. Without use, it is over earlier. */
  readonly endsAt: number
}

/** A person whom the identity provider or a login link has named. */
export interface SignedIn {
  readonly loginId: string
  readonly name: string
  readonly roles: ReadonlyArray<Role>
}

export const knownRoles = (roles: ReadonlyArray<string>): ReadonlyArray<Role> =>
  ROLES.filter((role) => roles.includes(role))

const hashOf = (token: string): Buffer => createHash('sha256').update(token).digest()

/** The value of the header `X-CSRF-Token`. Only who can read an answer of this API knows it. */
export const csrfToken = (token: string): string =>
  createHmac('sha256', token).update('csrf').digest('base64url')

export const isCsrfToken = (token: string, given: string | undefined): boolean => {
  const wanted = Buffer.from(csrfToken(token))
  const bytes = Buffer.from(given ?? '')
  return bytes.length === wanted.length && timingSafeEqual(bytes, wanted)
}

export class Sessions extends Context.Service<
  Sessions,
  {
    /**
     * Begins a session with a new token, and ends the session of `previous`, a token from the browser:
     * nobody can prepare a session for another person. `null`: the login has been used before.
     */
    readonly begin: (person: SignedIn, previous: string | null) => Effect.Effect<string | null, StorageError>
    /** `null`: there is none, or it is over. `isUse`: whether it counts against the idle timeout. */
    readonly find: (token: string, isUse: boolean) => Effect.Effect<Session | null, StorageError>
    readonly end: (token: string) => Effect.Effect<void, StorageError>
  }
>()('@hub/operations-api/Sessions') {
  static readonly layer: Layer.Layer<Sessions, never, Sql> = Layer.effect(
    Sessions,
    Effect.map(Sql, (sql): Sessions['Service'] => ({
      begin: ({ loginId, name, roles }, previous) =>
        Effect.suspend(() => {
          const token = randomBytes(TOKEN_BYTES).toString('base64url')
          return Effect.map(
            sql.transaction(async (q) => {
              await deleteOld(q)
              if (previous !== null && TOKEN.test(previous)) await end(q, hashOf(previous))
              return insert(q, { tokenHash: hashOf(token), loginId, name: maskNumbers(name), roles })
            }),
            (isNew) => (isNew ? token : null),
          )
        }),
      find: (token, isUse) =>
        TOKEN.test(token)
          ? sql.run(async (q) => {
              const row = await find(q, hashOf(token))
              if (row === null) return null
              if (isUse && row.use_is_old) await markUsed(q, hashOf(token))
              return {
                name: row.name,
                roles: knownRoles(row.roles),
                token,
                endsAt: row.created_at.getTime() + LONGEST_HOURS * 3_600_000,
              }
            })
          : Effect.succeed(null),
      end: (token) => (TOKEN.test(token) ? sql.run((q) => end(q, hashOf(token))) : Effect.void),
    })),
  )
}
