/** A server with its limits and timeouts, its answers to requests that are not valid HTTP, and its end. */
import {
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http'
import type { Server as TlsServer } from 'node:https'
import type { Socket } from 'node:net'
import * as NodeHttpServer from '@effect/platform-node/NodeHttpServer'
import { Duration, Effect, Layer } from 'effect'
import { type ConnectionLimits, trackConnections } from './connections.ts'
import { listenWithMany } from './listeners.ts'

/** Request line and headers: usually some hundred bytes. The redirect of an identity provider has a long query. */
const MAX_HEADER_BYTES = 16 * 1024
/** Headers that have begun to arrive. A connection without any byte of a request gets no answer. */
const HEADERS_TIMEOUT_MS = 10_000
/** A request with its body: 4 MiB at 3 Mbit/s. */
const REQUEST_TIMEOUT_MS = 15_000
/**
 * A connection without a request. Longer than the usual 60 s of load balancers, which must close idle
 * connections first, so that they never send a request on one that the server closes.
 */
const IDLE_TIMEOUT_MS = 65_000
/** Precision of the first two timeouts. */
const CHECK_INTERVAL_MS = 1000
/** At the end of the process, idle connections close when no request has arrived for this time. */
const IDLE_AT_END_MS = 1000

/**
 * Connections that wait until the process takes them. In an overload many arrive at once. Beyond the
 * default of 511, the kernel drops the first packet of a connection, and the client repeats it after a
 * second. The kernel may have a lower limit (`net.core.somaxconn`).
 */
const BACKLOG = 4096

/** The options with which the server of a listener is created, with and without TLS. */
export const LISTENER_OPTIONS = {
  maxHeaderSize: MAX_HEADER_BYTES,
  headersTimeout: HEADERS_TIMEOUT_MS,
  requestTimeout: REQUEST_TIMEOUT_MS,
  keepAliveTimeout: IDLE_TIMEOUT_MS,
  connectionsCheckingInterval: CHECK_INTERVAL_MS,
  // Ignores `Upgrade`, as the protocol allows, and answers the request.
  shouldUpgradeCallback: () => false,
  noDelay: true,
  // `framingFault` checks it, so that the answer has the form of the API.
  requireHostHeader: false,
} as const satisfies ServerOptions

/** The error of Node's parser, with the bytes that it parsed and the reason of its library. */
interface ParserError extends NodeJS.ErrnoException {
  readonly rawPacket?: Uint8Array
  readonly reason?: string
}

/** The major version that the request line names; null if it cannot be found. */
const majorVersion = ({ rawPacket }: ParserError): string | null =>
  rawPacket === undefined
    ? null
    : (/^[^\r\n]* HTTP\/(\d+)\.\d+\r?\n/u.exec(Buffer.from(rawPacket).toString('latin1'))?.[1] ?? null)

const statusOf = (error: ParserError): number => {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return 431
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return 408
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return 413
    case 'HPE_INVALID_TRANSFER_ENCODING':
      // With a Content-Length, the length of the body is ambiguous: an attempt to smuggle a request.
      // Source: RFC 9112, 6.1 and 6.3.
      return /Content-Length|^Empty/u.test(error.reason ?? '') ? 400 : 501
    case 'HPE_PAUSED_H2_UPGRADE':
      return 505
    case 'HPE_INVALID_VERSION': {
      const major = majorVersion(error)
      return major === null || major === '1' ? 400 : 505
    }
    default:
      return 400
  }
}

const isTlsError = (code: string | undefined): boolean =>
  code !== undefined && (code.startsWith('ERR_SSL_') || code.startsWith('ERR_TLS_') || code === 'EPROTO')

