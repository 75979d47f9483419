/** The form of requests and answers: errors, headers, limits, pages and files. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startOperationsApi, type TestOperationsApi, type TestSession } from '../testing/harness.ts'

let folder: string
let api: TestOperationsApi
let moderator: TestSession
let admin: TestSession

const INDEX = `<!doctype html><title>Console</title>${'<p>text</p>'.repeat(200)}`

beforeAll(async () => {
  folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'console-'))
  mkdirSync(join(folder, 'assets'))
  writeFileSync(join(folder, 'index.html'), INDEX)
  writeFileSync(join(folder, 'assets/main-1a2b3c.js'), 'console.log(1)\n'.repeat(200))
  writeFileSync(join(folder, 'assets/main-1a2b3c.js.map'), '{}')
  writeFileSync(join(folder, 'icon.svg'), '<svg xmlns="http://www.w3.org/2000/svg"/>')
  api = await startOperationsApi({ consoleDir: folder })
  moderator = await api.signIn('Anna', 'moderator')
  admin = await api.signIn('Ada', 'admin')
})
afterAll(async () => {
  await api.stop()
  rmSync(folder, { recursive: true })
})

/** Sends bytes, and returns everything that the server answers until it closes the connection. */
const sendRaw = (text: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(api.url).port), '127.0.0.1', () => socket.write(text))
    const chunks: Array<Buffer> = []
    socket.on('data', (chunk) => chunks.push(chunk))
    socket.once('close', () => resolve(Buffer.concat(chunks).toString('latin1')))
    socket.once('error', reject)
  })

describe('every answer', () => {
  it.each(['/', '/v1/me', '/v1/nothing', '/login', '/login/local', '/docs/errors', '/assets/none.js'])(
    'of %s has the security headers and a request id',
    async (path) => {
      const { headers } = await api.call(path)
      expect(headers.get('content-security-policy')).toMatch(/^default-src 'none'.*frame-ancestors 'none'$/u)
      expect(headers.get('content-security-policy')).not.toContain('unsafe')
      expect(headers.get('x-content-type-options')).toBe('nosniff')
      expect(headers.get('x-frame-options')).toBe('DENY')
      expect(headers.get('referrer-policy')).toBe('no-referrer')
      expect(headers.get('cross-origin-resource-policy')).toBe('same-origin')
      expect(headers.get('request-id')).toMatch(/^req_[0-9a-z]{26}$/u)
      expect(headers.get('cache-control')).toMatch(/no-store|no-cache/u)
    },
  )

  it('to a request that is no HTTP has the security headers', async () => {
    const answer = await sendRaw('GET / HTTP/1.1\r\nbad header\r\n\r\n')
    expect(answer).toMatch(/^HTTP\/1\.1 400 /u)
    expect(answer).toContain("frame-ancestors 'none'")
    expect(await sendRaw(`GET /${'a'.repeat(20_000)} HTTP/1.1\r\nhost: a\r\n\r\n`)).toMatch(
      /^HTTP\/1\.1 431 /u,
    )
  })
})

describe('an API with an https address', () => {
  it('tells browsers to use https only, and expects changes from this address', async () => {
    const other = await startOperationsApi({ operationsUrl: 'https://operations.example.com' })
    try {
      const { headers } = await other.call('/login')
      expect(headers.get('strict-transport-security')).toBe('max-age=31536000')
      const session = await other.signIn('Anna', 'viewer')
      const from = (origin: string) =>
        other.call('/logout', { method: 'POST', as: session, headers: { origin } })
      expect((await from('http://operations.example.com')).status).toBe(403)
      expect((await from('https://operations.example.com')).status).toBe(200)
    } finally {
      await other.stop()
    }
  })
})

