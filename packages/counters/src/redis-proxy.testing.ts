/**
 * A TCP proxy between a client and Redis that tests can stall and close. One client then sees a
 * server that hangs or is down, while the server serves the others.
 */
import net from 'node:net'
import { Effect, type Scope } from 'effect'
import type { CountersState } from './memory.ts'

export interface RedisProxy {
  readonly url: string
  readonly set: (state: CountersState) => void
  /** How many scripts clients have run so far. */
  readonly scripts: () => number
}

export interface RedisProxyOptions {
  /** Changes the answers of the server. */
  readonly rewrite?: (answer: string) => string
}

/** Opens a proxy to the server at `url` until the scope closes. */
export const redisProxy = (
  url: string,
  options: RedisProxyOptions = {},
): Effect.Effect<RedisProxy, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        const target = new URL(url)
        const { rewrite } = options
        let state: CountersState = 'up'
        let scripts = 0
        const links = new Set<readonly [client: net.Socket, server: net.Socket]>()
        const listener = net.createServer((client) => {
          if (state === 'refusing') {
            client.destroy()
            return
          }
          const server = net.connect({ host: target.hostname, port: Number(target.port || 6379) })
          const link = [client, server] as const
          links.add(link)
          client.on('data', (chunk) => {
            scripts += chunk.toString('latin1').split('evalsha').length - 1
            // Requests to a server that hangs are lost here. Another test covers requests that such
            // a server executes later.
            if (state !== 'hanging') server.write(chunk)
          })
          server.on('data', (chunk) => {
            if (state === 'hanging') return
            client.write(rewrite === undefined ? chunk : rewrite(chunk.toString('latin1')), 'latin1')
          })
          const end = () => {
            links.delete(link)
            client.destroy()
            server.destroy()
          }
          for (const socket of link) {
            socket.setNoDelay(true)
            socket.on('error', end)
            socket.on('close', end)
          }
        })
        await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
        const { port } = listener.address() as net.AddressInfo
        const cut = () => links.forEach(([client]) => client.destroy())
        const proxy: RedisProxy = {
          url: Object.assign(new URL(url), { hostname: '127.0.0.1', port: String(port) }).toString(),
          set: (next) => {
            // A connection that has lost bytes cannot continue.
            if (next === 'refusing' || state === 'hanging') cut()
            state = next
          },
          scripts: () => scripts,
        }
        return {
          proxy,
          close: () => {
            cut()
            listener.close()
          },
        }
      }),
      ({ close }) => Effect.sync(close),
    ),
    ({ proxy }) => proxy,
  )
