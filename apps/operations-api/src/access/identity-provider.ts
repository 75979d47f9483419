/**
 * The OpenID Connect identity provider: sign-ins of people (authorization code flow with PKCE, state and
 * nonce) and bearer tokens of programs. Its metadata are read when they are needed first, so a hub starts
 * without it.
 */
import { createHash } from 'node:crypto'
import { settings } from '@hub/config'
import { boundedFetch } from '@hub/http-client'
import { actorId, type Role } from '@hub/operations'
import { type Config, Context, Data, Duration, Effect, Layer, Redacted, Semaphore } from 'effect'
import {
  createRemoteJWKSet,
  customFetch,
  decodeProtectedHeader,
  errors as joseErrors,
  jwtVerify,
  type JWTVerifyGetKey,
} from 'jose'
import * as client from 'openid-client'
import { accountsIn, nameOf, programOf, roleMapConfig, rolesOf, subjectOf } from './claims.ts'

/** The state of a sign-in, between the redirect to the provider and the redirect back. */
export interface PendingLogin {
  readonly state: string
  readonly nonce: string
  readonly verifier: string
  /** The path of the console to open after the sign-in. */
  readonly returnTo: string
}

export interface Identity {
  /** `iss|sub`: the same person in each session and each token. */
  readonly id: string
  readonly name: string
  readonly roles: ReadonlyArray<Role>
  /** The accounts (`acc_…`) that the provider names. */
  readonly accounts: ReadonlyArray<string>
}

/** The provider does not answer, or its answer is no OpenID Connect. A repeat may succeed. */
export class ProviderUnavailable extends Data.TaggedError('ProviderUnavailable')<{
  readonly detail: string
}> {}

/** The provider or a token does not prove an identity. A new sign-in may succeed. */
export class IdentityRefused extends Data.TaggedError('IdentityRefused')<{
  /** A code without data of a person, for the log. */
  readonly detail: string
}> {}

/** People wait for these calls. */
const CALL_SECONDS = 5
/** Keys and addresses of a provider change rarely; a removed key must not work for long. */
const METADATA_FOR = Duration.minutes(60)
/** Two machines rarely differ by more. */
const CLOCK_TOLERANCE_SECONDS = 10
/** Sign-ins at a time: each calls the provider. */
const CONCURRENT_CALLS = 10

export const CALLBACK_PATH = '/login/callback'
/** Where the browser arrives after a sign-out at the provider, which must know this address. */
export const SIGNED_OUT_PATH = '/signed_out'

/** The values of `typ` of an id token. OpenID Connect names none, so most providers use that of any JWT. */
const ID_TOKEN_TYPES: ReadonlyArray<unknown> = [undefined, 'JWT', 'jwt']
/** Servers accept addresses of some kilobytes. A sign-out also works without the hint. */
const MAX_HINT_LENGTH = 4096

/** Errors of `openid-client` and `jose` have a code. Their texts may quote tokens. */
const codeOf = (error: unknown): string => {
  const code: unknown = typeof error === 'object' && error !== null ? Reflect.get(error, 'code') : null
  return typeof code === 'string' ? code : 'unknown'
}

interface Metadata {
  readonly configuration: client.Configuration
  readonly keys: JWTVerifyGetKey
}

/** `null` if no provider is configured. */
export class IdentityProvider extends Context.Service<
  IdentityProvider,
  {
    readonly begin: (
      returnTo: string,
    ) => Effect.Effect<{ readonly url: string; readonly pending: PendingLogin }, ProviderUnavailable>
    /** `query`: of the redirect back, with the question mark. */
    readonly complete: (
      query: string,
      pending: PendingLogin,
    ) => Effect.Effect<
      Identity & { readonly loginId: string; readonly idToken: string },
      ProviderUnavailable | IdentityRefused
    >
    /**
     * Where the browser ends the session at the provider (OpenID Connect RP-Initiated Logout 1.0); `null`: the
     * provider has no such address, or does not answer. `idToken`: of the sign-in; `null`: unknown.
     */
    readonly endSessionUrl: (idToken: string | null) => Effect.Effect<string | null>
    /** `null`: no bearer tokens are accepted. */
    readonly verify:
      | ((token: string) => Effect.Effect<Identity, ProviderUnavailable | IdentityRefused>)
      | null
  } | null