describe('an input that is not right is refused with its name', () => {
  const id = 'tpl_01m7yt89qhe54swwc8wkxj6n8e'
  const decline = `/v1/moderation/templates/${id}/decline`
  const queries: ReadonlyArray<readonly [query: string, param: string]> = [
    ['limit=0', 'limit'],
    ['limit=1001', 'limit'],
    ['limit=x', 'limit'],
    ['limit=1.5', 'limit'],
    ['limit=', 'limit'],
    ['limit=5&limit=6', 'limit'],
    ['status=unknown', 'status'],
    ['mode=', 'mode'],
    ['account=acc_1', 'account'],
    ['account=msg_01m7yt89qhe54swwc8wkxj6n8e', 'account'],
    ['cursor=abc', 'cursor'],
    ['colour=red', 'colour'],
    ['__proto__=1', '__proto__'],
    ['constructor=1', 'constructor'],
  ]
  it.each(queries)('?%s', async (query, param) => {
    const response = await api.call(`/v1/moderation/templates?${query}`, { as: moderator })
    expect(response.status).toBe(422)
    expect(response.body.error.param).toBe(param)
    expect(response.body.error.message).toContain(param)
  })

  const bodies: ReadonlyArray<readonly [body: unknown, param: string]> = [
    [{}, 'reason'],
    [{ reason: '' }, 'reason'],
    [{ reason: 'a\nb' }, 'reason'],
    [{ reason: 'a'.repeat(201) }, 'reason'],
    [{ reason: 7 }, 'reason'],
    [{ reason: null }, 'reason'],
    [{ reason: 'It names no sender', id }, 'id'],
    [{ reason: 'It names no sender', colour: 'red' }, 'colour'],
    ['{"reason": "a", "reason": "b"}', 'body'],
    ['[]', 'body'],
    ['{', 'body'],
    ['null', 'body'],
    ['{"reason": "\\u0000"}', 'reason'],
  ]
  it.each(bodies)('%j', async (body, param) => {
    const response = await api.call(decline, { body, as: moderator })
    expect(response.status).toBe(422)
    expect(response.body.error).toMatchObject({ code: 'invalid_parameter', param })
  })

  it('without repeating the value, which may be a number of a person', async () => {
    const number = '+79001234567'
    const responses = await Promise.all([
      api.call(`/v1/moderation/templates?account=${encodeURIComponent(number)}`, { as: moderator }),
      api.call(`/v1/moderation/templates?${encodeURIComponent(number)}=1`, { as: moderator }),
      api.call(decline, { body: { [number]: number, reason: 1 }, as: moderator }),
      api.call(`/v1/moderation/templates/${encodeURIComponent(number)}`, { as: moderator }),
    ])
    for (const response of responses) {
      expect(response.status).toBe(422)
      expect(response.text).not.toContain('9001234567')
    }
  })

  it('in the path', async () => {
    const response = await api.call('/v1/moderation/templates/tpl_x', { as: moderator })
    expect(response.body.error).toMatchObject({ code: 'invalid_parameter', param: 'id' })
    const unknown = await api.call(`/v1/moderation/templates/${id}`, { as: moderator })
    expect(unknown.status).toBe(404)
    expect(unknown.body.error).toMatchObject({ code: 'template_not_found', param: 'id' })
  })

  it('in a query that belongs into the body', async () => {
    const response = await api.call(`${decline}?reason=a`, { body: { reason: 'a' }, as: moderator })
    expect(response.body.error).toMatchObject({ code: 'invalid_parameter', param: 'reason' })
  })
})

/** A cursor as a list makes it, with another key. */
const cursorOf = (key: unknown): string => Buffer.from(JSON.stringify(key)).toString('base64url')

describe('a text that PostgreSQL cannot store is refused, and is no failure of the hub', () => {
  it.each([
    ['/v1/messages?template=a%00b', 'template'],
    ['/v1/audit?actor=%00', 'actor'],
    ['/v1/audit?command=keys%00', 'command'],
    ['/v1/accounts/%00', 'account'],
  ])('%s', async (path, param) => {
    const response = await api.call(path, { as: admin })
    expect(response.status).toBe(422)
    expect(response.body.error).toMatchObject({ code: 'invalid_parameter', param })
    expect(response.body.error.message).toContain('NUL')
  })
})

describe('a cursor with a time that PostgreSQL does not have is refused', () => {
  const UUID = '0199c4de-6f0a-4d1e-9a65-3f1f5f7a2b11'
  const HASH = 'ab'.repeat(32)
  const lists: ReadonlyArray<readonly [path: string, keyAt: (time: number) => ReadonlyArray<unknown>]> = [
    ['/v1/accounts', (time) => [time, UUID]],
    ['/v1/erasures', (time) => [time, UUID]],
    ['/v1/opt_outs', (time) => [time, HASH, 1]],
  ]
  it.each(lists)('by %s', async (path, keyAt) => {
    for (const time of [8.64e15, 1e300, -1e15, 0.5]) {
      const response = await api.call(`${path}?cursor=${cursorOf(keyAt(time))}`, { as: admin })
      expect(response.status, String(time)).toBe(422)
      expect(response.body.error).toMatchObject({ code: 'cursor_invalid', param: 'cursor' })
    }
    expect((await api.call(`${path}?cursor=${cursorOf(keyAt(0))}`, { as: admin })).status).toBe(200)
  })
})

