/** The parts of the dispatcher that the simulation and benchmarks run. */
export { type Dispatcher, type DispatcherOptions, makeDispatcher } from './app.ts'
export { jainIndex } from './handover/fairness-window.ts'
export { RE_APPEND_BEHIND, RE_APPEND_RATIO, RE_APPENDED_IN_ONE } from './shard/limits.ts'
export type { Message } from './shard/message.ts'
export type { ReadModelMessage } from './shard/message.ts'
export { DispatcherStore } from './store/store.port.ts'
