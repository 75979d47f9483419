/** Reads a topic from its first record to its end, with its own consumer group. */
import { randomUUID } from 'node:crypto'
import { type GroupControl, ConsumerGroups, type IncomingRecord, layerConsumerGroups } from '@hub/kafka'
import { Deferred, Effect } from 'effect'

/** Only ends a read that hangs: a slow machine reads ten thousand records a second. */
const READ_WITHIN_MS = 180_000

/**
 * Returns all records up to the end offsets at the start of the read, in order within each
 * partition.
 */
export const readTopic = (
  brokers: ReadonlyArray<string>,
  topic: string,
  withinMs: number = READ_WITHIN_MS,
): Promise<ReadonlyArray<IncomingRecord>> =>
  Effect.runPromise(
    Effect.gen(function* () {
      const groups = yield* ConsumerGroups
      const records: Array<IncomingRecord> = []
      const joined = yield* Deferred.make<GroupControl>()
      const done = yield* Deferred.make<void>()
      const missing = new Map<number, number>()
      yield* groups.join(
        { group: `test-reader-${randomUUID()}`, topics: [topic] },
        {
          onAssigned: ({ shards }, control) => {
            for (const partition of shards) control.pause(topic, partition)
            Deferred.doneUnsafe(joined, Effect.succeed(control))
          },
          onRevoking: Effect.void,
          onBatch: (_topic, partition, batch) =>
            Effect.suspend(() => {
              records.push(...batch)
              const last = batch.at(-1)
              if (
                last !== undefined &&
                last.offset + 1 >= (missing.get(partition) ?? Number.POSITIVE_INFINITY)
              ) {
                missing.delete(partition)
              }
              return missing.size === 0 ? Effect.asVoid(Deferred.succeed(done, undefined)) : Effect.void
            }),
        },
      )
      const control = yield* Deferred.await(joined)
      const bounds = yield* control.offsetRanges(topic)
      for (const { high, low, partition } of bounds) if (high > low) missing.set(partition, high)
      if (missing.size === 0) return records
      for (const { low, partition } of bounds) {
        if (!missing.has(partition)) continue
        control.seek({ topic, partition, offset: low })
        control.resume(topic, partition)
      }
      yield* Deferred.await(done)
      return records
    }).pipe(
      Effect.scoped,
      Effect.timeout(withinMs),
      Effect.provide(layerConsumerGroups({ connection: { brokers, clientId: 'test-reader' } })),
    ),
  )
