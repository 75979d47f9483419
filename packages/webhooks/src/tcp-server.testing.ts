/** A TCP server on the loopback address, for connections that break before TLS. */
import { createServer, type Server, type Socket } from 'node:net'
import { Effect, type Scope } from 'effect'

/** Starts a server and returns its port. The scope closes it with all its connections. */
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
