/** The refusal of work that the process could not do in time, and its count. */
import { type ApiError, apiError } from '@hub/contract'
import { admissionRefused } from '../../metrics.ts'
import type { RefusalReason, RefusedWork } from './admission.ts'

/** `memory`: a bound on the memory of requests is reached. */
type Reason = RefusalReason | 'memory'

const CAUSES: Readonly<Record<Reason, string>> = {
  wait: 'the expected wait is over its limit',
  urgent: 'more urgent work waits',
  share: 'the account uses more than its share',
  memory: 'the memory for requests is used up',
}
/** `retry_after` is spread over these seconds, so that the clients do not repeat all at once. */
const SPREAD_SECONDS = 10

// Created once: errors capture a stack trace, and an overload produces thousands of them per second.
const errorsOf = (reason: Reason): ReadonlyArray<ApiError> =>
  Array.from({ length: SPREAD_SECONDS }, (_, i) =>
    apiError('overloaded', { retryAfter: i + 1, reason: CAUSES[reason] }),
  )
const ERRORS: Readonly<Record<Reason, ReadonlyArray<ApiError>>> = {
  wait: errorsOf('wait'),
  urgent: errorsOf('urgent'),
  share: errorsOf('share'),
  memory: errorsOf('memory'),
}

/** Counts a refused request, and returns its error. */
export const refuseOverloaded = (work: RefusedWork, reason: Reason): ApiError => {
  admissionRefused.add({ work, reason })
  return ERRORS[reason][Math.floor(Math.random() * SPREAD_SECONDS)]!
}
