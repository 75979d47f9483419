/** A certificate and its secret key in two files, which are replaced while the process runs. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createSecureContext } from 'node:tls'
import * as Data from 'effect/Data'
import * as Result from 'effect/Result'

/** The paths of PEM files: the certificate chain, leaf first, and the secret key. */
export interface KeyPairFiles {
  readonly certFile: string
  readonly keyFile: string
}

/** The contents of both files. */
export interface KeyPair {
  readonly cert: string
  readonly key: string
}

/**
 * A file cannot be read or parsed, or the key does not match the certificate: only one of them may be replaced yet.
 * `detail` contains nothing of the files.
 */
export class KeyPairUnusable extends Data.TaggedError('KeyPairUnusable')<{ readonly detail: string }> {
  override readonly message = `the TLS certificate or its key cannot be used: ${this.detail}`
}

/** Reads both files, and checks that TLS can use them together. */
export const readKeyPair = ({ certFile, keyFile }: KeyPairFiles): Result.Result<KeyPair, KeyPairUnusable> =>
  Result.try({
    try: () => {
      const [cert, key] = [readFileSync(certFile, 'utf8'), readFileSync(keyFile, 'utf8')]
      const match = new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))
      // Validates the rest of the chain.
      if (match) createSecureContext({ cert, key })
      return { match, cert, key }
    },
    // Only the error code: messages of the TLS library may quote file contents.
    catch: (error) =>
      new KeyPairUnusable({
        detail: error instanceof Error && 'code' in error ? String(error.code) : 'not a PEM file',
      }),
  }).pipe(
    Result.flatMap(({ cert, key, match }) =>
      match
        ? Result.succeed({ cert, key })
        : Result.fail(new KeyPairUnusable({ detail: 'the key does not match the certificate' })),
    ),
  )
