/**
 * Public identifiers: a prefix and a UUID in lower-case Crockford base32 (26 characters, no
 * padding). The most significant bit comes first, so ids of one prefix sort like their UUIDs.
 * PostgreSQL stores the UUID. JSON, Avro and logs contain the public form.
 */
import { hash } from 'node:crypto'

/** All prefixes, with the resource that each identifies. */
export const ID_PREFIXES = {
  msg: 'message',
  bat: 'batch',
  evt: 'event',
  evb: 'webhook batch',
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
/** 128 bits in groups of five. The first character holds only three bits, so it is at most `7`. */
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

/** The positions of the 16 bytes in the canonical text of a UUID. */
const HEX_POSITIONS = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34] as const
const UUID_LENGTH = 36

/** Shared buffers avoid an allocation for each id. All functions are synchronous. */
const bytes = new Uint8Array(16)
const text = Buffer.alloc(ENCODED_LENGTH)

const encodeBytes = (prefix: IdPrefix, uuid: Uint8Array): string => {
  // From the end: 25 characters of five bits, then the remaining three bits.
  let at = ENCODED_LENGTH - 1
  let pending = 0
  let bits = 0
  for (let i = 15; i >= 0; i--) {
    pending |= uuid[i]! << bits
    bits += 8
    while (bits >= 5) {
      text[at--] = digits[pending & 31]!
      pending >>>= 5
      bits -= 5
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

/** Parses canonical text into `bytes`. Returns false if the text is not a UUID. */
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
 * Makes the public form of a UUID: `encodeId('msg', '0193…')` returns `msg_…`.
 * `uuid` is canonical text (8-4-4-4-12 hexadecimal digits, either case), as PostgreSQL returns it.
 * Throws `RangeError` for any other text, because that is a bug and not a wrong input.
 */
export const encodeId = (prefix: IdPrefix, uuid: string): string => {
  if (!readUuid(uuid)) throw new RangeError('encodeId needs a UUID in canonical text form')
  return encodeBytes(prefix, bytes)
}

/**
 * Returns the UUID of a public id in canonical lower-case text, or `null` if `id` is not an id with
 * this prefix. Only the exact output of `encodeId` is accepted. An id in another spelling (upper
 * case, `o` instead of `0`) identifies nothing, so the API answers it like a missing resource.
 */
export const decodeId = (prefix: IdPrefix, id: string): string | null => {
  const start = prefix.length + 1
  if (id.length !== start + ENCODED_LENGTH) return null
  if (!id.startsWith(prefix) || id.charCodeAt(start - 1) !== 95 /* _ */) return null
  let pending = 0
  let bits = 0
  let at = 15
  for (let i = start + ENCODED_LENGTH - 1; i >= start; i--) {
    const value = valueOfDigit[id.charCodeAt(i)] ?? NOT_A_DIGIT
    if (value === NOT_A_DIGIT) return null
    pending |= value << bits
    bits += 5
    if (bits >= 8) {
      bytes[at--] = pending & 255
      pending >>>= 8
      bits -= 8
    }
  }
  // 26 × 5 = 130 bits. The two bits that do not fit into a UUID must be zero.
  if (pending !== 0) return null
  return uuidText(bytes)
}

/** The number of random bytes that `newId` needs. */
export const NEW_ID_RANDOM_BYTES = 10

/** Makes a UUIDv7 (RFC 9562) of 48 bits of time and 74 random bits. Returns the shared buffer. */
const drawUuid = (nowMs: number, random: Uint8Array): Uint8Array => {
  if (random.length < NEW_ID_RANDOM_BYTES) throw new RangeError('a new id needs at least 10 random bytes')
  if (!Number.isInteger(nowMs) || nowMs < 0 || nowMs >= 2 ** 48)
    throw new RangeError('a new id needs a time in whole milliseconds since the epoch')
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
 * Makes a public id from a UUIDv7. Ids of different milliseconds sort by time. `nowMs` is
 * milliseconds since the epoch. `random` contains at least 10 new random bytes for each id. A
 * shorter array throws `RangeError`, because it could lead to a repeated id.
 */
export const newId = (prefix: IdPrefix, nowMs: number, random: Uint8Array): string =>
  encodeBytes(prefix, drawUuid(nowMs, random))

/** Like `newId`, but returns the UUID, for rows whose public id is seldom needed. */
export const newUuid = (nowMs: number, random: Uint8Array): string => uuidText(drawUuid(nowMs, random))

const namespace = (uuid: string): Buffer => Buffer.from(uuid.replaceAll('-', ''), 'hex')

/**
 * Namespaces of the derived ids (UUIDv5, RFC 9562). They were chosen at random and must never
 * change: with another namespace, existing facts and events would get a second id.
 */
const FACT_NAMESPACE = namespace('2485ebf1-ef40-4bbe-8310-7ca02555beb5')
const EVENT_NAMESPACE = namespace('d70c25ee-3214-4d05-a371-e384f5373d76')
const EVENT_BATCH_NAMESPACE = namespace('51a2b98c-4651-4269-94a3-122f34f7d3da')

/** Makes a UUIDv5 of namespace and name. Returns the shared buffer. */
const deriveUuid = (within: Uint8Array, name: string): Uint8Array => {
  const digest = hash('sha1', Buffer.concat([within, Buffer.from(name, 'utf8')]), 'buffer')
  for (let i = 0; i < 16; i++) bytes[i] = digest[i]!
  bytes[6] = (bytes[6]! & 0x0f) | 0x50
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  return bytes
}

/**
 * Derives the id of a fact (canonical UUID text) from the message (`msg_…`) and its step (see
 * `stepOf`). A fact that is appended twice therefore has the same id both times.
 */
export const factId = (messageId: string, step: string): string =>
  uuidText(deriveUuid(FACT_NAMESPACE, `${messageId} ${step}`))

/**
 * Derives the id of a public event (`evt_…`) from its subject and type, such as `msg_…
 * message.sent`. A replay therefore produces the same id.
 */
export const eventId = (subjectAndType: string): string =>
  encodeBytes('evt', deriveUuid(EVENT_NAMESPACE, subjectAndType))

/**
 * Derives the id of a webhook batch (`evb_…`). It stays the same for all retries (header
 * `Hub-Event-Id`). An event is in one batch of a subscription, so subscription and first event
 * identify the batch. After a crash a batch may be formed with another size, so the count is part
 * of the id too. `redelivery` identifies a redelivery ordered by the hub operator. Its batches have
 * ids of their own. Source: DEL-7, DEL-24.
 */
export const eventBatchId = (
  subscriptionId: string,
  firstEventId: string,
  count: number,
  redelivery: string | null = null,
): string =>
  encodeBytes(
    'evb',
    deriveUuid(
      EVENT_BATCH_NAMESPACE,
      `${subscriptionId} ${firstEventId} ${count}${redelivery === null ? '' : ` ${redelivery}`}`,
    ),
  )
