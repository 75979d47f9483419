/**
 * Uses a public setting, patches nothing: `unref` of a closed socket does nothing.
 *
 * - kafkajs 2.2.4: after each failed attempt to reach a broker, it disconnects both connections of the
 *   broker again, and calls `unref` of their closed sockets. Node then waits for the event `connect`
 *   with one more listener, which a closed socket never emits.
 * - Why the hub needs more: while a broker is away, the listeners of the closed connection for fetches
 *   become more with each attempt, and Node warns about a leak.
 * - Fails without the patch: `kafkajs-patches.unit.test.ts`, "adds no listener to a closed connection
 *   that kafkajs disconnects again".
 * - Unnecessary when: kafkajs forgets the socket of a connection that it has disconnected.
 */
import type { ISocketFactory } from 'kafkajs'

export const ignoreUnrefOfClosed =
  (open: ISocketFactory): ISocketFactory =>
  (options) => {
    const socket = open(options)
    const { unref } = socket
    socket.unref = () => (socket.destroyed ? socket : Reflect.apply(unref, socket, []))
    return socket
  }
