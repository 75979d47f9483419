/** The gauges of all open shards, for the metrics. */
import type { ShardGauges } from '../metrics.ts'
import type { DispatcherShard } from './dispatcher-shard.ts'

export const shardGauges = (
  shards: ReadonlyArray<DispatcherShard>,
  inMemory: number,
  operators: ReadonlyArray<string>,
): ShardGauges => {
  const sum = (of: (messages: DispatcherShard['messages']) => number) =>
    shards.reduce((total, { messages }) => total + of(messages), 0)
  return {
    open: sum(({ openCount }) => openCount),
    finished: sum(({ finishedCount }) => finishedCount),
    parked: sum(({ parkedCount }) => parkedCount),
    shards: shards.length,
    inMemory,
    memory: new Map(shards.map(({ handle, messages }) => [handle.shard, messages.memoryBytes])),
    buffered: {
      otp: sum((messages) => messages.buffered(0)),
      service: sum((messages) => messages.buffered(1)),
    },
    claims: new Map(operators.map((name) => [name, sum((messages) => messages.handoversAt(name))])),
  }
}
