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
  parseTemplate,
  VARIABLE_MAX_LENGTH,
} from '@hub/domain'
import { Predicate, Result, type Schema } from 'effect'
import { type ApiError, type ErrorCode, apiError } from './errors.ts'
import {
  DATE_PATTERN,
  LANGUAGE_PATTERN,
  LIST_LIMITS,
  LONG_LIST_LIMITS,
  MAX_BODY_BYTES,
  MAX_CLIENT_REF_LENGTH,
  MAX_IDEMPOTENCY_KEY_LENGTH,
  MAX_LANGUAGE_LENGTH,
  MAX_NESTING,
  MAX_REGISTRATION_BYTES,
  MAX_SENDER_NAME_LENGTH,
  MAX_STATS_DAYS,
  MAX_TEMPLATE_BODY_LENGTH,
  MAX_TEMPLATE_NAME_LENGTH,
  SENDER_NAME_PATTERN,
  TEMPLATE_NAME_PATTERN,
} from './limits.ts'
import { STATS_GROUPS, type StatsGroup } from './wire.ts'

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

const isClientRef = (value: Json | undefined): value is string =>
  typeof value === 'string' &&
  value !== '' &&
  isWithin(value, MAX_CLIENT_REF_LENGTH) &&
  !hasControlCharacters(value)

const isMessageClass = (value: string): value is MessageClass =>
  (MESSAGE_CLASSES as ReadonlyArray<string>).includes(value)

