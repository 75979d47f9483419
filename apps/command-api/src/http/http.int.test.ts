/** Common headers, persistent connections, and a shutdown that completes requests in progress. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { eventually } from '@hub/testkit'
import { assert, describe, it } from 'vitest'
import { type Account, type Api, call, type Deployment, startBeforeTests } from '../testing/harness.ts'

let deployment: Deployment
let api: Api
let account: Account

startBeforeTests((started) => ({ deployment, api, account } = started))

/** A raw connection; `received` returns the text from the server so far. */
const open = async (port: number) => {
  const socket: Socket = connect(port, '127.0.0.1')
  let text = ''
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('utf8')
  })
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  return { socket, received: () => text }
}
const headersIn = (response: string): Headers =>
  new Headers(
    (response.split('\r\n\r\n')[0] ?? '')
      .split('\r\n')
      .slice(1)
      .map((line): [string, string] => {
        const mark = line.indexOf(':')
        return [line.slice(0, mark), line.slice(mark + 1).trim()]
      }),
  )

const assertCommon = (headers: Headers, what: string) => {
  assert.match(headers.get('request-id') ?? '', /^req_[0-9a-z]{26}$/u, what)
  assert.strictEqual(headers.get('x-content-type-options'), 'nosniff', what)
  assert.strictEqual(headers.get('x-frame-options'), 'DENY', what)
  assert.strictEqual(headers.get('referrer-policy'), 'no-referrer', what)
  assert.isNotNull(headers.get('content-security-policy'), what)
  assert.isNotNull(headers.get('cache-control'), what)
  // Answers must not reveal the software.
  assert.isNull(headers.get('server'), what)
  assert.isNull(headers.get('x-powered-by'), what)
}

describe('every answer', () => {
  // Rules: HTTP-22, HTTP-23
  it('has a request id and the security headers', async () => {
    const key = account.keys.test
    const asked: ReadonlyArray<readonly [number, string, Parameters<typeof call>[2]]> = [
      [200, '/v1/account', { key }],
      [200, '/v1/openapi.json', {}],
      [200, '/docs', {}],
      [401, '/v1/account', {}],
      [404, '/v1/nope', {}],
      [404, '/v1/messages/msg_x', { key }],
      [405, '/v1/account', { key, method: 'DELETE' }],
      [413, '/v1/messages', { key, body: 'x'.repeat(4 * 1024 * 1024 + 1) }],
      [415, '/v1/messages', { key, body: '{}', headers: { 'content-type': 'text/plain' } }],
      [422, '/v1/messages', { key, body: '{}' }],
    ]
    for (const [status, path, options] of asked) {
      const answer = await call(api.url, path, options)
      assert.strictEqual(answer.status, status, path)
      assertCommon(answer.headers, `${status} ${path}`)
    }
  })
  // Rules: HTTP-8, HTTP-22, HTTP-23
  it('has them also when the request was not valid HTTP', async () => {
    for (const [input, status] of [
      ['nonsense\r\n\r\n', 400],
      [`GET / HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
      ['GET / HTTP/1.1\r\n\r\n', 400],
    ] as const) {
      const { received: answer, socket } = await open(api.port)
      socket.write(input)
      await eventually(() => answer().includes('\r\n\r\n'))
      assert.match(answer(), new RegExp(`^HTTP/1.1 ${status} `, 'u'))
      assertCommon(headersIn(answer()), String(status))
      socket.destroy()
    }
  })
})

describe('a connection', () => {
  // Rules: HTTP-24
  it('stays open for the next request', async () => {
    const { received, socket } = await open(api.port)
    const request = `GET /v1/account HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${account.keys.test}\r\n\r\n`
    for (let count = 1; count <= 3; count++) {
      socket.write(request)
      await eventually(() => received().split('HTTP/1.1 200 OK').length - 1 === count)
    }
    assert.isFalse(socket.destroyed)
    socket.destroy()
  })
})

describe('the shutdown of the process', () => {
  // Rules: HTTP-24
  it('answers requests in progress, refuses new connections, and closes unused ones', async () => {
    const closing = await deployment.start()
    const idle = await open(closing.port)
    const { received, socket } = await open(closing.port)
    const body = JSON.stringify({
      to: '+79001234567',
      class: 'service',
      template: 'order_ready',
      variables: { order: '1' },
    })
    socket.write(
      `POST /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${account.keys.test}\r\n` +
        `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body.slice(0, 10)}`,
    )
    // The answer to a later request shows that the server has started to read this one.
    assert.strictEqual((await call(closing.url, '/v1/account', { key: account.keys.test })).status, 200)

    const stopped = closing.stop()
    await eventually(async () => {
      const late = connect(closing.port, '127.0.0.1')
      const event = await Promise.race([
        once(late, 'connect').then(() => 'connected'),
        once(late, 'error').then(() => 'refused'),
      ]).catch(() => 'refused')
      late.destroy()
      return event === 'refused'
    })
    // A connection without a request is closed while the other request is still in progress.
    await eventually(() => idle.socket.destroyed)
    socket.write(body.slice(10))
    await eventually(() => received().includes('\r\n\r\n'))
    assert.match(received(), /^HTTP\/1.1 202 /u)
    assert.strictEqual(headersIn(received()).get('connection'), 'close')
    await stopped
  })
})
