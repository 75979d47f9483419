/** Sign-ins and bearer tokens with a real OpenID Connect provider: npm's `oidc-provider`. */
import { freePort, startIdentityProvider, type TestIdentityProvider } from '@hub/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startOperationsApi, type TestOperationsApi, type TestResponse } from '../testing/harness.ts'

/** A browser as far as the sign-in needs one: it keeps cookies by host, follows redirects and sends forms. */
const makeBrowser = () => {
  const jar = new Map<string, Map<string, string>>()
  const visit = async (address: string, form?: Readonly<Record<string, string>>): Promise<Response> => {
    const { host } = new URL(address)
    const cookies = jar.get(host) ?? new Map<string, string>()
    jar.set(host, cookies)
    const response = await fetch(address, {
      method: form === undefined ? 'GET' : 'POST',
      redirect: 'manual',
      headers: { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') },
      ...(form === undefined ? {} : { body: new URLSearchParams(form) }),
    })
    for (const line of response.headers.getSetCookie()) {
      const [pair = '', ...attributes] = line.split(';')
      const mark = pair.indexOf('=')
      const isOver = attributes.some((one) => /^\s*(?:max-age=0|expires=Thu, 01 Jan 1970)/iu.test(one))
      if (isOver) cookies.delete(pair.slice(0, mark))
      else cookies.set(pair.slice(0, mark), pair.slice(mark + 1))
    }
    return response
  }
  /** Follows redirects to a page, or to the last address that `until` accepts, without visiting it. */
  const follow = async (address: string, until: (url: string) => boolean): Promise<string> => {
    let at = address
    for (let step = 0; step < 10; step += 1) {
      if (until(at)) return at
      const response = await visit(at)
      const location = response.headers.get('location')
      await response.text()
      if (location === null) return at
      at = new URL(location, at).toString()
    }
    throw new Error('too many redirects')
  }
  return { visit, follow, cookies: (host: string) => jar.get(host) ?? new Map<string, string>() }
}

let provider: TestIdentityProvider
let api: TestOperationsApi

beforeAll(async () => {
  const port = await freePort()
  const operationsUrl = `http://127.0.0.1:${port}`
  provider = await startIdentityProvider({
    redirectUri: `${operationsUrl}/login/callback`,
    signedOutUri: `${operationsUrl}/signed_out`,
    people: { anna: ['sms-support', 'sales'], boris: ['sales'], mallory: ['sms-admins'] },
    program: ['sms-support'],
  })
  api = await startOperationsApi({
    port,
    operationsUrl,
    localLogin: false,
    provider: {
      HUB_OIDC_ISSUER: provider.issuer,
      HUB_OIDC_CLIENT_ID: provider.clientId,
      HUB_OIDC_CLIENT_SECRET: provider.clientSecret,
      HUB_OIDC_AUDIENCE: provider.audience,
      HUB_OIDC_ROLES: JSON.stringify({ 'sms-support': 'support', 'sms-admins': 'admin' }),
    },
  })
})
afterAll(async () => {
  await api.stop()
  await provider.stop()
})

const isCallback = (url: string): boolean => url.startsWith(`${api.url}/login/callback`)

/** Signs in at the provider. Returns the address of the redirect back, which the browser has not visited. */
const authorize = async (
  browser: ReturnType<typeof makeBrowser>,
  name: string,
  begin = `${api.url}/login`,
): Promise<string> => {
  const interaction = await browser.follow(begin, () => false)
  const asked = await browser.visit(interaction, { prompt: 'login', login: name, password: 'any' })
  const consent = await browser.follow(
    new URL(asked.headers.get('location')!, interaction).toString(),
    isCallback,
  )
  if (isCallback(consent)) return consent
  const answer = await browser.visit(consent, { prompt: 'consent' })
  return browser.follow(new URL(answer.headers.get('location')!, consent).toString(), isCallback)
}

const asTestResponse = async (
  response: Response,
): Promise<Pick<TestResponse, 'headers' | 'status' | 'text'>> => ({
  status: response.status,
  headers: response.headers,
  text: await response.text(),
})

describe('a sign-in at the identity provider', () => {
  it('begins a session with the name and the roles of the claims', async () => {
    const browser = makeBrowser()
    const response = await asTestResponse(await browser.visit(await authorize(browser, 'anna')))
    expect(response.status).toBe(303)
    const session = api.sessionOf(response)
    const me = await api.call('/v1/me', { headers: { cookie: session! } })
    expect(me.body).toMatchObject({ name: 'anna', roles: ['support'] })
  })

  it('returns to the page where it began', async () => {
    const browser = makeBrowser()
    const callback = await authorize(
      browser,
      'anna',
      `${api.url}/login?return_to=%2Fmessages%2Fmsg_1%3Fa%3D1`,
    )
    const response = await browser.visit(callback)
    expect(response.headers.get('location')).toBe('/messages/msg_1?a=1')
  })

  it('asks with a code challenge, a state and a nonce, which differ each time', async () => {
    const queries = await Promise.all(
      [1, 2].map(async () => {
        const response = await api.call('/login')
        expect(response.headers.getSetCookie()[0]).toMatch(
          /^__Host-hub_login=[\w-]+; Path=\/; HttpOnly; Secure; SameSite=Lax; Max-Age=600$/u,
        )
        return new URL(response.headers.get('location')!).searchParams
      }),
    )
    for (const name of ['state', 'nonce', 'code_challenge']) {
      expect(queries[0]!.get(name)).toMatch(/^[\w-]{20,}$/u)
      expect(queries[0]!.get(name)).not.toBe(queries[1]!.get(name))
    }
    expect(queries[0]!.get('code_challenge_method')).toBe('S256')
    expect(queries[0]!.get('response_type')).toBe('code')
  })

  it('of a person without a role is refused', async () => {
    const browser = makeBrowser()
    const response = await asTestResponse(await browser.visit(await authorize(browser, 'boris')))
    expect(response.status).toBe(403)
    expect(response.text).toContain('No role')
    expect(api.sessionOf(response)).toBeNull()
  })

  it('of an attacker does not begin a session in another browser', async () => {
    const attacker = makeBrowser()
    const callback = await authorize(attacker, 'mallory')
    // The browser of the victim has begun no sign-in, or another one.
    const victim = makeBrowser()
    const without = await asTestResponse(await victim.visit(callback))
    expect(without.status).toBe(403)
    await (await victim.visit(`${api.url}/login`)).text()
    const withOther = await asTestResponse(await victim.visit(callback))
    expect(withOther.status).toBe(403)
    expect(api.sessionOf(withOther)).toBeNull()
  })

  it('works once', async () => {
    const browser = makeBrowser()
    const callback = await authorize(browser, 'anna')
    const pending = browser.cookies(new URL(api.url).host).get('__Host-hub_login')
    expect((await browser.visit(callback)).status).toBe(303)
    const again = await fetch(callback, {
      redirect: 'manual',
      headers: { cookie: `__Host-hub_login=${pending}` },
    })
    expect(again.status).toBe(403)
  })

  it.each(['?code=x', '?error=access_denied', '?code=x&state=y', '?', ''])(
    'with the answer "%s" is refused',
    async (query) => {
      const browser = makeBrowser()
      await (await browser.visit(`${api.url}/login`)).text()
      const response = await asTestResponse(await browser.visit(`${api.url}/login/callback${query}`))
      expect(response.status).toBe(403)
      expect(api.sessionOf(response)).toBeNull()
    },
  )

  it('cannot be replaced by a login link', async () => {
    expect((await api.call(api.linkFor('Anna', ['admin']))).status).toBe(403)
  })
})

describe('a sign-out', () => {
  it('also ends the session at the identity provider, which returns the browser', async () => {
    const browser = makeBrowser()
    const cookie = api.sessionOf(await browser.visit(await authorize(browser, 'anna')))!
    // The session at the provider signs in again, without a question.
    expect(isCallback(await browser.follow(`${api.url}/login`, isCallback))).toBe(true)
    const signedOut = await api.call('/logout', { method: 'POST', as: await api.withCsrf(cookie) })
    const asked = await browser.visit(signedOut.body.end_session_url)
    const form = await asked.text()
    expect(asked.status).toBe(200)
    const [, action = ''] = /action="([^"]+)"/u.exec(form) ?? []
    const [, xsrf = ''] = /name="xsrf" value="([^"]+)"/u.exec(form) ?? []
    const ended = await browser.visit(new URL(action, provider.issuer).toString(), { xsrf, logout: 'yes' })
    expect(ended.headers.get('location')).toBe(`${api.url}/signed_out`)
    // Now it asks who signs in.
    expect(await browser.follow(`${api.url}/login`, isCallback)).toContain('/interaction/')
  })
})

