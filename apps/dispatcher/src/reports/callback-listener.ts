/**
 * The listener for signed callbacks of an HTTP operator: delivery reports at `POST /reports`,
 * inbound messages at `POST /inbound`. It answers 200 only after Kafka has acknowledged the
 * records.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { HTTP, makeUnusable, readHttpReports, readHttpInbound, ReportSink } from '@hub/operator'
import { Clock, Data, Effect, FiberSet, Redacted, Result, type Scope } from 'effect'

export class CallbackPortUnavailable extends Data.TaggedError('CallbackPortUnavailable')<{
  readonly detail: string
}> {}

/** 100 reports of at most 700 bytes, with a reserve. */
const MAX_BODY_BYTES = 128 * 1024
const REQUEST_TIMEOUT_MS = 5000
/** Operators use only a few connections. */
const MAX_CONNECTIONS = 256

const readBody = (request: IncomingMessage) =>
  Effect.callback<Buffer | 'too_large' | 'broken'>((resume) => {
    const chunks: Array<Buffer> = []
    let size = 0
    request.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size > MAX_BODY_BYTES) {
        resume(Effect.succeed('too_large'))
        return
      }
      chunks.push(chunk)
    })
    request.on('end', () => resume(Effect.succeed(Buffer.concat(chunks))))
    request.on('close', () => resume(Effect.succeed('broken')))
    request.on('error', () => resume(Effect.succeed('broken')))
  })

/** Listens until the scope closes, and returns the port. Port 0 means any free port. */
export const listenForCallbacks = (options: {
  readonly host: string
  readonly port: number
  readonly secret: Redacted.Redacted<string>
}): Effect.Effect<number, CallbackPortUnavailable, ReportSink | Scope.Scope> =>
  Effect.gen(function* () {
    const sink = yield* ReportSink
    const unusable = yield* makeUnusable
    const fork = yield* FiberSet.makeRuntime<never>()

    const respond = (response: ServerResponse, status: number, headers: Record<string, string> = {}) =>
      Effect.sync(() => {
        if (response.headersSent || response.destroyed) return
        response.writeHead(status, { 'content-type': 'application/json', ...headers })
        response.end(status === 200 ? '{"status":"taken"}' : '{"status":"not_taken"}')
      })

    const handle = Effect.fnUntraced(function* (request: IncomingMessage, response: ServerResponse) {
      const path = (request.url ?? '').split('?', 1)[0]
      if (path !== '/reports' && path !== '/inbound') return yield* respond(response, 404)
      if (request.method !== 'POST') return yield* respond(response, 405, { allow: 'POST' })
      const body = yield* readBody(request)
      if (body === 'broken') return yield* Effect.sync(() => response.destroy())
      if (body === 'too_large') return yield* respond(response, 413, { connection: 'close' })
      const header = request.headers['hub-operator-signature']
      const signature = typeof header === 'string' ? header : ''
      const now = yield* Clock.currentTimeMillis
      const taking =
        path === '/reports'
          ? Result.map(readHttpReports(options.secret, signature, body, now), ({ skipped, usable }) => ({
              skipped,
              store: sink.store(usable),
            }))
          : Result.map(readHttpInbound(options.secret, signature, body, now), ({ skipped, usable }) => ({
              skipped,
              store: sink.storeInbound(usable),
            }))
      if (Result.isFailure(taking)) {
        const { status, thrown } = taking.failure
        if (thrown !== undefined) yield* unusable.defect(HTTP, thrown)
        return yield* respond(response, status)
      }
      const { skipped, store } = taking.success
      if (skipped > 0)
        yield* unusable.skipped(HTTP, path === '/reports' ? 'report' : 'inbound', 'element', skipped)
      return yield* store.pipe(
        Effect.matchCauseEffect({
          onSuccess: () => respond(response, 200),
          onFailure: () => respond(response, 503, { 'retry-after': '1' }),
        }),
      )
    })

    const server = yield* Effect.acquireRelease(
      Effect.callback<Server, CallbackPortUnavailable>((resume) => {
        const listening = createServer(
          { requestTimeout: REQUEST_TIMEOUT_MS, headersTimeout: REQUEST_TIMEOUT_MS },
          (request, response) => {
            fork(handle(request, response))
          },
        )
        listening.maxConnections = MAX_CONNECTIONS
        listening.once('error', (error) =>
          resume(Effect.fail(new CallbackPortUnavailable({ detail: error.message }))),
        )
        listening.listen(options.port, options.host, () => resume(Effect.succeed(listening)))
      }),
      (listening) =>
        Effect.callback<void>((resume) => {
          listening.close(() => resume(Effect.void))
          listening.closeAllConnections()
        }),
    )
    const address = server.address()
    return typeof address === 'object' && address !== null ? address.port : options.port
  })
