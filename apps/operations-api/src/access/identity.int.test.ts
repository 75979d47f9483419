/**
 * Who a person is: sign-ins and access tokens of a foreign provider that signs with real keys (npm's `jose`), over
 * HTTP. Expectations are those of OpenID Connect Core 1.0, RFC 9068 and RFC 8725.
 */
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { encodeId } from '@hub/domain'
import { freePort } from '@hub/testkit'
import type { JWTPayload } from 'jose'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { startOperationsApi, type TestOperationsApi, type TestSession } from '../testing/harness.ts'
import { type OidcDouble, startOidcDouble, type Token } from '../testing/oidc-double.ts'

let provider: OidcDouble
let api: TestOperationsApi

beforeAll(async () => {
  provider = await startOidcDouble()
  const port = await freePort()
  api = await startOperationsApi({
    port,
    operationsUrl: `http://127.0.0.1:${port}`,
    localLogin: false,
    provider: provider.settings,
    settings: { HUB_ERASURE_PERSONS: '2', HUB_LIVE_KEY_PERSONS: '2' },
  })
})
afterAll(async () => {
  await api.stop()
  await provider.stop()
})

const ANNA = { sub: 'anna-90124', preferred_username: 'Anna', groups: ['operators'] }

const as =
  (claims: JWTPayload) =>
  (token: Token): Token => ({ ...token, claims: { ...token.claims, ...claims } })

beforeEach(() => provider.answerWith(as(ANNA)))

/** Signs in with a browser that keeps the cookie of the sign-in. `changeCookie`: what an attacker makes of it. */
const visitCallback = async (changeCookie = (cookie: string): string | null => cookie) => {
  const begun = await api.call('/login')
  const cookie = changeCookie((begun.headers.getSetCookie()[0] ?? '').split(';', 1)[0] ?? '')
  const authorized = await fetch(begun.headers.get('location')!, { redirect: 'manual' })
  const { pathname, search } = new URL(authorized.headers.get('location')!)
  return api.call(`${pathname}${search}`, cookie === null ? {} : { headers: { cookie } })
}

const signIn = async (claims: JWTPayload): Promise<TestSession> => {
  provider.answerWith(as(claims))
  const response = await visitCallback()
  expect(response.status).toBe(303)
  return api.withCsrf(api.sessionOf(response)!)
}

const code = (response: { readonly body: any }): unknown => response.body?.error?.code

