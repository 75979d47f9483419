/**
 * Public identifiers: a prefix and a UUID in lower-case Crockford base32, 26 characters without padding, most
 * significant bit first, so that ids of one prefix sort as their UUIDs do. PostgreSQL keeps the UUID; JSON,
 * Avro and logs show the public form. Source: contract, General (identifiers).
 */
import { hash } from 'node:crypto'

/** What each prefix names. The one table of them. */
export const ID_PREFIXES = {
  msg: 'message',
  bat: 'batch',
  evt: 'event',
  evb: 'batch of events as it is delivered to a subscription',
  we: 'webhook subscription',
  whd: 'delivery attempt',
  tpl: 'template',
  snd: 'sender',
  acc: 'account',
  key: 'API key',
  req: 'request',
} as const
export type IdPrefix = keyof typeof ID_PREFIXES

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz'
/** 128 bits in groups of five: the first character holds three bits only, so it is at most `7`. */
const ENCODED_LENGTH = 26
const NOT_A_DIGIT = 255

const digits = Uint8Array.from(ALPHABET, (character) => character.charCodeAt(0))
const valueOfDigit = new Uint8Array(128).fill(NOT_A_DIGIT)
for (const [value, code] of digits.entries()) valueOfDigit[code] = value
const valueOfHex = new Uint8Array(128).fill(NOT_A_DIGIT)
for (const [value, character] of Array.from('0123456789abcdef').entries()) {
  valueOfHex[character.charCodeAt(0)] = value
  valueOfHex[character.toUpperCase().charCodeAt(0)] = value
}
const hexOfByte = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

/** Where the 16 bytes begin in the canonical text of a UUID. */
const HEX_POSITIONS = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34] as const
const UUID_LENGTH = 36

/** Scratch space. Everything here is synchronous, so one of each is enough and nothing is allocated per id. */
const bytes = new Uint8Array(16)
const text = Buffer.alloc(ENCODED_LENGTH)

const encodeBytes = (prefix: IdPrefix, uuid: Uint8Array): string => {
  // From the end: 25 characters of five bits, then the three that are left.
  let at = ENCODED_LENGTH - 1
  let pending = 0
  let held = 0
  for (let i = 15; i >= 0; i--) {
    pending |= uuid[i]! << held
    held += 8
    while (held >= 5) {
      text[at--] = digits[pending & 31]!
      pending >>>= 5
      held -= 5
    }
  }
  text[at] = digits[pending]!
  return `${prefix}_${text.toString('latin1', 0, ENCODED_LENGTH)}`
}

const uuidText = (u: Uint8Array): string => {
  const h = hexOfByte
  return (
    `${h[u[0]!]}${h[u[1]!]}${h[u[2]!]}${h[u[3]!]}-${h[u[4]!]}${h[u[5]!]}-${h[u[6]!]}${h[u[7]!]}-` +
    `${h[u[8]!]}${h[u[9]!]}-${h[u[10]!]}${h[u[11]!]}${h[u[12]!]}${h[u[13]!]}${h[u[14]!]}${h[u[15]!]}`
  )
}

/** Reads canonical text into `bytes`; false when it is not a UUID. */
const readUuid = (uuid: string): boolean => {
  if (uuid.length !== UUID_LENGTH) return false
  for (let i = 8; i <= 23; i += 5) if (uuid.charCodeAt(i) !== 45 /* - */) return false
  for (let i = 0; i < 16; i++) {
    const position = HEX_POSITIONS[i]!
    const high = valueOfHex[uuid.charCodeAt(position)] ?? NOT_A_DIGIT
    const low = valueOfHex[uuid.charCodeAt(position + 1)] ?? NOT_A_DIGIT
    if (high === NOT_A_DIGIT || low === NOT_A_DIGIT) return false
    bytes[i] = (high << 4) | low
  }
  return true
}

/**
 * The public form of a UUID: `encodeId('msg', '0193…')` is `msg_…`.
 *
 * `uuid` is canonical text (8-4-4-4-12 hexadecimal digits, either case), as PostgreSQL gives it. Anything else
 * is a mistake in the program, not an input: it throws `RangeError`.
 */
export const encodeId = (prefix: IdPrefix, uuid: string): string => {
  if (!readUuid(uuid)) throw new RangeError('encodeId needs a UUID in canonical text form')
  return encodeBytes(prefix, bytes)
}

/**
 * The UUID, in canonical lower-case text, of a public id with this prefix, or `null` when `id` is not one.
 *
 * Strict: what it accepts, `encodeId` gives back unchanged. So an id written otherwise (upper case, `o` for
 * `0`, an impossible first digit) names nothing and is answered as a missing resource.
 */
