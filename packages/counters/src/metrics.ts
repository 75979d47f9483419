/** The metrics of the counters in Redis. */
import { counter, gauge, labelSets } from '@hub/telemetry'
import { Context } from 'effect'
import { UNAVAILABLE_REASONS } from './port.ts'

/** `closed`: it broke. `timeout`: it was silent. `unreachable`: Redis cannot serve now. */
const REPLACED_REASONS = ['closed', 'timeout', 'unreachable'] as const
export type ReplacedReason = (typeof REPLACED_REASONS)[number]

export const replaced = counter(
  'hub_redis_connections_replaced_total',
  'Connections to Redis that broke or did not answer, by reason.',
  labelSets({ reason: REPLACED_REASONS }),
)

/** `shared`: the shared texts. */
const COUNTERS = ['rate', 'logins', 'flood', 'daily', 'shared'] as const
export type CounterName = (typeof COUNTERS)[number]

export const unavailable = counter(
  'hub_counters_unavailable_total',
  'Calls of the counters in Redis without an answer, by counter and reason.',
  labelSets({ counter: COUNTERS, reason: UNAVAILABLE_REASONS }),
)

const latency = gauge(
  'hub_redis_latency_seconds',
  'The smoothed time of a call to Redis, or how long its next answer has been due, in seconds, of the slowest connection in use.',
)
const context = Context.empty()

/** Of the connections with calls in progress, milliseconds: those to the nodes of a cluster differ. */
const shown = new Map<object, number>()

/** Shows the slowest connection. `ms`: milliseconds. */
export const showLatency = (connection: object, ms: number): void => {
  shown.set(connection, ms)
  latency.updateUnsafe(Math.max(...shown.values()) / 1000, context)
}

/** The connection has no calls in progress, or is closed. The last value stays until the next call. */
export const forgetLatency = (connection: object): void => void shown.delete(connection)