describe('the identity of a person', () => {
  const request = async (session: TestSession, recipient: string): Promise<string> => {
    const asked = await api.call('/v1/erasures', { as: session, body: { recipient, reason: 'Letter' } })
    expect(asked.status).toBe(200)
    return asked.body.request.id
  }
  const confirm = (session: TestSession, id: string) =>
    api.call(`/v1/erasures/${id}/confirm`, { as: session, method: 'POST' })

  it('is issuer and subject: another display name makes no second person', async () => {
    const anna = await signIn(ANNA)
    const renamed = await signIn({ ...ANNA, preferred_username: 'Boris' })
    expect((await api.call('/v1/me', { as: renamed })).body.name).toBe('Boris')
    const id = await request(anna, '+79001110001')
    const refused = await confirm(renamed, id)
    expect([refused.status, code(refused)]).toEqual([409, 'same_person'])
    // The session and an access token are the same person, too.
    const token = await provider.accessToken({ ...ANNA, preferred_username: 'Clara', client_id: 'app' })
    const withToken = await api.call(`/v1/erasures/${id}/confirm`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
    })
    expect(code(withToken)).toBe('same_person')
  })

  it('is issuer and subject: two persons may have the same display name', async () => {
    const id = await request(await signIn(ANNA), '+79001110002')
    const confirmed = await confirm(await signIn({ ...ANNA, sub: '90125' }), id)
    expect(confirmed.body).toMatchObject({
      request: { requested_by: 'Anna', confirmed_by: 'Anna', status: 'confirmed' },
      receipt: { object: 'erasure' },
    })
    const trail = await api.call('/v1/audit?command=recipients', { as: await signIn(ANNA) })
    expect(trail.body.data.map((line: any) => line.actor_id)).toEqual([
      `${provider.issuer}|90125`,
      `${provider.issuer}|anna-90124`,
      `${provider.issuer}|anna-90124`,
      `${provider.issuer}|anna-90124`,
      `${provider.issuer}|anna-90124`,
    ])
  })

  it('decides who confirms a live key, and its rotation', async () => {
    const uuid = await api.addAccount()
    const account = encodeId('acc', uuid)
    await api.sql`INSERT INTO command.certifications (account, granted_by, confirmed) VALUES (${uuid}, 'a test', '{}')`
    const [anna, renamed] = [await signIn(ANNA), await signIn({ ...ANNA, preferred_username: 'Boris' })]
    const namesake = await signIn({ ...ANNA, sub: '90125' })
    const body = { account, allowed_addresses: ['192.0.2.0/24'] }
    const first = await api.call('/v1/key_requests', { as: anna, body })
    const confirmKey = (session: TestSession, id: string) =>
      api.call(`/v1/key_requests/${id}/confirm`, { as: session, method: 'POST' })
    expect(code(await confirmKey(renamed, first.body.id))).toBe('same_person')
    const issued = await confirmKey(namesake, first.body.id)
    expect(issued.body.key).toMatch(/^hub_live_/u)

    const widen = await api.call(`/v1/keys/${issued.body.id}/allowed_addresses`, {
      as: anna,
      body: { allowed_addresses: ['192.0.2.0/23'] },
    })
    expect([widen.status, code(widen)]).toEqual([409, 'second_person_required'])
    const rotation = await api.call(`/v1/keys/${issued.body.id}/request_rotation`, {
      as: anna,
      body: { overlap_seconds: 60, networks: { allowed_addresses: ['192.0.2.0/23'] } },
    })
    expect(rotation.body.allowed_addresses).toEqual(['192.0.2.0/23'])
    expect(code(await confirmKey(renamed, rotation.body.id))).toBe('same_person')
    expect((await confirmKey(namesake, rotation.body.id)).body.allowed_addresses).toEqual(['192.0.2.0/23'])
  })

  it('is missing in a request of an earlier version, which nobody confirms, and which is made again', async () => {
    const anna = await signIn(ANNA)
    const boris = await signIn({ ...ANNA, sub: '90126', preferred_username: 'Boris' })
    const id = await request(anna, '+79001110003')
    await api.sql`UPDATE command.erasure_requests SET requested_by_id = NULL WHERE id = ${id}`
    const refused = await confirm(boris, id)
    expect([refused.status, code(refused)]).toEqual([409, 'request_unidentified'])
    // What an earlier version does: it compares only the names.
    const bypassed = await api.sql`
      UPDATE command.erasure_requests SET confirmed_by = 'Boris', confirmed_at = now() WHERE id = ${id}`.catch(
      (error: unknown) => error,
    )
    expect(bypassed).toMatchObject({ constraint_name: 'erasure_requests_two_identities' })
    const again = await request(anna, '+79001110003')
    expect(again).not.toBe(id)
    expect((await confirm(boris, again)).body.receipt).not.toBeNull()
  })

  it('is stored without a phone number', async () => {
    const session = await signIn({ ...ANNA, sub: '+79001234567' })
    await request(session, '+79001110004')
    const rows = await api.sql<{ text: string }[]>`
      SELECT a::text AS text FROM command.audit a UNION ALL SELECT s::text FROM command.operations_sessions s
      UNION ALL SELECT e::text FROM command.erasure_requests e`
    expect(JSON.stringify(rows)).not.toContain('79001234567')
    // It still identifies the person.
    const renamed = await signIn({ ...ANNA, sub: '+79001234567', preferred_username: 'Boris' })
    const [row] = await api.sql<{ id: string }[]>`
      SELECT id FROM command.erasure_requests ORDER BY requested_at DESC LIMIT 1`
    expect(code(await confirm(renamed, row!.id))).toBe('same_person')
  })
})

