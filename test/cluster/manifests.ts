/** Reads the manifests of this folder. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Replaces each `@name@` by its value. Fails if one has no value. */
export const manifest = (file: string, values: Readonly<Record<string, string>>): string =>
  readFileSync(join(import.meta.dirname, 'manifests', file), 'utf8').replaceAll(
    /@(?<name>[a-z][a-z-]*)@/gu,
    (_, name: string) => {
      const value = values[name]
      if (value === undefined) throw new Error(`${file} needs a value for ${name}`)
      return value
    },
  )
