/** Encryption with a key of 32 bytes: AES-256-GCM. A ciphertext is `version (1) | nonce (12) | tag (16) | encrypted bytes`. */
import { createCipheriv, createDecipheriv, type KeyObject, randomBytes } from 'node:crypto'

const VERSION = 1
const NONCE = 12
const TAG = 16
const HEADER = 1 + NONCE + TAG

/** Nonces of one call, because a call costs as much as the cipher. Each is used once. */
const NONCES_PER_CALL = 256
let unusedNonces = Buffer.alloc(0)
const nextNonce = (): Buffer => {
  if (unusedNonces.length === 0) unusedNonces = randomBytes(NONCES_PER_CALL * NONCE)
  const nonce = unusedNonces.subarray(0, NONCE)
  unusedNonces = unusedNonces.subarray(NONCE)
  return nonce
}

/**
 * Encrypts with AES-256-GCM and a random nonce. 2^32 ciphertexts for one key are safe; no key here
 * comes close. A `KeyObject` is three times as fast as plain bytes.
 */
export const encryptWithKey = (key: KeyObject, aad: string, plain: Uint8Array): Buffer => {
  const nonce = nextNonce()
  const cipher = createCipheriv('aes-256-gcm', key, nonce)
  cipher.setAAD(Buffer.from(aad))
  const body = cipher.update(plain)
  const rest = cipher.final()
  return Buffer.concat([Buffer.of(VERSION), nonce, cipher.getAuthTag(), body, rest])
}

/** Returns `null` when the key, the additional data or the bytes do not match. */
export const decryptWithKey = (key: KeyObject, aad: string, ciphertext: Uint8Array): Buffer | null => {
  if (ciphertext.length < HEADER || ciphertext[0] !== VERSION) return null
  const decipher = createDecipheriv('aes-256-gcm', key, ciphertext.subarray(1, 1 + NONCE))
  decipher.setAAD(Buffer.from(aad))
  decipher.setAuthTag(ciphertext.subarray(1 + NONCE, HEADER))
  try {
    return Buffer.concat([decipher.update(ciphertext.subarray(HEADER)), decipher.final()])
  } catch {
    return null
  }
}
