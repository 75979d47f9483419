/** Checks sends, batches and estimates. Source: MSG-1, BAT-1, EST-1. */
import {
  DEFAULT_LIFETIMES,
  hasControlCharacters,
  isRecipientNumber,
  type MessageClass,
  VARIABLE_MAX_LENGTH,
} from '@hub/domain'
import { Result } from 'effect'
import { type ApiError, paramAt } from '../errors.ts'
import { isJsonObject, type Json, type JsonObject } from '../json.ts'
import { TEMPLATE_NAME_PATTERN } from '../limits.ts'
import {
  CLASS_RULE,
  CLIENT_REF_RULE,
  invalid,
  isClientRef,
  isMessageClass,
  isTtl,
  isWithin,
  member,
  NO_VARIABLES,
  refuse,
  REQUIRED_STRING,
  TEMPLATE_RULE,
  TTL_RULE,
  VARIABLES_RULE,
} from './checks.ts'

/** A valid send request. Later checks cover its template, variables and recipient. */
export interface Send {
  readonly to: string
  readonly class: MessageClass
  readonly template: string
  /** As sent. Rendering checks the values, after the check for duplicates. */
  readonly variables: JsonObject
  readonly clientRef: string | null
  /** A shorter lifetime before the submit than that of the class, in whole seconds. */
  readonly ttlSeconds?: number
}

/** The longest `ttl_seconds` of each class: its lifetime before the submit. */
export type LongestTtl = Readonly<Record<MessageClass, number>>
const DEFAULT_LONGEST_TTL: LongestTtl = {
  otp: DEFAULT_LIFETIMES.beforeSubmit.otp / 1000,
  service: DEFAULT_LIFETIMES.beforeSubmit.service / 1000,
}

const CLIENT_REF_REQUIRED = 'Every message of a batch needs a client_ref.'

/** Fields in which clients of other services send the text. */
const TEXT_FIELDS = ['text', 'body', 'message', 'content'] as const
const NO_FREE_TEXT =
  'There is no free text. Create a template with POST /v1/templates, and send its name and its variables.'

const RECIPIENT_RULE = 'Send +79 and nine digits, nothing else.'

/** Which rule a number broke, without the number. */
const recipientFault = (number: string): string => {
  if (number === '') return `The number is empty. ${RECIPIENT_RULE}`
  if (!/^\+?[0-9]*$/u.test(number)) {
    return `The number has other characters than a plus and digits. ${RECIPIENT_RULE}`
  }
  if (!number.startsWith('+')) return `The number does not begin with a plus. ${RECIPIENT_RULE}`
  if (!number.startsWith('+79')) return `The number is no Russian mobile number. ${RECIPIENT_RULE}`
  return `The number has ${number.length - 1} digits instead of 11. ${RECIPIENT_RULE}`
}

interface SendOptions {
  readonly clientRefRequired?: boolean
  readonly longestTtl?: LongestTtl
}

/**
 * Checks a send request: first `send_at`, then `to`, `class`, `template`, `variables`,
 * `client_ref`, `ttl_seconds`.
 *
 * `path` is the path of the object in the body: '' for a single send, `messages[3]` for a batch
 * element. Fails with `send_at_not_supported`, `recipient_invalid` or `invalid_parameter`. Unknown
 * fields are ignored.
 *
 * Source: MSG-1 to MSG-6, HTTP-28.
 */
export const decodeSendRequest = (
  object: JsonObject,
  path = '',
  options: SendOptions = {},
): Result.Result<Send, ApiError> => {
  if (Object.hasOwn(object, 'send_at')) return refuse('send_at_not_supported', paramAt(path, 'send_at'))

  const to = member(object, 'to')
  if (typeof to !== 'string') return invalid(paramAt(path, 'to'), REQUIRED_STRING)
  if (!isRecipientNumber(to)) return refuse('recipient_invalid', paramAt(path, 'to'), recipientFault(to))

  const messageClass = member(object, 'class')
  if (typeof messageClass !== 'string' || !isMessageClass(messageClass)) {
    return invalid(paramAt(path, 'class'), CLASS_RULE)
  }

  const template = member(object, 'template')
  if (typeof template !== 'string') {
    const hasText = template === undefined && TEXT_FIELDS.some((name) => Object.hasOwn(object, name))
    return invalid(paramAt(path, 'template'), hasText ? NO_FREE_TEXT : REQUIRED_STRING)
  }
  if (!TEMPLATE_NAME_PATTERN.test(template)) return invalid(paramAt(path, 'template'), TEMPLATE_RULE)

  const variables = member(object, 'variables')
  if (variables !== undefined && !isJsonObject(variables)) {
    return invalid(paramAt(path, 'variables'), VARIABLES_RULE)
  }

  const clientRef = member(object, 'client_ref')
  if (clientRef === undefined) {
    if (options.clientRefRequired === true) return invalid(paramAt(path, 'client_ref'), CLIENT_REF_REQUIRED)
  } else if (!isClientRef(clientRef)) {
    return invalid(paramAt(path, 'client_ref'), CLIENT_REF_RULE)
  }

  const ttlSeconds = member(object, 'ttl_seconds')
  const longest = (options.longestTtl ?? DEFAULT_LONGEST_TTL)[messageClass]
  if (ttlSeconds !== undefined && !isTtl(ttlSeconds, longest)) {
    return invalid(paramAt(path, 'ttl_seconds'), TTL_RULE)
  }

  return Result.succeed({
    to,
    class: messageClass,
    template,
    variables: variables ?? NO_VARIABLES,
    clientRef: clientRef ?? null,
    ...(ttlSeconds === undefined ? undefined : { ttlSeconds }),
  })
}

