/** Reads a topic from its first record to its end, with its own consumer group. */
import { randomUUID } from 'node:crypto'
import { type GroupControl, ConsumerGroups, type IncomingRecord, layerConsumerGroups } from '@hub/kafka'
import { Deferred, Effect, Schedule } from 'effect'

/** Only ends a read that hangs: a slow machine reads ten thousand records a second. */
const READ_WITHIN_MS = 180_000
/** Until the limit of the whole read. */
const AGAIN = Schedule.spaced('500 millis')

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
      /** The partitions that are not read to their end: the next offset, and the end. */
      const missing = new Map<number, { next: number; readonly end: number }>()
      const resume = (control: GroupControl): void => {
        for (const [partition, { next }] of missing) {
          control.seek({ topic, partition, offset: next })
          control.resume(topic, partition)
        }
      }
      const join = groups.join(
        { group: `test-reader-${randomUUID()}`, topics: [topic] },
        {
          // A busy machine may lose the session. The group then assigns the partitions again.
          onAssigned: ({ shards }, control) => {
            for (const partition of shards) control.pause(topic, partition)
            Deferred.doneUnsafe(joined, Effect.succeed(control))
            resume(control)
          },
          onRevoking: Effect.void,
          onBatch: (_topic, partition, batch) =>
            Effect.suspend(() => {
              const left = missing.get(partition)
              const last = batch.at(-1)
              if (left === undefined || last === undefined) return Effect.void
              records.push(...batch)
              left.next = last.offset + 1
              if (left.next >= left.end) missing.delete(partition)
              return missing.size === 0 ? Effect.asVoid(Deferred.succeed(done, undefined)) : Effect.void
            }),
        },
      )
      // A busy broker may not answer in time.
      yield* Effect.retry(join, AGAIN)
      const control = yield* Deferred.await(joined)
      const bounds = yield* Effect.retry(control.offsetRanges(topic), AGAIN)
      for (const { high, low, partition } of bounds)
        if (high > low) missing.set(partition, { next: low, end: high })
      if (missing.size === 0) return records
      resume(control)
      yield* Deferred.await(done)
      return records
    }).pipe(
      Effect.scoped,
      Effect.timeout(withinMs),
      Effect.provide(layerConsumerGroups({ connection: { brokers, clientId: 'test-reader' } })),
    ),
  )
