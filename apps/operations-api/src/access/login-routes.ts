/**
 * The sign-in and sign-out of people. A sign-in ends with a new session and a redirect to the page of the
 * console where it began.
 */
import type { IncomingMessage } from 'node:http'
import { page } from '@hub/contract'
import { isLoopback } from '@hub/config'
import { LOCAL_LOGIN_PATH, readLocalLogin } from '@hub/local-login'
import { actorId } from '@hub/operations'
import { MasterKeyEncryption, type StorageError } from '@hub/store'
import { Clock, Effect, Redacted } from 'effect'
import { type Answer, htmlAnswer, jsonAnswer, redirectAnswer } from '../http/answer.ts'
import { type ApiFailure } from '../http/failures.ts'
import { logins, loginsRefused } from '../metrics.ts'
import type { Cookies } from './cookies.ts'
import type { makeAuthenticate } from './authenticate.ts'
import { CALLBACK_PATH, IdentityProvider, SIGNED_OUT_PATH } from './identity-provider.ts'
import { makePendingLogins, PENDING_SECONDS } from './pending-logins.ts'
import { knownRoles, Sessions, type SignedIn } from './sessions.ts'

/** Longer paths of the console do not exist. */
const MAX_RETURN_LENGTH = 1000

interface LoginOptions {
  /** The address of the console. */
  readonly operationsUrl: string
  /** `null`: there are no login links. */
  readonly localSecret: Redacted.Redacted<string> | null
}

type Route = (
  request: IncomingMessage,
  query: URLSearchParams,
) => Effect.Effect<Answer, ApiFailure | StorageError>

/** The path of the console that a sign-in opens; the start page for anything else than such a path. */
export const returnPath = (given: string | null, operationsUrl: string): string => {
  const own = new URL(operationsUrl)
  const wanted =
    given !== null && given.length <= MAX_RETURN_LENGTH && given.startsWith('/')
      ? URL.parse(given, operationsUrl)
      : null
  const isPage =
    wanted?.origin === own.origin &&
    // A browser would read `//host` as the address of another host. `/.//host` has this path, too.
    !wanted.pathname.startsWith('//') &&
    !wanted.pathname.startsWith('/v1/') &&
    !wanted.pathname.startsWith('/login')
  return wanted !== null && isPage ? `${wanted.pathname}${wanted.search}${wanted.hash}` : '/'
}

const message = (status: number, title: string, ...paragraphs: ReadonlyArray<string>): Answer =>
  htmlAnswer(
    status,
    page(title, `<h1>${title}</h1>\n${paragraphs.map((text) => `<p>${text}</p>`).join('\n')}`),
  )

const AGAIN = '<a href="/login">Sign in again</a>'

