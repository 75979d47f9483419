/**
 * The text of a stored response: compressed if it is long, and always encrypted, because it has numbers
 * and references of the client.
 *
 * The answer to a batch of 1,000 has 0.5 MB. Ciphertext cannot be compressed later, so all of it would be
 * in the table, in the write-ahead log and, as text, in the statement.
 */
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import type { MasterKeyEncryption } from '@hub/store'
import { Effect } from 'effect'
import type { IdempotencyLock } from './idempotency-keys.port.ts'

type Encryption = Pick<MasterKeyEncryption['Service'], 'encrypt' | 'decrypt'>
type Owner = Omit<IdempotencyLock, 'token'>

/** Answers of fewer bytes, such as those of single sends, stay as they are: they would become little shorter. */
const COMPRESSED_FROM_BYTES = 4096
/** The fastest level. Higher levels gain little on such text. */
const params = { [constants.ZSTD_c_compressionLevel]: 1 }

/** Additional authenticated data: a response cannot be decrypted under another key. */
const aadOf = ({ accountUuid, key, mode }: Owner): string => `${accountUuid} ${mode} ${key}`
/**
 * That of a compressed response. A process that does not know compression cannot decrypt such a response,
 * and answers that the repeat should come later.
 */
const compressedAadOf = (owner: Owner): string => `${aadOf(owner)} zstd`

export const encryptAnswer = (encryption: Encryption, owner: Owner, body: string | Uint8Array): Buffer => {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  return bytes.length < COMPRESSED_FROM_BYTES
    ? encryption.encrypt('idempotent-answer', aadOf(owner), bytes)
    : encryption.encrypt('idempotent-answer', compressedAadOf(owner), zstdCompressSync(bytes, { params }))
}

export const decryptAnswer = ({ decrypt }: Encryption, owner: Owner, stored: Uint8Array) =>
  decrypt('idempotent-answer', aadOf(owner), stored).pipe(
    Effect.catchTag('DecryptionFailed', () =>
      Effect.map(decrypt('idempotent-answer', compressedAadOf(owner), stored), (bytes) =>
        zstdDecompressSync(bytes),
      ),
    ),
  )
