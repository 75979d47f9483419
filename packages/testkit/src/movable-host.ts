/** A host name that a test moves from one loopback address to another, like a failover does. */
import dns from 'node:dns'
import net from 'node:net'
import { Effect, type Scope } from 'effect'
import { type FaultProxy, faultProxy } from './fault-proxy.ts'

export interface MovableHost {
  /** The server's URL with the name. */
  readonly url: string
  readonly host: string
  /** In front of the server at the first address. */
  readonly first: FaultProxy
  /** In front of the same server at the second address, with the same port. */
  readonly second: FaultProxy
  /** From now on, the name resolves to the second address. */
  readonly move: () => void
}

/**
 * Resolves `name` in this process. `net` and `tls` look names up with `dns.lookup` at each connect
 * unless the caller caches addresses.
 */
export const movableHost = (url: string, name: string): Effect.Effect<MovableHost, never, Scope.Scope> =>
  Effect.gen(function* () {
    const first = yield* faultProxy(url)
    // Not every system has a second IPv4 address of its own.
    const second = yield* faultProxy(url, { host: '127.0.0.2', port: first.port }).pipe(
      Effect.catchDefect(() => faultProxy(url, { host: '::1', port: first.port })),
    )
    const addressOf = (proxy: FaultProxy) => new URL(proxy.url).hostname.replace(/^\[|\]$/gu, '')
    let address = addressOf(first)
    yield* Effect.acquireRelease(
      Effect.sync(() => {
        const lookup = dns.lookup
        dns.lookup = ((host: string, ...rest: Array<unknown>) => {
          if (host !== name) return Reflect.apply(lookup, dns, [host, ...rest])
          const callback = rest.at(-1) as (...answer: ReadonlyArray<unknown>) => void
          const family = net.isIP(address)
          const wantsAll = (rest[0] as dns.LookupOptions | null)?.all === true
          if (wantsAll) callback(null, [{ address, family }])
          else callback(null, address, family)
        }) as typeof dns.lookup
        return lookup
      }),
      (lookup) => Effect.sync(() => (dns.lookup = lookup)),
    )
    return {
      url: Object.assign(new URL(first.url), { hostname: name }).toString(),
      host: name,
      first,
      second,
      move: () => {
        address = addressOf(second)
      },
    }
  })
