/** Checks the form of senders to create. */
import { hasControlCharacters } from '@hub/domain'
import { Result } from 'effect'
import type { ApiError } from '../errors.ts'
import { isJsonObject, type Json, type JsonObject } from '../json.ts'
import { MAX_REGISTRATION_BYTES, MAX_SENDER_NAME_LENGTH, SENDER_NAME_PATTERN } from '../limits.ts'
import { invalid, member, REQUIRED_STRING } from './checks.ts'

/** A valid request to create a sender. A later check finds out whether the name is free. */
export interface SenderToCreate {
  readonly name: string
  /** As sent. */
  readonly registration: JsonObject | null
}

const SENDER_RULE = `A sender name has 1 to ${MAX_SENDER_NAME_LENGTH} of the letters of GSM 03.38, digits, space, ".", "-" and "_", at least one of them a letter.`
const REGISTRATION_RULE = `A registration is an object of at most ${MAX_REGISTRATION_BYTES} bytes of JSON without control characters other than line feed.`

const NUMBER_RULE = 'A number in the registration is too large. Send it as a string.'

/** Whether a string or a name has a control character other than line feed. */
const holdsControlCharacters = (value: Json): boolean => {
  if (typeof value === 'string') return hasControlCharacters(value)
  if (Array.isArray(value)) return value.some(holdsControlCharacters)
  return (
    isJsonObject(value) &&
    Object.entries(value).some(([name, inner]) => hasControlCharacters(name) || holdsControlCharacters(inner))
  )
}

/** Whether a value has a number beyond the range of a double. JSON could not return it. */
const holdsInfiniteNumbers = (value: Json): boolean =>
  typeof value === 'number'
    ? !Number.isFinite(value)
    : typeof value === 'object' && value !== null && Object.values(value).some(holdsInfiniteNumbers)

/**
 * Checks the body of a sender creation: `name`, `registration`. Fails with `invalid_parameter`.
 * Unknown fields are ignored. Source: SND-1 to SND-3.
 */
export const decodeSenderCreate = (object: JsonObject): Result.Result<SenderToCreate, ApiError> => {
  const name = member(object, 'name')
  if (typeof name !== 'string') return invalid('name', REQUIRED_STRING)
  // Each character that the pattern allows is one code unit.
  if (name.length > MAX_SENDER_NAME_LENGTH || !SENDER_NAME_PATTERN.test(name)) {
    return invalid('name', SENDER_RULE)
  }

  const registration = member(object, 'registration')
  if (registration === undefined) return Result.succeed({ name, registration: null })
  if (
    !isJsonObject(registration) ||
    Buffer.byteLength(JSON.stringify(registration)) > MAX_REGISTRATION_BYTES ||
    holdsControlCharacters(registration)
  ) {
    return invalid('registration', REGISTRATION_RULE)
  }
  if (holdsInfiniteNumbers(registration)) return invalid('registration', NUMBER_RULE)
  return Result.succeed({ name, registration })
}
