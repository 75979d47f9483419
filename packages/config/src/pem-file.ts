/** Settings that name a PEM file. */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type * as Config from 'effect/Config'
import * as Result from 'effect/Result'
import { refineSetting, type Setting } from './setting.ts'

interface PemFile<A> {
  readonly file: string
  readonly pem: string
  /** What `parse` made of it. */
  readonly value: A
}

/**
 * Reads the file of a setting at startup. `parse` throws if it cannot use the text; `otherwise` is the end of the
 * sentence about it. `null`: the setting is not set.
 */
export const pemFileConfig = <A>(
  setting: Setting<string | null>,
  parse: (pem: string) => A,
  otherwise: string,
): Config.Config<PemFile<A> | null> =>
  refineSetting(setting, (file) =>
    file === null
      ? Result.succeed(null)
      : Result.try({ try: () => readFileSync(file, 'utf8'), catch: () => 'cannot be read' }).pipe(
          Result.flatMap((pem) =>
            Result.try({ try: () => ({ file, pem, value: parse(pem) }), catch: () => otherwise }),
          ),
        ),
  )

/** Reads a file whose first certificate can be read. `null`: the setting is not set. */
export const certificateFileConfig = (
  setting: Setting<string | null>,
): Config.Config<PemFile<X509Certificate> | null> =>
  pemFileConfig(setting, (pem) => new X509Certificate(pem), 'holds no certificate in PEM')
