/**
 * The shard runtime: many actors on few fibers. Mechanisms only (queue discipline, marks, timers, fence, recovery,
 * back-pressure); what a record means is the app's.
 */
export { type Appender, makeAppender, type Ticket } from './appender.ts'
export { Fence, type Opening } from './fence.ts'
export { HeldOffsets } from './held-offsets.ts'
export { KeyedQueues, type QueueItem } from './keyed-queues.ts'
export { LaneReading, type Shares } from './lane-reading.ts'
export {
  type HostObserver,
  makeShardHost,
  type Needed,
  type Opened,
  type Shard,
  type ShardHandle,
  type ShardHost,
  type ShardHostOptions,
} from './shard-host.ts'
export { TimerHeap } from './timer-heap.ts'
export { makeVital, type Vital } from './vital.ts'
