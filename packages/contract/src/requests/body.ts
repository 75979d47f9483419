/** Parses the body of a request. Source: contract decisions, "hostile input". */
import { Result } from 'effect'
import type { ApiError } from '../errors.ts'
import type { Json, JsonObject } from '../json.ts'
import { MAX_BODY_BYTES, MAX_NESTING } from '../limits.ts'
import { at, invalid, isJsonObject, refuse, utf8 } from './checks.ts'

const NOT_JSON = 'The body must be a JSON object in UTF-8.'
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

interface Scan {
  /** Nested deeper than the limit; the scan stops there. */
  readonly deep: boolean
  /** Members of all objects, with repeated names: the colons outside of strings. */
  readonly members: number
  /** Contains a `\u` escape, without which no NUL or half surrogate pair is possible. */
  readonly escapes: boolean
}

/** Scans the bytes before parsing. It does not check that they are JSON. */
const scan = (bytes: Uint8Array): Scan => {
  let depth = 0
  let members = 0
  let escapes = false
  for (let i = 0; i < bytes.length; i++) {
    switch (bytes[i]) {
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
        if (depth > MAX_NESTING) return { deep: true, members, escapes }
        break
      case CLOSE_BRACE:
      case CLOSE_BRACKET:
        depth--
        break
      case COLON:
        members++
        break
      default:
        break
    }
  }
  return { deep: false, members, escapes }
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
      const found = findBadText(inner, at(path, name))
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
 * - nesting deeper than 16 levels (the body is level 1);
 * - a NUL or half of a surrogate pair in a string or a name;
 * - an object with a repeated name. JSON does not define which value counts, so two parsers may see
 * two different requests.
 *
 * Source: contract decisions, "unknown path, method, body" and "hostile input".
 */
export const parseBody = (bytes: Uint8Array): Result.Result<JsonObject, ApiError> => {
  if (bytes.length > MAX_BODY_BYTES) return refuse('payload_too_large')
  const { deep, members, escapes } = scan(bytes)
  if (deep) return invalid(undefined, TOO_DEEP)
  let body: Json
  try {
    body = JSON.parse(utf8.decode(bytes)) as Json
  } catch {
    return invalid(undefined, NOT_JSON)
  }
  if (!isJsonObject(body)) return invalid(undefined, NOT_JSON)
  if (countMembers(body) !== members) return invalid(undefined, REPEATED)
  if (escapes) {
    const found = findBadText(body, '')
    if (found !== null) return invalid(found === '' ? undefined : found, BAD_TEXT)
  }
  return Result.succeed(body)
}