/** The headers and the body of an answer to a request that could not be parsed. */
export interface RawAnswer {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

const rawResponse = (status: number, { body, headers }: RawAnswer): string => {
  const lines = Object.entries({
    ...headers,
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines.join('')}\r\n${body}`
}

/** Decides on a request in front of the HTTP framework. `pass` passes it on. */
export type Gate = (request: IncomingMessage, response: ServerResponse, pass: () => void) => void

export interface ListenerOptions {
  /** Created with {@link LISTENER_OPTIONS}. */
  readonly server: Server | TlsServer
  readonly limits: ConnectionLimits
  /** Makes the answer to a request that could not be parsed. */
  readonly refusal: (status: number) => RawAnswer
  readonly gate?: Gate
}

export interface Address {
  /** `null`: all addresses of the machine. */
  readonly host: string | null
  /** 0 selects a free port. */
  readonly port: number
}

export type Listener = ReturnType<typeof makeListener>

export const makeListener = ({ gate, limits, refusal, server }: ListenerOptions) => {
  const connections = trackConnections(server, limits)

  const refuse = (socket: Socket, status: number): void => {
    socket.write(rawResponse(status, refusal(status)))
    connections.finish(socket)
  }
  // The server is not a proxy.
  server.on('connect', (_request, socket: Socket) => refuse(socket, 400))
  // Unknown expectations may be ignored.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  server.on(
    'clientError',
    (error: ParserError, socket: Socket & { _httpMessage?: { headersSent: boolean } }) => {
      if (connections.isClosing(socket)) return
      // Node counts the time of the headers from the connect. A proxy opens connections in advance, and
      // would take an answer for that of its next request.
      if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && connections.isUnused(socket)) return
      // No answer is possible before the TLS handshake.
      if (!socket.writable || error.code === 'ECONNRESET' || isTlsError(error.code)) socket.destroy()
      // The answer to the request may be complete already, and only has to reach the client.
      else if (socket._httpMessage?.headersSent === true) connections.finish(socket)
      else refuse(socket, statusOf(error))
    },
  )
  // Also ends an answer that its client does not read.
  server.timeout = IDLE_TIMEOUT_MS
  server.on('timeout', (socket: Socket) => connections.finish(socket))

  // A listener could not do this: the server calls all listeners.
  const emit = server.emit.bind(server)
  server.emit = (event: string, ...values: ReadonlyArray<unknown>): boolean => {
    if (event !== 'request' && event !== 'checkContinue') return emit(event, ...values)
    const [request, response] = values as unknown as [IncomingMessage, ServerResponse]
    if (!connections.begin(request, response)) return true
    // Source: RFC 9112, 6.1.
    if (request.httpVersion === '1.0' && 'transfer-encoding' in request.headers) {
      response.shouldKeepAlive = false
    }
    if (gate === undefined || event !== 'request') return emit(event, ...values)
    gate(request, response, () => emit(event, ...values))
    return true
  }

  return {
    /** Each connection closes after its next answer. The listener stays open. */
    drain: connections.drain,
    /**
     * Listens until the scope closes. Then it waits for requests in progress, for `drainWithin` at most.
     * `shutdownDelay`: from `drain` until the scope closes.
     */
    layer: (
      { host, port }: Address,
      {
        drainWithin,
        shutdownDelay,
      }: { readonly drainWithin: Duration.Duration; readonly shutdownDelay: Duration.Duration },
    ) =>
      Layer.unwrap(
        Effect.gen(function* () {
          const address = { port, backlog: BACKLOG, ...(host === null ? {} : { host }) }
          const options = yield* Effect.promise(() => listenWithMany(server, address))
          // Node would close idle connections at once, and reset those with an unread request.
          server.closeIdleConnections = () => {}
          const close = server.close.bind(server)
          server.close = (done) => {
            connections.allAccepted(() => {
              close(done)
              connections.closeIdle(
                Math.min(IDLE_AT_END_MS, Duration.toMillis(shutdownDelay)),
                IDLE_AT_END_MS,
              )
            })
            return server
          }
          const listening = NodeHttpServer.layerServer(() => server, {
            ...options,
            gracefulShutdownTimeout: drainWithin,
          })
          // After the drain time: clients with open connections must not keep the process alive.
          const closeAll = Layer.effectDiscard(
            Effect.addFinalizer(() => Effect.sync(() => connections.destroyAll())),
          )
          return Layer.provideMerge(closeAll, listening)
        }),
      ),
  }
}
