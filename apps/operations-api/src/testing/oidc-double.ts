/**
 * An OpenID Connect provider whose tokens a test decides, for what a right provider never sends. npm's `jose` signs
 * them with real keys. What it is asked, it checks as the standards say: RFC 6749 (code and client), RFC 7636 (PKCE).
 */
import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, type JWTHeaderParameters, type JWTPayload, SignJWT } from 'jose'

export interface Token {
  readonly claims: JWTPayload
  readonly header: JWTHeaderParameters
  /** Sign with a key that the provider does not publish. */
  readonly wrongKey: boolean
}

interface Asked {
  readonly nonce: string
  readonly challenge: string
}

const CLIENT = { id: 'hub-console', secret: 'a client secret for tests' }
const AUDIENCE = 'urn:hub:operations'

/** RFC 6749, section 2.3.1: id and secret are form-encoded, then joined for HTTP Basic. */
const isClient = (authorization = ''): boolean => {
  const [id, secret] = Buffer.from(authorization.replace(/^Basic /u, ''), 'base64')
    .toString('utf8')
    .split(':')
    .map((part) => decodeURIComponent(part.replaceAll('+', ' ')))
  return id === CLIENT.id && secret === CLIENT.secret
}

/** Seconds since the epoch. */
const now = () => Math.floor(Date.now() / 1000)

export const startOidcDouble = async () => {
  const [own, foreign] = await Promise.all([
    generateKeyPair('RS256', { extractable: true }),
    generateKeyPair('RS256'),
  ])
  const jwk = { ...(await exportJWK(own.publicKey)), kid: 'key-1', alg: 'RS256', use: 'sig' }
  const asked = new Map<string, Asked>()
  /** The id token of the next sign-in, made from a right one. */
  let change: (token: Token) => Token = (token) => token
  /** Replaces the answer of the token endpoint. */
  let tokenAnswer: string | null = null

  const sign = ({ claims, header, wrongKey }: Token) =>
    new SignJWT(claims).setProtectedHeader(header).sign(wrongKey ? foreign.privateKey : own.privateKey)

  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', issuer)
    const json = (status: number, body: unknown) =>
      response
        .writeHead(status, { 'content-type': 'application/json' })
        .end(typeof body === 'string' ? body : JSON.stringify(body))
    const answer = async (): Promise<unknown> => {
      switch (pathname) {
        case '/.well-known/openid-configuration':
          return json(200, {
            issuer,
            authorization_endpoint: `${issuer}/authorize`,
            token_endpoint: `${issuer}/token`,
            jwks_uri: `${issuer}/jwks`,
            end_session_endpoint: `${issuer}/end`,
            response_types_supported: ['code'],
            subject_types_supported: ['public'],
            id_token_signing_alg_values_supported: ['RS256'],
          })
        case '/jwks':
          return json(200, { keys: [jwk] })
        case '/authorize': {
          const code = randomUUID()
          asked.set(code, {
            nonce: searchParams.get('nonce') ?? '',
            challenge: searchParams.get('code_challenge') ?? '',
          })
          const back = new URL(searchParams.get('redirect_uri') ?? '')
          back.searchParams.set('code', code)
          back.searchParams.set('state', searchParams.get('state') ?? '')
          return response.writeHead(303, { location: back.toString() }).end()
        }
        case '/token': {
          const form = new URLSearchParams(Buffer.concat(await request.toArray()).toString())
          const known = asked.get(form.get('code') ?? '')
          asked.delete(form.get('code') ?? '')
          const challenge = createHash('sha256')
            .update(form.get('code_verifier') ?? '')
            .digest('base64url')
          if (known === undefined || known.challenge !== challenge)
            return json(400, { error: 'invalid_grant' })
          if (!isClient(request.headers.authorization)) return json(401, { error: 'invalid_client' })
          if (tokenAnswer !== null) return json(200, tokenAnswer)
          const right: Token = {
            claims: { iss: issuer, aud: CLIENT.id, iat: now(), exp: now() + 300, nonce: known.nonce },
            header: { alg: 'RS256', kid: 'key-1' },
            wrongKey: false,
          }
          return json(200, {
            access_token: randomUUID(),
            token_type: 'Bearer',
            expires_in: 300,
            id_token: await sign(change(right)),
          })
        }
        default:
          return response.writeHead(404).end()
      }
    }
    void answer()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  return {
    issuer,
    settings: {
      HUB_OIDC_ISSUER: issuer,
      HUB_OIDC_CLIENT_ID: CLIENT.id,
      HUB_OIDC_CLIENT_SECRET: CLIENT.secret,
      HUB_OIDC_AUDIENCE: AUDIENCE,
      HUB_OIDC_ROLES: '{"operators": "operator", "support": "support", "viewers": "viewer"}',
    },
    /** Decides the id tokens of sign-ins from now on. */
    answerWith: (next: (token: Token) => Token): void => {
      change = next
      tokenAnswer = null
    },
    answerTokensWith: (text: string): void => {
      tokenAnswer = text
    },
    /** An access token of RFC 9068. */
    accessToken: (claims: JWTPayload, header: Partial<JWTHeaderParameters> = {}): Promise<string> =>
      sign({
        claims: { iss: issuer, aud: AUDIENCE, iat: now(), exp: now() + 300, jti: randomUUID(), ...claims },
        header: { alg: 'RS256', kid: 'key-1', typ: 'at+jwt', ...header },
        wrongKey: false,
      }),
    stop: async (): Promise<void> => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
export type OidcDouble = Awaited<ReturnType<typeof startOidcDouble>>
