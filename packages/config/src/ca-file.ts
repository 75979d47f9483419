/** Files of certificate authorities that settings name. */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type * as Config from 'effect/Config'
import * as Result from 'effect/Result'
import { refineSetting, type Setting } from './setting.ts'

/** The certificates of the file that a setting names, PEM; `null` where none is set, for the usual authorities. Read at the start, once. */
export const caFileConfig = (setting: Setting<string | null>): Config.Config<string | null> =>
  refineSetting(setting, (file) => {
    if (file === null) return Result.succeed(null)
    return Result.try({ try: () => readFileSync(file, 'utf8'), catch: () => 'cannot be read' }).pipe(
      // TLS takes anything for a list of authorities, and then trusts nobody.
      Result.flatMap((pem) =>
        Result.try({
          try: () => (new X509Certificate(pem), pem),
          catch: () => 'holds no certificate in PEM',
        }),
      ),
    )
  })
