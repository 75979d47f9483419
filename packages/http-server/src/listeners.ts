/**
 * Takes new connections fast enough in an overload.
 *
 * libuv takes one connection from each listening socket in a turn of the event loop. In an overload, a
 * turn takes some ten milliseconds. So new clients waited for minutes, before anything could refuse
 * them. The process therefore listens on its port with many sockets (`SO_REUSEPORT`), among which the
 * kernel distributes new connections. Without this option of the kernel, it listens with one.
 *
 * Source: libuv 1.45, "unix: don't accept() connections in a loop"; docs/decisions/overload.md#connections.
 */
import { createServer as createNetServer, type ListenOptions, type Server } from 'node:net'

/** Listening sockets. In an overload with 30 turns per second, a thousand connections take one second. */
const LISTENERS = 32

/** Node supports it on few other systems, which the hub is not deployed on. */
const HAS_REUSE_PORT = process.platform === 'linux'

/**
 * Whether nothing else listens there. Sockets with `SO_REUSEPORT` would share the port with another
 * process of the same user without an error.
 */
const isFree = (options: ListenOptions): Promise<boolean> =>
  new Promise((resolve) => {
    const probe = createNetServer()
    probe.once('error', () => resolve(false))
    probe.listen(options, () => probe.close(() => resolve(true)))
  })

/**
 * The options with which `server` must listen. When it listens, further sockets do, and pass their
 * connections to it. They close with it.
 */
export const listenWithMany = async (server: Server, options: ListenOptions): Promise<ListenOptions> => {
  // If the port is taken, the server reports it.
  if (!HAS_REUSE_PORT || (options.port !== 0 && !(await isFree(options)))) return options
  const shared = { ...options, reusePort: true }
  const others: Array<Server> = []
  server.once('listening', () => {
    const address = server.address()
    if (address === null || typeof address === 'string') return
    for (let i = 1; i < LISTENERS; i++) {
      const other = createNetServer({ noDelay: true, allowHalfOpen: true }, (socket) =>
        server.emit('connection', socket),
      )
      // The server works without it.
      other.on('error', () => {})
      others.push(other.listen({ ...shared, port: address.port }))
    }
  })
  const close = server.close.bind(server)
  server.close = (done) => {
    let open = others.length + 1
    let failure: Error | undefined
    const closed = (error?: Error): void => {
      failure ??= error
      open--
      if (open === 0) done?.(failure)
    }
    for (const other of others) other.close(() => closed())
    return close(closed)
  }
  return shared
}
