/** Sign-ins, sessions and the protection of changes, over HTTP. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startOperationsApi, type TestOperationsApi } from '../testing/harness.ts'

let api: TestOperationsApi

beforeAll(async () => {
  api = await startOperationsApi()
})
afterAll(() => api.stop())

const code = (response: { readonly body: any }): unknown => response.body?.error?.code

describe('a login link', () => {
  it('begins a session with the name and the roles of the link', async () => {
    const session = await api.signIn('Anna', 'support')
    const me = await api.call('/v1/me', { as: session })
    expect(me.status).toBe(200)
    expect(me.body).toMatchObject({ object: 'me', name: 'Anna', roles: ['support'] })
    expect(me.body.permissions).toContain('messages.reveal')
    expect(me.body.permissions).not.toContain('moderation.decide')
  })

  it('opens the console, with a cookie that scripts cannot read and Safari stores without TLS', async () => {
    const response = await api.call(api.linkFor('Anna', ['viewer']))
    expect(response.status).toBe(303)
    expect(response.headers.get('location')).toBe('/')
    const [cookie] = response.headers.getSetCookie()
    expect(cookie).toMatch(/^hub_operations_7305=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict$/u)
  })

  it('works once', async () => {
    const link = api.linkFor('Anna', ['admin'])
    expect((await api.call(link)).status).toBe(303)
    const second = await api.call(link)
    expect(second.status).toBe(403)
    expect(api.sessionOf(second)).toBeNull()
  })

  // RFC 9110, section 9.2.1: HEAD is safe. Chat programs and mail filters ask so what is behind a link.
  it('is not used up by HEAD', async () => {
    const link = api.linkFor('Anna', ['admin'])
    for (let time = 0; time < 2; time += 1) {
      const asked = await api.call(link, { method: 'HEAD' })
      expect([asked.status, asked.text, asked.headers.getSetCookie()]).toEqual([200, '', []])
    }
    expect(api.sessionOf(await api.call(link))).not.toBeNull()
  })

  it('works once, also after its session has ended', async () => {
    const link = api.linkFor('Anna', ['admin'])
    const session = await api.withCsrf(api.sessionOf(await api.call(link))!)
    await api.call('/logout', { method: 'POST', as: session })
    expect((await api.call(link)).status).toBe(403)
  })

  it.each([
    ['that is old', () => api.linkFor('Anna', ['admin'], Date.now() - 13 * 3_600_000)],
    ['that is changed', () => `${api.linkFor('Anna', ['admin'])}x`],
    ['without a token', () => '/login/local'],
  ])('%s is refused', async (_what, link) => {
    const response = await api.call(link())
    expect(response.status).toBe(403)
    expect(response.headers.getSetCookie()).toEqual([])
  })

  it('of a person without a known role is refused', async () => {
    const response = await api.call(api.linkFor('Anna', ['root']))
    expect(response.status).toBe(403)
    expect(api.sessionOf(response)).toBeNull()
  })

  it('is refused for a host name that is not of the loopback interface', async () => {
    const { request } = await import('node:http')
    const status = await new Promise<number>((resolve, reject) => {
      const sent = request(
        new URL(api.linkFor('Anna', ['admin']), api.url),
        { headers: { host: 'console.example.com' } },
        (response) => {
          response.resume()
          resolve(response.statusCode ?? 0)
        },
      )
      sent.once('error', reject).end()
    })
    expect(status).toBe(403)
  })
})

describe('a session', () => {
  it('has a new token after each sign-in, and the earlier one is over', async () => {
    const first = await api.signIn('Anna', 'viewer')
    const response = await api.call(api.linkFor('Anna', ['viewer']), { headers: { cookie: first.cookie } })
    const second = api.sessionOf(response)
    expect(second).not.toBeNull()
    expect(second).not.toBe(first.cookie)
    expect(code(await api.call('/v1/me', { as: first }))).toBe('session_expired')
    expect((await api.call('/v1/me', { headers: { cookie: second! } })).status).toBe(200)
  })

  it('does not begin with a token that the browser already has', async () => {
    const chosen = `hub_operations_7305=${'A'.repeat(43)}`
    const response = await api.call(api.linkFor('Anna', ['viewer']), { headers: { cookie: chosen } })
    expect(api.sessionOf(response)).not.toBe(chosen)
    expect(code(await api.call('/v1/me', { headers: { cookie: chosen } }))).toBe('session_expired')
  })

  it('is stored as the hash of its token', async () => {
    const { cookie } = await api.signIn('Anna', 'viewer')
    const token = cookie.split('=')[1]!
    const [row] = await api.sql<{ text: string }[]>`
      SELECT string_agg(s::text, '\n') AS text FROM command.operations_sessions s`
    expect(row?.text).toContain('Anna')
    expect(row?.text).not.toContain(token)
    expect(row?.text).not.toContain(Buffer.from(token, 'base64url').toString('hex'))
  })

  it('of an earlier version, which recorded no identity, is over', async () => {
    const session = await api.signIn('Anna', 'viewer')
    await api.sql`UPDATE command.operations_sessions SET actor_id = NULL`
    expect(code(await api.call('/v1/me', { as: session }))).toBe('session_expired')
  })

  const age = async (column: 'created_at' | 'last_used_at', minutes: number): Promise<void> => {
    await api.sql`
      UPDATE command.operations_sessions SET ${api.sql(column)} = now() - make_interval(mins => ${minutes})`
  }

  it('is over after 30 minutes without a request', async () => {
    const session = await api.signIn('Anna', 'viewer')
    await age('last_used_at', 29)
    expect((await api.call('/v1/me', { as: session })).status).toBe(200)
    // The request above counts as use.
    const [row] = await api.sql<{ is_new: boolean }[]>`
      SELECT bool_or(last_used_at > now() - interval '1 minute') AS is_new FROM command.operations_sessions`
    expect(row?.is_new).toBe(true)
    await age('last_used_at', 31)
    const response = await api.call('/v1/me', { as: session })
    expect(response.status).toBe(401)
    expect(response.body.error).toMatchObject({ code: 'session_expired', details: { login_url: '/login' } })
  })

  it('is over after 12 hours, however much it is used', async () => {
    const session = await api.signIn('Anna', 'viewer')
    await age('created_at', 12 * 60 - 1)
    expect((await api.call('/v1/me', { as: session })).status).toBe(200)
    await age('created_at', 12 * 60 + 1)
    expect(code(await api.call('/v1/me', { as: session }))).toBe('session_expired')
  })

  it('is deleted when neither the session nor its link can be used any more', async () => {
    await api.signIn('Old', 'viewer')
    await age('created_at', 12 * 60 + 1)
    await api.signIn('New', 'viewer')
    const names = await api.sql<{ name: string }[]>`SELECT name FROM command.operations_sessions`
    expect(names.map(({ name }) => name)).toEqual(['New'])
  })

  it('ends with a sign-out', async () => {
    const session = await api.signIn('Anna', 'viewer')
    const response = await api.call('/logout', { method: 'POST', as: session })
    expect(response.status).toBe(200)
    // A login link has no provider with a session.
    expect(response.body).toEqual({ object: 'logout', end_session_url: null })
    expect(response.headers.getSetCookie()[0]).toMatch(/^hub_operations_7305=; .*Max-Age=0$/u)
    expect(code(await api.call('/v1/me', { as: session }))).toBe('session_expired')
  })

  it('has no phone number as its name', async () => {
    const session = await api.signIn('+79001234567', 'viewer')
    expect((await api.call('/v1/me', { as: session })).body.name).toBe('+***')
  })
})

describe('a request', () => {
  it('without a session is told where to sign in', async () => {
    const response = await api.call('/v1/me')
    expect(response.status).toBe(401)
    expect(response.headers.get('www-authenticate')).toBe('Bearer realm="hub operations"')
    expect(response.body.error).toMatchObject({
      code: 'not_signed_in',
      request_id: expect.stringMatching(/^req_/u),
      details: { login_url: '/login' },
      doc_url: 'http://127.0.0.1:7305/docs/errors#not_signed_in',
    })
  })

  it.each(['', 'x', 'A'.repeat(43), 'A'.repeat(5000), "' OR 1=1 --", '%00'])(
    'with the unknown token %s is refused',
    async (token) => {
      const response = await api.call('/v1/me', { headers: { cookie: `hub_operations_7305=${token}` } })
      expect(code(response)).toBe('session_expired')
    },
  )

  it('with a bearer token is refused without an identity provider', async () => {
    for (const authorization of ['Bearer abc', 'Bearer', 'Basic YTpi', '']) {
      const response = await api.call('/v1/me', { headers: { authorization } })
      expect(response.status).toBe(401)
    }
  })
})

describe('a change', () => {
  const approve = '/v1/moderation/templates/tpl_01m7yt89qhe54swwc8wkxj6n8e/approve'

  it('needs the CSRF token of its session', async () => {
    const session = await api.signIn('Anna', 'moderator')
    const other = await api.signIn('Boris', 'moderator')
    for (const given of [undefined, '', 'x', other.csrf, `${session.csrf}x`]) {
      const response = await api.call(approve, {
        method: 'POST',
        headers: { cookie: session.cookie, ...(given === undefined ? {} : { 'x-csrf-token': given }) },
      })
      expect(response.status).toBe(403)
      expect(code(response)).toBe('csrf_token_invalid')
    }
    // With the token, it gets to the use case.
    expect(code(await api.call(approve, { method: 'POST', as: session }))).toBe('template_not_found')
  })

  it('must come from a page of the console', async () => {
    const session = await api.signIn('Anna', 'moderator')
    const from = (origin: string) => api.call(approve, { method: 'POST', as: session, headers: { origin } })
    expect(code(await from('https://evil.example'))).toBe('csrf_token_invalid')
    expect(code(await from('null'))).toBe('csrf_token_invalid')
    expect(code(await from('http://127.0.0.1:7305'))).toBe('template_not_found')
  })

  it('needs a role with its permission, and says which roles have it', async () => {
    const session = await api.signIn('Anna', 'support')
    const response = await api.call(approve, { method: 'POST', as: session })
    expect(response.status).toBe(403)
    expect(response.body.error).toMatchObject({
      code: 'forbidden',
      details: { permission: 'moderation.decide', roles: ['moderator', 'admin'] },
    })
  })

  it('cannot be a sign-out from another site', async () => {
    const session = await api.signIn('Anna', 'viewer')
    const response = await api.call('/logout', { method: 'POST', headers: { cookie: session.cookie } })
    expect(code(response)).toBe('csrf_token_invalid')
    expect((await api.call('/v1/me', { as: session })).status).toBe(200)
  })
})

describe('the page of the sign-in', () => {
  it('explains the login link if there is no identity provider', async () => {
    const response = await api.call('/login')
    expect(response.status).toBe(200)
    expect(response.text).toContain('npm run login')
  })
})
