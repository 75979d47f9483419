/** Connections without a request, at the end of a process. Node waits for them like for used ones. */
import type { Server } from 'node:http'
import { Server as TlsServer } from 'node:https'
import type { Socket } from 'node:net'

/** Tracks the connections without a request so far. Returns a function that closes them. */
export const trackUnusedConnections = (server: Server | TlsServer): (() => void) => {
  const unused = new Set<Socket>()
  server.on(server instanceof TlsServer ? 'secureConnection' : 'connection', (socket: Socket) => {
    unused.add(socket)
    socket.once('close', () => unused.delete(socket))
  })
  server.on('request', ({ socket }) => unused.delete(socket))
  return () => {
    for (const socket of unused) socket.destroy()
  }
}
