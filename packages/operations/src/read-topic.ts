/** Reads one topic from its beginning to its current end. */
import { randomUUID } from 'node:crypto'
import { ConsumerGroups, type GroupControl, type IncomingRecord, type KafkaUnavailable } from '@hub/kafka'
import { Deferred, Effect, type Exit } from 'effect'

/**
 * Calls `handle` with all current records of a topic: in order, one call per partition at a time.
 * It uses a temporary consumer group without commits. A failure of `handle` ends the read.
 */
export const readToEnd = <E, R>(
  topic: string,
  handle: (records: ReadonlyArray<IncomingRecord>) => Effect.Effect<void, E, R>,
): Effect.Effect<void, KafkaUnavailable | E, ConsumerGroups | R> =>
  Effect.gen(function* () {
    const groups = yield* ConsumerGroups
    const context = yield* Effect.context<R>()
    const joined = yield* Deferred.make<GroupControl>()
    const done = yield* Deferred.make<void, E>()
    /** The end offset of each partition that is not read completely. */
    const ends = new Map<number, number>()
    yield* groups.join(
      { group: `hubctl-${randomUUID()}`, topics: [topic] },
      {
        onAssigned: ({ shards }, control) => {
          // The only member of the group owns all partitions.
          for (const partition of shards) control.pause(topic, partition)
          Deferred.doneUnsafe(joined, Effect.succeed(control))
        },
        onRevoking: Effect.void,
        onBatch: (_topic, partition, records) =>
          Effect.gen(function* () {
            const end = ends.get(partition)
            if (end === undefined) return
            const exit: Exit.Exit<void, E> = yield* Effect.exit(
              Effect.provideContext(handle(records.filter(({ offset }) => offset < end)), context),
            )
            if (exit._tag === 'Failure') {
              yield* Deferred.failCause(done, exit.cause)
              return
            }
            if ((records.at(-1)?.offset ?? -1) + 1 >= end) ends.delete(partition)
            if (ends.size === 0) yield* Deferred.succeed(done, undefined)
          }),
      },
    )
    const control = yield* Deferred.await(joined)
    for (const { high, low, partition } of yield* control.offsetRanges(topic)) {
      if (high === low) continue
      ends.set(partition, high)
      control.seek({ topic, partition, offset: low })
    }
    if (ends.size === 0) return
    for (const partition of ends.keys()) control.resume(topic, partition)
    yield* Deferred.await(done)
  }).pipe(Effect.scoped)
