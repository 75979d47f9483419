/**
 * The shard runtime: many actors on few fibers. Mechanisms only (queue discipline, marks, timers, fence, recovery,
 * back-pressure); what a record means is the app's.
 */
export { type Appender, makeAppender, type Ticket } from './appender.ts'
export { Fence, type Opening } from './fence.ts'
export { PinnedOffsets } from './pinned-offsets.ts'
export { KeyedQueues, type QueueItem } from './keyed-queues.ts'
export { LaneCursor, type Shares } from './lane-cursor.ts'
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
export { makeSupervisor, type Supervisor } from './supervisor.ts'
