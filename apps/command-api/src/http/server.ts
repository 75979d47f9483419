/** The HTTP listener: its limits, and the answers to requests that are not valid HTTP. */
import { createServer, type Server, type ServerOptions, STATUS_CODES } from 'node:http'
import { createServer as createTlsServer, Server as TlsServer } from 'node:https'
import type { Socket } from 'node:net'
import * as NodeHttpServer from '@effect/platform-node/NodeHttpServer'
import { apiError } from '@hub/contract'
import { Duration, Effect, Layer } from 'effect'
import { freshId } from '../ids/ids.ts'
import { errorAnswer, headersOf } from './answer.ts'
import { HttpEdge } from './edge.ts'
import { loadKeyPair, reloadKeyPair, type TlsFiles } from './tls.ts'

/** Request line and headers: usually some hundred bytes; an `Idempotency-Key` adds up to 1 KB. */
const MAX_HEADER_BYTES = 16 * 1024
/** Ends connections of clients that do not send their headers. */
const HEADERS_TIMEOUT_MS = 10_000
/** A request with its body: 4 MiB at 3 Mbit/s. Below the 20 s deadline: slow clients get 408. */
const REQUEST_TIMEOUT_MS = 15_000
/** Longer than the usual 60 s of load balancers, which must close idle connections first. */
const KEEP_ALIVE_TIMEOUT_MS = 65_000
/** Precision of the two timeouts above. */
const CHECK_INTERVAL_MS = 1000
/** Concurrent connections; a few kilobytes each. */
const MAX_CONNECTIONS = 10_000

const statusOf = (code: string | undefined): number => {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return 431
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return 408
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return 413
    default:
      return 400
  }
}

const MESSAGES: Readonly<Record<number, string>> = {
  400: 'The request is not HTTP as it should be.',
  408: 'The request did not arrive in time.',
  413: 'The request is larger than it may be.',
  431: 'The headers of the request are larger than they may be.',
}

/** The response to a request that could not be parsed. The connection closes after it. */
const rawResponse = (status: number, docBase: string): string => {
  const requestId = freshId('req', Date.now())
  const answer = errorAnswer(
    apiError('invalid_parameter', { message: MESSAGES[status] ?? MESSAGES[400]! }),
    requestId,
    docBase,
    { status },
  )
  const headers = {
    ...headersOf(answer, requestId),
    'content-type': answer.contentType,
    'content-length': String(Buffer.byteLength(answer.body)),
    connection: 'close',
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines.join('\r\n')}\r\n\r\n${answer.body}`
}

/**
 * Time for requests in progress at a shutdown: a send is answered within 3 s. Appends follow, and
 * all of it must fit into the 10 s that a process has.
 */
const DRAIN_WITHIN = Duration.seconds(4)

/** Time for a connection without a request at a shutdown. Node would wait like for a used one. */
const UNUSED_FOR_MS = 1000

/** Tracks the connections without a request so far. Returns a function that closes them. */
const trackUnused = (server: Server | TlsServer): (() => void) => {
  const unused = new Set<Socket>()
  server.on(server instanceof TlsServer ? 'secureConnection' : 'connection', (socket: Socket) => {
    unused.add(socket)
    socket.once('close', () => unused.delete(socket))
  })
  server.on('request', ({ socket }) => unused.delete(socket))
  return () => {
    for (const socket of unused) socket.destroy()
  }
}

/** Common options, with and without TLS. */
const OPTIONS: ServerOptions = {
  maxHeaderSize: MAX_HEADER_BYTES,
  headersTimeout: HEADERS_TIMEOUT_MS,
  requestTimeout: REQUEST_TIMEOUT_MS,
  keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
  connectionsCheckingInterval: CHECK_INTERVAL_MS,
  // Ignores `Upgrade`, as the protocol allows, and answers the request.
  shouldUpgradeCallback: () => false,
  noDelay: true,
  // The router checks it, so that the answer has the error envelope.
  requireHostHeader: false,
}

const isTlsError = (code: string | undefined): boolean =>
  code !== undefined && (code.startsWith('ERR_SSL_') || code.startsWith('ERR_TLS_') || code === 'EPROTO')

/** Sets the limits of a server and the answers to invalid HTTP. */
const configured = <S extends Server | TlsServer>(server: S, docBase: string): S => {
  server.maxConnections = MAX_CONNECTIONS
  // The server is not a proxy.
  server.on('connect', (_request, socket) => socket.end(rawResponse(400, docBase)))
  // Unknown expectations may be ignored.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  server.on(
    'clientError',
    (error: NodeJS.ErrnoException, socket: Socket & { _httpMessage?: { headersSent: boolean } }) => {
      // No answer is possible after the first byte of another answer, or before the TLS handshake.
      if (
        !socket.writable ||
        error.code === 'ECONNRESET' ||
        isTlsError(error.code) ||
        socket._httpMessage?.headersSent === true
      ) {
        socket.destroy()
        return
      }
      socket.end(rawResponse(statusOf(error.code), docBase))
    },
  )
  return server
}

/** HTTP/1.1 over TLS 1.2 or later, with a certificate that may be replaced. */
const makeTlsServer = Effect.fnUntraced(function* (files: TlsFiles) {
  const first = yield* loadKeyPair(files)
  const server = createTlsServer({
    ...OPTIONS,
    ...first,
    minVersion: 'TLSv1.2',
    ALPNProtocols: ['http/1.1'],
    handshakeTimeout: HEADERS_TIMEOUT_MS,
  })
  yield* Effect.forkScoped(reloadKeyPair(files, first, server))
  return server
})

/**
 * The listener of the API, on `port` of every interface, with TLS if there are files for it.
 * `shutdownDelay` is the delay of `gracefulShutdown`, after which the listener closes.
 */
export const serverLayer = (port: number, tls: TlsFiles | null, shutdownDelay: Duration.Duration) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const { docBase, onDraining } = yield* HttpEdge
      const server = configured(tls === null ? createServer(OPTIONS) : yield* makeTlsServer(tls), docBase)
      const closeUnused = trackUnused(server)
      onDraining(() => setTimeout(closeUnused, Duration.toMillis(shutdownDelay) + UNUSED_FOR_MS).unref())
      const listening = NodeHttpServer.layerServer(() => server, {
        port,
        gracefulShutdownTimeout: DRAIN_WITHIN,
      })
      // After the drain time: clients with open connections must not keep the process alive.
      const closeAll = Layer.effectDiscard(
        Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections())),
      )
      return Layer.provideMerge(closeAll, listening)
    }),
  )
