/**
 * HTTP as RFC 9110 and RFC 9112 require it, answers that reach clients that are still sending, and
 * slow connections without a key. Source: docs/contract/http.md.
 */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { promisify } from 'node:util'
import { eventually } from '@hub/testkit'
import { assert, describe, it } from 'vitest'
import {
  type Account,
  type Api,
  call,
  callUnlessLate,
  type Deployment,
  startBeforeTests,
} from '../testing/harness.ts'

let deployment: Deployment
let api: Api
let account: Account

startBeforeTests((started) => ({ deployment, api, account } = started), {
  trustedProxies: ['127.0.0.0/8'],
})

/** Sends raw bytes and returns the answer until its headers and body have arrived. */
const exchangeRaw = async (input: string): Promise<string> => {
  const socket = connect(api.port, '127.0.0.1')
  let text = ''
  socket.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')))
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  socket.write(input)
  await eventually(() => {
    const [head, body] = text.split('\r\n\r\n')
    const length = /content-length: (\d+)/iu.exec(head ?? '')?.[1]
    return body !== undefined && body.length >= Number(length ?? 0)
  })
  socket.destroy()
  return text
}
const statusOf = (answer: string): number => Number(answer.slice(9, 12))
const codeOf = (answer: string): string =>
  (JSON.parse(answer.split('\r\n\r\n')[1] ?? '{}') as { readonly error: { readonly code: string } }).error
    .code

const authorized = () => `Authorization: Bearer ${account.keys.test}\r\n`

describe('a request', () => {
  // Rules: HTTP-4
  it('with two Host headers, or none, gets 400', async () => {
    for (const hosts of ['Host: a\r\nHost: b\r\n', 'Host: a\r\nHost: a\r\n', '']) {
      const answer = await exchangeRaw(`GET /v1/account HTTP/1.1\r\n${hosts}${authorized()}\r\n`)
      assert.deepStrictEqual([statusOf(answer), codeOf(answer)], [400, 'invalid_parameter'])
    }
  })
  // Rules: HTTP-5
  it('with two different Idempotency-Key headers gets 400, with two equal ones is processed', async () => {
    const send = (keys: string) =>
      exchangeRaw(
        `POST /v1/templates/tpl_x/render HTTP/1.1\r\nHost: a\r\n${authorized()}${keys}Content-Length: 2\r\n\r\n{}`,
      )
    const different = await send('Idempotency-Key: k-1\r\nIdempotency-Key: k-2\r\n')
    assert.deepStrictEqual([statusOf(different), codeOf(different)], [400, 'invalid_parameter'])
    assert.include(different, '"param":"Idempotency-Key"')
    assert.strictEqual(statusOf(await send('Idempotency-Key: k-1\r\nIdempotency-Key: k-1\r\n')), 404)
  })
  // Rules: HTTP-6
  it('with a Transfer-Encoding that is not chunked gets 501', async () => {
    for (const encoding of ['gzip', 'gzip, chunked', 'identity', 'chunked, chunked']) {
      const answer = await exchangeRaw(
        `POST /v1/messages HTTP/1.1\r\nHost: a\r\n${authorized()}Transfer-Encoding: ${encoding}\r\n\r\n0\r\n\r\n`,
      )
      assert.strictEqual(statusOf(answer), 501, encoding)
    }
  })
  // Rules: HTTP-7
  it('of another major HTTP version gets 505', async () => {
    for (const version of ['HTTP/2.0', 'HTTP/3.0', 'HTTP/0.9']) {
      const answer = await exchangeRaw(`GET /v1/account ${version}\r\nHost: a\r\n${authorized()}\r\n`)
      assert.strictEqual(statusOf(answer), 505, version)
    }
    assert.strictEqual(statusOf(await exchangeRaw('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')), 505)
    assert.strictEqual(statusOf(await exchangeRaw('GET / HTTP/x\r\nHost: a\r\n\r\n')), 400)
  })
  // Rules: HTTP-1
  it('for a path with a semicolon or a number sign gets 404', async () => {
    for (const path of ['/v1/account;x=1', '/v1/account#top', '/v1/account;', '/v1/messages;v=1/msg_x']) {
      const answer = await exchangeRaw(`GET ${path} HTTP/1.1\r\nHost: a\r\n${authorized()}\r\n`)
      assert.deepStrictEqual([statusOf(answer), codeOf(answer)], [404, 'not_found'], path)
    }
    // In the query, both are ordinary characters.
    const query = await exchangeRaw(`GET /v1/templates?x=a;b HTTP/1.1\r\nHost: a\r\n${authorized()}\r\n`)
    assert.strictEqual(statusOf(query), 200)
  })
})

