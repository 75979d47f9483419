/**
 * The checks of a request that belong to the contract alone: no state, no clock, no I/O. They come after the key
 * and the rate, and before the used `client_ref` (contract decisions, "order of checks"). The first that fails
 * answers. Nothing here throws, whatever a client sends, and every failure is in the catalogue.
 *
 * These are plain functions and not schema decoders because the contract fixes the order of the checks, the
 * code and the `param` of each, and because every send passes here.
 */
import {
  characterCount,
  type EventType,
  fromTimestamp,
  hasControlCharacters,
  isEventType,
  isRecipientNumber,
  MESSAGE_CLASSES,
  type MessageClass,
  VARIABLE_MAX_LENGTH,
} from '@hub/domain'
import { Predicate, Result, type Schema } from 'effect'
import { type ApiError, type ErrorCode, apiError } from './errors.ts'
import {
  LIST_LIMITS,
  LONG_LIST_LIMITS,
  MAX_BODY_BYTES,
  MAX_CLIENT_REF_LENGTH,
  MAX_IDEMPOTENCY_KEY_LENGTH,
  MAX_NESTING,
  MAX_TEMPLATE_NAME_LENGTH,
  TEMPLATE_NAME_PATTERN,
} from './limits.ts'

/** A JSON value. */
export type Json = Schema.Json

/** A JSON object as it was parsed. Every name in it is an own property, `__proto__` too. */
export interface JsonObject {
  readonly [name: string]: Json
}

const refuse = (code: ErrorCode, param?: string, message?: string): Result.Result<never, ApiError> =>
  Result.fail(
    apiError(code, {
      ...(param === undefined ? undefined : { param }),
      ...(message === undefined ? undefined : { message }),
    }),
  )

const isJsonObject = (value: unknown): value is JsonObject => Predicate.isObject(value)

const at = (path: string, name: string): string => (path === '' ? name : `${path}.${name}`)

/** An own member; `undefined` where there is none, so that nothing of a prototype is ever read. */
const member = (object: JsonObject, name: string): Json | undefined =>
  Object.hasOwn(object, name) ? object[name] : undefined

/** True when the text has at most `max` characters. Counts only where code units leave it open. */
const isWithin = (text: string, max: number): boolean =>
  text.length <= max || (text.length <= max * 2 && characterCount(text) <= max)

// ---------------------------------------------------------------------------------------------------------
// Bodies
// ---------------------------------------------------------------------------------------------------------

const NOT_JSON = 'The body must be a JSON object in UTF-8.'
const TOO_DEEP = `The body is nested deeper than ${MAX_NESTING} levels.`
const BAD_TEXT = 'A string holds a NUL or half of a surrogate pair.'
const REPEATED = 'An object in the body has the same name twice.'

const utf8 = new TextDecoder('utf-8', { fatal: true })

const QUOTE = 0x22
const BACKSLASH = 0x5c
const LOWER_U = 0x75
const COLON = 0x3a
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d

interface Scan {
  /** Nested over the limit, as far as was read. */
  readonly deep: boolean
  /** Members of all objects, repeated names included: in JSON, the colons outside of strings. */
  readonly members: number
  /** Has a `\u` escape. Without one, no string of valid JSON in valid UTF-8 holds a NUL or half of a pair. */
  readonly escapes: boolean
}

/** What has to be known before parsing: one look at each byte. Says nothing of whether it is JSON. */
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

/** Members of all objects in a value. Its depth is bounded by the scan. */
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

/** Where the first string lies that holds a NUL or half of a pair: a path, '' for the body, null for nowhere. */
const findBadText = (value: Json, path: string): string | null => {
  if (typeof value === 'string') return isClean(value) ? null : path
  if (Array.isArray(value)) {
    for (const [index, element] of value.entries()) {
      const found = findBadText(element, `${path}[${index}]`)
      if (found !== null) return found
    }
  } else if (isJsonObject(value)) {
    for (const [name, inner] of Object.entries(value)) {
      // A bad name cannot be told; the object that has it can.
      if (!isClean(name)) return path
      const found = findBadText(inner, at(path, name))
      if (found !== null) return found
    }
  }
  return null
}

