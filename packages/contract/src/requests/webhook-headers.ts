/**
 * Checks the static headers of a subscription: what a client may add to the requests of its webhooks. A message
 * never contains a value, because values are secrets. Source: SUB-32 to SUB-34; RFC 9110, 5.1, 5.5, 5.6.2, 7.6.1.
 */
import { Result } from 'effect'
import type { ApiError } from '../errors.ts'
import { isJsonObject, type Json } from '../json.ts'
import { MAX_WEBHOOK_HEADER_NAME_LENGTH, MAX_WEBHOOK_HEADERS, MAX_WEBHOOK_HEADERS_LENGTH } from '../limits.ts'
import { invalid } from './checks.ts'

/** Name and value, in the order sent. */
export type WebhookHeader = readonly [name: string, value: string]

/** `token` of RFC 9110, 5.6.2. */
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/u
/** `field-value` of RFC 9110, 5.5, without `obs-text`: visible ASCII, with spaces and tabs between. Not empty. */
const VALUE = /^[!-~](?:[\t -~]*[!-~])?$/u

/** Lower case. */
const RESERVED = new Set([
  // The hub or its HTTP client sets them.
  'host',
  'content-length',
  'content-type',
  'user-agent',
  'traceparent',
  'tracestate',
  // They would describe another body than the one that is sent, or ask for an exchange that the hub does not make.
  'content-encoding',
  'content-range',
  'expect',
  // They are for one connection, not for the receiver (RFC 9110, 7.6.1; RFC 9113, 3.1 and 8.2.2).
  'connection',
  'http2-settings',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])
/** Headers with the id and the signature of a delivery. */
const RESERVED_PREFIX = /^(?:hub|webhook)-/u

const HEADERS_RULE = 'headers is an object of header names and values, or null for none.'
const COUNT_RULE = `A subscription has at most ${MAX_WEBHOOK_HEADERS} headers.`
const LENGTH_RULE = `The names and values of all headers together have at most ${MAX_WEBHOOK_HEADERS_LENGTH} characters.`
const NAME_RULE = `A header name has 1 to ${MAX_WEBHOOK_HEADER_NAME_LENGTH} characters: letters, digits and !#$%&'*+-.^_\`|~.`
const RESERVED_RULE = 'The hub or the connection sets this header, so a subscription cannot.'
const REPEATED_RULE = 'This header occurs twice. Names are the same in upper and lower case.'
const VALUE_RULE =
  'The value of a header is a string of visible ASCII characters, with spaces and tabs only between them.'

const isName = (name: string): boolean => name.length <= MAX_WEBHOOK_HEADER_NAME_LENGTH && TOKEN.test(name)

const isReserved = (lowerCase: string): boolean => RESERVED.has(lowerCase) || RESERVED_PREFIX.test(lowerCase)

/**
 * The headers as sent; an empty list for `null`, and without the member. Fails with `invalid_parameter` and the
 * first bad name as the end of `param`. A text that is not a header name is not repeated: it may be a value.
 */
export const decodeWebhookHeaders = (
  given: Json | undefined,
): Result.Result<ReadonlyArray<WebhookHeader>, ApiError> => {
  if (given === undefined || given === null) return Result.succeed([])
  if (!isJsonObject(given)) return invalid('headers', HEADERS_RULE)
  const entries = Object.entries(given)
  if (entries.length > MAX_WEBHOOK_HEADERS) return invalid('headers', COUNT_RULE)
  const headers: Array<WebhookHeader> = []
  const names = new Set<string>()
  let length = 0
  for (const [name, value] of entries) {
    if (!isName(name)) return invalid('headers', NAME_RULE)
    const param = `headers.${name}`
    const lowerCase = name.toLowerCase()
    if (isReserved(lowerCase)) return invalid(param, RESERVED_RULE)
    if (names.has(lowerCase)) return invalid(param, REPEATED_RULE)
    if (typeof value !== 'string' || !VALUE.test(value)) return invalid(param, VALUE_RULE)
    names.add(lowerCase)
    headers.push([name, value])
    length += name.length + value.length
  }
  return length > MAX_WEBHOOK_HEADERS_LENGTH ? invalid('headers', LENGTH_RULE) : Result.succeed(headers)
}
