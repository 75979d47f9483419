/** The headers `Hub-Signature` and `webhook-signature`. Source: DEL-8 to DEL-10, DEL-25, DEL-26. */
import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto'

/** The largest difference between `t` and the receiver's clock, in seconds. */
export const SIGNATURE_TOLERANCE_SECONDS = 300

const hmac = (secret: string | KeyObject, timestamp: number, body: Uint8Array) =>
  createHmac('sha256', secret).update(`${timestamp}.`).update(body)

/**
 * Makes the header `t=<unix seconds>,v1=<hex>[,v1=<hex>]`: HMAC-SHA-256 over `t`, a full stop and
 * the raw body.
 *
 * `secrets` are the complete secret strings (`whsec_…`), or `KeyObject`s of them: the current
 * secret, and during a rotation the earlier ones after it. `timestamp` is the time of the attempt
 * in whole seconds since the epoch.
 */
export const signatureHeader = (
  secrets: ReadonlyArray<string | KeyObject>,
  timestamp: number,
  body: Uint8Array,
): string => {
  let header = `t=${timestamp}`
  for (const secret of secrets) header += `,v1=${hmac(secret, timestamp, body).digest('hex')}`
  return header
}

/** The key of `standardSignature`: the bytes whose Base64 follows `whsec_`. */
export const standardKey = (secret: string): Buffer =>
  Buffer.from(secret.slice(secret.indexOf('_') + 1), 'base64')

/**
 * Makes the header `webhook-signature` of Standard Webhooks, `v1,<base64>[ v1,<base64>]`: HMAC-SHA-256 over
 * `webhook-id`, a full stop, `webhook-timestamp`, a full stop and the raw body. `keys`: see `standardKey`; the
 * order is that of `signatureHeader`.
 */
export const standardSignature = (
  keys: ReadonlyArray<Uint8Array | KeyObject>,
  id: string,
  timestamp: number,
  body: Uint8Array,
): string =>
  keys
    .map(
      (key) => `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64')}`,
    )
    .join(' ')

/**
 * Returns true if the header signs this body with one of the secrets, within the tolerance of `now`
 * (seconds since the epoch). Compares in constant time. A malformed header returns false.
 */
export const verifySignature = (
  header: string,
  secrets: ReadonlyArray<string>,
  body: Uint8Array,
  now: number,
): boolean => {
  const elements = header.split(',').map((element) => element.trim())
  const time = elements.find((element) => element.startsWith('t='))?.slice(2) ?? ''
  if (!/^\d{1,12}$/.test(time)) return false
  const timestamp = Number(time)
  if (String(timestamp) !== time || Math.abs(now - timestamp) > SIGNATURE_TOLERANCE_SECONDS) return false
  const given = elements
    .filter((element) => /^v1=[0-9a-f]{64}$/.test(element))
    .map((element) => Buffer.from(element.slice(3), 'hex'))
  const expected = secrets.map((secret) => hmac(secret, timestamp, body).digest())
  return expected.some((signature) => given.some((candidate) => timingSafeEqual(candidate, signature)))
}
