/** The metrics of operations-api. `docs/metrics.md` lists them. */
import { counter, gauge, labelSets } from '@hub/telemetry'
import { Metric } from 'effect'

export const requestSeconds = Metric.histogram('hub_operations_request_seconds', {
  description: 'Time of a request to the operations API, in seconds, by method, route and status.',
  // Most requests read a page from PostgreSQL. Some read Kafka, and have a bound of 20 s.
  boundaries: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20],
})

const ANSWER_KINDS = ['2xx', '3xx', '4xx', '5xx'] as const
export type AnswerKind = (typeof ANSWER_KINDS)[number]

export const answers = counter(
  'hub_operations_answers_total',
  'Answers of the operations API, by class of the HTTP status.',
  labelSets({ status: ANSWER_KINDS }),
)

/** `link`: a one-time login link. `provider`: the identity provider. `token`: a bearer token. */
const LOGIN_KINDS = ['link', 'provider', 'token'] as const

export const logins = counter(
  'hub_operations_logins_total',
  'Sign-ins of people that began a session, by kind.',
  labelSets({ kind: ['link', 'provider'] }),
)

export const loginsRefused = counter(
  'hub_operations_logins_refused_total',
  'Refused sign-ins and bearer tokens, by kind and reason.',
  labelSets({ kind: LOGIN_KINDS, reason: ['refused', 'no_role', 'unavailable'] }),
)

export const overviewViewers = gauge(
  'hub_operations_overview_viewers',
  'Viewers of the overview of the console that are connected now.',
)

export const overviewQuerySeconds = Metric.histogram('hub_operations_overview_seconds', {
  description: 'Time of a query for the overview, in seconds, by part. All viewers share it.',
  boundaries: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
})
