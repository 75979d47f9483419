/** The event-log port. Every adapter passes the suite of `port.contract.ts`. */
import { Context, Data, type Effect, type Scope } from 'effect'

export interface OutgoingRecord {
  readonly topic: string
  /** Selects the partition (murmur2, like the Java client), unless `partition` is set. */
  readonly key: string
  readonly partition?: number
  readonly type: string
  /** Derived from the content, so that a repeated record has the same id. */
  readonly id: string
  /** Milliseconds since the epoch. */
  readonly occurredAt: number
  /** W3C trace context. */
  readonly traceparent?: string
  /** Further headers: `tracestate`, and those of dead letters. */
  readonly headers?: Readonly<Record<string, string>>
  /** Encoded (Confluent wire format). */
  readonly value: Uint8Array
}

export interface Position {
  readonly topic: string
  readonly partition: number
  readonly offset: number
}

/** A consumed record. Its headers are available without decoding `value`. */
export interface IncomingRecord extends Position {
  readonly key: string
  readonly type: string
  readonly id: string
  readonly occurredAt: number
  readonly traceparent: string | null
  /** Absent: the record has none. */
  readonly tracestate?: string
  /** The timestamp of the record, milliseconds since the epoch. */
  readonly appendedAt: number
  /** Further headers. Only dead letters have them. */
  readonly headers?: Readonly<Record<string, string>>
  readonly value: Uint8Array
}

/** Kafka did not confirm. A retry may append a record twice: readers drop repeats by `id`. */
export class KafkaUnavailable extends Data.TaggedError('KafkaUnavailable')<{
  readonly reason: 'refused' | 'timeout' | 'rejected'
  readonly detail: string
  /** Only of an append. True: Kafka certainly contains none of its records. */
  readonly notAppended?: true
}> {
  override readonly message = `${this.reason}: ${this.detail}`
}

export class EventLog extends Context.Service<
  EventLog,
  {
    /**
     * Appends records with `acks=all`, in one produce request for each broker. Returns the position
     * of each record, in the order of `records`. The calls of one process are sent one after the
     * other, so their order is preserved. Fails within the deadline (default 5 s), without a retry.
     */
    readonly append: (
      records: ReadonlyArray<OutgoingRecord>,
      options?: { readonly deadlineMs?: number },
    ) => Effect.Effect<ReadonlyArray<Position>, KafkaUnavailable>
    readonly partitionOf: (key: string) => number
  }
>()('@hub/kafka/EventLog') {}

/** Which records `TopicReader.readKey` returns. Times are milliseconds since the epoch. */
export interface KeyQuery {
  readonly topic: string
  readonly partition: number
  readonly key: string
  readonly from: number
  readonly to: number
}

/** Which records `TopicReader.readPeriod` returns. Times are milliseconds since the epoch. */
export interface PeriodQuery {
  readonly topic: string
  readonly from: number
  readonly to: number
  /** Only these records are kept in memory. */
  readonly wanted: (record: IncomingRecord) => boolean
}

export class TopicReader extends Context.Service<
  TopicReader,
  {
    /**
     * All records of a small topic: from the first offset of each partition to its end at the time
     * of the call. The records of a partition are in order. It needs no consumer group. Fails
     * within the deadline (default 3 s), without a retry.
     */
    readonly readAll: (topic: string) => Effect.Effect<ReadonlyArray<IncomingRecord>, KafkaUnavailable>
    /**
     * The records of a key that Kafka received in a period, in order. It reads the whole partition
     * of the key in this period, so it can take up to a minute.
     */
    readonly readKey: (query: KeyQuery) => Effect.Effect<ReadonlyArray<IncomingRecord>, KafkaUnavailable>
    /**
     * The wanted records that Kafka received in a period. The records of a partition are in order. It
     * reads all partitions in this period, so it can take up to a minute.
     */
    readonly readPeriod: (
      query: PeriodQuery,
    ) => Effect.Effect<ReadonlyArray<IncomingRecord>, KafkaUnavailable>
  }
>()('@hub/kafka/TopicReader') {}

/** A member's shards after a (re)join. Shard *p* is partition *p* of every subscribed topic. */
export interface Assignment {
  readonly generation: number
  readonly shards: ReadonlyArray<number>
  /**
   * Shards that another member owns and this member will get. It reads only their partitions of
   * `GroupOptions.standbyTopic`, until it calls `GroupControl.takeOver`.
   */
  readonly standby: ReadonlyArray<number>
  /**
   * Shards, owned or on standby, whose state remains valid: this member had them in the previous
   * generation too, owned or on standby. All other shards start without state.
   */
  readonly retained: ReadonlySet<number>
}

/** The first offset that is still in a partition, and the offset of its next record. */
export interface OffsetRange {
  readonly partition: number
  readonly low: number
  readonly high: number
}

