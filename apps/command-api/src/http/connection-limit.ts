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
  const counts = new Map<string, number>()
  let count = 0
  server.on('connection', (socket: Socket) => {
    // `maxConnections` does not count the connections of other listening sockets (`listeners.ts`).
    if (count >= all) {
      socket.destroy()
      return
    }
    count++
    socket.once('close', () => count--)
    const address = socket.remoteAddress
    // The client has already disconnected.
    if (address === undefined || isProxy(address)) return
    const ofAddress = counts.get(address) ?? 0
    if (ofAddress >= perAddress) {
      socket.destroy()
      return
    }
    counts.set(address, ofAddress + 1)
    socket.once('close', () => {
      const left = (counts.get(address) ?? 1) - 1
      if (left === 0) counts.delete(address)
      else counts.set(address, left)
    })
  })
}
