/** Who sends a request: a person with a session, or a program with a bearer token. */
import type { IncomingHttpHeaders } from 'node:http'
import { accountsOf, type Actor, Members } from '@hub/operations'
import { Sql, type StorageError } from '@hub/store'
import { Effect } from 'effect'
import { type ApiFailure, apiFailure } from '../http/failures.ts'
import { loginsRefused } from '../metrics.ts'
import type { Caller } from './caller.ts'
import type { Cookies } from './cookies.ts'
import { IdentityProvider } from './identity-provider.ts'
import { isCsrfToken, Sessions } from './sessions.ts'

const LOGIN = { login_url: '/login' }

const BEARER = /^bearer +(?<token>[A-Za-z0-9._~+/-]+=*) *$/iu

/** Methods that change nothing. */
const SAFE = new Set(['GET', 'HEAD'])

interface AuthenticatedRequest {
  readonly method: string
  readonly headers: IncomingHttpHeaders
  /** Whether the request counts against the idle timeout of the session. */
  readonly isUse: boolean
}

/**
 * Makes the check of requests. `origin`: of the console. A request with a session that changes something
 * must come from a page of this origin, and have the CSRF token.
 */
export const makeAuthenticate = Effect.fnUntraced(function* (origin: string, cookies: Cookies) {
  const sessions = yield* Sessions
  const provider = yield* IdentityProvider
  const sql = yield* Sql

  /** Staff can give and take the accounts of a member at any time, so they are read at each request. */
  const withAccounts = (actor: Actor): Effect.Effect<Actor, StorageError> => {
    const named = accountsOf(actor)
    return named === null
      ? Effect.succeed(actor)
      : Members.accountsOfPerson(actor.id, named).pipe(
          Effect.map((accounts) => ({ ...actor, accounts })),
          Effect.provideService(Sql, sql),
        )
  }

  const byToken = (token: string): Effect.Effect<Caller, ApiFailure | StorageError> => {
    const verify = provider?.verify ?? null
    if (verify === null) return Effect.fail(apiFailure('token_invalid'))
    return verify(token).pipe(
      Effect.tapError(({ _tag }) =>
        Effect.sync(() =>
          loginsRefused.add({
            kind: 'token',
            reason: _tag === 'IdentityRefused' ? 'refused' : 'unavailable',
          }),
        ),
      ),
      Effect.mapError((error) =>
        error._tag === 'IdentityRefused' ? apiFailure('token_invalid') : apiFailure('unavailable'),
      ),
      Effect.flatMap(({ accounts, id, name, roles }) =>
        withAccounts({ id, name, roles, accounts, via: 'api' }),
      ),
      Effect.map((actor): Caller => ({ actor, session: null })),
    )
  }

  return ({
    headers,
    isUse,
    method,
  }: AuthenticatedRequest): Effect.Effect<Caller, ApiFailure | StorageError> =>
    Effect.gen(function* () {
      const { authorization } = headers
      if (authorization !== undefined) {
        const token = BEARER.exec(authorization)?.groups?.['token']
        return yield* token === undefined ? Effect.fail(apiFailure('token_invalid')) : byToken(token)
      }
      const cookie = cookies.read(headers.cookie, 'session')
      if (cookie === null) return yield* apiFailure('not_signed_in', { details: LOGIN })
      const session = yield* sessions.find(cookie, isUse)
      if (session === null) return yield* apiFailure('session_expired', { details: LOGIN })
      if (!SAFE.has(method)) {
        const given = headers['x-csrf-token']
        const from = headers.origin
        const isOwn = from === undefined || from === origin
        if (!isOwn || !isCsrfToken(session.token, typeof given === 'string' ? given : undefined)) {
          return yield* apiFailure('csrf_token_invalid')
        }
      }
      const { accounts, actorId: id, name, roles } = session
      return { actor: yield* withAccounts({ id, name, roles, accounts, via: 'api' }), session }
    })
})
