/** An HTTPS receiver for tests that stores the requests it receives. */
import { Effect, type Scope } from 'effect'
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import { TLSSocket } from 'node:tls'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { ServerCertificate } from './certificates.ts'

/** A request that was received completely. */
export interface Received {
  readonly path: string
  readonly method: string
  readonly headers: IncomingHttpHeaders
  readonly rawHeaders: ReadonlyArray<string>
  readonly body: Buffer
  /** SHA-256 of the client certificate, if the connection has one. */
  readonly clientFingerprint: string | null
  /** Milliseconds since the epoch. */
  readonly at: number
}

/** Writes the response to a request. It may also leave the request without a response. */
type Respond = (received: Received, response: ServerResponse, request: IncomingMessage) => void

export interface TlsReceiver {
  readonly port: number
  readonly url: (path?: string) => string
  /** All requests so far, in the order of arrival. */
  readonly received: ReadonlyArray<Received>
  /** Deletes the stored requests, so that a load test does not fill the memory. */
  readonly clear: () => void
  /** Waits until `enough` is true. Only the timeout of the test limits the wait. */
  readonly until: (
    enough: (received: ReadonlyArray<Received>) => boolean,
  ) => Effect.Effect<ReadonlyArray<Received>>
  /** Sets the response to all later requests. */
  readonly respondWith: (respond: Respond) => void
  /** The number of TCP connections accepted so far. */
  readonly connections: () => number
}

/** Responds with a status and an empty body. */
export const statusResponse =
  (status: number, headers: Record<string, string> = {}): Respond =>
  (_received, response) => {
    response.writeHead(status, headers).end()
  }

/** The empty object of Node stands for no certificate. */
const fingerprintOf = (socket: Socket): string | null =>
  socket instanceof TLSSocket ? (socket.getPeerCertificate().fingerprint256 ?? null) : null

/** Starts a receiver. It closes, with all its connections, when the scope closes. */
export const tlsReceiver = (
  certificate: ServerCertificate,
  options: {
    readonly respond?: Respond
    readonly host?: string
    readonly name?: string
    /** It asks for a client certificate of this authority (PEM), and refuses connections without one if it must. */
    readonly clients?: { readonly ca: string; readonly required: boolean }
  } = {},
): Effect.Effect<TlsReceiver, never, Scope.Scope> =>
  Effect.gen(function* () {
    const host = options.host ?? '127.0.0.1'
    let respond = options.respond ?? statusResponse(200)
    const received: Array<Received> = []
    const waiting = new Set<() => void>()
    const sockets = new Set<Duplex>()
    let connections = 0

    const server = yield* Effect.acquireRelease(
      Effect.callback<ReturnType<typeof createServer>>((resume) => {
        const { clients } = options
        const asking =
          clients === undefined
            ? {}
            : { requestCert: true, rejectUnauthorized: clients.required, ca: clients.ca }
        const server = createServer({ ...certificate, ...asking }, (request, response) => {
          const chunks: Array<Buffer> = []
          request.on('data', (chunk: Buffer) => chunks.push(chunk))
          request.on('end', () => {
            const one: Received = {
              path: request.url ?? '',
              method: request.method ?? '',
              headers: request.headers,
              rawHeaders: request.rawHeaders,
              body: Buffer.concat(chunks),
              clientFingerprint: fingerprintOf(request.socket),
              at: Date.now(),
            }
            received.push(one)
            respond(one, response, request)
            for (const check of waiting) check()
          })
        })
        // Some tests use clients that abort the handshake or do not trust the certificate.
        server.on('tlsClientError', () => {})
        server.on('connection', (socket) => {
          connections += 1
          sockets.add(socket)
          socket.once('close', () => sockets.delete(socket))
        })
        server.listen(0, host, () => resume(Effect.succeed(server)))
      }),
      (server) =>
        Effect.callback<void>((resume) => {
          server.close(() => resume(Effect.void))
          server.closeAllConnections()
          // `closeAllConnections` leaves connections open whose TLS handshake is not complete.
          for (const socket of sockets) socket.destroy()
        }),
    )
    const { port } = server.address() as AddressInfo

    return {
      port,
      received,
      clear: () => void received.splice(0),
      url: (path = '/') =>
        `https://${options.name ?? (host.includes(':') ? `[${host}]` : host)}:${port}${path}`,
      connections: () => connections,
      respondWith: (next) => {
        respond = next
      },
      until: (enough) =>
        Effect.callback((resume) => {
          const check = () => {
            if (!enough(received)) return
            waiting.delete(check)
            resume(Effect.succeed([...received]))
          }
          waiting.add(check)
          check()
          return Effect.sync(() => waiting.delete(check))
        }),
    }
  })
