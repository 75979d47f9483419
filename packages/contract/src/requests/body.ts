/** Parses the body of a request. Source: HTTP-10 to HTTP-17. */
import { Result } from 'effect'
import { type ApiError, paramAt } from '../errors.ts'
import { isJsonObject, type Json, type JsonObject } from '../json.ts'
import { MAX_BODY_BYTES, MAX_BODY_VALUES, MAX_NESTING } from '../limits.ts'
import { invalid, refuse, utf8 } from './checks.ts'
import { type NumberAt, SAFE_DIGITS, withoutInexact } from './exact-numbers.ts'
import { describeFault } from './json-fault.ts'

const EMPTY = 'The body is empty. Send a JSON object.'
const NOT_UTF8 = 'The body is not valid UTF-8.'
const NOT_OBJECT = 'The body must be a JSON object.'
const ARRAY = 'The body is a bare array. Send an object; a batch is {"messages": [...]}.'
const TOO_MANY = `The body has more than ${MAX_BODY_VALUES} values. Split the request.`
const TOO_DEEP = `The body is nested deeper than ${MAX_NESTING} levels.`
const BAD_TEXT = 'A string holds a NUL or half of a surrogate pair.'
const REPEATED = 'An object in the body has the same name twice.'

const QUOTE = 0x22
const BACKSLASH = 0x5c
const LOWER_U = 0x75
const COLON = 0x3a
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d
const PLUS = 0x2b
const COMMA = 0x2c
const MINUS = 0x2d
const POINT = 0x2e
const ZERO = 0x30
const NINE = 0x39
const LOWER_E = 0x65
/** The bit in which a lower-case letter differs. */
const LOWER = 0x20

interface Scan {
  /** Nested too deep or with too many values; the scan stops there. */
  readonly refused: string | null
  /** Members of all objects, with repeated names: the colons outside of strings. */
  readonly members: number
  /** Contains a `\u` escape, without which no NUL or half surrogate pair is possible. */
  readonly escapes: boolean
  /** Numbers with an exponent or with more digits than a double can always hold. */
  readonly longNumbers: ReadonlyArray<NumberAt>
}

/** Most such numbers: ten for each message of a full batch. Checking one takes some microseconds. */
const MAX_LONG_NUMBERS = 10_000
const TOO_LONG = `The body has more than ${MAX_LONG_NUMBERS} long numbers. Send them as strings.`

const isDigit = (byte: number): boolean => byte >= ZERO && byte <= NINE

/** The end of the number that begins at `start`, and whether it may lose digits as a double. */
const readNumber = (bytes: Uint8Array, start: number): { readonly end: number; readonly isLong: boolean } => {
  let digits = 0
  let hasExponent = false
  let end = start
  for (; end < bytes.length; end++) {
    const byte = bytes[end]!
    if (isDigit(byte)) digits++
    else if ((byte | LOWER) === LOWER_E) hasExponent = true
    else if (byte !== POINT && !(hasExponent && (byte === PLUS || byte === MINUS))) break
  }
  return { end, isLong: hasExponent || digits > SAFE_DIGITS }
}

/** Scans the bytes before parsing. It does not check that they are JSON. */
const scan = (bytes: Uint8Array): Scan => {
  let depth = 0
  let members = 0
  let values = 0
  let escapes = false
  const longNumbers: Array<NumberAt> = []
  const refused = (reason: string): Scan => ({ refused: reason, members, escapes, longNumbers })
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]!
    switch (byte) {
      case QUOTE:
        for (i++; i < bytes.length && bytes[i] !== QUOTE; i++) {
          if (bytes[i] === BACKSLASH) {
            i++
            if (bytes[i] === LOWER_U) escapes = true
          }
        }
        break
      case OPEN_BRACE:
      case OPEN_BRACKET:
        depth++
        if (depth > MAX_NESTING) return refused(TOO_DEEP)
        if (++values > MAX_BODY_VALUES) return refused(TOO_MANY)
        break
      case CLOSE_BRACE:
      case CLOSE_BRACKET:
        depth--
        break
      case COMMA:
        if (++values > MAX_BODY_VALUES) return refused(TOO_MANY)
        break
      case COLON:
        members++
        break
      default:
        if (isDigit(byte)) {
          const { end, isLong } = readNumber(bytes, i)
          if (isLong) {
            longNumbers.push([bytes[i - 1] === MINUS ? i - 1 : i, end])
            if (longNumbers.length > MAX_LONG_NUMBERS) return refused(TOO_LONG)
          }
          i = end - 1
        }
        break
    }
  }
  return { refused: null, members, escapes, longNumbers }
}

