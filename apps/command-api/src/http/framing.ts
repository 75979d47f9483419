/**
 * The rules of HTTP for the requests of this API, beside those of every listener. Source: HTTP-1, HTTP-5;
 * RFC 9110.
 */
import type { IncomingMessage } from 'node:http'
import { type ApiError, apiError } from '@hub/contract'
import { FRAMING_MESSAGES, framingFault, valuesOf } from '@hub/http-server'

/** `status` replaces the status of the error's code, which has none for malformed HTTP. */
interface RequestFault {
  readonly error: ApiError
  readonly status?: number
}

export const framingError = (status: number): ApiError =>
  apiError('invalid_parameter', { message: FRAMING_MESSAGES[status] ?? FRAMING_MESSAGES[400]! })

const TWO_KEYS = 'The request has two different Idempotency-Key headers. Send one.'

/** The fault of a request as HTTP, or null. */
export const requestFault = (request: IncomingMessage): RequestFault | null => {
  const fault = framingFault(request)
  if (fault !== null) {
    return { status: fault.status, error: apiError('invalid_parameter', { message: fault.message }) }
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
