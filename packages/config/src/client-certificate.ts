/** Settings that name the files of a client certificate and of its secret key. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import * as Config from 'effect/Config'
import * as Effect from 'effect/Effect'
import * as Result from 'effect/Result'
import type { KeyPairFiles } from './key-pair.ts'
import { refineSetting, type Setting, settingError } from './setting.ts'

const read = <A>(setting: Setting<string | null>, parse: (pem: string) => A, otherwise: string) =>
  refineSetting(setting, (file) =>
    file === null
      ? Result.succeed(null)
      : Result.try({ try: () => readFileSync(file, 'utf8'), catch: () => 'cannot be read' }).pipe(
          Result.flatMap((pem) => Result.try({ try: () => parse(pem), catch: () => otherwise })),
          Result.map((value) => ({ file, value })),
        ),
  )

/** Checks at startup that both files can be used, and belong together. `null`: neither is set. */
export const clientCertificateConfig = (
  certFile: Setting<string | null>,
  keyFile: Setting<string | null>,
): Config.Config<KeyPairFiles | null> =>
  Config.all({
    cert: read(certFile, (pem) => new X509Certificate(pem), 'holds no certificate in PEM'),
    key: read(keyFile, createPrivateKey, 'holds no secret key in PEM without a password'),
  }).pipe(
    Config.mapEffect(({ cert, key }) => {
      if (cert === null || key === null) return Effect.succeed(null)
      return cert.value.checkPrivateKey(key.value)
        ? Effect.succeed({ certFile: cert.file, keyFile: key.file })
        : Effect.fail(settingError(keyFile, `is not the key of the certificate in ${certFile.name}`))
    }),
  )
