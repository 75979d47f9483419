/** Helpers of the request checks. They are not part of the public interface. */
import { characterCount, MESSAGE_CLASSES, type MessageClass } from '@hub/domain'
import { Predicate, Result } from 'effect'
import { apiError, type ApiError, type ErrorCode } from '../errors.ts'
import type { Json, JsonObject } from '../json.ts'
import { MAX_TEMPLATE_NAME_LENGTH } from '../limits.ts'

export const refuse = (code: ErrorCode, param?: string, message?: string): Result.Result<never, ApiError> =>
  Result.fail(
    apiError(code, {
      ...(param === undefined ? undefined : { param }),
      ...(message === undefined ? undefined : { message }),
    }),
  )

export const isJsonObject = (value: unknown): value is JsonObject => Predicate.isObject(value)

export const at = (path: string, name: string): string => (path === '' ? name : `${path}.${name}`)

/** An own member; `undefined` where there is none, so that nothing of a prototype is ever read. */
export const member = (object: JsonObject, name: string): Json | undefined =>
  Object.hasOwn(object, name) ? object[name] : undefined

/** True when the text has at most `max` characters. Counts only where code units leave it open. */
export const isWithin = (text: string, max: number): boolean =>
  text.length <= max || (text.length <= max * 2 && characterCount(text) <= max)

export const utf8 = new TextDecoder('utf-8', { fatal: true })

export const NO_VARIABLES: JsonObject = Object.freeze({})

export const REQUIRED_STRING = 'This field is required and is a string.'
export const CLASS_WORDS = `The class is one of: ${MESSAGE_CLASSES.join(', ')}.`
export const TEMPLATE_WORDS = `A template name has 1 to ${MAX_TEMPLATE_NAME_LENGTH} of a-z, 0-9, "_", "." and "-".`
export const VARIABLES_WORDS = 'Variables are an object of names and values.'

export const isMessageClass = (value: string): value is MessageClass =>
  (MESSAGE_CLASSES as ReadonlyArray<string>).includes(value)
