/** HTTP over TLS, with a certificate from two files that may be replaced while the process runs. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { ServerOptions } from 'node:http'
import { createServer, type Server } from 'node:https'
import { createSecureContext } from 'node:tls'
import { Data, Duration, Effect, Schedule, type Scope } from 'effect'

/** PEM files: the certificate chain, leaf first, and the private key. */
export interface TlsFiles {
  readonly certFile: string
  readonly keyFile: string
}

/** A file cannot be read or parsed, or the key does not match the certificate. */
class TlsUnusable extends Data.TaggedError('TlsUnusable')<{ readonly detail: string }> {
  override readonly message = `the TLS certificate or its key cannot be used: ${this.detail}`
}

interface KeyPair {
  readonly cert: string
  readonly key: string
}

/** Reads and validates both files. */
export const loadKeyPair = ({ certFile, keyFile }: TlsFiles): Effect.Effect<KeyPair, TlsUnusable> =>
  Effect.tryPromise({
    try: async () => {
      const [cert, key] = await Promise.all([readFile(certFile, 'utf8'), readFile(keyFile, 'utf8')])
      const match = new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))
      // Validates the rest of the chain.
      createSecureContext({ cert, key })
      return { match, cert, key }
    },
    // Only the error code: messages of the TLS library may quote file contents.
    catch: (error) =>
      new TlsUnusable({
        detail: error instanceof Error && 'code' in error ? String(error.code) : 'not a PEM file',
      }),
  }).pipe(
    Effect.flatMap(({ cert, key, match }) =>
      match
        ? Effect.succeed({ cert, key })
        : Effect.fail(new TlsUnusable({ detail: 'the key does not match the certificate' })),
    ),
  )

/** Delay until a replaced certificate is used: short beside the overlap of two certificates. */
const RELOAD_INTERVAL = Duration.seconds(10)

/**
 * Polls the files, because file watchers miss the replacement of a mounted secret. Uses a changed
 * pair for new connections. An unusable pair is logged once: a replacement may be in progress.
 */
const reloadKeyPair = (
  files: TlsFiles,
  first: KeyPair,
  server: Pick<Server, 'setSecureContext'>,
): Effect.Effect<never> => {
  let inUse = first
  let loggedDetail = ''
  const reload = loadKeyPair(files).pipe(
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
  files: TlsFiles,
  options: ServerOptions & { readonly headersTimeout: number },
): Effect.fn.Return<Server, TlsUnusable, Scope.Scope> {
  const first = yield* loadKeyPair(files)
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