export const decodeId = (prefix: IdPrefix, id: string): string | null => {
  const start = prefix.length + 1
  if (id.length !== start + ENCODED_LENGTH) return null
  if (!id.startsWith(prefix) || id.charCodeAt(start - 1) !== 95 /* _ */) return null
  let pending = 0
  let held = 0
  let at = 15
  for (let i = start + ENCODED_LENGTH - 1; i >= start; i--) {
    const value = valueOfDigit[id.charCodeAt(i)] ?? NOT_A_DIGIT
    if (value === NOT_A_DIGIT) return null
    pending |= value << held
    held += 5
    if (held >= 8) {
      bytes[at--] = pending & 255
      pending >>>= 8
      held -= 8
    }
  }
  // 26 × 5 = 130 bits: the two that a UUID has no room for must be zero.
  if (pending !== 0) return null
  return uuidText(bytes)
}

/** How many random bytes `newId` takes. */
export const NEW_ID_RANDOM_BYTES = 10

/** A UUIDv7 (RFC 9562): 48 bits of time, 74 random bits. The result is the scratch space. */
const drawUuid = (nowMs: number, random: Uint8Array): Uint8Array => {
  if (random.length < NEW_ID_RANDOM_BYTES) throw new RangeError('a new id needs 10 random bytes')
  if (!Number.isInteger(nowMs) || nowMs < 0 || nowMs >= 2 ** 48)
    throw new RangeError('a new id needs milliseconds since the epoch')
  const high = Math.floor(nowMs / 2 ** 32)
  const low = nowMs >>> 0
  bytes[0] = high >>> 8
  bytes[1] = high
  bytes[2] = low >>> 24
  bytes[3] = low >>> 16
  bytes[4] = low >>> 8
  bytes[5] = low
  bytes[6] = 0x70 | (random[0]! & 0x0f)
  bytes[7] = random[1]!
  bytes[8] = 0x80 | (random[2]! & 0x3f)
  for (let i = 9; i < 16; i++) bytes[i] = random[i - 6]!
  return bytes
}

/**
 * A new public id over a UUIDv7: ids of different milliseconds sort by time.
 *
 * `nowMs` is milliseconds since the epoch; `random` has at least 10 bytes, fresh for each id (a shorter one throws
 * `RangeError`: a repeated id must not come from a mistake).
 */
export const newId = (prefix: IdPrefix, nowMs: number, random: Uint8Array): string =>
  encodeBytes(prefix, drawUuid(nowMs, random))

/** The UUID of such an id, canonical text, for what is stored by the thousand and shown one by one. */
export const newUuid = (nowMs: number, random: Uint8Array): string => uuidText(drawUuid(nowMs, random))

const namespace = (uuid: string): Buffer => Buffer.from(uuid.replaceAll('-', ''), 'hex')

/**
 * Namespaces of the derived ids (UUIDv5, RFC 9562). They were drawn once at random; changing one would give everything
 * already reported a second id.
 */
const FACT_NAMESPACE = namespace('2485ebf1-ef40-4bbe-8310-7ca02555beb5')
const EVENT_NAMESPACE = namespace('d70c25ee-3214-4d05-a371-e384f5373d76')
const EVENT_BATCH_NAMESPACE = namespace('51a2b98c-4651-4269-94a3-122f34f7d3da')

/** SHA-1 of namespace and name, cut to 128 bits, with version and variant set. The result is the scratch space. */
const deriveUuid = (within: Uint8Array, name: string): Uint8Array => {
  const digest = hash('sha1', Buffer.concat([within, Buffer.from(name, 'utf8')]), 'buffer')
  for (let i = 0; i < 16; i++) bytes[i] = digest[i]!
  bytes[6] = (bytes[6]! & 0x0f) | 0x50
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  return bytes
}

/**
 * The id of a fact, canonical UUID text: a function of the message (`msg_…`) and the step that it reports, so that
 * the same fact written twice has the same id. `stepOf` names the steps.
 */
export const factId = (messageId: string, step: string): string =>
  uuidText(deriveUuid(FACT_NAMESPACE, `${messageId} ${step}`))

/**
 * The id of a public event, `evt_…`: a function of what it reports, so that a replay makes the same id.
 * `what` names subject and event, for instance `msg_… message.sent`.
 */
export const eventId = (what: string): string => encodeBytes('evt', deriveUuid(EVENT_NAMESPACE, what))

/**
 * The id of a batch of events, `evb_…`, stable across its retries (header `Hub-Event-Id`). An event is in one batch of a
 * subscription, so subscription and first event decide; the count guards against a batch cut differently after
 * a crash. `redelivery` names a repeat ordered by the hub's operator, which is a batch of its own.
 */
export const eventBatchId = (
  endpointId: string,
  firstEventId: string,
  count: number,
  redelivery: string | null = null,
): string =>
  encodeBytes(
    'evb',
    deriveUuid(
      EVENT_BATCH_NAMESPACE,
      `${endpointId} ${firstEventId} ${count}${redelivery === null ? '' : ` ${redelivery}`}`,
    ),
  )
