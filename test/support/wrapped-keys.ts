/**
 * Searches files for payload keys, as a thief with the master key would: in tables and their dead
 * rows, the write-ahead log, backups and segments of Kafka.
 */
import { createDecipheriv } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { MasterKeyEncryption } from '@hub/store'
import { Effect, Result } from 'effect'

/** A payload key has 32 bytes, and its ciphertext 29 more behind the prefix of the master key. */
const KEY_BYTES = 32
const OVERHEAD_BYTES = 29

/** PostgreSQL writes its log in pages, and each begins with a header. Source: xlog_internal.h. */
const WAL_PAGE_BYTES = 8192
const WAL_FIRST_HEADER_BYTES = 40
const WAL_HEADER_BYTES = 24

/** The content of a log segment without the headers of its pages, which can divide a record. */
const withoutPageHeaders = (segment: Buffer): Buffer => {
  const parts: Array<Buffer> = []
  for (let at = 0; at < segment.length; at += WAL_PAGE_BYTES) {
    const header = at === 0 ? WAL_FIRST_HEADER_BYTES : WAL_HEADER_BYTES
    parts.push(segment.subarray(at + header, at + WAL_PAGE_BYTES))
  }
  return Buffer.concat(parts)
}

/** The files below a folder. A running server may remove one at any time. */
const filesBelow = (folder: string): ReadonlyArray<string> =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))

const readIfThere = (file: string): Buffer => {
  try {
    return readFileSync(file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return Buffer.alloc(0)
    throw error
  }
}

/** A payload key that a file contains. */
export interface FoundKey {
  readonly id: string
  readonly key: Buffer
  readonly file: string
}

const PURPOSES = ['payload-key', 'sealing-key'] as const

/** The keys with one of these ids that the bytes contain, wrapped by the master key. */
const keysIn = (
  bytes: Buffer,
  { currentPrefix, unwrap }: MasterKeyEncryption['Service'],
  ids: ReadonlyArray<string>,
): ReadonlyArray<{ readonly id: string; readonly key: Buffer }> => {
  const prefix = Effect.runSync(currentPrefix)
  const size = prefix.length + OVERHEAD_BYTES + KEY_BYTES
  const found: Array<{ readonly id: string; readonly key: Buffer }> = []
  for (let at = bytes.indexOf(prefix); at >= 0; at = bytes.indexOf(prefix, at + 1)) {
    const candidate = bytes.subarray(at, at + size)
    for (const id of ids) {
      for (const purpose of PURPOSES) {
        const [plain] = Effect.runSync(unwrap(purpose, [{ aad: id, bytes: candidate }]))
        if (plain !== undefined && Result.isSuccess(plain)) found.push({ id, key: plain.success })
      }
    }
  }
  return found
}

/** Searches all files below a folder. */
export const findWrappedKeys = (
  folder: string,
  masterKey: MasterKeyEncryption['Service'],
  ids: ReadonlyArray<string>,
): ReadonlyArray<FoundKey> =>
  filesBelow(folder).flatMap((file) => {
    const bytes = readIfThere(file)
    const contents = file.includes('/pg_wal/') ? [bytes, withoutPageHeaders(bytes)] : [bytes]
    return contents.flatMap((content) => keysIn(content, masterKey, ids).map((found) => ({ ...found, file })))
  })

const VERSION_BYTES = 1
const NONCE_BYTES = 12

/** Decrypts a payload with a found key: AES-256-GCM, as aes-gcm.ts describes it. */
export const decryptPayload = (key: Buffer, aad: string, ciphertext: Uint8Array): Buffer => {
  const nonceEnd = VERSION_BYTES + NONCE_BYTES
  const decipher = createDecipheriv('aes-256-gcm', key, ciphertext.subarray(VERSION_BYTES, nonceEnd))
  decipher.setAAD(Buffer.from(aad))
  decipher.setAuthTag(ciphertext.subarray(nonceEnd, OVERHEAD_BYTES))
  return Buffer.concat([decipher.update(ciphertext.subarray(OVERHEAD_BYTES)), decipher.final()])
}