/** The `param` of a variable, such as `messages[3].variables.code`, not yet sanitized. */
export const variableParam = (name: string, path = ''): string => `${paramAt(path, 'variables')}.${name}`

/**
 * The values of variables as text: strings unchanged, finite numbers as JSON. Fails with
 * `template_variable_invalid` for the first value of another type, too long, or with a control
 * character other than line feed; `render` of the domain refuses the same values.
 *
 * The result has no prototype, so that `__proto__` and `constructor` are ordinary names.
 * Source: TPL-20.
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

/** An element of a batch, valid or not. */
export interface BatchElement {
  /** Index in `messages`, from 0. */
  readonly index: number
  /** The `path` of its errors: `messages[3]`. */
  readonly path: string
  /** As sent, also for a refused element; null without a valid one. */
  readonly clientRef: string | null
  /** The valid send (with its `clientRef`), or the reason of the refusal. */
  readonly send: Result.Result<Send, ApiError>
}

/** The messages to estimate: one send, or elements that fail separately. */
export type EstimateWanted =
  | { readonly kind: 'one'; readonly send: Send }
  | { readonly kind: 'many'; readonly elements: ReadonlyArray<BatchElement> }

const MESSAGES_RULE = 'messages is a list of at least one send request.'
const ELEMENT_RULE = 'Every element of messages is an object.'
const decodeMessages = (
  object: JsonObject,
  batchMax: number,
  options: SendOptions,
): Result.Result<ReadonlyArray<BatchElement>, ApiError> => {
  // A request for a later time must not be sent now.
  if (Object.hasOwn(object, 'send_at')) return refuse('send_at_not_supported')
  const given = member(object, 'messages')
  if (!Array.isArray(given) || given.length === 0) return invalid('messages', MESSAGES_RULE)
  const messages = given as ReadonlyArray<Json>
  if (messages.length > batchMax) return refuse('batch_too_large')
  const elements: Array<BatchElement> = []
  for (const [index, element] of messages.entries()) {
    const path = `messages[${index}]`
    if (!isJsonObject(element)) return invalid(path, ELEMENT_RULE)
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
 * Checks the body of a batch. `batchMax` is `limits.batch_max` of the account.
 *
 * The whole request fails with `send_at_not_supported` if the body has a `send_at`, with
 * `invalid_parameter` if `messages` is absent, not a list or empty, or has an element that is not
 * an object, and with `batch_too_large`. Every other failure belongs to its element, under its
 * `path`. A repeated `client_ref` within the batch is no failure: the second element is a duplicate
 * if the first one is accepted.
 *
 * Source: BAT-1, BAT-2, BAT-6, BAT-7.
 */
export const decodeBatch = (
  object: JsonObject,
  batchMax: number,
  longestTtl: LongestTtl = DEFAULT_LONGEST_TTL,
): Result.Result<ReadonlyArray<BatchElement>, ApiError> =>
  decodeMessages(object, batchMax, { clientRefRequired: true, longestTtl })

/**
 * Checks the body of an estimate: with `messages` like a batch in which `client_ref` is optional,
 * else like a send. Fails like {@link decodeBatch} and {@link decodeSendRequest}.
 *
 * Source: EST-1 to EST-4.
 */
export const decodeEstimate = (
  object: JsonObject,
  batchMax: number,
  longestTtl: LongestTtl = DEFAULT_LONGEST_TTL,
): Result.Result<EstimateWanted, ApiError> =>
  Object.hasOwn(object, 'messages')
    ? Result.map(decodeMessages(object, batchMax, { longestTtl }), (elements) => ({ kind: 'many', elements }))
    : Result.map(decodeSendRequest(object, '', { longestTtl }), (send) => ({ kind: 'one', send }))
