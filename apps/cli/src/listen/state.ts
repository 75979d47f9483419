/** What `hub listen` remembers of an address: its secret, and the last event that it has passed on. */
import { createHash, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { Environment } from '../connection/environment.ts'
import { configFolder, readIfExists, writePrivateFile } from '../connection/login-file.ts'

export interface ListenState {
  /** `whsec_…`, the same for each start, so that the receiver keeps it. */
  readonly secret: string
  /** The id of the last event that was passed on; `null` before the first one. */
  readonly cursor: string | null
}

/** The secret of a subscription has 32 bytes too. */
const newSecret = (): string => `whsec_${randomBytes(32).toString('base64')}`

/** One file for each account, mode and address. */
export const stateFile = (environment: Environment, parts: ReadonlyArray<string>): string => {
  const name = createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 16)
  return join(configFolder(environment), 'listen', `${name}.json`)
}

export const readState = (path: string): ListenState => {
  const text = readIfExists(path)
  try {
    if (text !== null) return JSON.parse(text) as ListenState
  } catch {
    // A damaged file is replaced.
  }
  return { secret: newSecret(), cursor: null }
}

export const writeState = (path: string, state: ListenState): void =>
  writePrivateFile(path, `${JSON.stringify(state)}\n`)
