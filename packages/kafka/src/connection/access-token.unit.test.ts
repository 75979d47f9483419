import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { Redacted } from 'effect'
import { afterAll, assert, beforeAll, beforeEach, describe, it } from 'vitest'
import { basicAuthorization, makeTokenSource, tokenSourceOf } from './access-token.ts'
import { initialResponse } from './oauthbearer.ts'

const SECRET = 'a secret of the client'

interface Answer {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body: unknown
}

let server: Server
let url: string
const asked: Array<{ readonly headers: IncomingHttpHeaders; readonly form: Record<string, string> }> = []
let answer: Answer

beforeAll(async () => {
  const respond = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const form = Object.fromEntries(new URLSearchParams(Buffer.concat(await request.toArray()).toString()))
    asked.push({ headers: request.headers, form })
    const { body, headers = {}, status = 200 } = answer
    response
      .writeHead(status, { 'content-type': 'application/json', ...headers })
      .end(typeof body === 'string' ? body : JSON.stringify(body))
  }
  server = createServer((request, response) => void respond(request, response))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/token`
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})
beforeEach(() => {
  asked.length = 0
})

const issue = (token: string, lifetime: { readonly expires_in?: unknown } = { expires_in: 300 }): void => {
  answer = { body: { access_token: token, token_type: 'Bearer', ...lifetime } }
}

/** A source with a clock that the test moves. */
const source = ({
  endpoint = url,
  requestWithinMs,
}: { readonly endpoint?: string; readonly requestWithinMs?: number } = {}) => {
  let at = 0
  const failures: Array<string> = []
  const { token } = makeTokenSource(
    { url: endpoint, id: 'hub', secret: Redacted.make(SECRET), scopes: null, parameters: {} },
    { now: () => at, ...(requestWithinMs === undefined ? {} : { requestWithinMs }) },
  )
  return {
    token: () => token((code) => failures.push(code)),
    failures,
    moveTo: (seconds: number) => {
      at = seconds * 1000
    },
  }
}

const failureOf = (token: Promise<string>): Promise<string> =>
  token.then(
    () => 'a token',
    (error: Error & { readonly code: string }) => {
      assert.notInclude(`${error.message} ${JSON.stringify(error)} ${error.stack}`, SECRET)
      return `${error.name} ${error.code}`
    },
  )

/** Until the endpoint has got these requests, of which nobody waits for the last one. */
const requested = async (count: number): Promise<void> => {
  while (asked.length < count) await new Promise(setImmediate)
}

describe('the request for an access token', () => {
  // The examples of RFC 6749, 2.3.1, and of its appendix B for characters that are encoded.
  it('authenticates the client with HTTP Basic', () => {
    assert.strictEqual(
      basicAuthorization('s6BhdRkqt3', '7Fjfp0ZBr1KtDRbnfVdmIw'),
      'Basic czZCaGRSa3F0Mzo3RmpmcDBaQnIxS3REUmJuZlZkbUl3',
    )
    assert.strictEqual(
      Buffer.from(basicAuthorization('hub', ' %&+£€').slice('Basic '.length), 'base64').toString(),
      'hub:+%25%26%2B%C2%A3%E2%82%AC',
    )
  })

  it('is a form, as RFC 6749, 4.4.2 says, with the parameters of the settings', async () => {
    issue('one')
    const { token } = tokenSourceOf({
      url,
      id: 'hub',
      secret: Redacted.make(SECRET),
      scopes: 'read write',
      parameters: { audience: 'kafka', grant_type: 'password' },
    })
    assert.strictEqual(await token(() => {}), 'one')
    assert.deepStrictEqual(asked[0]?.form, {
      audience: 'kafka',
      grant_type: 'client_credentials',
      scope: 'read write',
    })
    assert.match(asked[0]!.headers['content-type'] ?? '', /^application\/x-www-form-urlencoded/u)
  })

  it('is one for all connections of a client', async () => {
    issue('one')
    const client = { url, id: 'shared', secret: Redacted.make(SECRET), scopes: null, parameters: {} }
    const [first, second] = [tokenSourceOf(client), tokenSourceOf({ ...client })]
    assert.deepStrictEqual(await Promise.all([first.token(() => {}), second.token(() => {})]), ['one', 'one'])
    assert.strictEqual(await second.token(() => {}), 'one')
    assert.lengthOf(asked, 1)
  })

  it.each([
    // RFC 6749, 5.2.
    [
      { status: 401, body: { error: 'invalid_client', error_description: SECRET } },
      'TokenRefused invalid_client',
    ],
    [{ status: 400, body: { error: 'invalid_scope' } }, 'TokenRefused invalid_scope'],
    [{ status: 400, body: { error: SECRET } }, 'TokenUnavailable 400'],
    [{ status: 503, body: 'busy' }, 'TokenUnavailable 503'],
    [{ status: 200, body: '<html>' }, 'TokenUnavailable no_token'],
    [{ body: { access_token: 'one', token_type: 'mac' } }, 'TokenUnavailable no_token'],
    [
      { body: { access_token: 'one\u0001auth=Bearer two', token_type: 'Bearer' } },
      'TokenUnavailable no_token',
    ],
    [{ body: 'x'.repeat(300_000) }, 'TokenUnavailable unknown'],
    // The secret never follows a redirect.
    [{ status: 307, headers: { location: '/elsewhere' }, body: '' }, 'TokenUnavailable unknown'],
  ])('fails with a code: %o', async (given, code) => {
    answer = given
    assert.strictEqual(await failureOf(source().token()), code)
    assert.lengthOf(asked, 1)
  })

  it('has a time limit', async () => {
    const silent = createServer(() => {})
    silent.listen(0, '127.0.0.1')
    await once(silent, 'listening')
    const endpoint = `http://127.0.0.1:${(silent.address() as AddressInfo).port}/token`
    assert.strictEqual(
      await failureOf(source({ endpoint, requestWithinMs: 20 }).token()),
      'TokenUnavailable ETIMEDOUT',
    )
    silent.closeAllConnections()
    silent.close()
  })

  it('is not repeated for a second after a failure', async () => {
    answer = { status: 503, body: '' }
    const { moveTo, token } = source()
    await failureOf(token())
    issue('one')
    moveTo(0.9)
    assert.strictEqual(await failureOf(token()), 'TokenUnavailable 503')
    moveTo(1)
    assert.strictEqual(await token(), 'one')
    assert.lengthOf(asked, 2)
  })
})

