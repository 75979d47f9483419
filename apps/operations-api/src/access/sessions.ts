/**
 * Sessions of hub staff in PostgreSQL: each instance knows all of them, and a restart ends none. A
 * session has the roles of its sign-in (docs/decisions/operations.md#operations-api).
 */
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { type Role, ROLES } from '@hub/operations'
import { MasterKeyEncryption, Sql, type StorageError } from '@hub/store'
import { maskNumbers } from '@hub/telemetry'
import { Context, Effect, Layer } from 'effect'
import { deleteOld, end, type EndedSession, find, insert, LONGEST_HOURS, markUsed } from './sessions-table.ts'

const TOKEN_BYTES = 32
/** A token in base64url. Anything else in the cookie is not looked up. */
const TOKEN = /^[A-Za-z0-9_-]{43}$/u

export interface Session {
  /** The identity of the person. */
  readonly actorId: string
  readonly name: string
  readonly roles: ReadonlyArray<Role>
  /** The accounts (`acc_…`) that the identity provider named at the sign-in. */
  readonly accounts: ReadonlyArray<string>
  readonly token: string
  /** Milliseconds since the epoch. Without use, it is over earlier. */
  readonly endsAt: number
}

/** A person whom the identity provider or a login link has named. */
export interface SignedIn {
  readonly loginId: string
  /** The identity of the person. */
  readonly id: string
  readonly name: string
  readonly roles: ReadonlyArray<Role>
  /** The accounts (`acc_…`) that it names. */
  readonly accounts: ReadonlyArray<string>
  /** Of the identity provider; `null`: a login link has none. */
  readonly idToken: string | null
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

/** A session that was begun at the identity provider. */
interface EndedSignIn {
  /** `null`: it can no longer be read. */
  readonly idToken: string | null
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
    /** Ends a session, and returns the id token of its sign-in; `null`: it had none. */
    readonly end: (token: string) => Effect.Effect<EndedSignIn | null, StorageError>
  }
>()('@hub/operations-api/Sessions') {
  static readonly layer: Layer.Layer<Sessions, never, Sql | MasterKeyEncryption> = Layer.effect(
    Sessions,
    Effect.gen(function* (): Effect.fn.Return<Sessions['Service'], never, Sql | MasterKeyEncryption> {
      const sql = yield* Sql
      const masterKey = yield* MasterKeyEncryption

      const encryptIdToken = (loginId: string, idToken: string | null): Buffer | null =>
        idToken === null ? null : masterKey.encrypt('id-token', loginId, Buffer.from(idToken))

      /** A session ends also if the master key of its beginning is gone, or does not answer. */
      const decryptIdToken = ({ id_token: encrypted, login_id: loginId }: EndedSession) =>
        encrypted === null
          ? Effect.succeed(null)
          : masterKey.decrypt('id-token', loginId, encrypted).pipe(
              Effect.map((plain): EndedSignIn => ({ idToken: plain.toString('utf8') })),
              Effect.orElseSucceed((): EndedSignIn => ({ idToken: null })),
            )

      return {
        begin: ({ accounts, id, idToken, loginId, name, roles }, previous) =>
          Effect.suspend(() => {
            const token = randomBytes(TOKEN_BYTES).toString('base64url')
            return Effect.map(
              sql.transaction(async (q) => {
                await deleteOld(q)
                if (previous !== null && TOKEN.test(previous)) await end(q, hashOf(previous))
                return insert(q, {
                  tokenHash: hashOf(token),
                  loginId,
                  actorId: id,
                  name: maskNumbers(name),
                  roles,
                  accounts,
                  idToken: encryptIdToken(loginId, idToken),
                })
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
                  actorId: row.actor_id,
                  name: row.name,
                  roles: knownRoles(row.roles),
                  accounts: row.accounts,
                  token,
                  endsAt: row.created_at.getTime() + LONGEST_HOURS * 3_600_000,
                }
              })
            : Effect.succeed(null),
        end: (token) =>
          TOKEN.test(token)
            ? Effect.flatMap(
                sql.run((q) => end(q, hashOf(token))),
                (ended) => (ended === null ? Effect.succeed(null) : decryptIdToken(ended)),
              )
            : Effect.succeed(null),
      }
    }),
  )
}
