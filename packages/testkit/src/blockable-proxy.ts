/**
 * A TCP proxy in front of a server. A test can break or block its connections.
 * To the client the server appears lost, while the server continues to serve other clients.
 */
import net from 'node:net'
import { Deferred, Effect, type Scope } from 'effect'

export interface BlockableProxy {
  /** The server's URL, with the address of the proxy. */
  readonly url: string
  /** Resets all connections (RST), like the loss of the machine behind them. */
  readonly reset: () => void
  /** Closes all connections in order (FIN), like a server that shuts down. */
  readonly end: () => void
  /** From now on, each connection closes when the client sends data after its first packet. */
  readonly endAfterFirstPacket: () => void
  /** Closes all connections and refuses new ones until `unblock`. */
  readonly block: () => void
  readonly unblock: () => void
  /** Waits until the proxy has refused a connection since the last `block`. */
  readonly connectionRefused: Effect.Effect<void>
}

/** Starts a proxy to the server at `url`. It stops when the scope closes. */
export const blockableProxy = (url: string): Effect.Effect<BlockableProxy, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const target = new URL(url)
      const clients = new Set<net.Socket>()
      let isBlocked = false
      let endsAfterFirstPacket = false
      let refused = Deferred.makeUnsafe<void>()
      const server = net.createServer((client) => {
        if (isBlocked) {
          Deferred.doneUnsafe(refused, Effect.void)
          client.destroy()
          return
        }
        const upstream = net.connect(Number(target.port), target.hostname)
        clients.add(client)
        client.on('close', () => clients.delete(client))
        client.once('data', () => {
          client.on('data', () => {
            if (endsAfterFirstPacket) client.end()
          })
        })
        for (const [from, to] of [
          [client, upstream],
          [upstream, client],
        ] as const) {
          from.pipe(to)
          from.on('error', () => to.destroy())
          from.on('close', () => to.destroy())
        }
      })
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      const { port } = server.address() as net.AddressInfo
      const destroyAll = () => {
        for (const client of clients) client.destroy()
      }
      return {
        url: Object.assign(new URL(url), { hostname: '127.0.0.1', port: String(port) }).toString(),
        reset: () => {
          for (const client of clients) client.resetAndDestroy()
        },
        end: () => {
          for (const client of clients) client.end()
        },
        endAfterFirstPacket: () => {
          endsAfterFirstPacket = true
        },
        block: () => {
          isBlocked = true
          refused = Deferred.makeUnsafe()
          destroyAll()
        },
        unblock: () => {
          isBlocked = false
        },
        connectionRefused: Effect.suspend(() => Deferred.await(refused)),
        stop: () => {
          destroyAll()
          server.close()
        },
      }
    }),
    ({ stop }) => Effect.sync(stop),
  )