describe('a GET with a body', () => {
  // Rules: HTTP-11, HTTP-12, VER-6
  it('gets the refusals of a body', async () => {
    for (const [headers, status, code] of [
      ['Content-Length: 4194305\r\n', 413, 'payload_too_large'],
      ['Content-Length: 2\r\nContent-Type: text/plain\r\n', 415, 'unsupported_media_type'],
    ] as const) {
      const answer = await exchangeRaw(
        `GET /v1/account HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n${authorized()}${headers}\r\n`,
      )
      assert.deepStrictEqual([statusOf(answer), codeOf(answer)], [status, code])
    }
  })
})

describe('an answer', () => {
  // Rules: ERR-7
  it('of 401 names the authentication scheme', async () => {
    for (const key of [undefined, `hub_test_${'x'.repeat(43)}`]) {
      const answer = await call(api.url, '/v1/account', key === undefined ? {} : { key })
      assert.strictEqual(answer.status, 401)
      assert.strictEqual(answer.headers.get('www-authenticate'), 'Bearer realm="hub"')
    }
  })
  // Rules: LIM-4
  it('has the RateLimit headers of the IETF draft beside X-RateLimit', async () => {
    const fresh = await deployment.addAccount({ apiRps: 50 })
    const { headers } = await call(api.url, '/v1/account', { key: fresh.keys.test })
    assert.strictEqual(headers.get('x-ratelimit-limit'), '50')
    assert.strictEqual(headers.get('ratelimit-policy'), '"key";q=50;w=1')
    assert.strictEqual(headers.get('ratelimit'), '"key";r=49;t=1')
  })
})

describe('the API description', () => {
  // Rules: VER-2
  it('has an ETag, is not sent again to a client that has it, and is compressed', async () => {
    const get = (headers: Readonly<Record<string, string>>) =>
      fetch(`${api.url}/v1/openapi.json`, { headers })
    const plain = await get({ 'accept-encoding': 'identity' })
    const etag = plain.headers.get('etag') ?? ''
    assert.match(etag, /^W?\/?"[^"]+"$/u)
    assert.isNull(plain.headers.get('content-encoding'))
    const text = await plain.text()
    const compressed = await get({ 'accept-encoding': 'br, gzip' })
    assert.strictEqual(compressed.headers.get('content-encoding'), 'gzip')
    assert.include(compressed.headers.get('vary')?.toLowerCase() ?? '', 'accept-encoding')
    assert.strictEqual(await compressed.text(), text)
    assert.isNull((await get({ 'accept-encoding': 'gzip;q=0' })).headers.get('content-encoding'))
    for (const known of [
      etag,
      `"other", ${etag}`,
      '*',
      etag.startsWith('W/') ? etag.slice(2) : `W/${etag}`,
    ]) {
      const again = await get({ 'if-none-match': known })
      assert.strictEqual(again.status, 304, known)
      assert.strictEqual(await again.text(), '')
    }
    assert.strictEqual((await get({ 'if-none-match': '"other"' })).status, 200)
  })
})

const OVERSIZED_BYTES = 6 * 1024 * 1024

/** A stock client, which reads the answer only after it has sent the whole body. */
const PYTHON_CLIENT = `
import http.client, sys, urllib.request, urllib.error
port, key = int(sys.argv[1]), sys.argv[2]
headers = {'Authorization': 'Bearer ' + key, 'Content-Type': 'application/json'}
def chunks(size):
    for _ in range(size // 65536):
        yield b'x' * 65536
def report(response):
    print(response.status, b'payload_too_large' in response.read())
c = http.client.HTTPConnection('127.0.0.1', port, timeout=20)
c.request('POST', '/v1/messages', b'x' * ${OVERSIZED_BYTES}, headers)
report(c.getresponse())
# The connection stays usable.
c.request('GET', '/v1/account', headers=headers)
r = c.getresponse()
r.read()
print(r.status)
c = http.client.HTTPConnection('127.0.0.1', port, timeout=20)
c.request('POST', '/v1/messages', chunks(${OVERSIZED_BYTES}), headers, encode_chunked=True)
report(c.getresponse())
# urllib sends Connection: close.
try:
    urllib.request.urlopen(urllib.request.Request('http://127.0.0.1:%d/v1/messages' % port, b'x' * ${OVERSIZED_BYTES}, headers), timeout=20)
except urllib.error.HTTPError as e:
    report(e)
`
const run = promisify(execFile)
const hasPython = await run('python3', ['-c', 'import http.client']).then(
  () => true,
  () => false,
)

