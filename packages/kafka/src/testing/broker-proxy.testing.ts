/**
 * A TCP proxy between a client and a broker that tests can stall and cut: what a hung or dead broker looks like from
 * one client, while the broker goes on serving the others. kafkajs connects to the addresses that brokers
 * advertise, so the way in is its `socketFactory`.
 */
import { Effect, type Scope } from 'effect'
import net from 'node:net'
import type { ISocketFactory } from 'kafkajs'
import type { BrokerState } from './memory.ts'

/** `hanging fetches` stalls only the connections that fetch; heartbeats go on. */
export type ProxyState = BrokerState | 'hanging fetches'

export interface BrokerProxy {
  readonly socketFactory: ISocketFactory
  readonly set: (state: ProxyState) => void
  /** The API keys of all requests that went through, in order; 1 is Fetch, 12 Heartbeat, 13 LeaveGroup, 14 SyncGroup. */
  readonly requests: ReadonlyArray<number>
  /** Connections that were refused. */
  readonly refused: () => number
  /** Ends when the condition holds; looked at with every request and every refusal. */
  readonly until: (condition: () => boolean) => Effect.Effect<void>
}

const FETCH = 1

interface Link {
  readonly client: net.Socket
  readonly broker: net.Socket
  fetches: boolean
}

/** Notes the API key of each request in a stream of size-prefixed requests. */
const requestReader = (note: (apiKey: number) => void) => {
  let left: Buffer = Buffer.alloc(0)
  return (chunk: Buffer) => {
    left = left.length === 0 ? chunk : Buffer.concat([left, chunk])
    while (left.length >= 6) {
      const size = left.readInt32BE(0)
      if (left.length < 4 + size) return
      note(left.readInt16BE(4))
      left = left.subarray(4 + size)
    }
  }
}

/** Opens a proxy for as long as the scope. */
export const brokerProxy: Effect.Effect<BrokerProxy, never, Scope.Scope> = Effect.acquireRelease(
  Effect.promise(async () => {
    let state: ProxyState = 'up'
    const links = new Set<Link>()
    const requests: Array<number> = []
    let refused = 0
    const watchers = new Set<() => void>()
    const changed = () => watchers.forEach((check) => check())
    const stalled = (link: Link) => state === 'hanging' || (state === 'hanging fetches' && link.fetches)
    /** Where the next accepted connection should go. Clients connect one at a time here. */
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
        // Port 1 of the loopback answers nobody.
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
