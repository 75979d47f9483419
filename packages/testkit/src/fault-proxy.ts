/**
 * A TCP proxy in front of a server, with the faults of a network. To the client the server appears
 * lost, while the server continues to serve other clients. Each fault that concerns open connections
 * leaves new connections alone, unless `hold` or `block` is in force.
 */
import net from 'node:net'
import { Deferred, Effect, type Scope } from 'effect'

/** The direction in which bytes are lost. Neither side is told. */
type Direction = 'to server' | 'to client' | 'both'

export interface FaultProxy {
  /** The server's URL, with the address of the proxy. */
  readonly url: string
  readonly port: number
  /** The number of open connections of clients. */
  readonly open: () => number
  /** The number of connections of clients so far. */
  readonly accepted: () => number
  /** Resets all connections (RST), like the loss of the machine behind them. */
  readonly reset: () => void
  /** Resets the server's side of all connections. The clients are not told. */
  readonly resetServerSide: () => void
  /** Resets the clients' side of all connections. The server is not told. */
  readonly resetClientSide: () => void
  /** Loses all further bytes of the open connections in a direction. Both sides stay open. */
  readonly drop: (direction: Direction) => void
  /** From now on, accepts connections and never answers, until `release`. */
  readonly hold: () => void
  readonly release: () => void
  /**
   * Delays all further bytes of a direction. Default: both, so a round trip takes twice as long. Bytes
   * never overtake earlier ones, so a shorter delay begins when the delayed bytes have arrived.
   */
  readonly delay: (ms: number, direction?: Direction) => void
  /** New connections go to the server at this URL. */
  readonly retarget: (url: string) => void
  /** Closes all connections in order (FIN), like a server that shuts down. */
  readonly end: () => void
  /** From now on, each connection closes (FIN) or is reset when the client sends data after its first packet. */
  readonly breakAfterFirstPacket: (how: 'end' | 'reset') => void
  /** Closes all connections and refuses new ones until `unblock`. */
  readonly block: () => void
  readonly unblock: () => void
  /** Waits until the proxy has refused a connection since the last `block`. */
  readonly connectionRefused: Effect.Effect<void>
}

/** The faults of open connections that at least one side does not notice. */
export const SILENT_FAULTS: ReadonlyArray<readonly [name: string, begin: (proxy: FaultProxy) => void]> = [
  ['reset on the side of the server only', (proxy) => proxy.resetServerSide()],
  ['reset on the side of the client only', (proxy) => proxy.resetClientSide()],
  ['half-open', (proxy) => proxy.drop('both')],
  ['losing all packets to the server', (proxy) => proxy.drop('to server')],
  ['losing all packets to the client', (proxy) => proxy.drop('to client')],
]

interface Link {
  readonly client: net.Socket
  readonly server: net.Socket
  losesToServer: boolean
  losesToClient: boolean
}

interface FaultProxyOptions {
  /** The address to listen on. Default: 127.0.0.1. */
  readonly host?: string
  /** Default: a free port. */
  readonly port?: number
}