describe('an id token', () => {
  const DAY = 86_400
  // OpenID Connect Core 1.0, section 3.1.3.7, and RFC 8725, sections 3.1 and 3.11.
  it.each<[string, (token: Token) => Token]>([
    ['with the signature of another key', (token) => ({ ...token, wrongKey: true })],
    ['of another issuer', as({ iss: 'https://evil.example' })],
    ['for another client', as({ aud: 'another-client' })],
    ['for two clients without `azp`', as({ aud: ['hub-console', 'another-client'] })],
    ['for two clients, issued to the other', as({ aud: ['hub-console', 'other'], azp: 'other' })],
    ['that has expired', as({ exp: Math.floor(Date.now() / 1000) - DAY })],
    ['without an end', as({ exp: undefined } as unknown as JWTPayload)],
    ['with another nonce', as({ nonce: randomUUID() })],
    ['without a nonce', as({ nonce: undefined })],
    ['without a subject', as({ sub: undefined } as unknown as JWTPayload)],
    ['with a subject that is too long', as({ sub: 'a'.repeat(256) })],
    ['without a name', as({ preferred_username: undefined })],
    ['that is an access token', (token) => ({ ...token, header: { ...token.header, typ: 'at+jwt' } })],
    ['that is a logout token', (token) => ({ ...token, header: { ...token.header, typ: 'logout+jwt' } })],
  ])('%s begins no session', async (_, change) => {
    provider.answerWith((token) => change(as(ANNA)(token)))
    const response = await visitCallback()
    expect(response.status).toBe(403)
    expect(api.sessionOf(response)).toBeNull()
  })

  it('with the `typ` of any JWT, or for this client by `azp`, begins a session', async () => {
    provider.answerWith((token) => ({ ...as(ANNA)(token), header: { ...token.header, typ: 'JWT' } }))
    expect((await visitCallback()).status).toBe(303)
    provider.answerWith(as({ ...ANNA, aud: ['hub-console', 'another-client'], azp: 'hub-console' }))
    expect((await visitCallback()).status).toBe(303)
  })

  it('in an answer that is far too long is not read to its end', async () => {
    provider.answerTokensWith(JSON.stringify({ id_token: 'a'.repeat(2_000_000) }))
    const response = await visitCallback()
    expect(response.status).toBe(503)
    expect(response.text).toContain('does not answer')
  })
})

describe('the cookie of a sign-in in progress', () => {
  const NAME = '__Host-hub_login'

  it.each<[string, (cookie: string) => string | null]>([
    ['is missing', () => null],
    ['is changed', (cookie) => `${cookie.slice(0, -8)}AAAAAAAA`],
    ['is random', () => `${NAME}=${randomBytes(300).toString('base64url')}`],
  ])('begins no session if it %s', async (_, change) => {
    const response = await visitCallback(change)
    expect(response.status).toBe(403)
    expect(api.sessionOf(response)).toBeNull()
  })

  it('begins no session if an attacker wrote it, for a sign-in of their own at the provider', async () => {
    // Everything else is right: RFC 6749, section 10.12 (state), and RFC 7636, section 4.2 (verifier).
    const [state, nonce, verifier] = [randomUUID(), randomUUID(), randomBytes(32).toString('base64url')]
    const authorize = new URL((await api.call('/login')).headers.get('location')!)
    authorize.searchParams.set('state', state)
    authorize.searchParams.set('nonce', nonce)
    authorize.searchParams.set('code_challenge', createHash('sha256').update(verifier).digest('base64url'))
    const authorized = await fetch(authorize, { redirect: 'manual' })
    const { pathname, search } = new URL(authorized.headers.get('location')!)
    const content = { state, nonce, verifier, returnTo: '/', validUntil: Date.now() + 300_000 }
    const cookie = `${NAME}=${Buffer.from(JSON.stringify(content)).toString('base64url')}`
    const response = await api.call(`${pathname}${search}`, { headers: { cookie } })
    expect(response.status).toBe(403)
    expect(api.sessionOf(response)).toBeNull()
  })

  it('shows nothing of the sign-in', async () => {
    const begun = await api.call('/login?return_to=%2Fmessages')
    const value =
      begun.headers
        .getSetCookie()[0]
        ?.split(';', 1)[0]
        ?.slice(NAME.length + 1) ?? ''
    const bytes = Buffer.from(value, 'base64url').toString('latin1')
    const state = new URL(begun.headers.get('location')!).searchParams.get('state') ?? ''
    expect(bytes).not.toContain('/messages')
    expect(bytes).not.toContain(state)
  })

  it('and its code are not used up by HEAD', async () => {
    const begun = await api.call('/login')
    const cookie = (begun.headers.getSetCookie()[0] ?? '').split(';', 1)[0] ?? ''
    const authorized = await fetch(begun.headers.get('location')!, { redirect: 'manual' })
    const { pathname, search } = new URL(authorized.headers.get('location')!)
    const asked = await api.call(`${pathname}${search}`, { method: 'HEAD', headers: { cookie } })
    expect(api.sessionOf(asked)).toBeNull()
    expect((await api.call(`${pathname}${search}`, { headers: { cookie } })).status).toBe(303)
  })
})

