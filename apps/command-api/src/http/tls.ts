/**
 * The certificate of the listener, from two files that may be replaced while it listens: certificates live for weeks, processes for
 * longer.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Server } from 'node:https'
import { createSecureContext } from 'node:tls'
import { Data, Duration, Effect, Schedule } from 'effect'

/** PEM files: the chain, leaf first, and its private key. */
export interface TlsFiles {
  readonly certFile: string
  readonly keyFile: string
}

/** A file cannot be read, holds something else, or key and certificate do not belong together. */
export class TlsUnusable extends Data.TaggedError('TlsUnusable')<{ readonly detail: string }> {
  override readonly message = `the TLS certificate or its key cannot be used: ${this.detail}`
}

export interface KeyPair {
  readonly cert: string
  readonly key: string
}

/** Reads both files and tries them. */
export const loadKeyPair = ({ certFile, keyFile }: TlsFiles): Effect.Effect<KeyPair, TlsUnusable> =>
  Effect.tryPromise({
    try: async () => {
      const [cert, key] = await Promise.all([readFile(certFile, 'utf8'), readFile(keyFile, 'utf8')])
      const match = new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))
      // What follows the leaf is looked at only here.
      createSecureContext({ cert, key })
      return { match, cert, key }
    },
    // The code alone: messages of the TLS library may quote what they could not read.
    catch: (error) =>
      new TlsUnusable({
        detail: error instanceof Error && 'code' in error ? String(error.code) : 'not a PEM file',
      }),
  }).pipe(
    Effect.flatMap(({ cert, key, match }) =>
      match
        ? Effect.succeed({ cert, key })
        : Effect.fail(new TlsUnusable({ detail: 'the key is not that of the certificate' })),
    ),
  )

/** A replaced certificate is in use so much later, long before the old one ends. */
export const LOOK_EVERY = Duration.seconds(10)

/**
 * Looks at the files again and again and uses what has changed for connections to come. What cannot be used is told once and changes
 * nothing: the files may be half-way through their replacement. Reading rather than watching: a mounted secret is replaced by moving a
 * link, which watchers miss.
 */
export const followKeyPair = (
  files: TlsFiles,
  first: KeyPair,
  server: Pick<Server, 'setSecureContext'>,
): Effect.Effect<never> => {
  let inUse = first
  let complaint = ''
  const look = loadKeyPair(files).pipe(
    Effect.flatMap((now) => {
      complaint = ''
      if (now.cert === inUse.cert && now.key === inUse.key) return Effect.void
      inUse = now
      server.setSecureContext({ cert: now.cert, key: now.key })
      return Effect.logInfo('the TLS certificate was replaced')
    }),
    Effect.catch((error) => {
      if (error.detail === complaint) return Effect.void
      complaint = error.detail
      return Effect.annotateLogs(Effect.logWarning('the replaced TLS certificate cannot be used'), {
        detail: error.detail,
      })
    }),
  )
  return Effect.andThen(Effect.repeat(look, Schedule.spaced(LOOK_EVERY)), Effect.never)
}
