/** The metrics of command-api. `docs/metrics.md` lists them. */
import { ERROR_CODES, ERRORS, SEND_CODES } from '@hub/contract'
import { UNAVAILABLE_REASONS } from '@hub/counters'
import { MESSAGE_CLASSES } from '@hub/domain'
import { FRAMING_MESSAGES } from '@hub/http-server'
import { counter, gauge, labelSets } from '@hub/telemetry'
import { Metric } from 'effect'
import type { RefusalReason, RefusedWork } from './accept/admission/admission.ts'
import { WORK_KINDS } from './accept/admission/work-kinds.ts'

/** The statuses of successes, of the errors of the API (500 is a defect), and of malformed HTTP. */
const STATUSES = new Set([
  ...[200, 201, 202, 304, 500].map(String),
  ...ERROR_CODES.map((code) => String(ERRORS[code].status)),
  ...Object.keys(FRAMING_MESSAGES),
])

export const httpAnswers = counter(
  'hub_http_answers_total',
  'Answers, by HTTP status.',
  labelSets({ status: [...STATUSES] }),
)
export const httpRequestSeconds = Metric.histogram('hub_http_request_seconds', {
  description: 'From the headers of a request until its answer was made, by method, route and status.',
  // A send takes milliseconds, every answer has a bound of 3 s, and a test delivery may take 19 s.
  boundaries: [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 20],
})

const OUTCOMES: ReadonlyArray<string> = [
  'accepted',
  'duplicate',
  ...SEND_CODES,
  'invalid_parameter',
  'idempotency_conflict',
  'internal_error',
]
export const acceptedSends = counter(
  'hub_accept_sends_total',
  'Well-formed sends, by class and outcome: accepted, duplicate, or the code of the error.',
  labelSets({ class: MESSAGE_CLASSES, outcome: OUTCOMES }),
)
export const uncheckedSends = counter(
  'hub_accept_unchecked_sends_total',
  'Sends whose flood windows Redis did not check, by class and reason: a service message is refused, a code passes.',
  labelSets({ class: MESSAGE_CLASSES, reason: UNAVAILABLE_REASONS }),
)
export const acceptanceBatchSends = Metric.histogram('hub_accept_flush_messages', {
  description: 'Sends of an acceptance batch.',
  boundaries: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000],
})
export const acceptanceBatchSeconds = Metric.histogram('hub_accept_flush_seconds', {
  description: 'Time from the lookup of an acceptance batch until it is recorded, in seconds.',
  boundaries: [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2],
})
export const pendingSends = gauge('hub_accept_waiting_sends', 'Sends that wait for their outcome.')
const REFUSALS: ReadonlyArray<{ readonly work: RefusedWork; readonly reason: RefusalReason | 'memory' }> = [
  ...labelSets({ work: [...WORK_KINDS, 'send'], reason: ['wait', 'share'] }),
  // Nothing is more urgent than a code, and a send whose body is not read may be one.
  ...labelSets({ work: ['service', 'batch'], reason: ['urgent'] }),
  { work: 'other', reason: 'memory' },
]
export const admissionRefused = counter(
  'hub_admission_refused_total',
  'Requests that were refused with `overloaded`, by kind of work and reason.',
  REFUSALS,
)
export const admissionWaitSeconds = gauge(
  'hub_admission_expected_wait_seconds',
  'Time that a new send would wait for the sends before it, in seconds, by kind of work.',
)
export const admissionInProgress = gauge(
  'hub_admission_sends_in_progress',
  'Admitted sends without an outcome.',
)
export const admissionRate = gauge(
  'hub_admission_sends_per_second',
  'Sends per second that the process can do, as measured at its last full load.',
)
export const capacityUsed = gauge(
  'hub_admission_capacity_used_ratio',
  'Share of the capacity of the process in use. Above 1, it refuses requests.',
)
export const acceptStopped = gauge(
  'hub_accept_stopped',
  '1 while the stop flag of the hub prevents the acceptance of new messages, else 0.',
)
/** Label `kind`: `template` or `sender`. */
export const oldestPendingModeration = gauge(
  'hub_moderation_oldest_pending_seconds',
  'Age of the oldest request that waits for moderation, in seconds; 0 when none waits. By kind.',
)
export const outboxOldestRowSeconds = gauge(
  'hub_accept_outbox_oldest_row_seconds',
  'Age of the oldest row of the outbox, in seconds; 0 when it is empty.',
)
export const outboxRows = gauge(
  'hub_accept_outbox_rows',
  'Rows of the outbox: acceptance batches whose records Kafka has not acknowledged yet.',
)