describe('an access token', () => {
  const call = async (token: string) => api.call('/v1/me', { headers: { authorization: `Bearer ${token}` } })
  const USER = { ...ANNA, client_id: 'staff-app' }

  it('of a person has the name of the claim, and the identity of the sessions', async () => {
    const response = await call(await provider.accessToken(USER))
    expect([response.status, response.body.name]).toEqual([200, 'Anna'])
  })

  it('of a person without a name is refused, and that of a program is not', async () => {
    const { preferred_username: _, ...nameless } = USER
    const refused = await call(await provider.accessToken(nameless))
    expect([refused.status, code(refused)]).toEqual([401, 'token_invalid'])
    const program = { sub: 'nightly-job', client_id: 'nightly-job', groups: ['viewers'] }
    expect((await call(await provider.accessToken(program))).body.name).toBe('nightly-job')
  })

  // RFC 9068, section 4: reject any other value of `typ`. RFC 8725, section 3.11: use explicit typing.
  it.each(['JWT', 'logout+jwt', 'secevent+jwt', 'dpop+jwt', 'at', '', undefined])(
    'with the type %j is refused',
    async (typ) => {
      const token = await provider.accessToken(USER, { typ } as { typ: string })
      expect(code(await call(token))).toBe('token_invalid')
    },
  )

  it.each(['at+jwt', 'application/at+jwt', 'AT+JWT'])('with the type %s is accepted', async (typ) => {
    expect((await call(await provider.accessToken(USER, { typ }))).status).toBe(200)
  })
})

describe('a sign-out', () => {
  // OpenID Connect RP-Initiated Logout 1.0, section 2.
  it('says where the session at the provider ends, with the id token as the hint', async () => {
    const session = await signIn(ANNA)
    const [sealed] = await api.sql<{ text: string }[]>`
      SELECT encode(id_token, 'escape') AS text FROM command.operations_sessions
       WHERE ended_at IS NULL AND id_token IS NOT NULL ORDER BY created_at DESC LIMIT 1`
    expect(sealed?.text).not.toContain('eyJ')
    const response = await api.call('/logout', { method: 'POST', as: session })
    const url = new URL(response.body.end_session_url)
    expect(`${url.origin}${url.pathname}`).toBe(`${provider.issuer}/end`)
    expect(url.searchParams.get('client_id')).toBe('hub-console')
    expect(url.searchParams.get('post_logout_redirect_uri')).toBe(`${api.url}/signed_out`)
    const [, claims = ''] = (url.searchParams.get('id_token_hint') ?? '').split('.')
    expect(JSON.parse(Buffer.from(claims, 'base64url').toString('utf8'))).toMatchObject({ sub: ANNA.sub })
    const page = await api.call('/signed_out')
    expect([page.status, page.text.includes('Signed out')]).toEqual([200, true])
    const [kept] = await api.sql<{ open: number }[]>`
      SELECT count(*)::integer AS open FROM command.operations_sessions WHERE ended_at IS NOT NULL AND id_token IS NOT NULL`
    expect(kept?.open).toBe(0)
  })
})
