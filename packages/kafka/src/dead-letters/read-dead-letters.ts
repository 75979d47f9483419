/**
 * Dead letters, for the people who look after the hub: what lies in the dead-letter topics, why, and how one gets back to where it came from.
 * Reading joins a consumer group of its own and commits nothing; Kafka keeps every dead letter until its retention is over.
 */
import { randomUUID } from 'node:crypto'
import { Deferred, Duration, Effect, Option, Result } from 'effect'
import { decodeRecord, type UndecodableRecord } from '../records/codec.ts'
import {
  KafkaUnavailable,
  ConsumerGroups,
  type GroupControl,
  type IncomingRecord,
  type OutgoingRecord,
  type Position,
} from '../port.ts'
import type { HubRecord } from '../records/records.ts'
import { DEAD_LETTER_HEADERS } from '../records/outgoing.ts'
import { deadLetterTopic } from '../topics/catalogue.ts'

/** A record that could not be read or applied. */
export interface DeadLetter {
  /** The record as it lies in the dead-letter topic; key, type, id and value are those of the source. */
  readonly record: IncomingRecord
  /** A code, such as `unknown_schema`; `null` where its headers do not say. */
  readonly reason: string | null
  /** Where it came from; `null` where its headers do not say, or name another topic than the dead-letter topic is for. */
  readonly source: Position | null
}

/** A joined group, ranges read and left again: seconds. A broker that takes longer is in trouble. */
const WITHIN = Duration.seconds(30)

const wholeNumber = (text: string | undefined): number | null =>
  text !== undefined && /^\d{1,15}$/u.test(text) ? Number(text) : null

/** What a record of a dead-letter topic says. Pure. */
export const deadLetterIn = (record: IncomingRecord): DeadLetter => {
  const { [DEAD_LETTER_HEADERS.reason]: reason, [DEAD_LETTER_HEADERS.topic]: topic } = record.headers ?? {}
  const partition = wholeNumber(record.headers?.[DEAD_LETTER_HEADERS.partition])
  const offset = wholeNumber(record.headers?.[DEAD_LETTER_HEADERS.offset])
  const isSource =
    topic !== undefined && partition !== null && offset !== null && deadLetterTopic(topic) === record.topic
  return { record, reason: reason ?? null, source: isSource ? { topic, partition, offset } : null }
}

/** A part of a partition: records from `from` on and before `to`. */
interface Stretch extends Omit<Position, 'offset'> {
  readonly from: number
  readonly to: number
}

type Bounds = Effect.Success<ReturnType<GroupControl['offsetRanges']>>[number]

/** Reads stretches of partitions to their ends, as they are when reading begins. */
const readStretches = Effect.fnUntraced(
  function* (topics: ReadonlyArray<string>, stretchOf: (topic: string, bounds: Bounds) => Stretch | null) {
    const groups = yield* ConsumerGroups
    const joined = yield* Deferred.make<GroupControl>()
    const done = yield* Deferred.make<void>()
    const placeOf = (topic: string, partition: number) => `${topic}/${partition}`
    const left = new Map<string, Stretch>()
    const read = new Map<string, IncomingRecord>()
    const start = (control: GroupControl) => {
      for (const { from, partition, topic } of left.values()) {
        control.seek({ topic, partition, offset: from })
        control.resume(topic, partition)
      }
    }
    let started = false
    yield* groups.join(
      { group: `hub.dead-letters.${randomUUID()}`, topics },
      {
        onAssigned: ({ shards }, control) => {
          for (const topic of topics) for (const partition of shards) control.pause(topic, partition)
          // It is the only member, and has everything; joining again begins what is left anew.
          if (started) start(control)
          else Deferred.doneUnsafe(joined, Effect.succeed(control))
        },
        onRevoking: Effect.void,
        onBatch: (topic, partition, records) =>
          Effect.suspend(() => {
            const place = placeOf(topic, partition)
            const stretch = left.get(place)
            if (stretch === undefined) return Effect.void
            for (const record of records) {
              if (record.offset < stretch.to) read.set(`${place}/${record.offset}`, record)
            }
            if ((records.at(-1)?.offset ?? -1) + 1 >= stretch.to) left.delete(place)
            return left.size === 0 ? Deferred.succeed(done, undefined) : Effect.void
          }),
      },
    )
    const control = yield* Deferred.await(joined)
    for (const topic of topics) {
      for (const bounds of yield* control.offsetRanges(topic)) {
        const stretch = stretchOf(topic, bounds)
        if (stretch !== null && stretch.from < stretch.to) left.set(placeOf(topic, bounds.partition), stretch)
      }
    }
    if (left.size === 0) return []
    started = true
    start(control)
    yield* Deferred.await(done)
    return [...read.values()]
  },
  Effect.scoped,
  Effect.timeoutOrElse({
    duration: WITHIN,
    orElse: () => Effect.fail(new KafkaUnavailable({ reason: 'timeout', detail: 'reading dead letters' })),
  }),
)