/**
 * A request body: a JSON object in UTF-8.
 *
 * Refuses with `invalid_parameter`: what is not JSON, not an object or not valid UTF-8; nesting over 16 levels
 * (the body is level 1); a NUL or half of a surrogate pair anywhere, names included; and an object with the same
 * name twice. The last because two readers of such a body may see two different requests: JSON leaves open which
 * one counts. Refuses with `payload_too_large` over 4 MiB. A byte order mark is skipped.
 *
 * Source: contract decisions, "unknown path, method, body" and "hostile input".
 */
export const parseBody = (bytes: Uint8Array): Result.Result<JsonObject, ApiError> => {
  if (bytes.length > MAX_BODY_BYTES) return refuse('payload_too_large')
  const { deep, members, escapes } = scan(bytes)
  if (deep) return refuse('invalid_parameter', undefined, TOO_DEEP)
  let body: Json
  try {
    body = JSON.parse(utf8.decode(bytes)) as Json
  } catch {
    return refuse('invalid_parameter', undefined, NOT_JSON)
  }
  if (!isJsonObject(body)) return refuse('invalid_parameter', undefined, NOT_JSON)
  if (countMembers(body) !== members) return refuse('invalid_parameter', undefined, REPEATED)
  if (escapes) {
    const found = findBadText(body, '')
    if (found !== null) return refuse('invalid_parameter', found === '' ? undefined : found, BAD_TEXT)
  }
  return Result.succeed(body)
}

// ---------------------------------------------------------------------------------------------------------
// Sending
// ---------------------------------------------------------------------------------------------------------

/** A send request whose own form is right. Whether its template, variables and recipient are comes later. */
export interface Send {
  readonly to: string
  readonly class: MessageClass
  readonly template: string
  /** As sent. Their values are checked when the template is rendered, after the check for duplicates. */
  readonly variables: JsonObject
  readonly clientRef: string | null
}

const NO_VARIABLES: JsonObject = Object.freeze({})

const REQUIRED_STRING = 'This field is required and is a string.'
const CLASS_WORDS = `The class is one of: ${MESSAGE_CLASSES.join(', ')}.`
const TEMPLATE_WORDS = `A template name has 1 to ${MAX_TEMPLATE_NAME_LENGTH} of a-z, 0-9, "_", "." and "-".`
const VARIABLES_WORDS = 'Variables are an object of names and values.'
const CLIENT_REF_WORDS = `A client_ref is a string of 1 to ${MAX_CLIENT_REF_LENGTH} characters without control characters.`
const CLIENT_REF_REQUIRED = 'Every message of a batch needs a client_ref.'

const isMessageClass = (value: string): value is MessageClass =>
  (MESSAGE_CLASSES as ReadonlyArray<string>).includes(value)

/**
 * The form of a send request: `send_at` first, then `to`, `class`, `template`, `variables`, `client_ref`.
 *
 * `path` is where the object lies in the body: '' for a single send, `messages[3]` for an element of a batch.
 * Fails with `send_at_not_supported`, `recipient_invalid` or `invalid_parameter`. Unknown fields are ignored.
 *
 * Source: specification, Send request body; contract decisions, "order of checks" and "lengths".
 */
export const decodeSendRequest = (
  object: JsonObject,
  path = '',
  options: { readonly clientRefRequired?: boolean } = {},
): Result.Result<Send, ApiError> => {
  if (Object.hasOwn(object, 'send_at')) return refuse('send_at_not_supported', at(path, 'send_at'))

  const to = member(object, 'to')
  if (typeof to !== 'string') return refuse('invalid_parameter', at(path, 'to'), REQUIRED_STRING)
  if (!isRecipientNumber(to)) return refuse('recipient_invalid', at(path, 'to'))

  const messageClass = member(object, 'class')
  if (typeof messageClass !== 'string' || !isMessageClass(messageClass)) {
    return refuse('invalid_parameter', at(path, 'class'), CLASS_WORDS)
  }

  const template = member(object, 'template')
  if (typeof template !== 'string') return refuse('invalid_parameter', at(path, 'template'), REQUIRED_STRING)
  if (!TEMPLATE_NAME_PATTERN.test(template)) {
    return refuse('invalid_parameter', at(path, 'template'), TEMPLATE_WORDS)
  }

  const variables = member(object, 'variables')
  if (variables !== undefined && !isJsonObject(variables)) {
    return refuse('invalid_parameter', at(path, 'variables'), VARIABLES_WORDS)
  }

  const clientRef = member(object, 'client_ref')
  if (clientRef === undefined) {
    if (options.clientRefRequired === true) {
      return refuse('invalid_parameter', at(path, 'client_ref'), CLIENT_REF_REQUIRED)
    }
  } else if (
    typeof clientRef !== 'string' ||
    clientRef === '' ||
    !isWithin(clientRef, MAX_CLIENT_REF_LENGTH) ||
    hasControlCharacters(clientRef)
  ) {
    return refuse('invalid_parameter', at(path, 'client_ref'), CLIENT_REF_WORDS)
  }

  return Result.succeed({
    to,
    class: messageClass,
    template,
    variables: variables ?? NO_VARIABLES,
    clientRef: clientRef ?? null,
  })
}