describe('a bearer token', () => {
  const as = (token: string) => ({ authorization: `Bearer ${token}` })

  it('gives a program its roles, without a session and without a CSRF token', async () => {
    const token = await provider.tokenFor(provider.audience)
    const me = await api.call('/v1/me', { headers: as(token) })
    expect(me.status).toBe(200)
    expect(me.body).toMatchObject({
      name: 'nightly-job',
      roles: ['support'],
      csrf_token: null,
      session: null,
    })
    const change = await api.call('/v1/moderation/templates/tpl_01m7yt89qhe54swwc8wkxj6n8e/approve', {
      method: 'POST',
      headers: as(token),
    })
    expect(change.body.error.code).toBe('forbidden')
  })

  it('for another audience is refused', async () => {
    const token = await provider.tokenFor('urn:other')
    const response = await api.call('/v1/me', { headers: as(token) })
    expect(response.status).toBe(401)
    expect(response.body.error.code).toBe('token_invalid')
    expect(response.headers.get('www-authenticate')).toContain('error="invalid_token"')
  })

  it('with a changed content, without a signature, or signed with a public value is refused', async () => {
    const [header = '', payload = '', signature = ''] = (await provider.tokenFor(provider.audience)).split(
      '.',
    )
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString('utf8')) as object
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const admin = encode({ ...claims, groups: ['sms-admins'] })
    for (const token of [
      `${header}.${admin}.${signature}`,
      `${encode({ alg: 'none' })}.${admin}.`,
      `${encode({ alg: 'HS256' })}.${admin}.${signature}`,
      'x.y.z',
    ]) {
      const response = await api.call('/v1/me', { headers: as(token) })
      expect(response.status).toBe(401)
      expect(response.body.error.code).toBe('token_invalid')
    }
  })
})

describe('without an answer of the identity provider', () => {
  it('the process starts, and a sign-in says that it is not available', async () => {
    const port = await freePort()
    const other = await startOperationsApi({
      provider: {
        HUB_OIDC_ISSUER: `http://127.0.0.1:${port}`,
        HUB_OIDC_CLIENT_ID: provider.clientId,
        HUB_OIDC_AUDIENCE: provider.audience,
        HUB_OIDC_ROLES: '{"sms-support": "support"}',
      },
    })
    try {
      expect(await other.failing()).toEqual([])
      const response = await other.call('/login')
      expect(response.status).toBe(503)
      expect(response.text).toContain('does not answer')
      const withToken = await other.call('/v1/me', { headers: { authorization: 'Bearer a.b.c' } })
      expect(withToken.status).toBe(503)
    } finally {
      await other.stop()
    }
  })
})