>()('@hub/operations-api/IdentityProvider') {
  static readonly layer: Layer.Layer<IdentityProvider, Config.ConfigError> = Layer.effect(
    IdentityProvider,
    Effect.gen(function* () {
      const issuer = yield* settings.oidcIssuer.config
      const clientId = yield* settings.oidcClientId.config
      if (issuer === null || clientId === null) return null
      const secret = yield* settings.oidcClientSecret.config
      const scope = yield* settings.oidcScopes.config
      const audience = yield* settings.oidcAudience.config
      const nameClaim = yield* settings.oidcNameClaim.config
      const rolesClaim = yield* settings.oidcRolesClaim.config
      const accountsClaim = yield* settings.oidcAccountsClaim.config
      const roles = yield* roleMapConfig
      const tokenType = yield* settings.oidcTokenType.config
      const operationsUrl = yield* settings.operationsUrl.config
      const redirectUri = new URL(CALLBACK_PATH, operationsUrl).toString()
      const signedOutUri = new URL(SIGNED_OUT_PATH, operationsUrl).toString()
      // Production refuses http outside of loopback.
      const isPlain = issuer.startsWith('http://')

      const discover = Effect.tryPromise({
        try: async (): Promise<Metadata> => {
          const configuration = await client.discovery(
            new URL(issuer),
            clientId,
            { redirect_uris: [redirectUri] },
            secret === null ? client.None() : client.ClientSecretBasic(Redacted.value(secret)),
            {
              timeout: CALL_SECONDS,
              [client.customFetch]: boundedFetch,
              // Checks the signature of id tokens, too, and not only the connection that they come from.
              execute: [
                client.enableNonRepudiationChecks,
                ...(isPlain ? [client.allowInsecureRequests] : []),
              ],
            },
          )
          const { jwks_uri: keys } = configuration.serverMetadata()
          if (keys === undefined) throw new Error('no jwks_uri')
          return {
            configuration,
            keys: createRemoteJWKSet(new URL(keys), {
              timeoutDuration: CALL_SECONDS * 1000,
              [customFetch]: boundedFetch,
            }),
          }
        },
        catch: (error) => new ProviderUnavailable({ detail: codeOf(error) }),
      })
      // A failure is not kept.
      const [metadata, forget] = yield* Effect.cachedInvalidateWithTTL(discover, METADATA_FOR)
      const current = Effect.tapError(metadata, () => forget)
      const calls = yield* Semaphore.make(CONCURRENT_CALLS)

      /** `name`: `null` if the claims name nobody. */
      const identity = (
        claims: Readonly<Record<string, unknown>>,
        name: string | null,
      ): Effect.Effect<Identity, IdentityRefused> => {
        const subject = subjectOf(claims)
        if (subject === null) return Effect.fail(new IdentityRefused({ detail: 'no_subject' }))
        if (name === null) return Effect.fail(new IdentityRefused({ detail: 'no_name' }))
        return Effect.succeed({
          id: actorId(String(claims['iss']), subject),
          name,
          roles: rolesOf(claims, rolesClaim, roles),
          accounts: accountsIn(claims, accountsClaim),
        })
      }

      const verify = (token: string, wantedAudience: string) =>
        Effect.gen(function* () {
          const { configuration, keys } = yield* current
          const verified = yield* Effect.tryPromise({
            try: () =>
              jwtVerify(token, keys, {
                issuer: configuration.serverMetadata().issuer,
                audience: wantedAudience,
                typ: tokenType,
                clockTolerance: CLOCK_TOLERANCE_SECONDS,
                requiredClaims: ['exp', 'sub'],
              }),
            catch: (error) =>
              error instanceof joseErrors.JWKSTimeout || !(error instanceof joseErrors.JOSEError)
                ? new ProviderUnavailable({ detail: codeOf(error) })
                : new IdentityRefused({ detail: codeOf(error) }),
          })
          const { payload } = verified
          return yield* identity(payload, nameOf(payload, nameClaim) ?? programOf(payload))
        })

      return {
        begin: Effect.fnUntraced(function* (returnTo) {
          const { configuration } = yield* current
          const verifier = client.randomPKCECodeVerifier()
          const pending = { state: client.randomState(), nonce: client.randomNonce(), verifier, returnTo }
          const url = client.buildAuthorizationUrl(configuration, {
            redirect_uri: redirectUri,
            scope,
            state: pending.state,
            nonce: pending.nonce,
            code_challenge: createHash('sha256').update(verifier).digest('base64url'),
            code_challenge_method: 'S256',
          })
          return { url: url.toString(), pending }
        }),

        complete: (query, pending) =>
          Effect.gen(function* () {
            const { configuration } = yield* current
            const tokens = yield* Effect.tryPromise({
              try: () =>
                client.authorizationCodeGrant(configuration, new URL(`${redirectUri}${query}`), {
                  pkceCodeVerifier: pending.verifier,
                  expectedState: pending.state,
                  expectedNonce: pending.nonce,
                  idTokenExpected: true,
                }),
              catch: (error) =>
                codeOf(error) === 'OAUTH_TIMEOUT' || error instanceof TypeError
                  ? new ProviderUnavailable({ detail: codeOf(error) })
                  : new IdentityRefused({ detail: codeOf(error) }),
            })
            const claims = tokens.claims()
            const { id_token: idToken } = tokens
            if (claims === undefined || idToken === undefined) {
              return yield* new IdentityRefused({ detail: 'no_id_token' })
            }
            if (!ID_TOKEN_TYPES.includes(decodeProtectedHeader(idToken).typ)) {
              return yield* new IdentityRefused({ detail: 'no_id_token' })
            }
            const person = yield* identity(claims, nameOf(claims, nameClaim))
            return { ...person, loginId: `oidc ${pending.state}`, idToken }
          }).pipe(calls.withPermits(1)),

        endSessionUrl: (idToken) =>
          current.pipe(
            Effect.map(({ configuration }) => {
              const { end_session_endpoint: endpoint } = configuration.serverMetadata()
              // The console opens it, so it must be no script.
              if (!/^https?:$/u.test(URL.parse(endpoint ?? '')?.protocol ?? '')) return null
              const hint = idToken !== null && idToken.length <= MAX_HINT_LENGTH ? idToken : null
              return client
                .buildEndSessionUrl(configuration, {
                  post_logout_redirect_uri: signedOutUri,
                  ...(hint === null ? {} : { id_token_hint: hint }),
                })
                .toString()
            }),
            Effect.orElseSucceed(() => null),
          ),

        verify: audience === null ? null : (token) => verify(token, audience),
      }
    }),
  )
}