/** The `param` of a variable: `variables.code`, `messages[3].variables.code`. {@link apiError} keeps it tellable. */
export const variableParam = (name: string, path = ''): string => `${at(path, 'variables')}.${name}`

/**
 * The values of variables as they are written into a text: strings as they are, finite numbers as JSON writes
 * them. Fails with `template_variable_invalid` at the first value that is something else, too long, or holds a
 * control character other than line feed; `render` of the domain refuses the same ones.
 *
 * The result has no prototype, so that `__proto__` and `constructor` are names like any other.
 * Source: contract decisions, "lengths".
 */
export const decodeVariables = (
  variables: JsonObject,
  path = '',
): Result.Result<Readonly<Record<string, string>>, ApiError> => {
  const values = Object.create(null) as Record<string, string>
  for (const name of Object.keys(variables)) {
    const value = variables[name]
    const text = typeof value === 'number' && Number.isFinite(value) ? JSON.stringify(value) : value
    if (typeof text !== 'string' || !isWithin(text, VARIABLE_MAX_LENGTH) || hasControlCharacters(text)) {
      return refuse('template_variable_invalid', variableParam(name, path))
    }
    values[name] = text
  }
  return Result.succeed(values)
}

// ---------------------------------------------------------------------------------------------------------
// Webhook subscriptions
// ---------------------------------------------------------------------------------------------------------

/** A subscription to create whose own form is right. The rules of its address come later: they need DNS. */
export interface WebhookEndpointToCreate {
  /** As sent. */
  readonly url: string
  /** Without repetitions, in the order sent; empty means all. */
  readonly eventTypes: ReadonlyArray<EventType>
}

const EVENT_TYPES_WORDS = 'event_types is a list of event types; leave it out for all of them.'
const EVENT_TYPE_WORDS = 'There is no event type of this name.'

/**
 * The form of a subscription to create: `url`, then `event_types`. Fails with `invalid_parameter` where `url` is
 * absent or not a string, or `event_types` is not a list of known types. Unknown fields are ignored.
 *
 * Source: specification, Webhook subscription endpoints; contract decisions, Webhook subscription.
 */
export const decodeWebhookEndpointCreate = (
  object: JsonObject,
): Result.Result<WebhookEndpointToCreate, ApiError> => {
  const url = member(object, 'url')
  if (typeof url !== 'string') return refuse('invalid_parameter', 'url', REQUIRED_STRING)

  const given = member(object, 'event_types')
  if (given === undefined) return Result.succeed({ url, eventTypes: [] })
  if (!Array.isArray(given)) return refuse('invalid_parameter', 'event_types', EVENT_TYPES_WORDS)
  const eventTypes = new Set<EventType>()
  for (const [index, type] of (given as ReadonlyArray<Json>).entries()) {
    if (typeof type !== 'string')
      return refuse('invalid_parameter', `event_types[${index}]`, EVENT_TYPES_WORDS)
    if (!isEventType(type)) return refuse('invalid_parameter', `event_types[${index}]`, EVENT_TYPE_WORDS)
    eventTypes.add(type)
  }
  return Result.succeed({ url, eventTypes: [...eventTypes] })
}

// ---------------------------------------------------------------------------------------------------------
// Lists
// ---------------------------------------------------------------------------------------------------------

/** Which page of a list. */
export interface Page {
  readonly limit: number
  /** The id to go on after, as sent: one that names nothing is `not_found`, which is for the reader to see. */
  readonly startingAfter: string | null
}

/** Which page of the events. At most one of `startingAfter` and `createdAfter` is there. */
export interface EventsPage extends Page {
  /** Milliseconds since the epoch; the filter is strict. */
  readonly createdAfter: number | null
  /** Without repetitions; empty means all. */
  readonly types: ReadonlyArray<EventType>
}

