/** A server that sends too much or never ends a list, over real connections. */
import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { createHubClient, type HubClient } from './client.ts'

let server: Server | undefined
afterEach(() => {
  server?.closeAllConnections()
  server?.close()
})

const hubWith = async (answer: (response: ServerResponse, url: URL) => void): Promise<HubClient> => {
  server = createServer((request, response) => {
    request.resume()
    answer(response, new URL(request.url ?? '/', 'http://hub.example'))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return createHubClient({
    baseUrl: `http://127.0.0.1:${port}`,
    apiKey: 'hub_test_x',
    maxRetries: 0,
    timeoutMs: 300_000,
  })
}

/** Writes until the client closes the connection. Returns the bytes. */
const flood = (response: ServerResponse, status: number, counted: (bytes: number) => void): void => {
  const part = Buffer.alloc(1024 * 1024, ' ')
  response.writeHead(status, { 'content-type': 'application/json' })
  const write = (): void => {
    if (response.destroyed) return
    counted(part.length)
    response.write(part, write)
  }
  write()
}

describe('an answer without an end', () => {
  it('is one error, and the connection is closed', async () => {
    let bytes = 0
    const hub = await hubWith((response) => flood(response, 200, (more) => (bytes += more)))
    await expect(hub.account.get()).rejects.toMatchObject({
      name: 'HubError',
      code: 'answer_too_long',
      status: 200,
      isOutcomeUnknown: true,
    })
    // More than the client reads: what the buffers of the connection hold.
    expect(bytes).toBeLessThan(64 * 1024 * 1024)
  })

  it('keeps the status of a refusal', async () => {
    const hub = await hubWith((response) => flood(response, 422, () => {}))
    await expect(hub.account.get()).rejects.toMatchObject({ name: 'HubInvalidRequestError', status: 422 })
  })
})

describe('a list whose cursors go round in a circle', () => {
  const page = (response: ServerResponse, cursor: string): void => {
    const data = [{ id: cursor, type: 'message.sent' }]
    response.end(JSON.stringify({ object: 'list', data, has_more: true, next_cursor: cursor }))
  }
  const refusal = { name: 'HubError', code: 'cursor_repeated' }

  it.each([1, 2, 7])('of %d is one error for list and follow', async (length) => {
    let answers = 0
    const hub = await hubWith((response) => page(response, `evt_${answers++ % length}`))
    const read = async (list: AsyncIterable<unknown>): Promise<void> => {
      answers = 0
      for await (const _ of list) if (answers > 100) return
    }
    await expect(read(hub.templates.list())).rejects.toMatchObject(refusal)
    await expect(read(hub.events.follow())).rejects.toMatchObject(refusal)
  })

  it('is no mistake of new cursors, or of the same one without new events', async () => {
    const ending = new AbortController()
    let answers = 0
    const hub = await hubWith((response) => {
      answers += 1
      if (answers <= 50) page(response, `evt_${answers}`)
      else {
        if (answers === 55) ending.abort()
        response.end(JSON.stringify({ object: 'list', data: [], has_more: false, next_cursor: 'evt_50' }))
      }
    })
    const found: Array<string> = []
    for await (const { id } of hub.events.follow(null, { pollMs: 1, signal: ending.signal })) found.push(id)
    expect(found).toHaveLength(50)
  })
})