/** The offsets of one partition of a topic. */
export interface PartitionOffsets extends OffsetRange {
  readonly topic: string
  /** The committed offset, which is the next to read; -1 where there is none, or it has expired. */
  readonly committed: number
}

/** The requests of a handler. The effects ask the broker; the other functions are synchronous. */
export interface GroupControl {
  /**
   * Continues at this offset (below 0: at the beginning) with the next fetch; at the first offset
   * of the log if it is not in the log. Ignored where the member does not own the partition.
   */
  readonly seek: (at: Position) => void
  readonly pause: (topic: string, partition: number) => void
  readonly resume: (topic: string, partition: number) => void
  readonly owns: (shard: number) => boolean
  /** Makes the group rebalance, and this member own its standby shards. Ignored without them. */
  readonly takeOver: () => void
  /**
   * Whether no other member can own this member's shards: the group does not rebalance, and the
   * last answered heartbeat is younger than the session timeout minus a margin, by the monotonic
   * clock. Check it in the same tick as an action that must not happen twice.
   */
  readonly hasLease: () => boolean
  /** Commits the next offsets to read. Skips shards of other members; fails without a lease. */
  readonly commit: (positions: ReadonlyArray<Position>) => Effect.Effect<void, KafkaUnavailable>
  /** The offsets of all topics of these shards. */
  readonly offsets: (
    shards: ReadonlyArray<number>,
  ) => Effect.Effect<ReadonlyArray<PartitionOffsets>, KafkaUnavailable>
  /** All partitions of a topic, in their order. */
  readonly offsetRanges: (topic: string) => Effect.Effect<ReadonlyArray<OffsetRange>, KafkaUnavailable>
  /**
   * The offset of the next record of each owned partition of a topic, by partition, up to five seconds old.
   * It may contain other partitions.
   */
  readonly ends: (topic: string) => Effect.Effect<ReadonlyMap<number, number>, KafkaUnavailable>
}

/** A consumer of whole shards. */
export interface GroupHandler {
  /**
   * Runs synchronously between the join and the first fetch, so that it can pause a partition
   * before it is read. It must `seek` each owned partition, or pause it until it has a position:
   * after a join the position is the committed offset (the beginning where there is none), not the
   * last position read. Shards in `assignment.retained` are an exception: they keep their position
   * and their pause.
   */
  readonly onAssigned: (assignment: Assignment, control: GroupControl) => void
  /**
   * Runs before every (re)join, to finish the work in progress. The adapter waits at most 2.5 s,
   * and delivers no batch meanwhile.
   */
  readonly onRevoking: Effect.Effect<void>
  /**
   * Gets the records of one partition in order, without a gap, from the position on. After a
   * failure the same records are delivered again, after a pause. A partition has one batch in
   * progress at most. A record that a newer version of the hub wrote (`newerSchemaOf`) is not
   * delivered, nor is any record behind it: the partition waits until that version consumes it.
   */
  readonly onBatch: (
    topic: string,
    partition: number,
    records: ReadonlyArray<IncomingRecord>,
  ) => Effect.Effect<void, unknown>
}

export interface GroupOptions {
  readonly group: string
  readonly topics: ReadonlyArray<string>
  /** Keeps the member id, so that a restarted process can end its previous session. */
  readonly memberFile?: string
  /** Number of partitions with a batch in `onBatch` at once. Default 1. */
  readonly concurrency?: number
  /**
   * A member that joins other members gets its shards in two steps. It first reads this topic ahead
   * on standby, while their owners work on. It owns them when it calls `takeOver`. So no shard
   * waits for a process that has just begun its recovery. Absent: it owns its shards at once.
   */
  readonly standbyTopic?: string
  /** Milliseconds. Default 6000, the minimum of the broker. */
  readonly sessionTimeoutMs?: number
  /** Bytes of a partition in one fetch. Default 512 KiB. A fetch has at most 8 MiB in total. */
  readonly maxBytesPerPartition?: number
  /** Milliseconds. Default 500. */
  readonly heartbeatMs?: number
  /**
   * After records, the next fetch is this much later, milliseconds, unless more records wait already.
   * So the records of this time arrive together. Asked after each fetch with records. Default 0.
   */
  readonly gatherMs?: () => number
}

export class ConsumerGroups extends Context.Service<
  ConsumerGroups,
  {
    /**
     * Joins and consumes until the scope closes, then leaves the group. Returns after the first
     * assignment. Fails when the first attempt to join fails, so that the caller can log it and
     * retry. Replaces a kafkajs consumer that makes no progress although there are records, or
     * whose heartbeats stop. The handler then sees `onRevoking` and a new assignment.
     */
    readonly join: (
      options: GroupOptions,
      handler: GroupHandler,
    ) => Effect.Effect<{ readonly isHealthy: Effect.Effect<boolean> }, KafkaUnavailable, Scope.Scope>
  }
>()('@hub/kafka/ConsumerGroups') {}
