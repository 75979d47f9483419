/** Checks the header `Idempotency-Key`. */
import { characterCount } from '@hub/domain'
import { Result } from 'effect'
import type { ApiError } from '../errors.ts'
import { MAX_IDEMPOTENCY_KEY_LENGTH } from '../limits.ts'
import { invalid, refuse, utf8 } from './checks.ts'

const NON_ASCII = /[\u0080-\u00ff]/u

/** The characters of a header value: of its UTF-8 if that is valid, else its bytes. */
const headerCharacters = (value: string): number => {
  if (!NON_ASCII.test(value)) return value.length
  try {
    return characterCount(utf8.decode(Uint8Array.from(value, (byte) => byte.charCodeAt(0))))
  } catch {
    return value.length
  }
}

/**
 * Checks the value of `Idempotency-Key`, as Node passes it (one character for each byte); null
 * without one. Fails with `invalid_parameter` for an empty value, and with `idempotency_key_reused`
 * above 255 characters.
 *
 * Source: IDEM-2.
 */
export const decodeIdempotencyKey = (value: string | undefined): Result.Result<string | null, ApiError> => {
  if (value === undefined) return Result.succeed(null)
  if (value === '') return invalid('Idempotency-Key', 'An Idempotency-Key must not be empty.')
  if (headerCharacters(value) > MAX_IDEMPOTENCY_KEY_LENGTH) {
    return refuse(
      'idempotency_key_reused',
      'Idempotency-Key',
      `An Idempotency-Key has at most ${MAX_IDEMPOTENCY_KEY_LENGTH} characters.`,
    )
  }
  return Result.succeed(value)
}
