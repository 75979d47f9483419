/**
 * Verifies webhooks: `Hub-Signature: t=<unix seconds>,v1=<hex>[,v1=<hex>]`, an HMAC-SHA-256 over
 * `t`, a full stop and the raw body, with the whole secret (`whsec_…`) as key.
 */
import type { HubEvent } from './follow.ts'

/** Maximum difference between `t` and the local clock in both directions, in seconds. */
export const TOLERANCE_SECONDS = 300

/** Why a webhook is invalid. In all cases, answer 400 and ignore it. */
export type SignatureProblem =
  /** The header `Hub-Signature` is missing. */
  | 'header_missing'
  /** The header does not have the form `t=…,v1=…`. */
  | 'header_malformed'
  /** The signature is too old: a replay, or the local clock is ahead. */
  | 'timestamp_too_old'
  /** The signature is from the future: the local clock is behind. */
  | 'timestamp_too_new'
  /** No signature matches this body and any of the secrets. */
  | 'no_match'
  /** No secret is given, for example because a variable is not set. A mistake in the receiver. */
  | 'secret_missing'
  /** The argument is not the raw body, so it cannot be verified. A mistake in the receiver. */
  | 'body_not_raw'
  /** The signed body is not a JSON array of events. */
  | 'body_malformed'

const MESSAGES: Readonly<Record<SignatureProblem, string>> = {
  header_missing: 'The request has no Hub-Signature header.',
  header_malformed: 'Hub-Signature is not of the form t=<unix seconds>,v1=<hex>.',
  timestamp_too_old: 'The webhook was signed too long ago; is the clock of this machine right?',
  timestamp_too_new: 'The webhook was signed in the future; is the clock of this machine right?',
  no_match:
    'No signature matches. Is the body given byte for byte as it was received, and the secret that of this subscription?',
  secret_missing: 'There is no secret to verify with: is the variable with the secret set?',
  body_not_raw:
    'The body must be given as raw bytes or as their text, before any JSON parser: what was parsed cannot be verified.',
  body_malformed: 'The body is not a JSON array of events.',
}

/** An invalid webhook. The message contains nothing of the body or the secret. */
export class WebhookSignatureError extends Error {
  override readonly name = 'WebhookSignatureError'
  readonly code: SignatureProblem

  constructor(code: SignatureProblem) {
    super(MESSAGES[code])
    this.code = code
  }
}

export interface VerifyOptions {
  /** Default 300. Older signatures, and signatures further in the future, are refused. */
  readonly toleranceSeconds?: number
  /** Milliseconds since the epoch; default `Date.now()`. For tests. */
  readonly now?: number
}

const encoder = new TextEncoder()

/** The signed bytes: `t`, a full stop and the body. */
const signedBytes = (timestamp: number, body: Uint8Array): Uint8Array<ArrayBuffer> => {
  const prefix = encoder.encode(`${timestamp}.`)
  const bytes = new Uint8Array(prefix.length + body.length)
  bytes.set(prefix)
  bytes.set(body, prefix.length)
  return bytes
}

const hmacKey = (bytes: Uint8Array<ArrayBuffer>) =>
  crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign', 'verify'])

const keyOf = (secret: string) => hmacKey(encoder.encode(secret))