/** Members of all objects in a value. The scan has bounded its depth. */
const countMembers = (value: Json): number => {
  let members = 0
  if (Array.isArray(value)) {
    for (const element of value)
      if (typeof element === 'object' && element !== null) members += countMembers(element)
  } else if (isJsonObject(value)) {
    for (const name of Object.keys(value)) {
      members++
      const inner = value[name]
      if (typeof inner === 'object' && inner !== null) members += countMembers(inner)
    }
  }
  return members
}

const isClean = (text: string): boolean => !text.includes('\0') && text.isWellFormed()

/** The path of the first bad string (NUL, half a surrogate pair); '' for the body. */
const findBadText = (value: Json, path: string): string | null => {
  if (typeof value === 'string') return isClean(value) ? null : path
  if (Array.isArray(value)) {
    for (const [index, element] of value.entries()) {
      const found = findBadText(element, `${path}[${index}]`)
      if (found !== null) return found
    }
  } else if (isJsonObject(value)) {
    for (const [name, inner] of Object.entries(value)) {
      // The path cannot contain a bad name, so it is the path of the object.
      if (!isClean(name)) return path
      const found = findBadText(inner, paramAt(path, name))
      if (found !== null) return found
    }
  }
  return null
}

/**
 * Parses a request body: a JSON object in UTF-8. A byte order mark is skipped.
 *
 * Fails with `payload_too_large` above 4 MiB, and with `invalid_parameter` for:
 * - a body that is not JSON, not an object or not valid UTF-8;
 * - nesting deeper than 16 levels (the body is level 1), or more values than a full batch needs;
 * - a NUL or half of a surrogate pair in a string or a name;
 * - an object with a repeated name. JSON does not define which value counts, so two parsers may see
 * two different requests.
 *
 * A number that a double does not hold exactly, or beyond 2^53, becomes infinite, which no check of a
 * number accepts: a variable fails with `template_variable_invalid` then.
 *
 * A second call with the same bytes returns the first result.
 *
 * Source: HTTP-10 to HTTP-17, ERR-11, ERR-12.
 */
export const parseBody = (bytes: Uint8Array): Result.Result<JsonObject, ApiError> => {
  const earlier = parsedBodies.get(bytes)
  if (earlier !== undefined) return earlier
  const result = parse(bytes, true)
  parsedBodies.set(bytes, result)
  return result
}

const parsedBodies = new WeakMap<Uint8Array, Result.Result<JsonObject, ApiError>>()

/** Like {@link parseBody}, but keeps every number as `JSON.parse` reads it. */
export const parseBodyAsSent = (bytes: Uint8Array): Result.Result<JsonObject, ApiError> => parse(bytes, false)

const parse = (bytes: Uint8Array, exactOnly: boolean): Result.Result<JsonObject, ApiError> => {
  if (bytes.length > MAX_BODY_BYTES) return refuse('payload_too_large')
  if (bytes.length === 0) return invalid(undefined, EMPTY)
  const { escapes, longNumbers, members, refused } = scan(bytes)
  if (refused !== null) return invalid(undefined, refused)
  let text: string
  try {
    text = utf8.decode(bytes)
  } catch {
    return invalid(undefined, NOT_UTF8)
  }
  let body: Json
  try {
    const exact = exactOnly && longNumbers.length > 0 ? withoutInexact(bytes, longNumbers) : bytes
    body = JSON.parse(exact === bytes ? text : utf8.decode(exact)) as Json
  } catch {
    return invalid(undefined, `The body is not JSON: ${describeFault(text)}.`)
  }
  if (Array.isArray(body)) return invalid(undefined, ARRAY)
  if (!isJsonObject(body)) return invalid(undefined, NOT_OBJECT)
  if (countMembers(body) !== members) return invalid(undefined, REPEATED)
  if (escapes) {
    const found = findBadText(body, '')
    if (found !== null) return invalid(found === '' ? undefined : found, BAD_TEXT)
  }
  return Result.succeed(body)
}
