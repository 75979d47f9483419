/**
 * A TCP proxy between one client and the broker. A test can stall or close its connections, so that
 * the broker appears hung or dead to this client only. kafkajs connects to the advertised addresses
 * of the brokers, so the proxy replaces its `socketFactory`.
 */
import { Effect, type Scope } from 'effect'
import net from 'node:net'
import type { ISocketFactory } from 'kafkajs'
import type { BrokerState } from './simulated/one-process.ts'

/** `hanging fetches` stalls only the connections for fetches, not those for heartbeats. */
type ProxyState = BrokerState | 'hanging fetches'

export interface BrokerProxy {
  readonly socketFactory: ISocketFactory
  readonly set: (state: ProxyState) => void
  /** API keys of the requests, in order: 1 Fetch, 12 Heartbeat, 13 LeaveGroup, 14 SyncGroup. */
  readonly requests: ReadonlyArray<number>
  /** The number of refused connections. */
  readonly refused: () => number
  /** Resolves when the condition is true. It is checked with every request and every refusal. */
  readonly until: (condition: () => boolean) => Effect.Effect<void>
}

const FETCH = 1

interface Link {
  readonly client: net.Socket
  readonly broker: net.Socket
  fetches: boolean
}

/** Reports the API key of each request in a stream of size-prefixed requests. */
const requestReader = (onRequest: (apiKey: number) => void) => {
  let rest: Buffer = Buffer.alloc(0)
  return (chunk: Buffer) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    while (rest.length >= 6) {
      const size = rest.readInt32BE(0)
      if (rest.length < 4 + size) return
      onRequest(rest.readInt16BE(4))
      rest = rest.subarray(4 + size)
    }
  }
}

/** A proxy that closes with the scope. */
export const brokerProxy: Effect.Effect<BrokerProxy, never, Scope.Scope> = Effect.acquireRelease(
  Effect.promise(async () => {
    let state: ProxyState = 'up'
    const links = new Set<Link>()
    const requests: Array<number> = []
    let refused = 0
    const watchers = new Set<() => void>()
    const changed = () => watchers.forEach((check) => check())
    const stalled = (link: Link) => state === 'hanging' || (state === 'hanging fetches' && link.fetches)
    /** The target of the next accepted connection. */
    const targets: Array<{ host: string; port: number }> = []
    const apply = (link: Link) => {
      for (const socket of [link.client, link.broker]) {
        if (stalled(link)) socket.pause()
        else socket.resume()
      }
    }
    const server = net.createServer((client) => {
      const target = targets.shift()!
      const broker = net.connect(target)
      const link: Link = { client, broker, fetches: false }
      links.add(link)
      const read = requestReader((apiKey) => {
        requests.push(apiKey)
        if (apiKey === FETCH) link.fetches = true
        changed()
      })
      client.on('data', (chunk) => {
        read(chunk)
        broker.write(chunk)
        if (stalled(link)) apply(link)
      })
      broker.on('data', (chunk) => {
        client.write(chunk)
      })
      const end = () => {
        links.delete(link)
        client.destroy()
        broker.destroy()
      }
      for (const socket of [client, broker]) {
        socket.on('error', end)
        socket.on('close', end)
        socket.setNoDelay(true)
      }
      apply(link)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as net.AddressInfo
    return {
      requests,
      refused: () => refused,
      until: (condition: () => boolean) =>
        Effect.callback<void>((resume) => {
          const check = () => {
            if (!condition()) return
            watchers.delete(check)
            resume(Effect.void)
          }
          watchers.add(check)
          check()
          return Effect.sync(() => watchers.delete(check))
        }),
      set: (next: ProxyState) => {
        state = next
        for (const link of links) {
          if (next === 'refusing') link.client.destroy()
          else apply(link)
        }
      },
      socketFactory: (({ host, port: brokerPort, onConnect }) => {
        // No server listens on port 1.
        if (state === 'refusing') {
          refused++
          changed()
          return net.connect({ host: '127.0.0.1', port: 1 }, onConnect)
        }
        targets.push({ host, port: brokerPort })
        return net.connect({ host: '127.0.0.1', port }, onConnect)
      }) satisfies ISocketFactory,
      close: () => {
        for (const { client, broker } of links) {
          client.destroy()
          broker.destroy()
        }
        server.close()
      },
    }
  }),
  ({ close }) => Effect.sync(close),
)
