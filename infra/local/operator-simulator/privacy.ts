/** Numbers that must outlive a restart, and messages that must be recognised: neither is kept in the clear. */
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto'

const NONCE_BYTES = 12
const TAG_BYTES = 16

interface Privacy {
  /** What a message is known by: the same for the same number and text, and it tells neither. 64 hexadecimal digits. */
  readonly reference: (to: string, text: string) => string
  readonly seal: (text: string) => string
  /** Null for what was sealed with another secret. */
  readonly open: (sealed: string) => string | null
}

/** Keys derived from a secret that is in no file of the operator's. */
export const makePrivacy = (secret: string): Privacy => {
  const derive = (purpose: string): Buffer => createHmac('sha256', secret).update(purpose).digest()
  const references = derive('references')
  const addresses = derive('addresses')
  return {
    reference: (to, text) => createHmac('sha256', references).update(`${to}\n${text}`).digest('hex'),
    seal: (text) => {
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv('aes-256-gcm', addresses, nonce)
      const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
      return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString('base64')
    },
    open: (sealed) => {
      const bytes = Buffer.from(sealed, 'base64')
      const decipher = createDecipheriv('aes-256-gcm', addresses, bytes.subarray(0, NONCE_BYTES))
      decipher.setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES))
      try {
        const opened = decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES))
        return Buffer.concat([opened, decipher.final()]).toString('utf8')
      } catch {
        return null
      }
    },
  }
}
