/** The parts of the dispatcher that the benchmarks measure. */
export { jainIndex } from './handover/fairness-window.ts'
export { makeMetrics } from './metrics.ts'
export { type DispatcherShard, makeDispatcherShard } from './shard/dispatcher-shard.ts'
export { RE_APPEND_BEHIND, RE_APPEND_RATIO, RE_APPENDED_IN_ONE } from './shard/limits.ts'
export type { Message, PreparedSubmission } from './shard/message.ts'
export { MessageTraces } from './tracing/message-traces.ts'
