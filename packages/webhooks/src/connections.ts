/**
 * Connections to receivers, each for one request at a time. Of those that are free the one that was used last serves next, and the others
 * close when they have idled long enough: so a receiver sees no more of them than there are attempts under way. Why this is not left to
 * undici's pool: docs/decisions/0033.
 */
import { Client } from 'undici'

/** One of undici's clients: it has a socket, or makes one for its next request. */
export interface Connection {
  readonly client: Client
  readonly receiver: Receiver
}

/** The connections to one origin. */
interface Receiver {
  readonly origin: string
  readonly all: Set<Connection>
  /** Those that serve nobody; the last one was used last. */
  readonly free: Array<Connection>
}

export class Connections {
  readonly #options: Client.Options
  readonly #receivers = new Map<string, Receiver>()
  #closed = false

  constructor(options: Client.Options) {
    this.#options = options
  }

  /** A connection to an origin, for one request, behind which it is released or dropped. */
  take(origin: string): Connection {
    const receiver = this.#receiverOf(origin)
    return receiver.free.pop() ?? this.#open(receiver)
  }

  /** Its answer is complete: it may serve the next, unless it was dropped meanwhile. */
  release(connection: Connection): void {
    const { all, free } = connection.receiver
    if (all.has(connection)) free.push(connection)
  }

  /** It is closed. A request that is under way on it fails. */
  drop(connection: Connection): void {
    const { all, origin } = connection.receiver
    if (!all.delete(connection)) return
    if (all.size === 0) this.#receivers.delete(origin)
    void connection.client.destroy()
  }

  /** Closes them all; what is under way fails, and so does what comes later. */
  async close(): Promise<void> {
    this.#closed = true
    const all = [...this.#receivers.values()].flatMap((receiver) => [...receiver.all])
    await Promise.all(all.map(({ client }) => client.destroy()))
  }

  #receiverOf(origin: string): Receiver {
    let receiver = this.#receivers.get(origin)
    if (receiver === undefined) {
      receiver = { origin, all: new Set(), free: [] }
      this.#receivers.set(origin, receiver)
    }
    return receiver
  }

  #open(receiver: Receiver): Connection {
    const client = new Client(receiver.origin, this.#options)
    const connection: Connection = { client, receiver }
    receiver.all.add(connection)
    // Closed while it was free. One that serves makes a new socket where that can help, and fails where it cannot.
    client.on('disconnect', () => {
      const place = receiver.free.indexOf(connection)
      if (place === -1) return
      receiver.free.splice(place, 1)
      this.drop(connection)
    })
    if (this.#closed) void client.destroy()
    return connection
  }
}
