/**
 * Helpers of the request checks, for this folder only.
 *
 * The checks need no state, clock or I/O. They follow authentication and the rate limit, and
 * precede the look-up of a `client_ref`. They are functions, not schema decoders, because the
 * contract fixes the order of the checks and the code and `param` of each failure, and because
 * every send passes them.
 */
import { characterCount, hasControlCharacters, MESSAGE_CLASSES, type MessageClass } from '@hub/domain'
import { Result } from 'effect'
import { apiError, type ApiError, type ErrorCode } from '../errors.ts'
import type { Json, JsonObject } from '../json.ts'
import { MAX_CLIENT_REF_LENGTH, MAX_TEMPLATE_NAME_LENGTH, MIN_TTL_SECONDS } from '../limits.ts'

export const refuse = (code: ErrorCode, param?: string, message?: string): Result.Result<never, ApiError> =>
  Result.fail(
    apiError(code, {
      ...(param === undefined ? undefined : { param }),
      ...(message === undefined ? undefined : { message }),
    }),
  )

export const invalid = (param: string | undefined, message: string) =>
  refuse('invalid_parameter', param, message)

/** An own member; `undefined` without one. It never reads from a prototype. */
export const member = (object: JsonObject, name: string): Json | undefined =>
  Object.hasOwn(object, name) ? object[name] : undefined

/** Whether the text has at most `max` characters. It counts them only if it must. */
export const isWithin = (text: string, max: number): boolean =>
  text.length <= max || (text.length <= max * 2 && characterCount(text) <= max)

export const utf8 = new TextDecoder('utf-8', { fatal: true })

export const EVENT_TYPE_RULE = 'There is no event type of this name.'
export const TIMESTAMP_RULE = 'A moment is written in UTC as 2026-11-21T09:30:00.000Z.'

export const NO_VARIABLES: JsonObject = Object.freeze({})

export const REQUIRED_STRING = 'This field is required and is a string.'
export const CLASS_RULE = `The class is one of: ${MESSAGE_CLASSES.join(', ')}.`
export const TEMPLATE_RULE = `A template name has 1 to ${MAX_TEMPLATE_NAME_LENGTH} of a-z, 0-9, "_", "." and "-".`
export const CLIENT_REF_RULE = `A client_ref is a string of 1 to ${MAX_CLIENT_REF_LENGTH} characters without control characters.`
export const TTL_RULE = `ttl_seconds is a whole number, from ${MIN_TTL_SECONDS} to the lifetime of the class in seconds.`
export const VARIABLES_RULE = 'Variables are an object of names and values.'

export const isMessageClass = (value: string): value is MessageClass =>
  (MESSAGE_CLASSES as ReadonlyArray<string>).includes(value)

/** `longest`: the lifetime of the class, in seconds. */
export const isTtl = (value: Json, longest: number): value is number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= MIN_TTL_SECONDS && value <= longest

export const isClientRef = (value: Json | undefined): value is string =>
  typeof value === 'string' &&
  value !== '' &&
  isWithin(value, MAX_CLIENT_REF_LENGTH) &&
  !hasControlCharacters(value)
