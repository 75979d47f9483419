/** Settings that name the files of a client certificate and of its secret key. */
import { createPrivateKey } from 'node:crypto'
import * as Config from 'effect/Config'
import * as Effect from 'effect/Effect'
import type { KeyPairFiles } from './key-pair.ts'
import { certificateFileConfig, pemFileConfig } from './pem-file.ts'
import { type Setting, settingError } from './setting.ts'

/** Checks at startup that both files can be used, and belong together. `null`: neither is set. */
export const clientCertificateConfig = (
  certFile: Setting<string | null>,
  keyFile: Setting<string | null>,
): Config.Config<KeyPairFiles | null> =>
  Config.all({
    cert: certificateFileConfig(certFile),
    key: pemFileConfig(keyFile, createPrivateKey, 'holds no secret key in PEM without a password'),
  }).pipe(
    Config.mapEffect(({ cert, key }) => {
      if (cert === null || key === null) return Effect.succeed(null)
      return cert.value.checkPrivateKey(key.value)
        ? Effect.succeed({ certFile: cert.file, keyFile: key.file })
        : Effect.fail(settingError(keyFile, `is not the key of the certificate in ${certFile.name}`))
    }),
  )