describe('a held token', () => {
  // A token of 300 s is used for 280 s, and renewed after 224 s, 80 % of them.
  it('is used until its renewal, and replaced without a wait', async () => {
    issue('one')
    const { moveTo, token } = source()
    await token()
    moveTo(223)
    assert.strictEqual(await token(), 'one')
    assert.lengthOf(asked, 1)
    issue('two')
    moveTo(224)
    assert.strictEqual(await token(), 'one')
    await requested(2)
    moveTo(280)
    assert.strictEqual(await token(), 'two')
    assert.lengthOf(asked, 2)
  })

  it('is used while it cannot be renewed, until it ends', async () => {
    issue('one')
    const { failures, moveTo, token } = source()
    await token()
    answer = { status: 503, body: '' }
    for (const second of [224, 250, 279]) {
      moveTo(second)
      const before = failures.length
      assert.strictEqual(await token(), 'one')
      while (failures.length === before) await new Promise(setImmediate)
    }
    assert.deepStrictEqual(failures, ['503', '503', '503'])
    moveTo(280)
    assert.strictEqual(await failureOf(token()), 'TokenUnavailable 503')
    issue('two')
    moveTo(281)
    assert.strictEqual(await token(), 'two')
  })

  it.each([
    ['of unknown lifetime is used for 40 s', {}],
    ['whose lifetime is a text is used as long', { expires_in: '60' }],
  ])('%s', async (_name, lifetime) => {
    issue('one', lifetime)
    const { moveTo, token } = source()
    await token()
    issue('two')
    moveTo(31)
    assert.strictEqual(await token(), 'one')
    assert.lengthOf(asked, 1)
    moveTo(40)
    assert.strictEqual(await token(), 'two')
  })

  it('of a short lifetime is used once', async () => {
    issue('one', { expires_in: 15 })
    const { token } = source()
    assert.strictEqual(await token(), 'one')
    issue('two', { expires_in: 15 })
    assert.strictEqual(await token(), 'two')
  })
})

describe('the message with the token', () => {
  // The example of RFC 7628, 4.1, without the name of the user, and with its other pairs behind the token.
  it('has the form of RFC 7628', () => {
    assert.strictEqual(
      initialResponse('vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==', {
        host: 'server.example.com',
        port: '143',
      }),
      'n,,\u0001auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\u0001host=server.example.com\u0001port=143\u0001\u0001',
    )
  })
})
