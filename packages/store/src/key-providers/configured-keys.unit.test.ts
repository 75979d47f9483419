/** The master key in the environment and in files passes the contract of the port. */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ConfigProvider, Layer } from 'effect'
import { afterAll } from 'vitest'
import { MasterKeyEncryption } from '../master-key-encryption.ts'
import { keyProviderContract } from './key-provider.contract.ts'

const folder = mkdtempSync(join(tmpdir(), 'hub-configured-keys-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const layerOf = (environment: Readonly<Record<string, string>>) =>
  MasterKeyEncryption.layer.pipe(Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(environment))))
const newKey = (): string => randomBytes(32).toString('base64')
const inFile = (key: string): string => {
  const path = join(folder, randomBytes(8).toString('hex'))
  writeFileSync(path, `${key}\n`, { mode: 0o400 })
  return path
}

const [own, other] = [newKey(), newKey()]
keyProviderContract('environment', () => ({
  own: layerOf({ HUB_MASTER_KEY: own }),
  other: layerOf({ HUB_MASTER_KEY: other }),
}))
keyProviderContract('files', () => ({
  own: layerOf({ HUB_MASTER_KEY_FILE: inFile(own) }),
  other: layerOf({ HUB_MASTER_KEY_FILE: inFile(other) }),
}))
