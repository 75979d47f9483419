/** What a local hub keeps to itself: made once, kept in the data folder, readable by its owner only. */
import { randomBytes } from 'node:crypto'
import { chmodSync, linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { API_KEY_RANDOM_BYTES, apiKeyFrom, decodeId, newId } from '@hub/domain'
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

/** A UUIDv7, as every new thing has. */
const newUuid = (): string => {
  const uuid = decodeId('acc', newId('acc', Date.now(), randomBytes(10)))
  if (uuid === null) throw new Error('a new id does not decode')
  return uuid
}

const makeSecrets = (): Secrets => {
  const account = (): AccountSecrets => ({ account: newUuid(), test: newKey('test'), live: newKey('live') })
  return {
    masterKey: randomBytes(32).toString('base64'),
    numberHashSecret: randomBytes(32).toString('hex'),
    operatorSecret: randomBytes(32).toString('hex'),
    accounts: [account(), account()],
  }
}

/** The secrets of a data folder, made on the first call. */
export const ensureSecrets = (dataDir: string): Secrets => {
  const path = join(dataDir, 'secrets.json')
  const aside = `${path}.${process.pid}`
  try {
    writeFileSync(aside, JSON.stringify(makeSecrets(), null, 2), { mode: 0o600 })
    // Fails where there are secrets already: they are never replaced.
    linkSync(aside, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    rmSync(aside, { force: true })
  }
  chmodSync(path, 0o600)
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Secrets
  } catch {
    throw new UserError(`${path} cannot be read: remove the data folder to begin afresh.`)
  }
}
