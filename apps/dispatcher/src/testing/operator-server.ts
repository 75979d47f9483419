/** The server of an HTTP operator in the test process. */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Effect, type Scope } from 'effect'

export interface Submitted {
  readonly reference: string
  readonly text: string
}

/** Answers each submit, until the scope closes. Returns the URL. */
export const operatorServer = (
  answer: (batch: ReadonlyArray<Submitted>, response: ServerResponse) => void,
): Effect.Effect<URL, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const server = createServer((request, response) => {
        const chunks: Array<Buffer> = []
        request.on('data', (chunk: Buffer) => chunks.push(chunk))
        request.once('end', () => {
          response.setHeader('content-type', 'application/json')
          answer(JSON.parse(Buffer.concat(chunks).toString('utf8')) as ReadonlyArray<Submitted>, response)
        })
      })
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      return server
    }),
    (server) =>
      Effect.sync(() => {
        server.close()
        server.closeAllConnections()
      }),
  ).pipe(Effect.map((server) => new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)))
