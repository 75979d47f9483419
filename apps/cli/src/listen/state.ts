/** What `hub listen` remembers of an address: its secret, and where its next events begin. */
import { createHash, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { Environment } from '../connection/environment.ts'
import { configFolder, readIfExists, writePrivateFile } from '../connection/login-file.ts'

/** Where events begin. */
export interface EventStart {
  /** The id of the event before; `null`: the first event of the account. */
  readonly cursor: string | null
  /** Only events that the hub recorded after this time. */
  readonly createdAfter?: string
}

export interface ListenState {
  /** `whsec_…`, the same for each start, so that the receiver keeps it. */
  readonly secret: string
  /** `null` before the first start. */
  readonly next: EventStart | null
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
  return { secret: newSecret(), next: null }
}

export const writeState = (path: string, state: ListenState): void =>
  writePrivateFile(path, `${JSON.stringify(state)}\n`)
