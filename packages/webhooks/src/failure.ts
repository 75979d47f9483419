/** What went wrong with a delivery, in the words of the contract (Webhook subscription, `reason`). */
import { AddressNotPublic, HostUnresolvable } from './policy.ts'

/** Why an attempt failed. All of these are the receiver's. */
export type FailureReason =
  | 'http_status'
  | 'redirect'
  | 'timeout'
  | 'connection_refused'
  | 'connection_reset'
  | 'tls_error'
  | 'address_not_public'
  | 'dns_error'

/** No connection came about: nobody listens there, or no route leads there. */
const REFUSED = new Set(['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'EHOSTDOWN', 'ENETDOWN', 'EACCES'])

const TIMED_OUT = new Set(['ETIMEDOUT', 'UND_ERR_CONNECT_TIMEOUT', 'UND_ERR_HEADERS_TIMEOUT'])

/** This process ran out of something or is shutting down: nothing is learnt about the receiver. */
const OURS = new Set([
  'EMFILE',
  'ENFILE',
  'ENOBUFS',
  'ENOMEM',
  'EADDRNOTAVAIL',
  'UND_ERR_DESTROYED',
  'UND_ERR_CLOSED',
])

/** OpenSSL's verdicts on certificates (`X509_V_ERR_…` as Node names them) and on the handshake. */
const TLS =
  /^(?:ERR_TLS_|ERR_SSL_|CERT_|CRL_|UNABLE_TO_|ERROR_IN_CERT_|INVALID_CA$|INVALID_PURPOSE$|PATH_LENGTH_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_MISMATCH$|EPROTO$)/u

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''

/**
 * Names an error of a connection. `null`: it was a fault of this process, and the attempt did not take place.
 *
 * What is left over (the connection broke, or what came back was not HTTP) counts as a broken connection.
 */
export const reasonOf = (error: unknown): FailureReason | null => {
  if (error instanceof AddressNotPublic) return 'address_not_public'
  if (error instanceof HostUnresolvable) return 'dns_error'
  // Several addresses were tried and each of them failed.
  if (error instanceof AggregateError && error.errors.length > 0) {
    const reasons = error.errors.map(reasonOf)
    return reasons.includes('timeout') ? 'timeout' : (reasons[0] ?? null)
  }
  const code = codeOf(error)
  if (OURS.has(code)) return null
  if (REFUSED.has(code)) return 'connection_refused'
  if (TIMED_OUT.has(code)) return 'timeout'
  if (TLS.test(code)) return 'tls_error'
  return 'connection_reset'
}
