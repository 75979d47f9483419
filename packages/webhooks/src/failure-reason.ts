/** Translates connection errors to the failure reasons of the contract. */
import { AddressNotPublic, HostUnresolvable } from './address-policy.ts'

/** Why an attempt failed. Each reason is a fault of the receiver or of the subscription. */
export const FAILURE_REASONS = [
  'http_status',
  'redirect',
  'timeout',
  'connection_refused',
  'connection_reset',
  'tls_error',
  'address_not_public',
  'dns_error',
  'client_certificate_expired',
] as const
export type FailureReason = (typeof FAILURE_REASONS)[number]

/** There is no listener, or no route to the address. */
const REFUSED = new Set(['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'EHOSTDOWN', 'ENETDOWN', 'EACCES'])

const TIMED_OUT = new Set(['ETIMEDOUT', 'UND_ERR_CONNECT_TIMEOUT', 'UND_ERR_HEADERS_TIMEOUT'])

/** This process lacks a resource or shuts down: not a fault of the receiver. */
const LOCAL = new Set([
  'EMFILE',
  'ENFILE',
  'ENOBUFS',
  'ENOMEM',
  'EADDRNOTAVAIL',
  // The egress proxy of this hub.
  'ERR_EGRESS_PROXY',
  'UND_ERR_DESTROYED',
  'UND_ERR_CLOSED',
])

/** OpenSSL's errors for certificates (`X509_V_ERR_…` in Node's spelling) and for the handshake. */
const TLS =
  /^(?:ERR_TLS_|ERR_SSL_|CERT_|CRL_|UNABLE_TO_|ERROR_IN_CERT_|INVALID_CA$|INVALID_PURPOSE$|PATH_LENGTH_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_MISMATCH$|EPROTO$)/u

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''

/**
 * The failure reason of a connection error. `null`: it was a fault of this process, and the attempt
 * does not count.
 *
 * All other errors (the connection broke, or the response was not HTTP) are a `connection_reset`.
 */
export const reasonOf = (error: unknown): FailureReason | null => {
  if (error instanceof AddressNotPublic) return 'address_not_public'
  if (error instanceof HostUnresolvable) return 'dns_error'
  // All addresses of the host failed.
  if (error instanceof AggregateError && error.errors.length > 0) {
    const reasons = error.errors.map(reasonOf)
    return reasons.includes('timeout') ? 'timeout' : (reasons[0] ?? null)
  }
  const code = codeOf(error)
  if (LOCAL.has(code)) return null
  if (REFUSED.has(code)) return 'connection_refused'
  if (TIMED_OUT.has(code)) return 'timeout'
  if (TLS.test(code)) return 'tls_error'
  return 'connection_reset'
}
