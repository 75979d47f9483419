/** Logs, metrics, traces and the admin listener: how an app shows itself to the people who run it. */
export { adminLayer, AdminUnavailable, Readiness, type ReadinessCheck } from './admin.ts'
export { type Lag, makeLagGauge } from './consumer-lag.ts'
export { makeBound, makeLabelled } from './labelled.ts'
export { loggerLayer, reported } from './logger.ts'
export { maskNumbers } from './mask.ts'
export { teardown } from './teardown.ts'
export { readTraceparent, type RemoteParent, type Span, traceparentOf } from './tracing/context.ts'
export { type Attributes, type Ended, Tracing, tracingLayer, type TracingShape } from './tracing/tracing.ts'
