/**
 * Reads dead letters for hubctl. Each call joins a consumer group of its own and commits nothing,
 * so Kafka keeps every dead letter until its retention ends.
 */
import { randomUUID } from 'node:crypto'
import { Deferred, Duration, Effect, Option } from 'effect'
import { partitionKey } from '../partition-key.ts'
import {
  KafkaUnavailable,
  ConsumerGroups,
  type GroupControl,
  type IncomingRecord,
  type OffsetRange,
  type Position,
} from '../port.ts'
import { type DeadLetter, deadLetterOf } from './dead-letter.ts'

/** Joining, reading and leaving take seconds. A broker that takes longer is unavailable. */
const WITHIN = Duration.seconds(30)

/** The offsets `from … to − 1` of a partition. */
interface Section extends Omit<Position, 'offset'> {
  readonly from: number
  readonly to: number
}

/** Reads a section of each partition. `sectionOf` chooses it; `null` skips the partition. */
const readSections = Effect.fnUntraced(
  function* (
    topics: ReadonlyArray<string>,
    sectionOf: (topic: string, range: OffsetRange) => Section | null,
  ) {
    const groups = yield* ConsumerGroups
    const joined = yield* Deferred.make<GroupControl>()
    const done = yield* Deferred.make<void>()
    const unread = new Map<string, Section>()
    const records = new Map<string, IncomingRecord>()
    let isReading = false
    const read = (control: GroupControl) => {
      for (const { from, partition, topic } of unread.values()) {
        control.seek({ topic, partition, offset: from })
        control.resume(topic, partition)
      }
    }
    yield* groups.join(
      { group: `hub.dead-letters.${randomUUID()}`, topics },
      {
        onAssigned: ({ shards }, control) => {
          for (const topic of topics) for (const partition of shards) control.pause(topic, partition)
          // This is the only member, so it owns every partition. After a rejoin it reads unfinished
          // sections again.
          if (isReading) read(control)
          else Deferred.doneUnsafe(joined, Effect.succeed(control))
        },
        onRevoking: Effect.void,
        onBatch: (topic, partition, batch) =>
          Effect.suspend(() => {
            const key = partitionKey(topic, partition)
            const section = unread.get(key)
            if (section === undefined) return Effect.void
            for (const record of batch) {
              if (record.offset < section.to) records.set(`${key}/${record.offset}`, record)
            }
            if ((batch.at(-1)?.offset ?? -1) + 1 >= section.to) unread.delete(key)
            return unread.size === 0 ? Deferred.succeed(done, undefined) : Effect.void
          }),
      },
    )
    const control = yield* Deferred.await(joined)
    for (const topic of topics) {
      for (const range of yield* control.offsetRanges(topic)) {
        const section = sectionOf(topic, range)
        if (section !== null && section.from < section.to)
          unread.set(partitionKey(topic, range.partition), section)
      }
    }
    if (unread.size === 0) return []
    isReading = true
    read(control)
    yield* Deferred.await(done)
    return [...records.values()]
  },
  Effect.scoped,
  Effect.timeoutOrElse({
    duration: WITHIN,
    orElse: () => Effect.fail(new KafkaUnavailable({ reason: 'timeout', detail: 'reading dead letters' })),
  }),
)

interface DeadLetterQuery {
  /** Dead-letter topics. */
  readonly topics: ReadonlyArray<string>
  readonly limit: number
}

/** The newest dead letters, newest first. Reads at most `limit` records of each partition. */
export const newestDeadLetters = ({
  limit,
  topics,
}: DeadLetterQuery): Effect.Effect<ReadonlyArray<DeadLetter>, KafkaUnavailable, ConsumerGroups> =>
  Effect.map(
    readSections(topics, (topic, { high, low, partition }) => ({
      topic,
      partition,
      from: Math.max(low, high - limit),
      to: high,
    })),
    (records) =>
      records
        .toSorted((a, b) => b.appendedAt - a.appendedAt || b.offset - a.offset)
        .slice(0, limit)
        .map(deadLetterOf),
  )

/** At most `limit` dead letters of one partition, from an offset on, oldest first. */
export const deadLettersFrom = (
  at: Position,
  limit: number,
): Effect.Effect<ReadonlyArray<DeadLetter>, KafkaUnavailable, ConsumerGroups> =>
  Effect.map(
    readSections([at.topic], (topic, { high, low, partition }) =>
      partition === at.partition
        ? { topic, partition, from: Math.max(low, at.offset), to: Math.min(high, at.offset + limit) }
        : null,
    ),
    (records) => records.toSorted((a, b) => a.offset - b.offset).map(deadLetterOf),
  )

/** One dead letter; none where the position has no record, or no longer has one. */
export const readDeadLetter = (
  at: Position,
): Effect.Effect<Option.Option<DeadLetter>, KafkaUnavailable, ConsumerGroups> =>
  Effect.map(deadLettersFrom(at, 1), ([letter]) => Option.fromUndefinedOr(letter))
