/** Checks the form of sends, batches and estimates. Source: specification, Send request body; contract decisions, Batch. */
import { hasControlCharacters, isRecipientNumber, type MessageClass, VARIABLE_MAX_LENGTH } from '@hub/domain'
import { Result } from 'effect'
import type { ApiError } from '../errors.ts'
import type { Json, JsonObject } from '../json.ts'
import { MAX_CLIENT_REF_LENGTH, TEMPLATE_NAME_PATTERN } from '../limits.ts'
import {
  at,
  CLASS_WORDS,
  isJsonObject,
  isMessageClass,
  isWithin,
  member,
  NO_VARIABLES,
  refuse,
  REQUIRED_STRING,
  TEMPLATE_WORDS,
  VARIABLES_WORDS,
} from './checks.ts'

/** A send request whose own form is right. Whether its template, variables and recipient are comes later. */
export interface Send {
  readonly to: string
  readonly class: MessageClass
  readonly template: string
  /** As sent. Their values are checked when the template is rendered, after the check for duplicates. */
  readonly variables: JsonObject
  readonly clientRef: string | null
}

const CLIENT_REF_WORDS = `A client_ref is a string of 1 to ${MAX_CLIENT_REF_LENGTH} characters without control characters.`
const CLIENT_REF_REQUIRED = 'Every message of a batch needs a client_ref.'

const isClientRef = (value: Json | undefined): value is string =>
  typeof value === 'string' &&
  value !== '' &&
  isWithin(value, MAX_CLIENT_REF_LENGTH) &&
  !hasControlCharacters(value)

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
    const path = `messages[${index}]`
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
