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
