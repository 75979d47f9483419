/** One log line for each HTTP response, and warnings about unknown parameters. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { eventually } from '@hub/testkit'
import { Logger, References } from 'effect'
import { assert, describe, it } from 'vitest'
import {
  type Account,
  type Api,
  call,
  type Deployment,
  stallingProxy,
  startBeforeTests,
} from '../testing/harness.ts'

type Line = Readonly<Record<string, unknown>>

const lines: Array<Line> = []
const capture = (into: Array<Line>) =>
  Logger.layer([
    Logger.make(({ fiber, logLevel, message }) => {
      into.push({
        message: String(message),
        level: logLevel,
        ...fiber.getRef(References.CurrentLogAnnotations),
      })
    }),
  ])

let deployment: Deployment
let api: Api
let account: Account

startBeforeTests((started) => ({ deployment, api, account } = started), { logger: capture(lines) })

const linesOf = (requestId: string | null, from: ReadonlyArray<Line> = lines): ReadonlyArray<Line> =>
  from.filter((line) => line['request_id'] === requestId && line['message'] === 'http: answered')

const RECIPIENT = '+79001239876'
const send = (changes: object = {}) => ({
  to: RECIPIENT,
  class: 'service',
  template: 'order_ready',
  variables: { order: 'private-value' },
  ...changes,
})

describe('the log', () => {
  it('has one line for each response, with what the request was and without personal data', async () => {
    const key = account.keys.test
    const asked: ReadonlyArray<readonly [Parameters<typeof call>[1], Parameters<typeof call>[2], Line]> = [
      ['/v1/messages', { key, body: send() }, { method: 'POST', route: '/v1/messages', status: 202 }],
      [
        '/v1/messages',
        { key, body: send({ variables: { 'private-name': 'x' } }) },
        { status: 422, code: 'template_variable_missing', param: 'variables' },
      ],
      [
        '/v1/messages',
        { key, body: send({ variables: { order: '1', 'private-name': 'x' } }) },
        { status: 422, code: 'template_variable_unknown', param: 'variables' },
      ],
      ['/v1/messages/msg_private', { key }, { route: '/v1/messages/:id', status: 404, code: 'not_found' }],
      ['/v1/private', { key }, { route: 'none', status: 404, code: 'not_found' }],
      ['/v1/account', { key, method: 'DELETE' }, { status: 405, code: 'method_not_allowed' }],
      ['/v1/account', { key: `hub_test_${'p'.repeat(43)}` }, { status: 401, code: 'invalid_api_key' }],
      ['/v1/account?page=2', { key }, { status: 422, code: 'invalid_parameter', param: 'page' }],
    ]
    for (const [path, options, expected] of asked) {
      const answer = await call(api.url, path, options)
      const found = linesOf(answer.headers.get('request-id'))
      assert.strictEqual(found.length, 1, path)
      const line = found[0] as Line
      assert.deepInclude(line, expected, path)
      assert.isAtLeast(line['duration_ms'] as number, 0)
      assert.strictEqual(line['bytes'], Number(answer.headers.get('content-length')))
      if (answer.headers.get('x-ratelimit-limit') !== null) {
        assert.deepInclude(line, { account: account.id, mode: 'test' })
        assert.match(String(line['key']), /^key_/u)
      }
      assert.strictEqual(line['level'], 'Info')
    }
    const text = JSON.stringify(lines)
    for (const secret of [RECIPIENT.slice(1), 'private', account.keys.test, 'ppppp']) {
      assert.notInclude(text, secret)
    }
  })

  it('has a line for a replay and for a request that is not valid HTTP', async () => {
    const headers = { 'idempotency-key': 'replayed' }
    const body = send({ to: 'x' })
    for (let i = 0; i < 2; i++) {
      const answer = await call(api.url, '/v1/messages', { key: account.keys.test, body, headers })
      const [line] = linesOf(answer.headers.get('request-id'))
      assert.deepInclude(line as Line, { status: 422, code: 'recipient_invalid', param: 'to' })
    }
    const socket = connect(api.port, '127.0.0.1')
    let text = ''
    socket.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')))
    await once(socket, 'connect')
    socket.write('nonsense\r\n\r\n')
    await eventually(() => text.includes('request-id: req_'))
    const id = /request-id: (req_[0-9a-z]+)/u.exec(text)?.[1] ?? null
    assert.deepInclude(linesOf(id)[0] as Line, { status: 400, route: 'none', code: 'invalid_parameter' })
    socket.destroy()
  })

  it('names the cause of a 503 in the line of its request', async () => {
    const proxy = await stallingProxy()
    const real = new URL(deployment.databaseUrl)
    proxy.forwardTo({ host: real.hostname, port: Number(real.port) }, 1000)
    const through = Object.assign(new URL(deployment.databaseUrl), { port: String(proxy.port) }).toString()
    const own: Array<Line> = []
    const apart = await deployment.start({ databaseUrl: through, logger: capture(own) })
    const key = account.keys.test
    try {
      assert.strictEqual((await call(apart.url, '/v1/account', { key })).status, 200)
      assert.strictEqual((await call(apart.url, '/v1/messages', { key, body: send() })).status, 202)
      proxy.stall(true)
      const answers = await Promise.all([
        call(apart.url, '/v1/messages', { key, body: send() }),
        call(apart.url, '/v1/events', { key }),
      ])
      for (const answer of answers) {
        assert.strictEqual(answer.status, 503)
        const [line] = linesOf(answer.headers.get('request-id'), own)
        assert.strictEqual(line?.['level'], 'Warn')
        assert.match(String(line?.['cause']), /PostgreSQL|deadline/u)
      }
    } finally {
      proxy.stall(false)
      await apart.stop()
      proxy.close()
    }
  })

  it('leaves out successes that are not sampled, and no failure', async () => {
    const own: Array<Line> = []
    const apart = await deployment.start({ logger: capture(own), loggedShare: 0 })
    try {
      const key = account.keys.test
      const good = await call(apart.url, '/v1/account', { key })
      const bad = await call(apart.url, '/v1/messages/msg_x', { key })
      assert.strictEqual(linesOf(good.headers.get('request-id'), own).length, 0)
      assert.strictEqual(linesOf(bad.headers.get('request-id'), own).length, 1)
    } finally {
      await apart.stop()
    }
  })
})

describe('an unknown parameter', () => {
  const warningsOf = async (path: string, key: string, body?: unknown) => {
    const response = await fetch(api.url + path, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    await response.arrayBuffer()
    // `fetch` joins header lines with commas.
    return response.headers.get('hub-warning')?.split(', ') ?? []
  }
  const unknown = (...names: ReadonlyArray<string>) => names.map((name) => `unknown parameter "${name}"`)

  // Rules: HTTP-20
  it('is named in a Hub-Warning header with a test key', async () => {
    const key = account.keys.test
    const read = (path: string, body?: unknown) => warningsOf(path, key, body)
    assert.deepStrictEqual(await read('/v1/messages', send({ colour: 'red' })), unknown('colour'))
    assert.deepStrictEqual(await read('/v1/messages', send()), [])
    // The names in free-form objects are the client's own.
    assert.deepStrictEqual(await read('/v1/messages', send({ variables: { order: '1', x: '' } })), [])
    const messages = [1, 2].map((n) => send({ client_ref: `u-${n}`, size: 1, [`w${n}`]: 2 }))
    assert.deepStrictEqual(
      await read('/v1/messages/batch?dry=1', { messages, prio: 1 }),
      unknown('dry', 'size', 'w1', 'w2', 'prio'),
    )
    assert.deepStrictEqual(
      await read('/v1/messages/estimate', { messages: [send({ size: 1 })] }),
      unknown('size'),
    )
    assert.deepStrictEqual(await read('/v1/templates?limit=1&sort=name'), unknown('sort'))
    const many = Object.fromEntries(Array.from({ length: 9 }, (_, index) => [`p${index}`, 1]))
    assert.strictEqual((await read('/v1/messages', send(many))).length, 5)
    assert.deepStrictEqual(await read('/v1/messages', send({ 'a"\r\nб': 1 })), unknown('a????'))
  })
  // Rules: HTTP-20
  it('is sent as one header line for each', async () => {
    const socket = connect(api.port, '127.0.0.1')
    let text = ''
    socket.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')))
    await once(socket, 'connect')
    socket.write(
      `GET /v1/account?a=1&b=2 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${account.keys.test}\r\n\r\n`,
    )
    await eventually(() => text.includes('\r\n\r\n'))
    assert.include(text, 'hub-warning: unknown parameter "a"\r\nhub-warning: unknown parameter "b"\r\n')
    socket.destroy()
  })
  // Rules: HTTP-20
  it('is ignored without a warning with a live key', async () => {
    assert.deepStrictEqual(await warningsOf('/v1/account?colour=red', account.keys.live), [])
  })
  // Rules: HTTP-21
  it('that pages in another way is refused with both kinds of keys', async () => {
    for (const key of [account.keys.test, account.keys.live]) {
      for (const name of ['page', 'offset', 'ending_before', 'order']) {
        for (const path of ['/v1/templates', '/v1/events', '/v1/webhook_endpoints']) {
          const answer = await call(api.url, `${path}?${name}=2`, { key })
          const { error } = answer.body as {
            readonly error: { readonly code: string; readonly param: string }
          }
          assert.deepStrictEqual([answer.status, error.code, error.param], [422, 'invalid_parameter', name])
        }
      }
    }
  })
})
