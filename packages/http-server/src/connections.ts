/**
 * The connections of a server: their number, and their end.
 *
 * **Limits.** At a limit, a new connection takes the place of the one that has waited longest for its
 * client: one that is silent, idle, or still sends a request or reads an answer. So silent connections
 * keep nobody out, also not behind a proxy that all clients share. A connection whose request is being
 * worked on is never closed for another one: then the new one is.
 *
 * **End.** A client, such as a proxy, can send a request at any moment on a connection that is idle. If
 * the server closes the connection at this moment, the request fails. So the server first announces the
 * end: each answer has `Connection: close`, and its connection closes after it. While requests arrive, a
 * proxy still uses its connections, and the next request may come on any of them. So idle ones close only
 * when none has arrived for a while. The server closes its own side, and reads on until the client closes
 * the other side: with unread bytes, the kernel would reset the connection.
 *
 * Source: RFC 9112, 9.6 (Tear-down); nginx, "reusable connections".
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { Server as TlsServer } from 'node:https'
import type { Socket } from 'node:net'
import { hasBody } from './body.ts'
import { closedAtLimit } from './metrics.ts'
import { networkOf } from './network.ts'

export interface ConnectionLimits {
  readonly all: number
  /** Of one IPv4 address, or of one /64 of IPv6. */
  readonly perAddress: number
  /** The address of a proxy has no limit of its own. */
  readonly isProxy?: (address: string) => boolean
}

/** Time in which a client closes its side after the server has closed its own. */
const LINGER_MS = 2000
/** How often idle connections are looked for at the end. */
const SWEEP_EVERY_MS = 100
/** Ends the wait for accepted connections in an overload, when new ones arrive all the time. */
const ACCEPT_WITHIN_MS = 1000

/** Connections of one client network, or all connections. */
interface Group {
  readonly limit: 'all' | 'address'
  size: number
  /** The connections that wait for their client, the longest wait first. */
  readonly waiting: Set<Connection>
}

interface Connection {
  /** With TLS, the socket of TLS as soon as there is one. */
  socket: Socket
  readonly groups: ReadonlyArray<Group>
  /** Requests whose answers are not complete. More than one if the client sends them in advance. */
  open: number
  /** The last of them. */
  last: { readonly request: IncomingMessage; readonly response: ServerResponse } | null
  /** The answer with `Connection: close`, at the end of the process. */
  announced: ServerResponse | null
  /** The bytes that had been received when the last answer was complete. */
  idleBytes: number
  isClosing: boolean
}

const isWorkedOn = ({ last }: Connection): boolean =>
  last !== null && last.request.complete && !last.response.writableEnded

/** Announces in the answer that its connection closes. */
const announce = (connection: Connection, response: ServerResponse): void => {
  if (response.headersSent || !response.shouldKeepAlive) return
  response.shouldKeepAlive = false
  connection.announced = response
}

