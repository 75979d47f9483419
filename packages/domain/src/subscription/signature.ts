/** `Hub-Signature`. Source: specification, Signature; contract, Webhook subscription. */
import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto'

/** How far `t` may be from the receiver's clock, either way, in seconds. */
export const SIGNATURE_TOLERANCE_SECONDS = 300

const hmac = (secret: string | KeyObject, timestamp: number, body: Uint8Array) =>
  createHmac('sha256', secret).update(`${timestamp}.`).update(body)

/**
 * The header `t=<unix seconds>,v1=<hex>[,v1=<hex>]`: HMAC-SHA-256 over `t`, a full stop and the raw bytes of the body.
 *
 * `secrets` are the whole secret strings (`whsec_…`) in force, or keys made of them once for many signatures: the current one, and during
 * a rotation the previous one after it.
 * `timestamp` is the attempt's, in whole seconds since the epoch.
 */
export const signatureHeader = (
  secrets: readonly [string | KeyObject, ...ReadonlyArray<string | KeyObject>],
  timestamp: number,
  body: Uint8Array,
): string => {
  let header = `t=${timestamp}`
  for (const secret of secrets) header += `,v1=${hmac(secret, timestamp, body).digest('hex')}`
  return header
}

/**
 * Whether a header signs this body under one of the secrets, within the tolerance of `now` (seconds since the epoch).
 * Compares in constant time; a malformed header is simply not a signature.
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
