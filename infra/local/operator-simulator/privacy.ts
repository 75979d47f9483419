/** Compares secrets, encrypts stored phone numbers, and hashes messages to find repeated ones. */
import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto'

const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest()

/** Compares digests in constant time, so that the duration reveals neither content nor length. */
export const isSame = (a: string, b: string): boolean => timingSafeEqual(sha256(a), sha256(b))

const NONCE_BYTES = 12
const TAG_BYTES = 16

interface Privacy {
  /** A keyed hash of number and text: 64 hexadecimal digits. */
  readonly reference: (to: string, text: string) => string
  readonly encrypt: (text: string) => string
  /** Null if the text was encrypted with another secret. */
  readonly decrypt: (encrypted: string) => string | null
}

/** Derives the keys from a secret, which the operator stores in no file. */
export const makePrivacy = (secret: string): Privacy => {
  const derive = (purpose: string): Buffer => createHmac('sha256', secret).update(purpose).digest()
  const references = derive('references')
  const addresses = derive('addresses')
  return {
    reference: (to, text) => createHmac('sha256', references).update(`${to}\n${text}`).digest('hex'),
    encrypt: (text) => {
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv('aes-256-gcm', addresses, nonce)
      const encrypted = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
      return Buffer.concat([nonce, cipher.getAuthTag(), encrypted]).toString('base64')
    },
    decrypt: (encrypted) => {
      const bytes = Buffer.from(encrypted, 'base64')
      const decipher = createDecipheriv('aes-256-gcm', addresses, bytes.subarray(0, NONCE_BYTES))
      decipher.setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES))
      try {
        const text = decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES))
        return Buffer.concat([text, decipher.final()]).toString('utf8')
      } catch {
        return null
      }
    },
  }
}