export const trackConnections = (server: Server | TlsServer, limits: ConnectionLimits) => {
  const of = new WeakMap<Socket, Connection>()
  const connections = new Set<Connection>()
  const everything: Group = { limit: 'all', size: 0, waiting: new Set() }
  const byNetwork = new Map<string, Group>()
  let isDraining = false
  let accepted = 0
  /** When the last request began or ended, or a connection was opened. */
  let usedAt = performance.now()

  const waits = (connection: Connection): void => {
    for (const { waiting } of connection.groups) {
      waiting.delete(connection)
      waiting.add(connection)
    }
  }
  const works = (connection: Connection): void => {
    for (const { waiting } of connection.groups) waiting.delete(connection)
  }
  const isIdle = ({ idleBytes, isClosing, open, socket }: Connection): boolean =>
    open === 0 && !isClosing && socket.bytesRead === idleBytes

  /** Closes the side of the server, and reads on for a while. */
  const finish = (connection: Connection): void => {
    if (connection.isClosing) return
    connection.isClosing = true
    const { socket } = connection
    socket.end()
    socket.resume()
    const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref()
    socket.once('close', () => clearTimeout(timer))
  }

  /** Closes the connection that has waited longest. False: each of them is worked on. */
  const makeRoom = ({ limit, waiting }: Group): boolean => {
    for (const connection of waiting) {
      if (isWorkedOn(connection)) {
        works(connection)
        continue
      }
      forget(connection)
      connection.socket.destroy()
      closedAtLimit.add({ limit, closed: 'waiting' })
      return true
    }
    closedAtLimit.add({ limit, closed: 'new' })
    return false
  }
  const forget = (connection: Connection): void => {
    if (!connections.delete(connection)) return
    works(connection)
    for (const group of connection.groups) group.size--
  }

  const use = (connection: Connection, socket: Socket): void => {
    connection.socket = socket
    of.set(socket, connection)
    // Node calls it after the last answer of a connection.
    socket.destroySoon = () => finish(connection)
    // Node removes its own listener at the first fault of a connection.
    socket.on('error', () => {})
  }

  const groupOf = (address: string): { readonly group: Group; readonly remove: () => void } => {
    const network = networkOf(address)
    const group: Group = byNetwork.get(network) ?? { limit: 'address', size: 0, waiting: new Set() }
    byNetwork.set(network, group)
    return {
      group,
      remove: () => {
        if (group.size === 0 && byNetwork.get(network) === group) byNetwork.delete(network)
      },
    }
  }

  server.on('connection', (socket: Socket) => {
    accepted++
    usedAt = performance.now()
    const address = socket.remoteAddress
    // The client has already disconnected.
    if (address === undefined) return socket.destroy()
    const own = limits.isProxy?.(address) === true ? null : groupOf(address)
    const hasRoom =
      (own === null || own.group.size < limits.perAddress || makeRoom(own.group)) &&
      (everything.size < limits.all || makeRoom(everything))
    if (!hasRoom) {
      own?.remove()
      return socket.destroy()
    }
    const connection: Connection = {
      socket,
      groups: own === null ? [everything] : [everything, own.group],
      open: 0,
      last: null,
      announced: null,
      idleBytes: 0,
      isClosing: false,
    }
    connections.add(connection)
    for (const group of connection.groups) group.size++
    use(connection, socket)
    waits(connection)
    socket.once('close', () => {
      forget(connection)
      own?.remove()
    })
    return undefined
  })
  if (server instanceof TlsServer) {
    // Node has no public way from the socket of TLS to the one below it.
    server.on('secureConnection', (socket: Socket & { readonly _parent?: Socket }) => {
      const connection = socket._parent === undefined ? undefined : of.get(socket._parent)
      if (connection !== undefined) use(connection, socket)
    })
  }

  return {
    /** A request has begun. False: its connection closes, so it must not be processed. */
    begin: (request: IncomingMessage, response: ServerResponse): boolean => {
      const connection = of.get(request.socket)
      if (connection === undefined) return true
      if (connection.isClosing) return false
      // Source: RFC 9112, 6.1.
      if (request.httpVersion === '1.0' && 'transfer-encoding' in request.headers) {
        response.shouldKeepAlive = false
      }
      if (isDraining) {
        const before = connection.announced
        if (before !== null) {
          if (before.headersSent) return false
          before.shouldKeepAlive = true
        }
        announce(connection, response)
      }
      const last = { request, response }
      usedAt = performance.now()
      connection.open++
      connection.last = last
      if (hasBody(request.headers)) {
        waits(connection)
        request.once('end', () => {
          if (connection.last === last) works(connection)
        })
      } else works(connection)
      // The answer is written. Now the client has to read it.
      response.once('prefinish', () => waits(connection))
      response.once('close', () => {
        connection.open--
        usedAt = performance.now()
        if (connection.open > 0) return
        connection.last = null
        connection.idleBytes = connection.socket.bytesRead
        if (connections.has(connection)) waits(connection)
      })
      return true
    },
    /** Whether nothing of a request has arrived since the last answer. */
    isUnused: (socket: Socket): boolean => {
      const connection = of.get(socket)
      return connection !== undefined && isIdle(connection)
    },
    isClosing: (socket: Socket): boolean => of.get(socket)?.isClosing === true,
    /** Closes the connection after what was written. */
    finish: (socket: Socket): void => {
      const connection = of.get(socket)
      if (connection === undefined) socket.destroy()
      else finish(connection)
    },
    /** From now on, each connection closes after its next answer. */
    drain: (): void => {
      isDraining = true
      for (const connection of connections) {
        if (connection.last !== null) announce(connection, connection.last.response)
      }
    },
    /**
     * Calls back when no connection waits to be accepted: the kernel resets those of a listener that closes.
     */
    allAccepted: (done: () => void): void => {
      const startedAt = performance.now()
      let before = -1
      // An immediate runs after the turn has accepted one connection of each listening socket.
      const look = (): void => {
        if (accepted === before || performance.now() - startedAt > ACCEPT_WITHIN_MS) return done()
        before = accepted
        setImmediate(look)
        return undefined
      }
      setImmediate(look)
    },
    /**
     * Closes connections that are idle, now and later, until none is left. A request has begun or ended
     * `idleForMs` ago or before; `unusedForMs` for a connection without any request, because its first one
     * is probably on its way.
     */
    closeIdle: (idleForMs: number, unusedForMs: number): void => {
      const sweep = (): void => {
        if (connections.size === 0) return
        const unusedFor = performance.now() - usedAt
        for (const connection of connections) {
          const isOver = unusedFor >= (connection.idleBytes === 0 ? unusedForMs : idleForMs)
          if (isOver && isIdle(connection)) finish(connection)
        }
        next()
      }
      // An immediate runs after the event loop has read what has arrived. The first may run in the turn
      // whose reads are over.
      const next = (): void => void setTimeout(() => setImmediate(sweep), SWEEP_EVERY_MS).unref()
      setImmediate(() => setImmediate(sweep))
    },
    destroyAll: (): void => {
      for (const { socket } of connections) socket.destroy()
    },
  }
}
