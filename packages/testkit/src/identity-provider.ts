/** A real OpenID Connect provider for tests: npm's `oidc-provider`, on a loopback port. */
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** The groups of programs and people, as values of the claim `groups`. */
type Groups = Readonly<Record<string, ReadonlyArray<string>>>

interface IdentityProviderOptions {
  /** Of the client with which people sign in; `null`: nobody signs in. */
  readonly redirectUri: string | null
  /** Where a browser may return to after a sign-out. */
  readonly signedOutUri?: string
  /** The groups of each person. Any password is right. */
  readonly people?: Groups
  /** The groups of the program. */
  readonly program?: ReadonlyArray<string>
  /** The lifetime of access tokens of the program, seconds. Default: ten minutes. */
  readonly tokenSeconds?: number
}

export interface TestIdentityProvider {
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: string
  /** The audience of the access tokens of the program. */
  readonly audience: string
  /** The name of the program. */
  readonly program: string
  /** Where programs get access tokens, and the keys that sign them. */
  readonly tokenUrl: string
  readonly jwksUrl: string
  /** The scope that the program can ask for. */
  readonly scope: string
  /** How many tokens programs got so far. */
  readonly tokensIssued: () => number
  /** An access token of the program, a JWT. */
  readonly tokenFor: (audience: string) => Promise<string>
  readonly stop: () => Promise<void>
}

const CLIENT = { id: 'hub-console', secret: 'a client secret for tests' }
const PROGRAM = 'nightly-job'
const AUDIENCE = 'urn:hub:operations'
const SCOPE = 'operate'

export const startIdentityProvider = async ({
  people = {},
  program = [],
  redirectUri,
  signedOutUri,
  tokenSeconds = 600,
}: IdentityProviderOptions): Promise<TestIdentityProvider> => {
  // Loaded here, because few tests need it.
  const { Provider } = await import('oidc-provider')
  const server: Server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: CLIENT.id,
        client_secret: CLIENT.secret,
        redirect_uris: redirectUri === null ? ['https://unused.example/callback'] : [redirectUri],
        post_logout_redirect_uris: signedOutUri === undefined ? [] : [signedOutUri],
        grant_types: ['authorization_code'],
        response_types: ['code'],
      },
      {
        client_id: PROGRAM,
        client_secret: CLIENT.secret,
        redirect_uris: [],
        response_types: [],
        grant_types: ['client_credentials'],
      },
    ],
    claims: { openid: ['sub'], profile: ['preferred_username', 'groups'] },
    conformIdTokenClaims: false,
    findAccount: (_context, sub) => ({
      accountId: sub,
      claims: () => ({ sub, preferred_username: sub, groups: [...(people[sub] ?? [])] }),
    }),
    cookies: { keys: ['a key of cookies for tests'] },
    pkce: { required: () => true },
    ttl: { ClientCredentials: tokenSeconds },
    features: {
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => AUDIENCE,
        getResourceServerInfo: (_context, resource) => ({
          scope: SCOPE,
          audience: resource,
          accessTokenFormat: 'jwt',
        }),
      },
    },
    extraTokenClaims: (_context, token) =>
      token.kind === 'ClientCredentials' ? { groups: [...program] } : undefined,
  })
  // The test only reads what the provider answers.
  provider.on('server_error', () => {})
  let tokensIssued = 0
  provider.on('client_credentials.issued', () => {
    tokensIssued += 1
  })
  const answer = provider.callback()
  server.on('request', (request, response) => void answer(request, response))
  return {
    issuer,
    clientId: CLIENT.id,
    clientSecret: CLIENT.secret,
    audience: AUDIENCE,
    program: PROGRAM,
    tokenUrl: `${issuer}/token`,
    jwksUrl: `${issuer}/jwks`,
    scope: SCOPE,
    tokensIssued: () => tokensIssued,
    tokenFor: async (audience) => {
      const response = await fetch(`${issuer}/token`, {
        method: 'POST',
        headers: {
          'content-type': 'application/x-www-form-urlencoded',
          authorization: `Basic ${Buffer.from(`${PROGRAM}:${encodeURIComponent(CLIENT.secret)}`).toString('base64')}`,
        },
        body: new URLSearchParams({
          grant_type: 'client_credentials',
          resource: audience,
          scope: SCOPE,
        }),
      })
      return String(((await response.json()) as { access_token?: string }).access_token)
    },
    stop: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
