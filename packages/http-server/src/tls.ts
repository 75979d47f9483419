/** HTTP over TLS, with a certificate from two files that may be replaced while the process runs. */
import type { ServerOptions } from 'node:http'
import { createServer, type Server } from 'node:https'
import { type KeyPair, type KeyPairFiles, type KeyPairUnusable, readKeyPair } from '@hub/config'
import { Duration, Effect, Schedule, type Scope } from 'effect'

/** Delay until a replaced certificate is used: short beside the overlap of two certificates. */
const RELOAD_INTERVAL = Duration.seconds(10)

/**
 * Polls the files, because file watchers miss the replacement of a mounted secret. Uses a changed
 * pair for new connections. An unusable pair is logged once: a replacement may be in progress.
 */
const reloadKeyPair = (
  files: KeyPairFiles,
  first: KeyPair,
  server: Pick<Server, 'setSecureContext'>,
): Effect.Effect<never> => {
  let inUse = first
  let loggedDetail = ''
  const reload = Effect.suspend(() => Effect.fromResult(readKeyPair(files))).pipe(
    Effect.flatMap((current) => {
      loggedDetail = ''
      if (current.cert === inUse.cert && current.key === inUse.key) return Effect.void
      inUse = current
      server.setSecureContext({ cert: current.cert, key: current.key })
      return Effect.logInfo('http: using the replaced TLS certificate')
    }),
    Effect.catch((error) => {
      if (error.detail === loggedDetail) return Effect.void
      loggedDetail = error.detail
      return Effect.annotateLogs(
        Effect.logWarning('http: the replaced TLS certificate cannot be used; keeping the previous one'),
        { detail: error.detail },
      )
    }),
  )
  return Effect.andThen(Effect.repeat(reload, Schedule.spaced(RELOAD_INTERVAL)), Effect.never)
}

/** HTTP/1.1 over TLS 1.2 or later. `options`: those of the server without TLS. */
export const makeTlsServer = Effect.fnUntraced(function* (
  files: KeyPairFiles,
  options: ServerOptions & { readonly headersTimeout: number },
): Effect.fn.Return<Server, KeyPairUnusable, Scope.Scope> {
  const first = yield* Effect.fromResult(readKeyPair(files))
  const server = createServer({
    ...options,
    ...first,
    minVersion: 'TLSv1.2',
    ALPNProtocols: ['http/1.1'],
    handshakeTimeout: options.headersTimeout,
  })
  yield* Effect.forkScoped(reloadKeyPair(files, first, server))
  return server
})
