/** Logs, metrics, traces and the admin listener of the apps. */
export { adminLayer, Readiness } from './admin.ts'
export { type ConsumerLag, makeLagGauge } from './consumer-lag.ts'
export { memoizeLabels, memoizeLabel } from './metric-labels.ts'
export { loggerLayer, withFailureLog } from './logger.ts'
export { maskNumbers } from './mask.ts'
export { teardown } from './teardown.ts'
export { readTraceparent, type RemoteParent, type Span, traceparentOf } from './tracing/context.ts'
export { Tracing, tracingLayer, type TracingShape } from './tracing/tracing.ts'
