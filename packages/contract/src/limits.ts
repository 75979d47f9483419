/**
 * Limits of the contract. Source: docs/contract, the rule of each field. Lengths are in Unicode characters,
 * as in JSON Schema.
 * Limits of domain rules (the length of a variable, the parts of a text) are in the domain.
 */

/** Largest request body, in bytes. */
export const MAX_BODY_BYTES = 4 * 1024 * 1024

/**
 * Most values of a body: a batch of 1,000 messages with 90 variables each. 4 MiB of tiny values would
 * occupy the event loop for hundreds of milliseconds.
 */
export const MAX_BODY_VALUES = 100_000

/** Deepest nesting of a body, which itself is level 1. */
export const MAX_NESTING = 16

export const MAX_CLIENT_REF_LENGTH = 128

/** Shortest `ttl_seconds`: the hub needs some seconds to submit a message. */
export const MIN_TTL_SECONDS = 30

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

/** Longest `description` of a subscription: a note of one line. */
export const MAX_ENDPOINT_DESCRIPTION_LENGTH = 200

/** Most static headers of a subscription. */
export const MAX_WEBHOOK_HEADERS = 10

/** Longest name of a static header. */
export const MAX_WEBHOOK_HEADER_NAME_LENGTH = 64

/**
 * Longest names and values of all static headers together. Servers such as Tomcat and Jetty accept 8 KiB for the whole
 * head of a request, and the address and the headers of the hub need some of it.
 */
export const MAX_WEBHOOK_HEADERS_LENGTH = 4096

/** Longest PEM text of a client certificate with its chain, and of its private key. */
export const MAX_CLIENT_CERTIFICATE_LENGTH = 16_384

/** Page sizes of a list: the maximum, and the default of `limit`. */
export const LIST_LIMITS = { max: 100, default: 20 } as const

/** The same for `/v1/events` and for the messages of a batch. */
export const LONG_LIST_LIMITS = { max: 1000, default: 100 } as const

/** Most days of a summary, including the first and the last: a leap year. */
export const MAX_STATS_DAYS = 366
/** Days of a summary by hour (744 rows), and by number range, which reads up to 100 rows for each hour. */
export const MAX_HOURLY_DAYS = 31

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
