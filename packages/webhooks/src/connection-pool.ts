/**
 * Connections to receivers, each for one request at a time. The free connection that was used last
 * serves the next request, and the others close when they are idle. So a receiver has no more
 * connections than attempts in flight. Connections with different client certificates are never
 * shared, because a receiver knows the hub by it for the whole connection. Why not undici's pool:
 * docs/decisions/webhook-throughput.md#connections.
 */
import { type buildConnector, Client } from 'undici'

/** One client of undici. It has a socket, or opens one for its next request. */
export interface Connection {
  readonly client: Client
  readonly origin: OriginConnections
}

/** How connections are opened. */
export interface Opening {
  /** Two of the same id present the same client certificate, or none. */
  readonly id: string
  readonly connect: buildConnector.connector
}

/** The connections to one origin with one client certificate, or with none. */
interface OriginConnections {
  readonly key: string
  readonly url: string
  readonly opening: Opening
  readonly all: Set<Connection>
  /** Those without a request. The last one was used last. */
  readonly free: Array<Connection>
}

export class ConnectionPool {
  readonly #options: Omit<Client.Options, 'connect'>
  readonly #origins = new Map<string, OriginConnections>()
  #closed = false

  constructor(options: Omit<Client.Options, 'connect'>) {
    this.#options = options
  }

  /** Takes a connection to an origin for one request. Afterwards it must be released or dropped. */
  take(url: string, opening: Opening): Connection {
    const origin = this.#originOf(url, opening)
    return origin.free.pop() ?? this.#open(origin)
  }

  /** The response is complete: the connection is free again, unless it was dropped. */
  release(connection: Connection): void {
    const { all, free } = connection.origin
    if (all.has(connection)) free.push(connection)
  }

  /** Closes a connection. Its request fails. */
  drop(connection: Connection): void {
    const { all, key } = connection.origin
    if (!all.delete(connection)) return
    if (all.size === 0) this.#origins.delete(key)
    void connection.client.destroy()
  }

  /** Closes all connections. Requests in flight and later ones fail. */
  async close(): Promise<void> {
    this.#closed = true
    const all = [...this.#origins.values()].flatMap((origin) => [...origin.all])
    await Promise.all(all.map(({ client }) => client.destroy()))
  }

  #originOf(url: string, opening: Opening): OriginConnections {
    const key = opening.id + url
    let origin = this.#origins.get(key)
    if (origin === undefined) {
      origin = { key, url, opening, all: new Set(), free: [] }
      this.#origins.set(key, origin)
    }
    return origin
  }

  #open(origin: OriginConnections): Connection {
    const client = new Client(origin.url, { ...this.#options, connect: origin.opening.connect })
    const connection: Connection = { client, origin }
    origin.all.add(connection)
    // Drops a free connection. With a request, undici reconnects or fails the request.
    client.on('disconnect', () => {
      const index = origin.free.indexOf(connection)
      if (index === -1) return
      origin.free.splice(index, 1)
      this.drop(connection)
    })
    if (this.#closed) void client.destroy()
    return connection
  }
}
