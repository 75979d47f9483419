/** The host of shards: many actors on few fibers. The app decides what a record means. */
export { FairTurns } from './fair-turns.ts'
export { Fence } from './fence.ts'
export { KeyedQueues, type QueueItem } from './keyed-queues.ts'
export { LaneCursor } from './lane-cursor.ts'
export { PinnedOffsets } from './pinned-offsets.ts'
export type { LowestPinned, OpenedShard, Shard, ShardHandle, Urgency } from './shard.ts'
export { makeShardHost, type ShardHost } from './shard-host.ts'
export { TimerHeap } from './timer-heap.ts'