export const makeLoginRoutes = Effect.fnUntraced(function* (
  { localSecret, operationsUrl }: LoginOptions,
  cookies: Cookies,
  authenticate: Effect.Success<ReturnType<typeof makeAuthenticate>>,
) {
  const sessions = yield* Sessions
  const provider = yield* IdentityProvider
  const pendingLogins = makePendingLogins(yield* MasterKeyEncryption)

  const signIn = Effect.fnUntraced(function* (
    request: IncomingMessage,
    kind: 'link' | 'provider',
    person: SignedIn,
    returnTo: string,
  ) {
    if (person.roles.length === 0) {
      loginsRefused.add({ kind, reason: 'no_role' })
      return message(
        403,
        'No role',
        'You are known, but none of your groups has a role in the hub. Ask the people who run the hub for a role.',
      )
    }
    const token = yield* sessions.begin(person, cookies.read(request.headers.cookie, 'session'))
    if (token === null) {
      loginsRefused.add({ kind, reason: 'refused' })
      return message(403, 'Used before', 'This sign-in has been used before, and works only once.', AGAIN)
    }
    logins.add({ kind })
    return redirectAnswer(returnTo, [cookies.session(token), cookies.expired('login')])
  })

  const login: Route = (_request, query) => {
    const returnTo = returnPath(query.get('return_to'), operationsUrl)
    if (provider === null) {
      return Effect.succeed(
        localSecret === null
          ? message(
              503,
              'Nobody can sign in',
              'No identity provider is configured. Set <code>HUB_OIDC_ISSUER</code>, <code>HUB_OIDC_CLIENT_ID</code> and <code>HUB_OIDC_ROLES</code>.',
            )
          : message(
              200,
              'Sign in',
              'Open the login link that <code>npm start</code> has printed. It works once.',
              'For a new link: <code>npm run login</code>. For the link of another role: <code>npm run login -- --role support</code>.',
            ),
      )
    }
    return provider.begin(returnTo).pipe(
      Effect.flatMap(({ pending, url }) =>
        Effect.map(Clock.currentTimeMillis, (now) =>
          redirectAnswer(url, [cookies.login(pendingLogins.encode(pending, now), PENDING_SECONDS)]),
        ),
      ),
      Effect.catchTag('ProviderUnavailable', ({ detail }) => providerUnavailable(detail)),
    )
  }

  const providerUnavailable = (detail: string) =>
    Effect.gen(function* () {
      loginsRefused.add({ kind: 'provider', reason: 'unavailable' })
      yield* Effect.logWarning('login: the identity provider does not answer').pipe(
        Effect.annotateLogs({ detail }),
      )
      return message(503, 'Try again', 'The identity provider does not answer.', AGAIN)
    })

  const callback: Route = (request) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const pending = yield* pendingLogins.decode(cookies.read(request.headers.cookie, 'login'), now)
      if (provider === null || pending === null) {
        return message(
          403,
          'Sign in again',
          'This browser has not begun this sign-in, or too long ago.',
          AGAIN,
        )
      }
      const url = request.url ?? ''
      const person = yield* provider.complete(url.slice(url.indexOf('?')), pending)
      return yield* signIn(request, 'provider', person, returnPath(pending.returnTo, operationsUrl))
    }).pipe(
      Effect.catchTag('ProviderUnavailable', ({ detail }) => providerUnavailable(detail)),
      Effect.catchTag('IdentityRefused', ({ detail }) =>
        Effect.gen(function* () {
          loginsRefused.add({ kind: 'provider', reason: 'refused' })
          yield* Effect.logWarning('login: a sign-in was refused').pipe(Effect.annotateLogs({ detail }))
          return message(403, 'Not signed in', 'The identity provider did not confirm the sign-in.', AGAIN)
        }),
      ),
    )

  /** Only for a browser on this machine that uses a loopback address. */
  const local: Route = (request, query) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const isLocal =
        isLoopback(request.socket.remoteAddress?.replace(/^::ffff:/u, '') ?? 'unknown') &&
        isLoopback(URL.parse(`http://${request.headers.host ?? 'unknown'}`)?.hostname ?? 'unknown')
      const found =
        localSecret !== null && isLocal
          ? readLocalLogin(query.get('token') ?? '', Redacted.value(localSecret), now)
          : null
      if (found === null) {
        loginsRefused.add({ kind: 'link', reason: 'refused' })
        return message(
          403,
          'Not signed in',
          'The login link is not valid, or its time is over. Links work only in a browser on the machine of the hub.',
          'For a new link: <code>npm run login</code>.',
        )
      }
      const { id, name, roles } = found
      const person = { loginId: `link ${id}`, id: actorId('link', name), name, accounts: [], idToken: null }
      return yield* signIn(request, 'link', { ...person, roles: knownRoles(roles) }, '/')
    })

  const logout: Route = (request) =>
    Effect.gen(function* () {
      const { session } = yield* authenticate({ method: 'POST', headers: request.headers, isUse: true })
      const ended = session === null ? null : yield* sessions.end(session.token)
      // Otherwise the session at the provider would sign in the next person at this browser, too.
      const endSessionUrl =
        ended === null || provider === null ? null : yield* provider.endSessionUrl(ended.idToken)
      return {
        ...jsonAnswer(200, { object: 'logout', end_session_url: endSessionUrl }),
        cookies: [cookies.expired('session')],
      }
    })

  const signedOut: Route = () =>
    Effect.succeed(message(200, 'Signed out', 'You are signed out of the hub.', AGAIN))

  /** `HEAD` only asks (RFC 9110, section 9.2.1), so it uses up neither a link nor a code. */
  const notForHead =
    (route: Route): Route =>
    (request, query) =>
      request.method === 'HEAD' ? Effect.succeed(htmlAnswer(200, '')) : route(request, query)

  return [
    { method: 'GET', path: '/login', run: notForHead(login) },
    { method: 'GET', path: CALLBACK_PATH, run: notForHead(callback) },
    { method: 'GET', path: LOCAL_LOGIN_PATH, run: notForHead(local) },
    { method: 'GET', path: SIGNED_OUT_PATH, run: signedOut },
    { method: 'POST', path: '/logout', run: logout },
  ] as const
})