/** Starts a proxy to the server at `url`. It stops when the scope closes. */
export const faultProxy = (
  url: string,
  { host = '127.0.0.1', port: wantedPort = 0 }: FaultProxyOptions = {},
): Effect.Effect<FaultProxy, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      let target = new URL(url)
      const links = new Set<Link>()
      /** Connections of clients without a connection to the server. */
      const held = new Set<net.Socket>()
      let accepted = 0
      const delayMs = { 'to server': 0, 'to client': 0 }
      let isBlocked = false
      let isHolding = false
      let breaksAfterFirstPacket: 'end' | 'reset' | null = null
      let refused = Deferred.makeUnsafe<void>()

      /** Runs what one direction of a connection does, after the delay and in order. */
      const inOrder = (direction: keyof typeof delayMs) => {
        const waiting: Array<{ readonly due: number; readonly act: () => void }> = []
        const run = () => {
          while (waiting.length > 0 && waiting[0]!.due <= performance.now()) waiting.shift()!.act()
          if (waiting.length > 0) setTimeout(run, waiting[0]!.due - performance.now())
        }
        return (act: () => void) => {
          if (delayMs[direction] === 0 && waiting.length === 0) return act()
          const due = Math.max(performance.now() + delayMs[direction], waiting.at(-1)?.due ?? 0)
          waiting.push({ due, act })
          if (waiting.length === 1) run()
        }
      }
      const forward = (link: Link, direction: keyof typeof delayMs, isLost: () => boolean) => {
        const [from, to] = direction === 'to server' ? [link.client, link.server] : [link.server, link.client]
        const later = inOrder(direction)
        from.setNoDelay(true)
        from.on('data', (chunk) => {
          if (isLost()) return
          later(() => {
            if (isLost() || to.destroyed) return
            // Back-pressure: a full buffer stops the reader.
            if (!to.write(chunk) && delayMs[direction] === 0) {
              from.pause()
              to.once('drain', () => from.resume())
            }
          })
        })
        // The other side learns of the end only if packets in this direction arrive.
        from.on('end', () => {
          if (!isLost()) later(() => to.end())
        })
        from.on('error', () => {
          if (!isLost()) to.destroy()
        })
        from.on('close', () => {
          if (!isLost()) later(() => to.destroy())
          if (link.client.destroyed && link.server.destroyed) links.delete(link)
        })
      }
      const listener = net.createServer({ allowHalfOpen: true }, (client) => {
        if (isBlocked) {
          Deferred.doneUnsafe(refused, Effect.void)
          client.destroy()
          return
        }
        accepted++
        if (isHolding) {
          held.add(client)
          client.on('error', () => {})
          client.on('close', () => held.delete(client))
          client.on('end', () => client.end())
          client.resume()
          return
        }
        const server = net.connect({
          host: target.hostname.replace(/^\[|\]$/gu, ''),
          port: Number(target.port),
          allowHalfOpen: true,
        })
        const link: Link = { client, server, losesToServer: false, losesToClient: false }
        links.add(link)
        client.once('data', () => {
          client.on('data', () => {
            if (breaksAfterFirstPacket === 'end') client.end()
            if (breaksAfterFirstPacket === 'reset') client.resetAndDestroy()
          })
        })
        forward(link, 'to server', () => link.losesToServer)
        forward(link, 'to client', () => link.losesToClient)
      })
      await new Promise<void>((resolve, reject) => {
        listener.once('error', reject)
        listener.listen(wantedPort, host, resolve)
      })
      const { port } = listener.address() as net.AddressInfo
      const destroyAll = () => {
        for (const { client, server } of links) {
          client.destroy()
          server.destroy()
        }
        for (const client of held) client.destroy()
      }
      const lose = (direction: Direction) => {
        for (const link of links) {
          if (direction !== 'to client') link.losesToServer = true
          if (direction !== 'to server') link.losesToClient = true
        }
      }
      return {
        url: Object.assign(new URL(url), {
          hostname: host.includes(':') ? `[${host}]` : host,
          port: String(port),
        }).toString(),
        port,
        open: () => [...links].filter(({ client }) => !client.destroyed).length + held.size,
        accepted: () => accepted,
        reset: () => {
          for (const { client } of links) client.resetAndDestroy()
        },
        resetServerSide: () => {
          lose('both')
          for (const { server } of links) server.resetAndDestroy()
        },
        resetClientSide: () => {
          lose('both')
          for (const { client } of links) client.resetAndDestroy()
        },
        drop: lose,
        hold: () => {
          isHolding = true
        },
        release: () => {
          isHolding = false
        },
        delay: (ms: number, direction: Direction = 'both') => {
          if (direction !== 'to client') delayMs['to server'] = ms
          if (direction !== 'to server') delayMs['to client'] = ms
        },
        retarget: (next: string) => {
          target = new URL(next)
        },
        end: () => {
          for (const { client } of links) client.end()
        },
        breakAfterFirstPacket: (how: 'end' | 'reset') => {
          breaksAfterFirstPacket = how
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
          listener.close()
        },
      }
    }),
    ({ stop }) => Effect.sync(stop),
  )
