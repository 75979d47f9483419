/**
 * The rules of HTTP that Node does not enforce, or whose answers would lack the error envelope.
 * Source: contract, HTTP; RFC 9110, RFC 9112.
 */
import type { IncomingMessage } from 'node:http'
import { type ApiError, apiError } from '@hub/contract'

/** `status` replaces the status of the error's code, which has none for malformed HTTP. */
interface FramingFault {
  readonly error: ApiError
  readonly status?: number
}

/** The messages of malformed HTTP, by status. `server.ts` uses them for unparseable requests too. */
export const FRAMING_MESSAGES: Readonly<Record<number, string>> = {
  400: 'The request is not HTTP as it should be.',
  408: 'The request did not arrive in time.',
  413: 'The request is larger than it may be.',
  431: 'The headers of the request are larger than they may be.',
  501: 'The only Transfer-Encoding is chunked. Send the body with it, or with a Content-Length.',
  505: 'The hub speaks HTTP/1.1. Send the request with this version.',
}

export const framingError = (status: number): ApiError =>
  apiError('invalid_parameter', { message: FRAMING_MESSAGES[status] ?? FRAMING_MESSAGES[400]! })

const HOST = 'A request needs one Host header.'
const TWO_KEYS = 'The request has two different Idempotency-Key headers. Send one.'

/** All values of a header, in order. Node keeps only the first `Host`, and joins other headers. */
const valuesOf = ({ rawHeaders }: IncomingMessage, name: string): ReadonlyArray<string> => {
  const values: Array<string> = []
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const raw = rawHeaders[i]!
    if (raw.length === name.length && raw.toLowerCase() === name) values.push(rawHeaders[i + 1]!)
  }
  return values
}

/** The fault of a request as HTTP, or null. */
export const framingFault = (request: IncomingMessage): FramingFault | null => {
  if (request.httpVersionMajor !== 1) return { status: 505, error: framingError(505) }
  const hosts = valuesOf(request, 'host').length
  // HTTP/1.0 has no Host.
  if (hosts > 1 || (hosts === 0 && request.httpVersion !== '1.0')) {
    return { status: 400, error: apiError('invalid_parameter', { message: HOST }) }
  }
  const encoding = request.headers['transfer-encoding']
  if (encoding !== undefined && encoding.trim().toLowerCase() !== 'chunked') {
    return { status: 501, error: framingError(501) }
  }
  if (request.headers['idempotency-key'] !== undefined) {
    const [first, ...others] = valuesOf(request, 'idempotency-key')
    if (others.some((other) => other !== first)) {
      const error = apiError('invalid_parameter', { param: 'Idempotency-Key', message: TWO_KEYS })
      return { status: 400, error }
    }
    // Node has joined equal headers.
    if (first !== undefined && others.length > 0) request.headers['idempotency-key'] = first
  }
  // No path of the contract has these characters. The router would end the path at them.
  if (/^[^?]*[;#]/u.test(request.url ?? '')) return { error: apiError('not_found') }
  return null
}
