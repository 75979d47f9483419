/** Secrets in files: `HUB_MASTER_KEY_FILE` names the file with the value of `HUB_MASTER_KEY`. */
import { readFileSync, type Stats, statSync } from 'node:fs'
import * as Result from 'effect/Result'

/** The variable that names the file of a secret. */
export const fileVariable = (name: string): string => `${name}_FILE`

/** Read, write and execute for others than owner and group. */
const OTHERS = 0o007
const PERMISSIONS = 0o777
/** No secret of the hub is larger. */
const MAX_BYTES = 65_536

export const SECRET_FILE = 'a file with the secret, with mode 0400 or 0440'

const octal = (mode: number): string => (mode & PERMISSIONS).toString(8).padStart(4, '0')

/** The error is the end of a sentence about the variable. It has no path, which may be a secret in the wrong variable. */
const unreadable = (error: unknown): string => {
  const code = error instanceof Error && 'code' in error ? error.code : null
  if (code === 'ENOENT' || code === 'ENOTDIR') return 'names a file that does not exist'
  if (code === 'EACCES') return 'names a file that this process may not read'
  return 'names a file that cannot be read'
}

const problemOf = (file: Stats): string | null => {
  if (!file.isFile()) return 'names something that is no file'
  if ((file.mode & OTHERS) !== 0) return `names a file that every user may use (mode ${octal(file.mode)})`
  return file.size > MAX_BYTES ? `names a file of more than ${MAX_BYTES / 1024} KiB` : null
}

/** Reads the secret of a file, without one line break at its end. */
export const readSecretFile = (path: string): Result.Result<string, string> =>
  Result.try({ try: () => statSync(path), catch: unreadable }).pipe(
    Result.flatMap((file) => {
      const problem = problemOf(file)
      return problem === null
        ? Result.try({ try: () => readFileSync(path, 'utf8'), catch: unreadable })
        : Result.fail(problem)
    }),
    Result.map((text) => text.replace(/\r?\n$/u, '')),
    Result.flatMap((text) =>
      text.trim() === '' ? Result.fail('names an empty file') : Result.succeed(text),
    ),
  )
