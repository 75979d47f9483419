/** A server below TLS for tests, on the loopback: for what breaks before there is any. */
import { createServer, type Server, type Socket } from 'node:net'
import { Effect, type Scope } from 'effect'

/** Starts one, and answers with its port. It is closed, with all its connections, when the scope closes. */
export const tcpServer = (onSocket: (socket: Socket) => void): Effect.Effect<number, never, Scope.Scope> =>
  Effect.gen(function* () {
    const sockets = new Set<Socket>()
    const server = yield* Effect.acquireRelease(
      Effect.callback<Server>((resume) => {
        const server = createServer((socket) => {
          socket.on('error', () => {})
          sockets.add(socket)
          socket.on('close', () => sockets.delete(socket))
          onSocket(socket)
        })
        server.listen(0, '127.0.0.1', () => resume(Effect.succeed(server)))
      }),
      (server) =>
        Effect.callback<void>((resume) => {
          server.close(() => resume(Effect.void))
          for (const socket of sockets) socket.destroy()
        }),
    )
    const address = server.address()
    return typeof address === 'object' ? (address?.port ?? 0) : 0
  })
