/** A server with its limits and timeouts, its answers to requests that are not valid HTTP, and its end. */
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http'
import type { Server as TlsServer } from 'node:https'
import type { Socket } from 'node:net'
import type { KeyPairFiles } from '@hub/config'
import * as NodeHttpServer from '@effect/platform-node/NodeHttpServer'
import * as NodeHttpServerRequest from '@effect/platform-node/NodeHttpServerRequest'
import { Duration, Effect, Layer } from 'effect'
import { HttpServer, HttpServerRequest, HttpServerResponse } from 'effect/http'
import { type ConnectionLimits, trackConnections } from './connections.ts'
import { listenWithMany } from './listeners.ts'
import { Serving } from './serving.ts'
import { makeTlsServer } from './tls.ts'

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

/** The options of a server, with and without TLS. */
export const SERVER_OPTIONS = {
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

interface Address {
  /** `null`: all addresses of the machine. */
  readonly host: string | null
  /** 0 selects a free port. */
  readonly port: number
}

interface Ending {
  /** Time for requests in progress at the end. */
  readonly drainWithin: Duration.Duration
  /** The delay of `gracefulShutdown`, after which the listener closes. */
  readonly shutdownDelay: Duration.Duration
}

export interface ListenerOptions extends Address, Ending {
  /** `null`: without TLS. */
  readonly tls: KeyPairFiles | null
  readonly limits: ConnectionLimits
  /** Makes the answer to a request that could not be parsed. */
  readonly refusal: (status: number) => RawAnswer
}

/** `server`: created with {@link SERVER_OPTIONS}. */
export const makeListener = (
  server: Server | TlsServer,
  { limits, refusal }: Pick<ListenerOptions, 'limits' | 'refusal'>,
) => {
  const connections = trackConnections(server, limits)

  const refuse = (socket: Socket, status: number): void => {
    socket.write(rawResponse(status, refusal(status)))
    connections.finish(socket)
  }
  // The server is not a proxy.
  server.on('connect', (_request, socket: Socket) => refuse(socket, 400))
  // Unknown expectations may be ignored.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  // Source: RFC 9110, 10.1.1: the client waits for 100 (Continue) before it sends a body that is wanted.
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) =>
    request.once('resume', () => {
      if (!response.headersSent) response.writeContinue()
    }),
  )
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

  /** Counts each request. One on a connection that closes is not processed, and its answer reaches nobody. */
  const counted = <E, R>(app: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
    Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
      connections.begin(
        NodeHttpServerRequest.toIncomingMessage(request) as IncomingMessage,
        NodeHttpServerRequest.toServerResponse(request) as ServerResponse,
      )
        ? app
        : Effect.succeed(HttpServerResponse.empty({ status: 503 })),
    )

  return {
    /** Each connection closes after its next answer. The listener stays open. */
    drain: connections.drain,
    /** Listens until the scope closes. Then it waits for requests in progress, for `drainWithin` at most. */
    layer: ({ drainWithin, host, port, shutdownDelay }: Address & Ending) =>
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
          const listening = Layer.effect(
            HttpServer.HttpServer,
            Effect.map(
              NodeHttpServer.make(() => server, { ...options, gracefulShutdownTimeout: drainWithin }),
              ({ address, serve }) =>
                HttpServer.make({
                  address,
                  serve: (app, middleware) =>
                    middleware === undefined ? serve(counted(app)) : serve(counted(app), middleware),
                }),
            ),
          )
          // After the drain time: clients with open connections must not keep the process alive.
          const closeAll = Layer.effectDiscard(
            Effect.addFinalizer(() => Effect.sync(() => connections.destroyAll())),
          )
          return Layer.provideMerge(closeAll, listening)
        }),
      ),
  }
}

/** Listens until the scope closes. */
export const listenerLayer = ({ tls, ...options }: ListenerOptions) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const server = tls === null ? createServer(SERVER_OPTIONS) : yield* makeTlsServer(tls, SERVER_OPTIONS)
      const listener = makeListener(server, options)
      void (yield* Serving).draining.then(listener.drain)
      return listener.layer(options)
    }),
  )
