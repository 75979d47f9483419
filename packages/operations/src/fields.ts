/** Schemas of the fields that inputs and outputs of several use cases have. */
import {
  asRead,
  characterCount,
  containsWrittenNumber,
  decodeId,
  hasControlCharacters,
  hasVisibleText,
  type IdPrefix,
  MODES,
  fromTimestamp,
  toTimestamp,
} from '@hub/domain'
import { maskNumbers } from '@hub/telemetry'
import { Effect, Schema } from 'effect'

/** A public id: `acc_…`. */
export const publicId = (prefix: IdPrefix) =>
  Schema.String.check(
    Schema.makeFilter(
      (id: string) => decodeId(prefix, id) !== null || `expected an id that begins with ${prefix}_`,
    ),
  ).annotate({ description: `An id that begins with \`${prefix}_\`.` })

/** The id of something without a public id. */
export const Uuid = Schema.String.check(Schema.isGUID())

export const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

export const Timestamp = Schema.String.check(
  Schema.makeFilter((text: string) => fromTimestamp(text) !== null || 'expected a timestamp in UTC'),
).annotate({ description: 'UTC, ISO 8601 with milliseconds and a trailing Z.' })

/** A day in UTC that exists: not 30 February, and not of the year 0, which PostgreSQL does not have. */
export const Day = Schema.String.check(
  Schema.makeFilter(
    (day: string) =>
      fromTimestamp(`${day}T00:00:00.000Z`) !== null || 'expected a day that exists, such as 2026-11-21',
  ),
  // For the API description.
  Schema.isPattern(/^\d{4}-\d{2}-\d{2}$/u),
)

/** A time in milliseconds since the epoch, as an optional field of an output. */
export const optionalTimestamp = (ms: number | null): string | null => (ms === null ? null : toTimestamp(ms))

/**
 * A field of an output that the last release does not have. Its operations API leaves the field out, and hubctl reads
 * `absent` then. The API of this version always sends it. Source: docs/versioning.md, hubctl and the operations API.
 */
export const addedField = <Field extends Schema.Top>(field: Field, absent: Field['Encoded']) =>
  field.pipe(Schema.withDecodingDefaultKey(Effect.succeed(absent)))

/** The number range of messages: the three digits after +7. */
export const NumberRange = Schema.String.check(Schema.isPattern(/^9\d{2}$/u)).annotate({
  description: 'A number range: the three digits after +7, such as `912`.',
})

/** The hash by which topics, tables and events name a recipient. */
export const RecipientHash = Schema.String.check(Schema.isPattern(/^[0-9a-f]{64}$/u)).annotate({
  description: 'A recipient hash, 64 hexadecimal digits.',
})

export const Mode = Schema.Literals(MODES)

/** Whether a text is one line of at most `maxLength` characters that says something, without control characters. */
export const isPlainLine = (text: string, maxLength: number): boolean =>
  hasVisibleText(text) &&
  characterCount(text) <= maxLength &&
  !hasControlCharacters(text) &&
  !text.includes('\n')

/** Characters of a reason or an account name. */
export const MAX_LINE_LENGTH = 200

/** One line for people: a reason, or the name of an account. */
export const Line = Schema.String.check(
  Schema.makeFilter(
    (text: string) =>
      isPlainLine(text, MAX_LINE_LENGTH) || `expected one line of 1 to ${MAX_LINE_LENGTH} characters`,
  ),
).annotate({ description: `One line of 1 to ${MAX_LINE_LENGTH} characters.` })

/** Whether a text contains no phone number, in any form and in any digits. */
export const hasNoNumber = (text: string): boolean => {
  const read = asRead(text)
  return maskNumbers(read) === read && !containsWrittenNumber(read)
}

/** A line that is stored for good or shown to others, so it contains no number. */
export const LineWithoutNumber = Line.check(
  Schema.makeFilter((text: string) => hasNoNumber(text) || 'expected no phone number'),
)

/** Why the actor does something: a sentence or a ticket. It is stored for good, so it contains no number. */
export const Reason = LineWithoutNumber.annotate({
  description: `Why: one line of 1 to ${MAX_LINE_LENGTH} characters, without a phone number. The audit trail has the reasons of look-ups and erasures.`,
})