interface SendOptions {
  readonly clientRefRequired?: boolean
}

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
  options: SendOptions = {},
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
  } else if (!isClientRef(clientRef)) {
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
// Batches and estimates
// ---------------------------------------------------------------------------------------------------------

/** An element of a batch, good or not. */
export interface BatchElement {
  /** Place in `messages`, from 0. */
  readonly index: number
  /** The `path` of its errors: `messages[3]`. */
  readonly path: string
  /** As sent, also of an element that is refused; null where there is none in the right form. */
  readonly clientRef: string | null
  /** What to send (its `clientRef` is there), or why this element is refused. */
  readonly send: Result.Result<Send, ApiError>
}

/** What is to be estimated: one send, or elements whose faults are their own. */
export type EstimateWanted =
  | { readonly kind: 'one'; readonly send: Send }
  | { readonly kind: 'many'; readonly elements: ReadonlyArray<BatchElement> }

const MESSAGES_WORDS = 'messages is a list of at least one send request.'
const ELEMENT_WORDS = 'Every element of messages is an object.'
const REFERENCED: SendOptions = Object.freeze({ clientRefRequired: true })
const UNREFERENCED: SendOptions = Object.freeze({})

/** Where an element lies in the body, for the `path` of its errors: `messages[3]`. */
export const elementPath = (index: number): string => `messages[${index}]`

const decodeMessages = (
  object: JsonObject,
  batchMax: number,
  options: SendOptions,
): Result.Result<ReadonlyArray<BatchElement>, ApiError> => {
  // Nobody who asks for a later moment is to be served now.
  if (Object.hasOwn(object, 'send_at')) return refuse('send_at_not_supported')
  const given = member(object, 'messages')
  if (!Array.isArray(given) || given.length === 0) {
    return refuse('invalid_parameter', 'messages', MESSAGES_WORDS)
  }
  const messages = given as ReadonlyArray<Json>
  if (messages.length > batchMax) return refuse('batch_too_large')
  const elements: Array<BatchElement> = []
  for (const [index, element] of messages.entries()) {
    const path = elementPath(index)
    if (!isJsonObject(element)) return refuse('invalid_parameter', path, ELEMENT_WORDS)
    const clientRef = member(element, 'client_ref')
    elements.push({
      index,
      path,
      clientRef: isClientRef(clientRef) ? clientRef : null,
      send: decodeSendRequest(element, path, options),
    })
  }
  return Result.succeed(elements)
}

/**
 * The form of a batch. `batchMax` is `limits.batch_max` of the account.
 *
 * Fails, for the whole request: `send_at_not_supported` where the body itself has a `send_at`; `invalid_parameter`
 * where `messages` is absent, not a list or empty; `batch_too_large`; `invalid_parameter` of the first element that
 * is no object. Every other fault is that of an element, under its `path`. A `client_ref` that is in the batch
 * twice is no fault: the second is a duplicate if the first is accepted.
 *
 * Source: specification, Rules of POST /v1/messages/batch, 1 to 3; contract decisions, Batch.
 */
export const decodeBatch = (
  object: JsonObject,
  batchMax: number,
): Result.Result<ReadonlyArray<BatchElement>, ApiError> => decodeMessages(object, batchMax, REFERENCED)

/**
 * The form of an estimate: that of a batch without the need for a `client_ref` where the body has `messages`, else
 * that of a send. Fails as {@link decodeBatch} and {@link decodeSendRequest} do.
 *
 * Source: specification, Estimate and part counting; contract decisions, Templates and senders.
 */
export const decodeEstimate = (
  object: JsonObject,
  batchMax: number,
): Result.Result<EstimateWanted, ApiError> =>
  Object.hasOwn(object, 'messages')
    ? Result.map(decodeMessages(object, batchMax, UNREFERENCED), (elements) => ({ kind: 'many', elements }))
    : Result.map(decodeSendRequest(object), (send) => ({ kind: 'one', send }))

// ---------------------------------------------------------------------------------------------------------
// Templates and senders
// ---------------------------------------------------------------------------------------------------------

/** A template to create whose own form is right. Whether its name is free and its sender exists comes later. */
export interface TemplateToCreate {
  readonly name: string
  readonly class: MessageClass
  /** Any text: one that names no sender of the account is `sender_not_registered`, `param` `sender`. */
  readonly sender: string
  /** Parses as a template. */
  readonly body: string
  readonly language: string | null
}

/** A sender to create whose own form is right. Whether its name is free comes later. */
export interface SenderToCreate {
  readonly name: string
  /** As sent. */
  readonly registration: JsonObject | null
}

const CONTROL_WORDS = 'This field is a text without control characters other than line feed.'
const BODY_WORDS = `A template body is a text of 1 to ${MAX_TEMPLATE_BODY_LENGTH} characters without control characters other than line feed.`
const LANGUAGE_WORDS = 'A language is a BCP 47 tag such as "ru" or "en-GB".'
const SENDER_WORDS = `A sender name has 1 to ${MAX_SENDER_NAME_LENGTH} of the letters of GSM 03.38, digits, space, ".", "-" and "_", at least one of them a letter.`
const REGISTRATION_WORDS = `A registration is an object of at most ${MAX_REGISTRATION_BYTES} bytes of JSON without control characters other than line feed.`

/**
 * The form of a template to create: `name`, `class`, `sender`, `body`, `language`. Fails with `invalid_parameter`,
 * or with `template_invalid` where `{{` in the body is no placeholder. Unknown fields are ignored.
 *
 * Source: contract decisions, "lengths" and Templates and senders.
 */
export const decodeTemplateCreate = (object: JsonObject): Result.Result<TemplateToCreate, ApiError> => {
  const name = member(object, 'name')
  if (typeof name !== 'string') return refuse('invalid_parameter', 'name', REQUIRED_STRING)
  if (!TEMPLATE_NAME_PATTERN.test(name)) return refuse('invalid_parameter', 'name', TEMPLATE_WORDS)

  const messageClass = member(object, 'class')
  if (typeof messageClass !== 'string' || !isMessageClass(messageClass)) {
    return refuse('invalid_parameter', 'class', CLASS_WORDS)
  }

  const sender = member(object, 'sender')
  if (typeof sender !== 'string') return refuse('invalid_parameter', 'sender', REQUIRED_STRING)
  if (hasControlCharacters(sender)) return refuse('invalid_parameter', 'sender', CONTROL_WORDS)

  const body = member(object, 'body')
  if (typeof body !== 'string') return refuse('invalid_parameter', 'body', REQUIRED_STRING)
  if (body === '' || !isWithin(body, MAX_TEMPLATE_BODY_LENGTH) || hasControlCharacters(body)) {
    return refuse('invalid_parameter', 'body', BODY_WORDS)
  }
  if (Result.isFailure(parseTemplate(body))) return refuse('template_invalid')

  const language = member(object, 'language')
  if (
    language !== undefined &&
    (typeof language !== 'string' ||
      language.length > MAX_LANGUAGE_LENGTH ||
      !LANGUAGE_PATTERN.test(language))
  ) {
    return refuse('invalid_parameter', 'language', LANGUAGE_WORDS)
  }

  return Result.succeed({ name, class: messageClass, sender, body, language: language ?? null })
}

/** Any string in a value, names included, with a control character other than line feed. Its depth is bounded. */
const holdsControlCharacters = (value: Json): boolean => {
  if (typeof value === 'string') return hasControlCharacters(value)
  if (Array.isArray(value)) return value.some(holdsControlCharacters)
  return (
    isJsonObject(value) &&
    Object.entries(value).some(([name, inner]) => hasControlCharacters(name) || holdsControlCharacters(inner))
  )
}

/**
 * The form of a sender to create: `name`, `registration`. Fails with `invalid_parameter`. Unknown fields are ignored.
 *
 * Source: contract decisions, "lengths" and Templates and senders.
 */
export const decodeSenderCreate = (object: JsonObject): Result.Result<SenderToCreate, ApiError> => {
  const name = member(object, 'name')
  if (typeof name !== 'string') return refuse('invalid_parameter', 'name', REQUIRED_STRING)
  // Every character that the pattern allows is one code unit.
  if (name.length > MAX_SENDER_NAME_LENGTH || !SENDER_NAME_PATTERN.test(name)) {
    return refuse('invalid_parameter', 'name', SENDER_WORDS)
  }

  const registration = member(object, 'registration')
  if (registration === undefined) return Result.succeed({ name, registration: null })
  if (
    !isJsonObject(registration) ||
    Buffer.byteLength(JSON.stringify(registration)) > MAX_REGISTRATION_BYTES ||
    holdsControlCharacters(registration)
  ) {
    return refuse('invalid_parameter', 'registration', REGISTRATION_WORDS)
  }
  return Result.succeed({ name, registration })
}

/**
 * The form of a preview: `variables`, which may be absent. Fails with `invalid_parameter`. The values are checked when the
 * template is rendered. Source: contract decisions, Templates and senders.
 */
export const decodeRender = (object: JsonObject): Result.Result<JsonObject, ApiError> => {
  const variables = member(object, 'variables')
  if (variables === undefined) return Result.succeed(NO_VARIABLES)
  if (!isJsonObject(variables)) return refuse('invalid_parameter', 'variables', VARIABLES_WORDS)
  return Result.succeed(variables)
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
 * The query of a list of templates, senders or subscriptions: `limit` (1–100, default 20) and `starting_after`. Fails with `invalid_parameter`. Unknown
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

/** Which page of the messages of a batch. */
export interface MessagesPage extends Page {
  /** As sent: one that names nothing is `not_found`, which is for the reader to see. */
  readonly batch: string
}

const BATCH_WORDS = 'Name one batch: messages are listed by batch only.'

/**
 * The query of `GET /v1/messages`: `batch`, which is required, then `limit` (1–1000, default 100) and `starting_after`.
 * Fails with `invalid_parameter`. Source: contract decisions, "list envelope" and Message.
 */
export const decodeMessagesQuery = (query: URLSearchParams): Result.Result<MessagesPage, ApiError> => {
  const [batch, ...others] = query.getAll('batch')
  if (batch === undefined || others.length > 0) return refuse('invalid_parameter', 'batch', BATCH_WORDS)
  return Result.map(decodePage(query, LONG_LIST_LIMITS), (page) => ({ ...page, batch }))
}

// ---------------------------------------------------------------------------------------------------------
// Stats
// ---------------------------------------------------------------------------------------------------------

/** Which summary. Both days are included, and there are at most 366 of them. */
export interface StatsWanted {
  /** `2026-11-01`, in UTC; not after `to`. */
  readonly from: string
  readonly to: string
  readonly groupBy: StatsGroup | null
}

const DAY_MS = 86_400_000
const DATE_WORDS = 'A day is written as 2026-11-21.'
const ORDER_WORDS = 'from must not be after to.'
const PERIOD_WORDS = `A summary covers at most ${MAX_STATS_DAYS} days.`
const GROUP_WORDS = `group_by is one of: ${STATS_GROUPS.join(', ')}.`

/** True for a day of the calendar. The year 0 has none: it is no year of PostgreSQL's. */
const isDay = (text: string): boolean =>
  DATE_PATTERN.test(text) && !text.startsWith('0000') && fromTimestamp(`${text}T00:00:00.000Z`) !== null

/** A day in a query; null where there is none. */
const decodeDay = (query: URLSearchParams, name: string): Result.Result<string | null, ApiError> => {
  const [day, ...others] = query.getAll(name)
  if (others.length > 0) return refuse('invalid_parameter', name, DATE_WORDS)
  if (day === undefined) return Result.succeed(null)
  return isDay(day) ? Result.succeed(day) : refuse('invalid_parameter', name, DATE_WORDS)
}

const isStatsGroup = (value: string): value is StatsGroup =>
  (STATS_GROUPS as ReadonlyArray<string>).includes(value)

/**
 * The query of `GET /v1/stats`: `from`, `to`, `group_by`. `today` is the day in UTC (`2026-11-21`) and stands for an
 * absent `to`; for an absent `from` stands the first of the month of `to`. Fails with `invalid_parameter`; both
 * a `from` after `to` and too long a period are faults of `from`. A `to` in the future is none.
 *
 * Source: contract decisions, Account, stats.
 */
export const decodeStatsQuery = (
  query: URLSearchParams,
  today: string,
): Result.Result<StatsWanted, ApiError> => {
  const first = decodeDay(query, 'from')
  if (Result.isFailure(first)) return Result.fail(first.failure)
  const last = decodeDay(query, 'to')
  if (Result.isFailure(last)) return Result.fail(last.failure)
  const to = last.success ?? today
  const from = first.success ?? `${to.slice(0, 8)}01`
  const days = (Date.parse(to) - Date.parse(from)) / DAY_MS + 1
  if (days < 1) return refuse('invalid_parameter', 'from', ORDER_WORDS)
  if (days > MAX_STATS_DAYS) return refuse('invalid_parameter', 'from', PERIOD_WORDS)

  const [groupBy, ...others] = query.getAll('group_by')
  if (groupBy === undefined) return Result.succeed({ from, to, groupBy: null })
  if (others.length > 0 || !isStatsGroup(groupBy)) {
    return refuse('invalid_parameter', 'group_by', GROUP_WORDS)
  }
  return Result.succeed({ from, to, groupBy })
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
