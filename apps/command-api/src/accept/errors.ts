/** The errors of sends that the hub could not accept in time, or that it may have accepted. */
import { apiError } from '@hub/contract'

/** Seconds. By then the hub has tried to reach PostgreSQL or Kafka again. */
const RETRY_AFTER_SECONDS = 2

// Created once: errors capture a stack trace, and an outage produces thousands of them.
export const STORAGE_DOWN = apiError('internal_error', {
  retryAfter: RETRY_AFTER_SECONDS,
  reason: 'PostgreSQL did not record the acceptance batch in time',
})
export const NOT_QUEUED = apiError('provider_unavailable', {
  reason: 'Kafka did not acknowledge the code in time',
})
const UNKNOWN = {
  outcome: 'unknown',
  retryAfter: RETRY_AFTER_SECONDS,
  message:
    'The hub does not know yet whether it accepted the message. Repeat the request with the same client_ref or Idempotency-Key.',
} as const
/** The ledger may contain the message. */
export const RECORD_UNKNOWN = apiError('internal_error', {
  ...UNKNOWN,
  reason: 'the result of a commit in PostgreSQL is unknown',
})
/** Kafka may contain the code. */
export const APPEND_UNKNOWN = apiError('provider_unavailable', {
  ...UNKNOWN,
  reason: 'the result of an append to Kafka is unknown',
})
