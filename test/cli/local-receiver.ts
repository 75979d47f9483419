/** A receiver over http on this machine, as an integrator has it beside `hub listen`. */
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'

interface Post {
  readonly body: string
  readonly signature: string
  readonly headers: IncomingHttpHeaders
}

export interface LocalReceiver {
  readonly url: string
  /** Everything that was posted. */
  readonly bodies: ReadonlyArray<Post>
  /** Refuses connections, also on open ones. */
  readonly stop: () => Promise<void>
  /** Accepts connections again, at the same address. */
  readonly start: () => Promise<void>
}

/** `answer` decides the status. */
export const startLocalReceiver = async (
  answer: (post: Post) => number | Promise<number>,
): Promise<LocalReceiver> => {
  const bodies: Array<Post> = []
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => (body += String(chunk)))
    const reply = async (): Promise<void> => {
      const { headers } = request
      const post = { body, signature: String(headers['hub-signature']), headers }
      bodies.push(post)
      response.writeHead(await answer(post)).end()
    }
    request.on('end', () => void reply())
  })
  const start = (port: number) =>
    new Promise<void>((resolve) => server.listen(port, '127.0.0.1', () => resolve()))
  await start(0)
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/hooks`,
    bodies,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
    start: () => start(port),
  }
}
