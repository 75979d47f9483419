/** One topic from its beginning to where it ends now. */
import { randomUUID } from 'node:crypto'
import { type KafkaUnavailable, ConsumerGroups, type GroupControl, type IncomingRecord } from '@hub/kafka'
import { Deferred, Effect, type Exit } from 'effect'

/**
 * Gives every record that the topic holds now to `take`, in order within each partition, one call of a partition at a time. It joins a
 * consumer group of its own, commits nothing there, and leaves it. A failure of `take` ends the reading.
 */
export const readToEnd = <E, R>(
  topic: string,
  take: (records: ReadonlyArray<IncomingRecord>) => Effect.Effect<void, E, R>,
): Effect.Effect<void, KafkaUnavailable | E, ConsumerGroups | R> =>
  Effect.gen(function* () {
    const groups = yield* ConsumerGroups
    const context = yield* Effect.context<R>()
    const joined = yield* Deferred.make<GroupControl>()
    const done = yield* Deferred.make<void, E>()
    /** Where each partition's reading ends, of those that have something left. */
    const left = new Map<number, number>()
    yield* groups.join(
      { group: `hubctl-${randomUUID()}`, topics: [topic] },
      {
        onAssigned: ({ shards }, control) => {
          // It is the only member: it has all of them, or the group is being joined again.
          for (const partition of shards) control.pause(topic, partition)
          Deferred.doneUnsafe(joined, Effect.succeed(control))
        },
        onRevoking: Effect.void,
        onBatch: (_topic, partition, records) =>
          Effect.gen(function* () {
            const end = left.get(partition)
            if (end === undefined) return
            const exit: Exit.Exit<void, E> = yield* Effect.exit(
              Effect.provideContext(take(records.filter(({ offset }) => offset < end)), context),
            )
            if (exit._tag === 'Failure') {
              yield* Deferred.failCause(done, exit.cause)
              return
            }
            if ((records.at(-1)?.offset ?? -1) + 1 >= end) left.delete(partition)
            if (left.size === 0) yield* Deferred.succeed(done, undefined)
          }),
      },
    )
    const control = yield* Deferred.await(joined)
    for (const { high, low, partition } of yield* control.offsetRanges(topic)) {
      if (high === low) continue
      left.set(partition, high)
      control.seek({ topic, partition, offset: low })
    }
    if (left.size === 0) return
    for (const partition of left.keys()) control.resume(topic, partition)
    yield* Deferred.await(done)
  }).pipe(Effect.scoped)
