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
