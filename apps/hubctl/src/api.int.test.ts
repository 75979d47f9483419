/** `hubctl --api` with a server of the tests in place of the operations API. */
import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { afterEach, assert, describe, it } from 'vitest'
import { runHubctl } from './testing/run-hubctl.ts'

let server: Server | undefined
afterEach(() => {
  server?.closeAllConnections()
  server?.close()
})

/** Runs a command against a server. Returns the requests that the server got. */
const runOverApi = async (
  args: ReadonlyArray<string>,
  answer: (response: ServerResponse, request: unknown) => void,
) => {
  const requests: Array<unknown> = []
  server = createServer((request, response) => {
    void json(request).then((body) => {
      requests.push(body)
      answer(response, body)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const ran = await runHubctl({ HUBCTL_API_TOKEN: 'a token' }, [
    ...args,
    '--json',
    '--api',
    `http://127.0.0.1:${port}`,
  ])
  return { ...ran, requests }
}

const MEBIBYTE = 1024 * 1024
/** Only ends a server that nobody stops. */
const FLOOD_MEBIBYTES = 256

describe('an answer of the operations API without an end', () => {
  it.each([200, 422, 503])(
    'with status %i is one error, and hubctl closes the connection',
    async (status) => {
      let sent = 0
      const ran = await runOverApi(['accounts', 'list'], (response) => {
        const part = Buffer.alloc(MEBIBYTE, ' ')
        response.writeHead(status, { 'content-type': 'application/json' })
        const write = (): void => {
          if (response.destroyed) return
          if (sent >= FLOOD_MEBIBYTES) return void response.end('{}')
          sent += 1
          response.write(part, write)
        }
        write()
      })
      assert.strictEqual(ran.code, 3)
      assert.include(ran.err, '"code": "answer_too_long"')
      // More than hubctl reads: what the buffers of the connection hold.
      assert.isBelow(sent, 64)
    },
  )

  it('that is no JSON has only its status', async () => {
    const ran = await runOverApi(['accounts', 'list'], (response) => {
      response.writeHead(502, { 'content-type': 'text/html' }).end('<h1>Bad Gateway</h1>')
    })
    assert.strictEqual(ran.code, 3)
    assert.include(ran.err, 'The operations API answers 502.')
  })
})

describe('a list of inbound messages of a number', () => {
  it('is one request, which counts as one look-up', async () => {
    const number = '+79001234567'
    const ran = await runOverApi(
      ['inbound', 'list', '--recipient', number, '--reason', 'Ticket 4711'],
      (response) => response.end(JSON.stringify({ object: 'list', data: [] })),
    )
    assert.strictEqual(ran.code, 0, ran.err)
    assert.deepStrictEqual(ran.requests, [
      { use_case: 'inbound list', input: { recipient: number, reason: 'Ticket 4711', limit: 50 } },
    ])
  })
})

describe('an operations API of the previous version', () => {
  const ACCOUNT = 'acc_01m7yt89qhe54swwc8wkxj6n8e'
  const KEY = 'key_01m7yt89qhe54swwc8wkxj6n8e'
  const AT = '2026-11-21T10:25:56.031Z'
  const NEW_KEY = 'hub_test_0123456789'
  const ALL_SCOPES = ['send', 'read', 'manage']

  /** Its answers: keys have no scopes yet, and subscriptions neither headers nor client certificates. */
  const key = {
    id: KEY,
    object: 'api_key',
    account: ACCOUNT,
    mode: 'live',
    last_four: 'wxyz',
    allowed_addresses: null,
    created_at: AT,
    revoked_at: null,
    expires_at: null,
    last_used_at: null,
    last_used_from: null,
    works: true,
  }
  const newKey = {
    id: KEY,
    key: NEW_KEY,
    object: 'api_key',
    account: ACCOUNT,
    mode: 'live',
    allowed_addresses: null,
  }
  const request = {
    id: '0199c4de-6f0a-4d1e-9a65-3f1f5f7a2b11',
    object: 'key_request',
    account: ACCOUNT,
    name: 'Shop',
    status: 'waiting',
    allowed_addresses: null,
    expires_after_seconds: null,
    requested_by: 'olga',
    requested_at: AT,
    expires_at: AT,
    confirmed_by: null,
    confirmed_at: null,
    key: null,
    replaces: null,
    overlap_seconds: null,
  }
  const subscription = {
    id: 'we_01m7yt89qhe54swwc8wkxj6n8e',
    object: 'webhook_endpoint',
    account: ACCOUNT,
    mode: 'live',
    url: 'https://client.example.com/',
    event_types: [],
    status: 'enabled',
    consecutive_failures: 0,
    disabled_at: null,
    disabled_reason: null,
    backlog: { batches: 0, oldest_at: null, next_attempt_at: null },
    created_at: AT,
  }
  const account = {
    id: ACCOUNT,
    object: 'account',
    name: 'Shop',
    modes: [],
    spending: { period: '2026-11', spent: '0.00', currency: 'RUB', threshold_told: false },
  }
  const list = (item: object) => ({ object: 'list', data: [item], next_cursor: null })
  const ANSWERS: Readonly<Record<string, object>> = {
    'accounts show': account,
    'keys show': key,
    'keys list': list(key),
    'keys issue': { ...newKey, expires_at: null },
    'keys rotate': { ...newKey, replaces: { id: KEY, revoked_at: AT } },
    'keys requests': list(request),
    'keys request': request,
    'keys confirm': { ...newKey, expires_at: null, replaces: null },
    'webhooks list': list(subscription),
  }
  const runWith =
    (answers: Readonly<Record<string, object>>) =>
    (...words: ReadonlyArray<string>) =>
      runOverApi([...words, '--yes'], (response, body) => {
        const { use_case } = body as { readonly use_case: string }
        response.end(JSON.stringify(answers[use_case]))
      })
  const run = runWith(ANSWERS)

  it.each([
    ['issue', ACCOUNT],
    ['rotate', KEY],
    ['confirm', request.id],
  ])('issues a key that may do everything, which hubctl shows: keys %s', async (...words) => {
    const ran = await run('keys', ...words)
    assert.strictEqual(ran.code, 0, ran.err)
    assert.deepInclude(ran.json<object>(), { id: KEY, key: NEW_KEY, scopes: ALL_SCOPES })
  })

  it.each([['list'], ['requests']])('has keys that may do everything: keys %s', async (word) => {
    const ran = await run('keys', word)
    assert.strictEqual(ran.code, 0, ran.err)
    assert.deepInclude(ran.json<{ readonly data: ReadonlyArray<object> }>().data[0], { scopes: ALL_SCOPES })
  })

  it('takes a request for a key that may do everything', async () => {
    const ran = await run('keys', 'request', ACCOUNT)
    assert.strictEqual(ran.code, 0, ran.err)
    assert.deepInclude(ran.json<object>(), { id: request.id, scopes: ALL_SCOPES })
  })

  it('has subscriptions without headers and client certificate', async () => {
    const ran = await run('webhooks', 'list')
    assert.strictEqual(ran.code, 0, ran.err)
    const [shown] = ran.json<{ readonly data: ReadonlyArray<object> }>().data
    assert.deepInclude(shown, { header_names: [], client_certificate: null })
  })

  it.each([
    ['issue', ACCOUNT],
    ['rotate', KEY],
    ['confirm', request.id],
  ])('answers in a form that hubctl cannot read, and hubctl shows the new key: keys %s', async (...words) => {
    const unreadable = { id: KEY, key: NEW_KEY, object: 'api_key_of_another_version' }
    const ran = await runWith({ ...ANSWERS, [`keys ${words[0]}`]: unreadable })('keys', ...words)
    assert.strictEqual(ran.code, 0, ran.err)
    assert.deepStrictEqual(ran.json(), { id: KEY, key: NEW_KEY })
    assert.include(ran.err, 'The operations API has another version than hubctl')
    assert.notInclude(ran.err, NEW_KEY)
  })
})
