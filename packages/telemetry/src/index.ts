/** Logs, metrics, traces and the admin listener of the apps. */
export { acceptsConnection } from './accepts-connection.ts'
export { adminLayer, onceReached, Readiness } from './admin.ts'
export { type ConsumerLag, makeLagGauge } from './consumer-lag.ts'
export { counter, gauge, labelSets, withOldName } from './metric-kinds.ts'
export { memoizeLabels } from './metric-labels.ts'
export { loggerLayer, withFailureLog } from './logger.ts'
export { maskNumbers } from './mask.ts'
export { teardown } from './teardown.ts'
export {
  readTraceparent,
  type RemoteParent,
  type Span,
  type TraceHeaders,
  traceHeadersIn,
  traceHeadersOf,
  traceparentOf,
} from './tracing/context.ts'
export { Tracing, tracingLayer, type TracingShape } from './tracing/tracing.ts'
