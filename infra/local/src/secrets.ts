/** The secrets of a local hub: created once in the data folder, readable only by their owner. */
import { randomBytes } from 'node:crypto'
import { chmodSync, linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { API_KEY_RANDOM_BYTES, apiKeyFrom, decodeId, type IdPrefix, newId } from '@hub/domain/ids-and-keys'
import { UserError } from './user-error.ts'

interface AccountSecrets {
  /** UUID of the account. */
  readonly account: string
  readonly test: string
  readonly live: string
}

export interface Secrets {
  /** Base64 of 32 bytes (`HUB_MASTER_KEY`). */
  readonly masterKey: string
  /** `HUB_NUMBER_HASH_SECRET`. */
  readonly numberHashSecret: string
  /** Shared with the operator simulator (`HUB_OPERATOR_HTTP_SECRET`). */
  readonly operatorSecret: string
  readonly accounts: readonly [AccountSecrets, AccountSecrets]
}

const newKey = (mode: 'live' | 'test'): string => apiKeyFrom(mode, randomBytes(API_KEY_RANDOM_BYTES))

/** A new UUIDv7. */
export const newUuid = (prefix: IdPrefix): string => {
  const uuid = decodeId(prefix, newId(prefix, Date.now(), randomBytes(10)))
  if (uuid === null) throw new Error(`A new id with the prefix ${prefix} cannot be decoded.`)
  return uuid
}

export const makeSecrets = (): Secrets => {
  const account = (): AccountSecrets => ({
    account: newUuid('acc'),
    test: newKey('test'),
    live: newKey('live'),
  })
  return {
    masterKey: randomBytes(32).toString('base64'),
    numberHashSecret: randomBytes(32).toString('hex'),
    operatorSecret: randomBytes(32).toString('hex'),
    accounts: [account(), account()],
  }
}

/** Returns the secrets of a data folder. The first call creates them. */
export const ensureSecrets = (dataDir: string): Secrets => {
  const path = join(dataDir, 'secrets.json')
  const temporary = `${path}.${process.pid}`
  try {
    writeFileSync(temporary, JSON.stringify(makeSecrets(), null, 2), { mode: 0o600 })
    // Fails if the file exists, so existing secrets are never replaced.
    linkSync(temporary, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    rmSync(temporary, { force: true })
  }
  chmodSync(path, 0o600)
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Secrets
  } catch {
    throw new UserError(`${path} cannot be read: delete the data folder to start with an empty hub.`)
  }
}
