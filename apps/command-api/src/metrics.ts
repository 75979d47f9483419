/** The metrics of command-api. `docs/metrics.md` lists them. */
import { Metric } from 'effect'

export const httpAnswers = Metric.counter('hub_http_answers_total', {
  description: 'Answers, by HTTP status.',
  incremental: true,
})
export const httpRequestSeconds = Metric.histogram('hub_http_request_seconds', {
  description: 'From the headers of a request until its answer was made, by method, route and status.',
  // A send takes milliseconds, every answer has a bound of 3 s, and a test delivery may take 19 s.
  boundaries: [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 20],
})

export const acceptedSends = Metric.counter('hub_accept_sends_total', {
  description: 'Well-formed sends, by class and outcome: accepted, duplicate, or the code of the error.',
  incremental: true,
})
export const acceptanceBatchSends = Metric.histogram('hub_accept_flush_messages', {
  description: 'Sends of an acceptance batch.',
  boundaries: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000],
})
export const acceptanceBatchSeconds = Metric.histogram('hub_accept_flush_seconds', {
  description: 'Time from the lookup of an acceptance batch until it is recorded, in seconds.',
  boundaries: [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2],
})
export const waitingSends = Metric.gauge('hub_accept_waiting_sends', {
  description: 'Sends that wait for their outcome.',
})
export const acceptStopped = Metric.gauge('hub_accept_stopped', {
  description: '1 while the stop flag of the hub prevents the acceptance of new messages, else 0.',
})
export const outboxOldestRowSeconds = Metric.gauge('hub_accept_outbox_oldest_row_seconds', {
  description: 'Age of the oldest row of the outbox, in seconds; 0 when it is empty.',
})
export const outboxRows = Metric.gauge('hub_accept_outbox_rows', {
  description: 'Rows of the outbox: acceptance batches whose records Kafka has not acknowledged yet.',
})