describe('a body', () => {
  const decline = '/v1/moderation/templates/tpl_01m7yt89qhe54swwc8wkxj6n8e/decline'

  it('over 64 KiB is refused, with and without a length', async () => {
    const body = JSON.stringify({ reason: 'a'.repeat(70_000) })
    expect((await api.call(decline, { body, as: moderator })).status).toBe(413)
    const chunked = await fetch(api.url + decline, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        cookie: moderator.cookie,
        'x-csrf-token': moderator.csrf,
      },
      body: new Blob([body]).stream(),
      duplex: 'half',
    })
    expect(chunked.status).toBe(413)
    await chunked.text()
  })

  it.each([
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data',
    'application/json; charset=koi8-r',
  ])('of the type %s is refused', async (type) => {
    const response = await api.call(decline, {
      body: '{"reason": "a"}',
      as: moderator,
      headers: { 'content-type': type },
    })
    expect(response.status).toBe(415)
    expect(response.body.error.code).toBe('unsupported_media_type')
  })
})

describe('a path', () => {
  it.each(['/v1/nothing', '/v1/', '/v1/me/', '/v1//me', '/V1/me.json', '/assets/none.js', '/index.htm'])(
    '%s without an endpoint or a file is 404',
    async (path) => {
      const response = await api.call(path, { as: moderator })
      expect(response.status).toBe(404)
      expect(response.body.error.code).toBe('not_found')
    },
  )

  it.each(['DELETE', 'PUT', 'PATCH', 'OPTIONS'])('with the method %s is 405', async (method) => {
    const response = await api.call('/v1/me', { method, as: moderator })
    expect(response.status).toBe(405)
    expect(response.headers.get('allow')).toBe('GET, HEAD')
    expect(response.body.error.code).toBe('method_not_allowed')
  })

  it('answers HEAD like GET, without a body', async () => {
    const response = await api.call('/v1/me', { method: 'HEAD', as: moderator })
    expect(response.status).toBe(200)
    expect(response.text).toBe('')
  })
})

describe('the console', () => {
  const POLICY =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

  it.each(['/', '/index.html', '/messages/msg_01m7yt89qhe54swwc8wkxj6n8e', '/moderation'])(
    'opens under %s',
    async (path) => {
      const response = await api.call(path)
      expect(response.status).toBe(200)
      expect(response.text).toBe(INDEX)
      expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8')
      expect(response.headers.get('content-security-policy')).toBe(POLICY)
      expect(response.headers.get('cache-control')).toBe('no-cache')
    },
  )

  it('has files that the browser keeps, and no source maps', async () => {
    const file = await api.call('/assets/main-1a2b3c.js')
    expect(file.headers.get('content-type')).toBe('text/javascript; charset=utf-8')
    expect(file.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
    expect((await api.call('/assets/main-1a2b3c.js.map')).status).toBe(404)
    expect((await api.call('/icon.svg')).headers.get('content-type')).toBe('image/svg+xml')
  })

  it('is compressed for browsers that can read it', async () => {
    const plain = await sendRaw('GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n')
    expect(plain).not.toMatch(/^content-encoding:/imu)
    const zipped = await fetch(`${api.url}/`, { headers: { 'accept-encoding': 'gzip, br' } })
    expect(zipped.headers.get('content-encoding')).toBe('gzip')
    expect(Number(zipped.headers.get('content-length'))).toBeLessThan(INDEX.length / 4)
    expect(await zipped.text()).toBe(INDEX)
  })

  it('is sent again only if it has changed', async () => {
    const etag = (await api.call('/')).headers.get('etag')!
    const again = await api.call('/', { headers: { 'if-none-match': etag } })
    expect(again.status).toBe(304)
    expect(again.text).toBe('')
  })

  it.each(['/../package.json', '/..%2f..%2fetc/passwd', '/assets/../../secret.txt'])(
    'has no file outside of its folder: %s',
    async (path) => {
      const answer = await sendRaw(`GET ${path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n`)
      expect(answer).toMatch(/^HTTP\/1\.1 (?:404|200) /u)
      expect(answer).not.toContain('root:')
      expect(answer).not.toContain('workspaces')
    },
  )
})

describe('the description', () => {
  it('is open to everybody who can reach the API, and names each operation', async () => {
    const response = await api.call('/v1/openapi.json')
    expect(response.status).toBe(200)
    expect(response.body.paths['/v1/me'].get.operationId).toBe('me.read')
    const page = await api.call('/docs/errors')
    expect(page.text).toContain('id="csrf_token_invalid"')
  })
})

describe('the process', () => {
  it('is ready while it serves', async () => {
    expect(await api.failing()).toEqual([])
  })
})