export interface DeadLetterQuery {
  /** Dead-letter topics. */
  readonly topics: ReadonlyArray<string>
  readonly limit: number
}

/** The newest dead letters of some topics, newest first. Reads `limit` of each partition at most. */
export const newestDeadLetters = ({
  limit,
  topics,
}: DeadLetterQuery): Effect.Effect<ReadonlyArray<DeadLetter>, KafkaUnavailable, ConsumerGroups> =>
  Effect.map(
    readStretches(topics, (topic, { high, low, partition }) => ({
      topic,
      partition,
      from: Math.max(low, high - limit),
      to: high,
    })),
    (records) =>
      records
        .toSorted((a, b) => b.appendedAt - a.appendedAt || b.offset - a.offset)
        .slice(0, limit)
        .map(deadLetterIn),
  )

/** Dead letters of one partition from an offset on, oldest first. */
export const deadLettersFrom = (
  at: Position,
  limit: number,
): Effect.Effect<ReadonlyArray<DeadLetter>, KafkaUnavailable, ConsumerGroups> =>
  Effect.map(
    readStretches([at.topic], (topic, { high, low, partition }) =>
      partition === at.partition
        ? { topic, partition, from: Math.max(low, at.offset), to: Math.min(high, at.offset + limit) }
        : null,
    ),
    (records) => records.toSorted((a, b) => a.offset - b.offset).map(deadLetterIn),
  )

/** One dead letter; none where there is nothing at that place, or not any more. */
export const readDeadLetter = (
  at: Position,
): Effect.Effect<Option.Option<DeadLetter>, KafkaUnavailable, ConsumerGroups> =>
  Effect.map(deadLettersFrom(at, 1), ([letter]) => Option.fromUndefinedOr(letter))

/**
 * The record as it was, for the partition that it came from; `null` where nobody knows which that is. It has the same id, so that whoever has
 * taken it in after all drops it.
 */
export const recordToRetry = ({ record, source }: DeadLetter): OutgoingRecord | null =>
  source === null
    ? null
    : {
        topic: source.topic,
        partition: source.partition,
        key: record.key,
        type: record.type,
        id: record.id,
        occurredAt: record.occurredAt,
        value: record.value,
        ...(record.traceparent === null ? {} : { traceparent: record.traceparent }),
      }

/** A decoded record for people: what is sealed stays sealed, and is shown as its length. */
export type DisplayRecord = Readonly<Record<string, unknown>>

const shown = (record: HubRecord): DisplayRecord =>
  Object.fromEntries(
    Object.entries(record).map(([name, value]) => [
      name,
      value instanceof Uint8Array ? { sealed_bytes: value.length } : (value as unknown),
    ]),
  )

/** What a dead letter holds, as far as its schema is known. Of bytes that do not decode, nothing is shown: nobody knows what they are. */
export const displayContent = (letter: DeadLetter): Result.Result<DisplayRecord, UndecodableRecord> =>
  Result.map(decodeRecord(letter.record.value), shown)
