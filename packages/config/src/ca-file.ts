/** Settings that name a file with certificate authorities. */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type * as Config from 'effect/Config'
import * as Result from 'effect/Result'
import { refineSetting, type Setting } from './setting.ts'

/** Reads the PEM file of a setting at startup. `null`: use the default authorities. */
export const caFileConfig = (setting: Setting<string | null>): Config.Config<string | null> =>
  refineSetting(setting, (file) => {
    if (file === null) return Result.succeed(null)
    return Result.try({ try: () => readFileSync(file, 'utf8'), catch: () => 'cannot be read' }).pipe(
      // Node accepts any text as a list of authorities and would then trust no certificate.
      Result.flatMap((pem) =>
        Result.try({
          try: () => (new X509Certificate(pem), pem),
          catch: () => 'holds no certificate in PEM',
        }),
      ),
    )
  })