const TWO_CURSORS = 'Send one cursor only.'
const TIMESTAMP_WORDS = 'A moment is written in UTC as 2026-11-21T09:30:00.000Z.'

const decodePage = (
  query: URLSearchParams,
  limits: { readonly max: number; readonly default: number },
): Result.Result<Page, ApiError> => {
  const limitWords = `limit is a whole number from 1 to ${limits.max}.`
  const given = query.getAll('limit')
  if (given.length > 1) return refuse('invalid_parameter', 'limit', limitWords)
  let limit = limits.default
  if (given[0] !== undefined) {
    if (!/^[1-9][0-9]{0,3}$/u.test(given[0])) return refuse('invalid_parameter', 'limit', limitWords)
    limit = Number(given[0])
    if (limit > limits.max) return refuse('invalid_parameter', 'limit', limitWords)
  }
  const cursors = query.getAll('starting_after')
  if (cursors.length > 1) return refuse('invalid_parameter', 'starting_after', TWO_CURSORS)
  return Result.succeed({ limit, startingAfter: cursors[0] ?? null })
}

/**
 * The query of a list: `limit` (1–100, default 20) and `starting_after`. Fails with `invalid_parameter`. Unknown
 * parameters are ignored. Source: contract decisions, "list envelope".
 */
export const decodeListQuery = (query: URLSearchParams): Result.Result<Page, ApiError> =>
  decodePage(query, LIST_LIMITS)

/**
 * The query of `GET /v1/events`: `limit` (1–1000, default 100), `starting_after` or `created_after`, and any
 * number of `type`. Fails with `invalid_parameter`. Source: specification, Delivery of events, 10; contract
 * decisions, Events.
 */
export const decodeEventsQuery = (query: URLSearchParams): Result.Result<EventsPage, ApiError> => {
  const page = decodePage(query, LONG_LIST_LIMITS)
  if (Result.isFailure(page)) return Result.fail(page.failure)
  const moments = query.getAll('created_after')
  if (moments.length > 1) return refuse('invalid_parameter', 'created_after', TWO_CURSORS)
  let createdAfter: number | null = null
  if (moments[0] !== undefined) {
    if (page.success.startingAfter !== null) return refuse('invalid_parameter', 'created_after', TWO_CURSORS)
    createdAfter = fromTimestamp(moments[0])
    if (createdAfter === null) return refuse('invalid_parameter', 'created_after', TIMESTAMP_WORDS)
  }
  const types = new Set<EventType>()
  for (const type of query.getAll('type')) {
    if (!isEventType(type)) return refuse('invalid_parameter', 'type', EVENT_TYPE_WORDS)
    types.add(type)
  }
  return Result.succeed({ ...page.success, createdAfter, types: [...types] })
}

// ---------------------------------------------------------------------------------------------------------
// Headers
// ---------------------------------------------------------------------------------------------------------

const NON_ASCII = /[\u0080-\u00ff]/u

/** Characters of a header value: as UTF-8 where it is that, else one a byte. */
const headerCharacters = (value: string): number => {
  if (!NON_ASCII.test(value)) return value.length
  try {
    return characterCount(utf8.decode(Uint8Array.from(value, (byte) => byte.charCodeAt(0))))
  } catch {
    return value.length
  }
}

/**
 * The value of `Idempotency-Key`, as Node gives it (one character a byte); null where there is none. An empty
 * one is `invalid_parameter`, one over 255 characters `idempotency_key_reused`; nothing is cut.
 *
 * Source: specification, Idempotency, 2; contract decisions, "order of checks".
 */
export const decodeIdempotencyKey = (value: string | undefined): Result.Result<string | null, ApiError> => {
  if (value === undefined) return Result.succeed(null)
  if (value === '')
    return refuse('invalid_parameter', 'Idempotency-Key', 'An Idempotency-Key must not be empty.')
  if (headerCharacters(value) > MAX_IDEMPOTENCY_KEY_LENGTH) {
    return refuse(
      'idempotency_key_reused',
      'Idempotency-Key',
      `An Idempotency-Key has at most ${MAX_IDEMPOTENCY_KEY_LENGTH} characters.`,
    )
  }
  return Result.succeed(value)
}
