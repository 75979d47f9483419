/**
 * The failures of HTTP itself, and of a method that the path does not take. Every operation can answer them, so
 * the description has each of them once. Source: HTTP-2, HTTP-4 to HTTP-8, HTTP-11; ERR-19.
 */
import { type ErrorCode, ERRORS } from '../errors.ts'

interface HttpFailure {
  /** Its name in `components.responses`. */
  readonly name: string
  /** What was wrong, by the code of the error. */
  readonly codes: Readonly<Partial<Record<ErrorCode, string>>>
  /** Headers besides `Request-Id`. */
  readonly headers?: ReadonlyArray<string>
}

/** By status. */
const HTTP_FAILURES: Readonly<Record<number, HttpFailure>> = {
  400: {
    name: 'MalformedRequest',
    codes: {
      invalid_parameter:
        'The request is not HTTP as it should be, has no `Host` header or two of them, or has two different `Idempotency-Key` headers.',
    },
  },
  405: {
    name: 'MethodNotAllowed',
    codes: { method_not_allowed: ERRORS.method_not_allowed.message },
    headers: ['Allow'],
  },
  408: { name: 'RequestTimeout', codes: { invalid_parameter: 'The request did not arrive in time.' } },
  413: {
    name: 'ContentTooLarge',
    codes: {
      payload_too_large: ERRORS.payload_too_large.message,
      invalid_parameter: 'The chunks of the body have extensions that are larger than they may be.',
    },
  },
  431: {
    name: 'HeadersTooLarge',
    codes: { invalid_parameter: 'The headers of the request are larger than they may be.' },
  },
  501: {
    name: 'TransferEncodingUnknown',
    codes: { invalid_parameter: 'The request has a `Transfer-Encoding` other than `chunked`.' },
  },
  505: {
    name: 'HttpVersionUnknown',
    codes: { invalid_parameter: 'The request has another major HTTP version than 1.' },
  },
}

/** The statuses of these failures. */
export const HTTP_FAILURE_STATUSES: ReadonlyArray<number> = Object.keys(HTTP_FAILURES).map(Number)

/** A reference to the answer with this status; `null` if the status depends on the operation. */
export const httpFailureOf = (status: number): { readonly $ref: string } | null => {
  const failure = HTTP_FAILURES[status]
  return failure === undefined ? null : { $ref: `#/components/responses/${failure.name}` }
}

const headerOf = (name: string) => ({ $ref: `#/components/headers/${name}` })

/** `components.responses` of the description. */
export const HTTP_FAILURE_RESPONSES = Object.fromEntries(
  Object.values(HTTP_FAILURES).map(({ codes, headers = [], name }) => [
    name,
    {
      description: Object.entries(codes)
        .map(([code, text]) => `\`${code}\`: ${text}`)
        .join('\n\n'),
      headers: Object.fromEntries(['Request-Id', ...headers].map((header) => [header, headerOf(header)])),
      content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
    },
  ]),
)
