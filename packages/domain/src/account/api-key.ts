/** API keys and their digests. Source: AUTH-2, AUTH-3. */
import { hash } from 'node:crypto'
import type { Mode } from '../values/classification.ts'

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
/** 62^43 is the first power of 62 above 2^256, so 43 digits are enough for 32 bytes. */
const KEY_CHARACTERS = 43

/** The number of random bytes of a key. */
export const API_KEY_RANDOM_BYTES = 32

/** `hub_live_…` or `hub_test_…`, then base62 digits. The hub looks up only strings of this form. */
export const API_KEY_PATTERN = /^hub_(?:live|test)_[0-9A-Za-z]{40,50}$/

/** Makes a key from `API_KEY_RANDOM_BYTES` random bytes, most significant digit first. */
export const apiKeyFrom = (mode: Mode, random: Uint8Array): string => {
  let value = random.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n)
  let text = ''
  while (value > 0n) {
    text = `${BASE62[Number(value % 62n)] ?? ''}${text}`
    value /= 62n
  }
  return `hub_${mode}_${text.padStart(KEY_CHARACTERS, '0')}`
}

/** The SHA-256 of a key in hexadecimal. The hub stores it instead of the key. */
export const apiKeyDigest = (key: string): string => hash('sha256', key, 'hex')

/**
 * What the hub stores instead of the digest of a key with scopes, in hexadecimal. Processes of earlier versions look keys
 * up by their digest and ignore scopes, so they must not find such a key. No key has the form of the hashed text.
 * Source: AUTH-3; docs/security.md.
 */
export const scopedKeyDigest = (digest: string): string => hash('sha256', `scoped ${digest}`, 'hex')

/** The last four characters of a key, for display. */
export const apiKeyEnding = (key: string): string => key.slice(-4)
