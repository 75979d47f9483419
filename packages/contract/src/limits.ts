/**
 * Limits of the contract. Source: contract decisions, "lengths", "hostile input", "list envelope"
 * and "defaults"; specification, Limits. Lengths are in Unicode characters, as in JSON Schema.
 * Limits of domain rules (the length of a variable, the parts of a text) are in the domain.
 */

/** Largest request body, in bytes. */
export const MAX_BODY_BYTES = 4 * 1024 * 1024

/** Deepest nesting of a body, which itself is level 1. */
export const MAX_NESTING = 16

export const MAX_CLIENT_REF_LENGTH = 128

export const MAX_TEMPLATE_NAME_LENGTH = 64

export const MAX_TEMPLATE_BODY_LENGTH = 2000

/** Longest language tag: BCP 47 (RFC 5646, 4.4.1) recommends at least this. */
export const MAX_LANGUAGE_LENGTH = 35

/** Longest sender name: the capacity of the alphanumeric address field of an SMS. */
export const MAX_SENDER_NAME_LENGTH = 11

/** Largest `registration` of a sender, in bytes of compact JSON in UTF-8. */
export const MAX_REGISTRATION_BYTES = 8 * 1024

export const MAX_URL_LENGTH = 1024

export const MAX_IDEMPOTENCY_KEY_LENGTH = 255

/** Most subscriptions of an account in a mode. */
export const MAX_WEBHOOK_ENDPOINTS = 20

/** Page sizes of a list: the maximum, and the default of `limit`. */
export const LIST_LIMITS = { max: 100, default: 20 } as const

/** The same for `/v1/events` and for the messages of a batch. */
export const LONG_LIST_LIMITS = { max: 1000, default: 100 } as const

/** Most days of a summary, including the first and the last: a leap year. */
export const MAX_STATS_DAYS = 366

export const TEMPLATE_NAME_PATTERN = /^[a-z0-9_.-]{1,64}$/u

/** A time in UTC, ISO 8601 with milliseconds and a trailing Z. */
export const TIMESTAMP_PATTERN = /^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$/u

/** A day in UTC, ISO 8601. */
export const DATE_PATTERN = /^[0-9]{4}-[0-9]{2}-[0-9]{2}$/u

/** The form of a language tag: `ru`, `en-GB`, `zh-Hans-CN`. */
export const LANGUAGE_PATTERN = /^[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*$/u

/** The letters of the basic table of GSM 03.38. */
const GSM_LETTERS = 'A-Za-zÄÅÆÇÉÑÖØÜßàäåæèéìñòöøùüΓΔΘΛΞΠΣΦΨΩ'

/** GSM letters, digits, space, `.`, `-`, `_`; one letter at least. The length is separate. */
export const SENDER_NAME_PATTERN = new RegExp(`^[0-9 ._-]*[${GSM_LETTERS}][${GSM_LETTERS}0-9 ._-]*$`, 'u')
