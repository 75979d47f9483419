/** The listener: what HTTP itself gets wrong is answered here, in the same words as everything else. */
import { createServer, type Server, type ServerOptions, STATUS_CODES } from 'node:http'
import { createServer as createTlsServer, Server as TlsServer } from 'node:https'
import type { Socket } from 'node:net'
import * as NodeHttpServer from '@effect/platform-node/NodeHttpServer'
import { apiError } from '@hub/contract'
import { Duration, Effect, Layer } from 'effect'
import { freshId } from '../ids.ts'
import { errorAnswer, headersOf } from './answer.ts'
import { HttpEdge } from './edge.ts'
import { followKeyPair, loadKeyPair, type TlsFiles } from './tls.ts'

/** Request line and headers together. Ours are a few hundred bytes; the longest legal `Idempotency-Key` adds a kilobyte. */
const MAX_HEADER_BYTES = 16 * 1024
/** A client that has not sent its headers by then is not going to. */
const HEADERS_TIMEOUT_MS = 10_000
/** The whole request, body included: 4 MiB at 3 Mbit/s. Below the request deadline, so that slow clients get 408. */
const REQUEST_TIMEOUT_MS = 15_000
/** Longer than the usual 60 s of load balancers: the side that closes first must not be the one that is sent to. */
const KEEP_ALIVE_TIMEOUT_MS = 65_000
/** How exactly the two time limits above are kept. */
const CHECK_INTERVAL_MS = 1000
/** Connections at a time; a few kilobytes each. */
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

const WORDS: Readonly<Record<number, string>> = {
  400: 'The request is not HTTP as it should be.',
  408: 'The request did not arrive in time.',
  413: 'The request is larger than it may be.',
  431: 'The headers of the request are larger than they may be.',
}

/** A whole response for a connection whose request could not be read; the connection ends with it. */
const rawResponse = (status: number, docBase: string): string => {
  const requestId = freshId('req', Date.now())
  const answer = errorAnswer(
    apiError('invalid_parameter', { message: WORDS[status] ?? WORDS[400]! }),
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
 * What is in flight when the process ends gets so long: a send is answered within 3 s. Flushes and publications need some seconds
 * more, and all of it must fit into the 10 s that a process has.
 */
const DRAIN_WITHIN = Duration.seconds(4)

/** A connection that has brought no request so long after the end began is not going to; Node would wait for it as for one at work. */
const SILENT_FOR_MS = 1000

/** Those who have connected and not asked for anything yet. Answers how to cut them off. */
const watchSilent = (server: Server | TlsServer): (() => void) => {
  const silent = new Set<Socket>()
  server.on(server instanceof TlsServer ? 'secureConnection' : 'connection', (socket: Socket) => {
    silent.add(socket)
    socket.once('close', () => silent.delete(socket))
  })
  server.on('request', ({ socket }) => silent.delete(socket))
  return () => {
    for (const socket of silent) socket.destroy()
  }
}

/** What is the same with TLS and without. */
const OPTIONS: ServerOptions = {
  maxHeaderSize: MAX_HEADER_BYTES,
  headersTimeout: HEADERS_TIMEOUT_MS,
  requestTimeout: REQUEST_TIMEOUT_MS,
  keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
  connectionsCheckingInterval: CHECK_INTERVAL_MS,
  // Nothing here speaks anything but HTTP: an `Upgrade` is ignored, as the protocol allows, and the request answered.
  shouldUpgradeCallback: () => false,
  noDelay: true,
  // Checked in the router, where the answer has our envelope.
  requireHostHeader: false,
}

const isOfTls = (code: string | undefined): boolean =>
  code !== undefined && (code.startsWith('ERR_SSL_') || code.startsWith('ERR_TLS_') || code === 'EPROTO')

/** Gives a server the hub's limits and words. */
const limited = <S extends Server | TlsServer>(server: S, docBase: string): S => {
  server.maxConnections = MAX_CONNECTIONS
  // Nobody is connected through to anywhere.
  server.on('connect', (_request, socket) => socket.end(rawResponse(400, docBase)))
  // An expectation that we do not know may be ignored.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  server.on(
    'clientError',
    (error: NodeJS.ErrnoException, socket: Socket & { _httpMessage?: { headersSent: boolean } }) => {
      // After the first byte of an answer there is nothing left to say, and before TLS is agreed upon nothing can be said.
      if (
        !socket.writable ||
        error.code === 'ECONNRESET' ||
        isOfTls(error.code) ||
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

/** HTTP/1.1 over TLS 1.2 and above, with a certificate that may be replaced. */
const makeTlsServer = Effect.fnUntraced(function* (files: TlsFiles) {
  const first = yield* loadKeyPair(files)
  const server = createTlsServer({
    ...OPTIONS,
    ...first,
    minVersion: 'TLSv1.2',
    ALPNProtocols: ['http/1.1'],
    handshakeTimeout: HEADERS_TIMEOUT_MS,
  })
  yield* Effect.forkScoped(followKeyPair(files, first, server))
  return server
})

/**
 * The listener of the API, on `port` of every interface; with TLS where there are files for it. It closes so long after the end was
 * announced (`announcedShutdown`).
 */
export const serverLayer = (port: number, tls: TlsFiles | null, shutdownDelay: Duration.Duration) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const { docBase, onDraining } = yield* HttpEdge
      const server = limited(tls === null ? createServer(OPTIONS) : yield* makeTlsServer(tls), docBase)
      const cutSilent = watchSilent(server)
      onDraining(() => setTimeout(cutSilent, Duration.toMillis(shutdownDelay) + SILENT_FOR_MS).unref())
      const listening = NodeHttpServer.layerServer(() => server, {
        port,
        gracefulShutdownTimeout: DRAIN_WITHIN,
      })
      // Runs when `serve` has given up waiting, so that a client that keeps its connection does not keep the process.
      const cut = Layer.effectDiscard(
        Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections())),
      )
      return Layer.provideMerge(cut, listening)
    }),
  )
