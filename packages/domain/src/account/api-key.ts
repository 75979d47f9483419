/** API keys: how they look, and what is kept of one. Source: specification, Authentication, 2; contract, General (API keys). */
import { hash } from 'node:crypto'
import type { Mode } from '../vocabulary.ts'

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
/** 62^43 is the first power of 62 above 2^256: every key has the same length. */
const KEY_CHARACTERS = 43

/** How much chance a key takes. */
export const API_KEY_RANDOM_BYTES = 32

/** `hub_live_…`, `hub_test_…` and 32 random bytes in base62. What does not look like a key is not looked up. */
export const API_KEY_PATTERN = /^hub_(?:live|test)_[0-9A-Za-z]{40,50}$/

/** A key of a mode from `API_KEY_RANDOM_BYTES` random bytes, most significant digit first. */
export const apiKeyFrom = (mode: Mode, random: Uint8Array): string => {
  let value = random.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n)
  let text = ''
  while (value > 0n) {
    text = `${BASE62[Number(value % 62n)] ?? ''}${text}`
    value /= 62n
  }
  return `hub_${mode}_${text.padStart(KEY_CHARACTERS, '0')}`
}

/** What is kept in place of a key: its SHA-256, in hexadecimal digits. */
export const apiKeyDigest = (key: string): string => hash('sha256', key, 'hex')

/** What is shown of a key that was issued: its last four characters. */
export const apiKeyEnding = (key: string): string => key.slice(-4)
