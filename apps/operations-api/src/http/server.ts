/** The HTTP listener and its limits. */
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { Socket } from 'node:net'
import * as NodeHttpServer from '@effect/platform-node/NodeHttpServer'
import { trackUnusedConnections } from '@hub/telemetry'
import { Duration, Effect, Layer } from 'effect'
import { SECURITY_HEADERS } from './answer.ts'
import { HttpEdge } from './edge.ts'

/** Hub staff are some dozens of people. A browser opens up to six connections. */
const MAX_CONNECTIONS = 500
/** Request line and headers. The redirect of an identity provider has a long query. */
const MAX_HEADER_BYTES = 16 * 1024
const HEADERS_TIMEOUT_MS = 10_000
/** A request with its body, which is at most 64 KiB. */
const REQUEST_TIMEOUT_MS = 15_000
/** Longer than the usual 60 s of load balancers, which must close idle connections first. */
const KEEP_ALIVE_TIMEOUT_MS = 65_000
/** The precision of the timeouts. */
const CHECK_INTERVAL_MS = 1000

/** For requests in progress at a shutdown: the longest of them, and its answer. */
const DRAIN_WITHIN = Duration.seconds(21)

const STATUSES: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
}

const headerLines = (headers: Readonly<Record<string, string>>): string =>
  Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')

/** The answer to what is no HTTP request. The connection ends with it. */
const refuse = (error: NodeJS.ErrnoException, socket: Socket): void => {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy()
    return
  }
  const status = STATUSES[error.code ?? ''] ?? '400 Bad Request'
  const headers = { ...SECURITY_HEADERS, connection: 'close', 'content-length': '0' }
  socket.end(`HTTP/1.1 ${status}\r\n${headerLines(headers)}\r\n`)
}

const makeServer = (): Server => {
  const server = createServer({
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: HEADERS_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    connectionsCheckingInterval: CHECK_INTERVAL_MS,
    // Ignores `Upgrade`, as the protocol allows, and answers the request.
    shouldUpgradeCallback: (_request: IncomingMessage) => false,
    noDelay: true,
  })
  server.maxConnections = MAX_CONNECTIONS
  server.on('clientError', refuse)
  return server
}

/** Time for a connection without a request at a shutdown. */
const UNUSED_FOR_MS = 1000

/**
 * The listener. `host` `null` means all addresses. `shutdownDelay`: from the announcement of a shutdown
 * until the listener closes.
 */
export const serverLayer = (
  { host, port }: { readonly host: string | null; readonly port: number },
  shutdownDelay: Duration.Duration,
) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const edge = yield* HttpEdge
      const server = makeServer()
      const closeUnused = trackUnusedConnections(server)
      void edge.draining.then(() =>
        setTimeout(closeUnused, Duration.toMillis(shutdownDelay) + UNUSED_FOR_MS).unref(),
      )
      const listening = NodeHttpServer.layerServer(() => server, {
        port,
        ...(host === null ? {} : { host }),
        gracefulShutdownTimeout: DRAIN_WITHIN,
      })
      // After the drain time: clients with open connections must not keep the process alive.
      const closeAll = Layer.effectDiscard(
        Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections())),
      )
      return Layer.provideMerge(closeAll, listening)
    }),
  )
