/**
 * Uses a public setting, patches nothing: all connections of a client can be closed at once.
 *
 * - kafkajs 2.2.4: `disconnect` waits for the answers to all requests in progress, and a request
 *   that waits for a hung broker keeps its connection open.
 * - Why the hub needs more: a consumer or producer that replaces a stuck one must not wait for the
 *   hung broker, and requests of the old one must fail at once.
 * - Fails without the patch: `kafkajs-patches.unit.test.ts`, "closes all connections of a destroyed
 *   client, also later ones".
 * - Unnecessary when: kafkajs offers a close without waiting, such as Java's
 *   `close(Duration.ZERO)`.
 */
import type { Socket } from 'node:net'
import type { ISocketFactory } from 'kafkajs'

interface TrackedConnections {
  /** For the setting `socketFactory` of kafkajs. */
  readonly socketFactory: ISocketFactory
  readonly isDestroyed: () => boolean
  /** Closes every connection, also those that are opened later. */
  readonly destroy: () => void
}

export const trackConnections = (open: ISocketFactory): TrackedConnections => {
  const sockets = new Set<Socket>()
  const destroySocket = (socket: Socket) => socket.destroy(new Error('The client was destroyed.'))
  let isDestroyed = false
  return {
    socketFactory: (options) => {
      const socket = open(options)
      if (isDestroyed) destroySocket(socket)
      // Without it, small writes wait for the acknowledgement of the write before.
      socket.setNoDelay(true)
      sockets.add(socket)
      socket.once('close', () => sockets.delete(socket))
      return socket
    },
    isDestroyed: () => isDestroyed,
    destroy: () => {
      isDestroyed = true
      sockets.forEach(destroySocket)
    },
  }
}
