/** Malformed requests get an answer of the contract, and never a 500. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { startHub, type TestHub, WITHOUT_WEBHOOKS } from '../support/hub.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Client, client, send } from '../support/client.ts'
import { makeHubAdmin } from '../support/hub-admin.ts'

let hub: TestHub
let test: Client

beforeAll(async () => {
  hub = await startHub({ apps: WITHOUT_WEBHOOKS, apiRps: 10_000 })
  const { base_url, keys } = hub.describe()
  test = client(base_url, keys.test)
})
afterAll(() => hub?.stop())

const good = send('service', '+79001234567')
const nested = (levels: number): string => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`

describe('a body', () => {
  // Rules: HTTP-10, HTTP-13, HTTP-14, HTTP-18, MSG-3, MSG-4, ERR-1, ERR-2, ERR-8
  it.each<[string, string | Uint8Array, number, string, string | undefined]>([
    ['that is not JSON', '{"to":', 422, 'invalid_parameter', undefined],
    ['that is empty', '', 422, 'invalid_parameter', undefined],
    ['that is an array', '[]', 422, 'invalid_parameter', undefined],
    ['that is null', 'null', 422, 'invalid_parameter', undefined],
    ['that is a string', '"x"', 422, 'invalid_parameter', undefined],
    [
      'that is not UTF-8',
      Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d),
      422,
      'invalid_parameter',
      undefined,
    ],
    ['with a NUL', JSON.stringify({ ...good, client_ref: 'a\0b' }), 422, 'invalid_parameter', 'client_ref'],
    [
      'with a lone surrogate',
      JSON.stringify({ ...good, client_ref: '\ud800' }),
      422,
      'invalid_parameter',
      'client_ref',
    ],
    ['nested too deeply', nested(17), 422, 'invalid_parameter', undefined],
    ['without to', JSON.stringify({ ...good, to: undefined }), 422, 'invalid_parameter', 'to'],
    ['with a number for to', JSON.stringify({ ...good, to: 79001234567 }), 422, 'invalid_parameter', 'to'],
    [
      'to a number with a missing digit',
      JSON.stringify({ ...good, to: '+7900123456' }),
      422,
      'recipient_invalid',
      'to',
    ],
    [
      'to a foreign number',
      JSON.stringify({ ...good, to: '+4915112345678' }),
      422,
      'recipient_invalid',
      'to',
    ],
    ['to a padded number', JSON.stringify({ ...good, to: ' +79001234567' }), 422, 'recipient_invalid', 'to'],
    ['with an unknown class', JSON.stringify({ ...good, class: 'promo' }), 422, 'invalid_parameter', 'class'],
    ['with send_at', JSON.stringify({ ...good, send_at: null }), 422, 'send_at_not_supported', 'send_at'],
    [
      'with an unknown template',
      JSON.stringify({ ...good, template: 'nothing' }),
      422,
      'template_not_found',
      'template',
    ],
    [
      'with another class than the template',
      JSON.stringify({ ...good, class: 'otp' }),
      422,
      'template_class_mismatch',
      'class',
    ],
    [
      'without a variable',
      JSON.stringify({ ...good, variables: {} }),
      422,
      'template_variable_missing',
      'variables.order',
    ],
    [
      'with an unknown variable',
      JSON.stringify({ ...good, variables: { order: '1', more: '2' } }),
      422,
      'template_variable_unknown',
      'variables.more',
    ],
    [
      'with an object as a variable',
      JSON.stringify({ ...good, variables: { order: {} } }),
      422,
      'template_variable_invalid',
      'variables.order',
    ],
    [
      'with __proto__ among the variables',
      '{"to":"+79001234567","class":"service","template":"order_ready","variables":{"order":"1","__proto__":"x"}}',
      422,
      'template_variable_unknown',
      'variables.__proto__',
    ],
    [
      'with a very long client_ref',
      JSON.stringify({ ...good, client_ref: 'x'.repeat(129) }),
      422,
      'invalid_parameter',
      'client_ref',
    ],
    [
      'with an empty client_ref',
      JSON.stringify({ ...good, client_ref: '' }),
      422,
      'invalid_parameter',
      'client_ref',
    ],
    [
      'to the opted-out number',
      JSON.stringify({ ...good, to: '+79000000013' }),
      422,
      'recipient_opted_out',
      'to',
    ],
  ])('%s', async (_what, body, status, code, param) => {
    const answer = await test.request('POST', '/v1/messages', {
      headers: { 'content-type': 'application/json' },
      body,
    })
    expect([answer.status, answer.body.error?.code, answer.body.error?.param]).toEqual([status, code, param])
    expect(answer.headers.get('request-id')).toBe(answer.body.error.request_id)
    expect(answer.body.error.doc_url).toMatch(/^http/u)
    expect(JSON.stringify(answer.body)).not.toContain('9001234567')
  })

  // Rules: HTTP-11
  it('over 4 MiB is refused before it is read to its end', async () => {
    const answer = await test.request('POST', '/v1/messages', {
      headers: { 'content-type': 'application/json' },
      body: ' '.repeat(4 * 1024 * 1024 + 1),
    })
    expect([answer.status, answer.body.error.code]).toEqual([413, 'payload_too_large'])
  })

  // Rules: HTTP-12
  it.each([
    [{ 'content-encoding': 'gzip', 'content-type': 'application/json' }],
    [{ 'content-type': 'text/plain' }],
  ])('with another encoding or media type is refused: %o', async (headers) => {
    const answer = await test.request('POST', '/v1/messages', { headers, body: JSON.stringify(good) })
    expect([answer.status, answer.body.error.code]).toEqual([415, 'unsupported_media_type'])
  })
})

describe('a request', () => {
  // Rules: HTTP-1, HTTP-2
  it.each([
    ['GET', '/v1/nothing', 404, 'not_found'],
    ['GET', '/', 404, 'not_found'],
    ['GET', '/v1/messages/msg_nothing', 404, 'not_found'],
    ['GET', '/v1/messages/%00', 404, 'not_found'],
    ['GET', '/v1/messages/%E0%A4%A', 404, 'not_found'],
    ['GET', '/v1/messages/..%2f..%2fetc', 404, 'not_found'],
    ['DELETE', '/v1/messages', 405, 'method_not_allowed'],
    ['PATCH', '/v1/account', 405, 'method_not_allowed'],
    ['GET', '/v1/events?limit=0', 422, 'invalid_parameter'],
    ['GET', '/v1/events?limit=1001', 422, 'invalid_parameter'],
    ['GET', '/v1/events?limit=ten', 422, 'invalid_parameter'],
    ['GET', '/v1/events?type=message.eaten', 422, 'invalid_parameter'],
    ['GET', '/v1/events?starting_after=evt_nothing', 404, 'not_found'],
    ['GET', '/v1/events?created_after=yesterday', 422, 'invalid_parameter'],
    [
      'GET',
      '/v1/events?created_after=2026-01-01T00:00:00.000Z&starting_after=evt_x',
      422,
      'invalid_parameter',
    ],
    ['GET', '/v1/webhook_endpoints?limit=101', 422, 'invalid_parameter'],
    ['GET', '/v1/webhook_endpoints/we_nothing', 404, 'not_found'],
  ])('%s %s answers %i %s', async (method, path, status, code) => {
    const answer = await test.request(method, path)
    expect([answer.status, answer.body.error?.code]).toEqual([status, code])
    if (status === 405) expect(answer.headers.get('allow')).toBeTruthy()
  })

  // Rules: AUTH-1, AUTH-4
  it.each([
    ['no key', null],
    ['a key that does not exist', 'hub_test_0123456789abcdef'],
    ['no kind of key', 'x'.repeat(5000)],
  ])('with %s is refused', async (_what, key) => {
    const answer = await client(hub.describe().base_url, key).get('/v1/account')
    expect([answer.status, answer.body.error.code]).toEqual([401, 'invalid_api_key'])
  })

  // Rules: HTTP-9
  it('with X-Forwarded-For counts with its own address if no proxy is configured', async () => {
    const admin = makeHubAdmin(hub)
    try {
      const key = await admin.issueKey(await admin.createAccount(), 'test', ['203.0.113.3/32'])
      const answer = await client(hub.describe().base_url, key, {
        headers: { 'x-forwarded-for': '203.0.113.3' },
      }).get('/v1/account')
      expect([answer.status, answer.body.error?.code]).toEqual([401, 'invalid_api_key'])
    } finally {
      await admin.close()
    }
  })

  // Rules: SUB-11, SUB-12, SUB-13
  it.each([
    ['http://example.com/hook'],
    ['https://user:secret@example.com/'],
    ['https://127.0.0.1/'],
    ['https://2130706433/'],
    ['https://0x7f.1/'],
    ['https://[::ffff:10.0.0.1]/'],
    ['https://localhost/'],
    ['https://169.254.169.254/latest/meta-data'],
    ['not a url'],
    [`https://example.com/${'x'.repeat(1024)}`],
  ])('for a webhook to %s is refused', async (url) => {
    const answer = await test.post('/v1/webhook_endpoints', { url })
    expect([answer.status, answer.body.error.code, answer.body.error.param]).toEqual([
      422,
      'webhook_url_invalid',
      'url',
    ])
  })

  // Rules: SUB-4
  it('for a webhook of an unknown event type is refused', async () => {
    const answer = await test.post('/v1/webhook_endpoints', {
      url: 'https://example.com/',
      event_types: ['x.y'],
    })
    expect([answer.status, answer.body.error.code]).toEqual([422, 'invalid_parameter'])
  })
})

describe('malformed HTTP', () => {
  // Rules: HTTP-8
  it.each([
    ['garbage', 'ziegelstein\r\n\r\n'],
    [
      'a header of 100,000 characters',
      `GET /v1/account HTTP/1.1\r\nHost: x\r\nX-Long: ${'y'.repeat(100_000)}\r\n\r\n`,
    ],
    [
      'two Content-Length headers',
      'POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd',
    ],
    ['a bad chunk', 'POST /v1/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n'],
  ])('%s gets a 4xx', async (_what, bytes) => {
    const { hostname, port } = new URL(hub.describe().base_url)
    const socket = connect(Number(port), hostname)
    let answer = ''
    socket.on('data', (chunk) => (answer += chunk.toString('latin1')))
    socket.on('error', () => {})
    socket.end(bytes)
    await once(socket, 'close')
    expect(answer).toMatch(/^HTTP\/1\.1 4\d\d /u)
    expect(answer).not.toContain('at ')
  })

  // Rules: HTTP-8
  it('does not affect the hub', async () => {
    expect((await test.get('/v1/account')).status).toBe(200)
  })
})
