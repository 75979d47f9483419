/** A way to a server that tests can shut: what a server that is gone looks like from one client, while it goes on serving the others. */
import net from 'node:net'
import { Deferred, Effect, type Scope } from 'effect'

export interface Door {
  /** The server's URL, through the door. */
  readonly url: string
  /** Ends all connections as when the machine behind them is gone: with a reset. */
  readonly reset: () => void
  /** The same as a server does that ends in order. */
  readonly end: () => void
  /** From now on each connection ends when it asks for anything but to be opened. */
  readonly hangUp: () => void
  /** Ends all connections, and lets nobody in until `open`. */
  readonly close: () => void
  readonly open: () => void
  /** Waits until somebody has tried in vain since it was closed. */
  readonly refused: Effect.Effect<void>
}

/** A door to the server at `url` for as long as the scope. */
export const doorTo = (url: string): Effect.Effect<Door, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const target = new URL(url)
      const clients = new Set<net.Socket>()
      let isClosed = false
      let hangsUp = false
      let knocked = Deferred.makeUnsafe<void>()
      const server = net.createServer((client) => {
        if (isClosed) {
          Deferred.doneUnsafe(knocked, Effect.void)
          client.destroy()
          return
        }
        const inner = net.connect(Number(target.port), target.hostname)
        clients.add(client)
        client.on('close', () => clients.delete(client))
        client.once('data', () => {
          client.on('data', () => {
            if (hangsUp) client.end()
          })
        })
        for (const [from, to] of [
          [client, inner],
          [inner, client],
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
        hangUp: () => {
          hangsUp = true
        },
        close: () => {
          isClosed = true
          knocked = Deferred.makeUnsafe()
          destroyAll()
        },
        open: () => {
          isClosed = false
        },
        refused: Effect.suspend(() => Deferred.await(knocked)),
        remove: () => {
          destroyAll()
          server.close()
        },
      }
    }),
    ({ remove }) => Effect.sync(remove),
  )
