/** Finds programs on the PATH. */
import { accessSync, constants, statSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/** The first executable file with this name on a PATH, or null. */
export const findProgram = (name: string, path: string | undefined): string | null => {
  for (const dir of (path ?? '').split(delimiter)) {
    if (dir === '') continue
    const candidate = join(dir, name)
    try {
      accessSync(candidate, constants.X_OK)
      if (statSync(candidate).isFile()) return candidate
    } catch {
      // This folder does not contain the program.
    }
  }
  return null
}