const fromHex = (hex: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(hex.match(/../gu) ?? [], (byte) => Number.parseInt(byte, 16))

const toHex = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')

interface Parsed {
  readonly timestamp: number
  readonly signatures: ReadonlyArray<Uint8Array<ArrayBuffer>>
}

const parseHeader = (header: string): Parsed | null => {
  let timestamp: number | null = null
  const signatures: Array<Uint8Array<ArrayBuffer>> = []
  for (const element of header.split(',').map((part) => part.trim())) {
    if (/^t=(?:0|[1-9][0-9]{0,11})$/u.test(element) && timestamp === null)
      timestamp = Number(element.slice(2))
    // A repeated or malformed time: it is unknown which one was signed.
    else if (element.startsWith('t=')) return null
    else if (/^v1=[0-9a-f]{64}$/u.test(element)) signatures.push(fromHex(element.slice(3)))
    // Other elements belong to future schemes and are ignored.
  }
  return timestamp === null || signatures.length === 0 ? null : { timestamp, signatures }
}

const bytesOf = (body: unknown): Uint8Array => {
  if (typeof body === 'string') return encoder.encode(body)
  if (body instanceof Uint8Array) return body
  if (body instanceof ArrayBuffer) return new Uint8Array(body)
  throw new WebhookSignatureError('body_not_raw')
}

/** Fails unless a signature of the header matches the body and one of the secrets. */
const verify = async (
  bytes: Uint8Array,
  header: string | ReadonlyArray<string> | null | undefined,
  secret: string | ReadonlyArray<string>,
  options: VerifyOptions,
): Promise<void> => {
  const text =
    typeof header === 'string' || header === null || header === undefined ? header : header.join(',')
  if (text === null || text === undefined || text === '') throw new WebhookSignatureError('header_missing')
  const parsed = parseHeader(text)
  if (parsed === null) throw new WebhookSignatureError('header_malformed')
  const secrets = (typeof secret === 'string' ? [secret] : secret).filter((one) => one !== '')
  if (secrets.length === 0) throw new WebhookSignatureError('secret_missing')
  const signed = signedBytes(parsed.timestamp, bytes)
  let matches = false
  for (const one of secrets) {
    const key = await keyOf(one)
    for (const signature of parsed.signatures) {
      // WebCrypto compares in constant time.
      matches = (await crypto.subtle.verify('HMAC', key, signature, signed)) || matches
    }
  }
  if (!matches) throw new WebhookSignatureError('no_match')
  const age = (options.now ?? Date.now()) / 1000 - parsed.timestamp
  const tolerance = options.toleranceSeconds ?? TOLERANCE_SECONDS
  // `t` has whole seconds, so the tolerance ignores fractions.
  if (Math.floor(age) > tolerance) throw new WebhookSignatureError('timestamp_too_old')
  if (Math.ceil(age) < -tolerance) throw new WebhookSignatureError('timestamp_too_new')
}

/**
 * Verifies a webhook and returns its events; rejects with a {@link WebhookSignatureError} if it is
 * invalid. Delivery is at least once and in any order: drop known events by `event.id`.
 *
 * `body` is the raw body, before any parser: bytes, or their text. `header` is the value of
 * `Hub-Signature`. `secret` is the secret of the subscription, or several: one match of a signature
 * and a secret is enough, so that a receiver with the old or the new secret keeps working during a
 * rotation. The comparison takes constant time.
 */
export const readEvents = async (
  body: Uint8Array | ArrayBuffer | string,
  header: string | ReadonlyArray<string> | null | undefined,
  secret: string | ReadonlyArray<string>,
  options: VerifyOptions = {},
): Promise<ReadonlyArray<HubEvent>> => {
  const bytes = bytesOf(body)
  await verify(bytes, header, secret, options)
  let events: unknown
  try {
    events = JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes))
  } catch {
    throw new WebhookSignatureError('body_malformed')
  }
  if (!Array.isArray(events)) throw new WebhookSignatureError('body_malformed')
  return events as ReadonlyArray<HubEvent>
}

/**
 * The header `Hub-Signature` that the hub would send, for tests of a receiver. `at`: milliseconds
 * since the epoch.
 */
export const signForTest = async (
  body: Uint8Array | string,
  secret: string,
  at: number = Date.now(),
): Promise<string> => {
  const timestamp = Math.floor(at / 1000)
  const key = await keyOf(secret)
  const signature = await crypto.subtle.sign('HMAC', key, signedBytes(timestamp, bytesOf(body)))
  return `t=${timestamp},v1=${toHex(new Uint8Array(signature))}`
}

const toBase64 = (bytes: Uint8Array): string => btoa(String.fromCharCode(...bytes))

/**
 * All headers with which the hub would send a body, for tests of a receiver: those of the hub, and those of
 * Standard Webhooks. `eventBatch`: the id of the batch. `at`: milliseconds since the epoch.
 */
export const headersForTest = async (
  body: Uint8Array | string,
  secret: string,
  eventBatch = 'evb_test',
  at: number = Date.now(),
): Promise<Record<string, string>> => {
  const timestamp = Math.floor(at / 1000)
  const decoded = Uint8Array.from(atob(secret.slice(secret.indexOf('_') + 1)), (one) => one.charCodeAt(0))
  const signed = new Uint8Array([
    ...encoder.encode(`${eventBatch}.`),
    ...signedBytes(timestamp, bytesOf(body)),
  ])
  const signature = await crypto.subtle.sign('HMAC', await hmacKey(decoded), signed)
  return {
    'content-type': 'application/json',
    'hub-event-id': eventBatch,
    'hub-signature': await signForTest(body, secret, at),
    'webhook-id': eventBatch,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': `v1,${toBase64(new Uint8Array(signature))}`,
  }
}
