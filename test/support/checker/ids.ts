/**
 * Ids, computed independently of the hub: Crockford base32 with a large integer, and UUIDv5 by its
 * definition. The namespaces are those of the hub. They must never change.
 */
import { createHash } from 'node:crypto'

const DIGITS = '0123456789abcdefghjkmnpqrstvwxyz'

/** Returns the UUID of a public id in canonical text. */
export const uuidOf = (id: string): string => {
  const digits = id.slice(id.indexOf('_') + 1)
  if (digits.length !== 26) throw new Error('not an id')
  let number = 0n
  for (const digit of digits) number = number * 32n + BigInt(DIGITS.indexOf(digit))
  return dashed(number.toString(16).padStart(32, '0'))
}

const dashed = (hex: string): string =>
  [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')

const uuidV5 = (namespace: string, name: string): string => {
  const digest = createHash('sha1')
    .update(Buffer.from(namespace.replaceAll('-', ''), 'hex'))
    .update(name)
    .digest('hex')
  const variant = ((Number.parseInt(digest[16] ?? '0', 16) & 3) | 8).toString(16)
  return dashed(`${digest.slice(0, 12)}5${digest.slice(13, 16)}${variant}${digest.slice(17, 32)}`)
}

/**
 * Returns the UUID of the event of a type about a subject. Each subject has each event type once.
 */
export const eventUuid = (subject: string, type: string): string =>
  uuidV5('d70c25ee-3214-4d05-a371-e384f5373d76', `${subject} ${type}`)
