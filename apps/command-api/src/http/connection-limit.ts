/**
 * Limits the connections of one address, so that a client without an API key cannot use all
 * connections of the server. The server has read nothing yet, so the connection gets no answer.
 */
import type { Server, Socket } from 'node:net'

/** The connections of the server, and how many of them one address may have. */
export interface ConnectionLimits {
  readonly all: number
  readonly perAddress: number
}

/** Applies the limits. `isProxy`: the address of a trusted proxy has no limit of its own. */
export const limitConnections = (
  server: Server,
  { all, perAddress }: ConnectionLimits,
  isProxy: (address: string) => boolean,
): void => {
  server.maxConnections = all
  const counts = new Map<string, number>()
  server.on('connection', (socket: Socket) => {
    const address = socket.remoteAddress
    // The client has already disconnected.
    if (address === undefined || isProxy(address)) return
    const count = counts.get(address) ?? 0
    if (count >= perAddress) {
      socket.destroy()
      return
    }
    counts.set(address, count + 1)
    socket.once('close', () => {
      const left = (counts.get(address) ?? 1) - 1
      if (left === 0) counts.delete(address)
      else counts.set(address, left)
    })
  })
}