describe('an answer before the body has arrived', () => {
  // Rules: HTTP-11
  it('reaches a client that sends its whole body first', async () => {
    for (const extra of ['', 'Connection: close\r\n']) {
      const socket = connect(api.port, '127.0.0.1')
      let text = ''
      const failures: Array<string> = []
      socket.on('error', (error: NodeJS.ErrnoException) => failures.push(error.code ?? ''))
      await once(socket, 'connect')
      // Reads nothing until everything is written.
      socket.pause()
      socket.write(
        `POST /v1/messages HTTP/1.1\r\nHost: a\r\n${authorized()}${extra}Content-Length: ${OVERSIZED_BYTES}\r\n\r\n`,
      )
      await new Promise<void>((resolve) => socket.write('x'.repeat(OVERSIZED_BYTES), () => resolve()))
      socket.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')))
      socket.resume()
      await eventually(() => text.includes('payload_too_large'))
      assert.strictEqual(statusOf(text), 413)
      assert.deepStrictEqual(failures, [])
      socket.destroy()
    }
  })
  // Rules: HTTP-11
  it.skipIf(!hasPython)('reaches http.client and urllib of Python', async () => {
    const { stdout } = await run('python3', ['-c', PYTHON_CLIENT, String(api.port), account.keys.test])
    assert.deepStrictEqual(stdout.trim().split('\n'), ['413 True', '200', '413 True', '413 True'])
  })
})

let recipients = 0
/** A code to a recipient that has not received one. */
const nextCode = () => ({
  to: `+7900${1_230_000 + recipients++}`,
  class: 'otp',
  template: 'otp_code',
  variables: { code: '1' },
})

/** Opens connections that have sent nearly all of a body of the largest size. */
const openSlow = async (count: number, headers: string) => {
  const size = 4 * 1024 * 1024
  const body = Buffer.alloc(size - 1, 'x')
  const sockets = Array.from({ length: count }, () => connect(api.port, '127.0.0.1'))
  for (const socket of sockets) {
    socket.on('error', () => undefined)
    socket.resume()
  }
  await Promise.all(
    sockets.map(async (socket) => {
      await once(socket, 'connect')
      const written = Promise.withResolvers<void>()
      socket.once('close', () => written.resolve())
      socket.write(`POST /v1/messages HTTP/1.1\r\nHost: a\r\n${headers}Content-Length: ${size}\r\n\r\n`)
      socket.write(body, () => written.resolve())
      await written.promise
    }),
  )
  return () => {
    for (const socket of sockets) socket.destroy()
  }
}

describe('beside slow connections', () => {
  // Rules: AVL-11
  it.each([
    ['without a key', ''],
    ['with a wrong key', `Authorization: Bearer hub_live_${'x'.repeat(43)}\r\n`],
  ])('%s, codes are accepted', async (_name, headers) => {
    // The wrong key closes the gate of its address, but not for other addresses.
    const close = await openSlow(48, headers.replace('\r\n', '\r\nX-Forwarded-For: 192.0.2.99\r\n'))
    try {
      for (let index = 0; index < 70; index++) {
        const body = nextCode()
        const answer = await callUnlessLate(api.url, '/v1/messages', { key: account.keys.live, body })
        assert.strictEqual(answer.status, 202, JSON.stringify(answer.body))
      }
    } finally {
      close()
    }
  })
  // Rules: LIM-5
  it('with the key of another account, codes are accepted', async () => {
    const other = await deployment.addAccount()
    const close = await openSlow(48, `Authorization: Bearer ${other.keys.live}\r\n`)
    try {
      // The budget of the key is used up when the bodies have arrived, and only for large bodies.
      const large = { key: other.keys.live, body: ' '.repeat(2 ** 20) }
      await eventually(async () => (await call(api.url, '/v1/messages', large)).status === 429)
      const elsewhere = await call(api.url, '/v1/messages', {
        key: account.keys.live,
        body: ' '.repeat(2 ** 20),
      })
      assert.strictEqual(elsewhere.status, 422)
      for (const key of [account.keys.live, other.keys.live]) {
        for (let index = 0; index < 20; index++) {
          const answer = await callUnlessLate(api.url, '/v1/messages', { key, body: nextCode() })
          assert.strictEqual(answer.status, 202, JSON.stringify(answer.body))
        }
      }
    } finally {
      close()
    }
  })
})
