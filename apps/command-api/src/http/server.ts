/** The HTTP listener: its limits, and the answers to requests that are not valid HTTP. */
import { createServer, type Server, type ServerOptions, STATUS_CODES } from 'node:http'
import { createServer as createTlsServer, Server as TlsServer } from 'node:https'
import type { Socket } from 'node:net'
import * as NodeHttpServer from '@effect/platform-node/NodeHttpServer'
import { trackUnusedConnections } from '@hub/telemetry'
import { Duration, Effect, Layer } from 'effect'
import { clientAddress, isWithin, type Networks } from '../access/client-address.ts'
import { freshId } from '../ids/ids.ts'
import { type Answer, errorAnswer, headersOf } from './answer.ts'
import { Access } from '../access/access.ts'
import { AdmissionControl } from '../accept/admission-control.ts'
import { limitConnections } from './connection-limit.ts'
import { HttpEdge } from './edge.ts'
import { framingError } from './framing.ts'
import { listenWithMany } from './listeners.ts'
import { installGate, makeOverloadGate } from './overload-gate.ts'
import { LONGEST_ANSWER } from './pipeline.ts'
import { logResponse } from './response-log.ts'
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
/**
 * Concurrent connections; a few kilobytes each. One address may have half of them, so that it
 * cannot exclude all others. The half is for many clients behind one address.
 */
const CONNECTIONS = { all: 10_000, perAddress: 5000 }

/**
 * Connections that wait until the process takes them. In an overload many arrive at once. Beyond the
 * default of 511, the kernel drops the first packet of a connection, and the client repeats it after a
 * second. The kernel may have a lower limit (`net.core.somaxconn`).
 */
const BACKLOG = 4096

/** Time in which a client reads the answer to a request that could not be parsed. */
const LINGER_MS = 2000

/** The error of Node's parser, with the bytes that it parsed. */
interface ParserError extends NodeJS.ErrnoException {
  readonly rawPacket?: Uint8Array
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
      return 501
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

type OnAnswered = (answer: Answer, requestId: string) => void

/** The response to a request that could not be parsed. The connection closes after it. */
const rawResponse = (status: number, docBase: string, onAnswered: OnAnswered): string => {
  const requestId = freshId('req', Date.now())
  const answer = errorAnswer(framingError(status), requestId, docBase, { status })
  onAnswered(answer, requestId)
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
 * Time for requests in progress at a shutdown: for the longest of them, and for its answer to reach
 * the client. The manifests have a grace period for it.
 */
const DRAIN_WITHIN = Duration.sum(LONGEST_ANSWER, Duration.seconds(1))

/** Time for a connection without a request at a shutdown. */
const UNUSED_FOR_MS = 1000

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
const configured = <S extends Server | TlsServer>(server: S, docBase: string, onAnswered: OnAnswered): S => {
  // The server is not a proxy.
  server.on('connect', (_request, socket) => socket.end(rawResponse(400, docBase, onAnswered)))
  // Unknown expectations may be ignored.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  server.on(
    'clientError',
    (error: ParserError, socket: Socket & { _httpMessage?: { headersSent: boolean } }) => {
      // No answer is possible before the TLS handshake.
      if (!socket.writable || error.code === 'ECONNRESET' || isTlsError(error.code)) {
        socket.destroy()
        return
      }
      // The answer to the request may be complete already, and only has to reach the client.
      if (socket._httpMessage?.headersSent === true) socket.destroySoon()
      else socket.end(rawResponse(statusOf(error), docBase, onAnswered))
      // The client may keep its side open, and nothing else would close the connection.
      setTimeout(() => socket.destroy(), LINGER_MS).unref()
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
 * The listener of the API, with TLS if there are files for it. `host` `null` means all addresses.
 * `shutdownDelay` is the delay of `gracefulShutdown`, after which the listener closes.
 */
export const serverLayer = (
  { host, port }: { readonly host: string | null; readonly port: number },
  tls: TlsFiles | null,
  trustedProxies: Networks,
  shutdownDelay: Duration.Duration,
) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const edge = yield* HttpEdge
      const { docBase, loggedShare, onDraining } = edge
      const access = yield* Access
      const admission = yield* AdmissionControl
      const fork = Effect.runForkWith(yield* Effect.context<never>())
      const onAnswered: OnAnswered = (answer, requestId) => {
        const line = logResponse(
          { method: '_OTHER', route: null, answer, caller: null, seconds: 0 },
          loggedShare,
        )
        fork(Effect.annotateLogs(line, { request_id: requestId }))
      }
      const server = configured(
        tls === null ? createServer(OPTIONS) : yield* makeTlsServer(tls),
        docBase,
        onAnswered,
      )
      limitConnections(server, CONNECTIONS, (address) =>
        isWithin(trustedProxies, clientAddress(address, undefined, [])),
      )
      installGate(server, makeOverloadGate({ access, admission, edge, fork }))
      const closeUnused = trackUnusedConnections(server)
      onDraining(() => setTimeout(closeUnused, Duration.toMillis(shutdownDelay) + UNUSED_FOR_MS).unref())
      const address = { port, backlog: BACKLOG, ...(host === null ? {} : { host }) }
      const options = yield* Effect.promise(() => listenWithMany(server, address))
      const listening = NodeHttpServer.layerServer(() => server, {
        ...options,
        gracefulShutdownTimeout: DRAIN_WITHIN,
      })
      // After the drain time: clients with open connections must not keep the process alive.
      const closeAll = Layer.effectDiscard(
        Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections())),
      )
      return Layer.provideMerge(closeAll, listening)
    }),
  )
