/**
 * The rules of HTTP that Node does not enforce, or to which its answer would lack the form of the API.
 * Source: RFC 9110, 7.2 (Host); RFC 9112, 3.2 and 6.1 (Transfer-Encoding); HTTP-4, HTTP-6, HTTP-7.
 */
import type { IncomingMessage } from 'node:http'

/** A request that is not HTTP as it should be. */
export interface FramingFault {
  readonly status: number
  readonly message: string
}

/** The messages of malformed HTTP, by status. */
export const FRAMING_MESSAGES: Readonly<Record<number, string>> = {
  400: 'The request is not HTTP as it should be.',
  408: 'The request did not arrive in time.',
  413: 'The request is larger than it may be.',
  431: 'The headers of the request are larger than they may be.',
  501: 'The only Transfer-Encoding is chunked. Send the body with it, or with a Content-Length.',
  505: 'The hub speaks HTTP/1.1. Send the request with this version.',
}

const HOST = 'A request needs one Host header.'
const OLD_VERSION = 'HTTP/1.0 has no Transfer-Encoding. Send a Content-Length.'

const ofStatus = (status: number): FramingFault => ({ status, message: FRAMING_MESSAGES[status]! })

/** All values of a header, in order. Node keeps only the first `Host`, and joins other headers. */
export const valuesOf = ({ rawHeaders }: IncomingMessage, name: string): ReadonlyArray<string> => {
  const values: Array<string> = []
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const raw = rawHeaders[i]!
    if (raw.length === name.length && raw.toLowerCase() === name) values.push(rawHeaders[i + 1]!)
  }
  return values
}

/** The fault of a request as HTTP, or null. */
export const framingFault = (request: IncomingMessage): FramingFault | null => {
  if (request.httpVersionMajor !== 1) return ofStatus(505)
  const isOld = request.httpVersion === '1.0'
  const hosts = valuesOf(request, 'host').length
  // HTTP/1.0 has no Host.
  if (hosts > 1 || (hosts === 0 && !isOld)) return { status: 400, message: HOST }
  const encoding = request.headers['transfer-encoding']
  if (encoding === undefined) return null
  if (isOld) return { status: 400, message: OLD_VERSION }
  return encoding.trim().toLowerCase() === 'chunked' ? null : ofStatus(501)
}
