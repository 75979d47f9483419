/**
 * The event-log port: what the rest of the hub knows of Kafka. Adapters lie beside it; `port.contract.ts` is
 * the suite that each of them passes.
 */
import { Context, Data, type Effect, type Scope } from 'effect'

/** A record to append. `value` is already encoded (Confluent wire format). */
export interface OutgoingRecord {
  readonly topic: string
  /** Decides the partition (Java-compatible murmur2) unless `partition` does. */
  readonly key: string
  readonly partition?: number
  readonly type: string
  /** Derived from what the record reports, so that the same thing twice has the same id. */
  readonly id: string
  /** Milliseconds since the epoch. */
  readonly occurredAt: number
  /** W3C trace context. */
  readonly traceparent?: string
  /** Further headers; of dead letters only. */
  readonly headers?: Readonly<Record<string, string>>
  readonly value: Uint8Array
}

/** Where a record landed. */
export interface Position {
  readonly topic: string
  readonly partition: number
  readonly offset: number
}

/** A record as it was read. Headers are at hand without decoding `value`. */
export interface IncomingRecord extends Position {
  readonly key: string
  readonly type: string
  readonly id: string
  readonly occurredAt: number
  readonly traceparent: string | null
  /** When the broker or the producer stamped it, milliseconds since the epoch. */
  readonly appendedAt: number
  /** Further headers, where there are any; of dead letters only. */
  readonly headers?: Readonly<Record<string, string>>
  readonly value: Uint8Array
}

/**
 * Kafka did not confirm. Retrying may append the record a second time: readers drop by `id`.
 */
export class KafkaUnavailable extends Data.TaggedError('KafkaUnavailable')<{
  readonly reason: 'refused' | 'timeout' | 'rejected'
  readonly detail: string
}> {}

export class EventLog extends Context.Service<
  EventLog,
  {
    /**
     * Appends records with acks=all in one produce request per broker and answers where each landed, in the
     * order given. Calls of one process are sent one after the other, so their order is kept. Fails within
     * the deadline (default 1 s); nothing is retried here.
     */
    readonly append: (
      records: ReadonlyArray<OutgoingRecord>,
      options?: { readonly deadlineMs?: number },
    ) => Effect.Effect<ReadonlyArray<Position>, KafkaUnavailable>
    /** The partition a key belongs to. */
    readonly partitionOf: (key: string) => number
  }
>()('@hub/kafka/EventLog') {}

/** What a member owns after a (re)join. Partition *p* of every subscribed topic is owned together: shard *p*. */
export interface Assignment {
  readonly generation: number
  readonly shards: ReadonlyArray<number>
  /**
   * Shards that somebody else owns and this member is to get: of their `GroupOptions.standbyTopic` it reads ahead, and nothing else. They
   * become its own when it asks for them (`GroupControl.takeOver`).
   */
  readonly standby: ReadonlyArray<number>
  /**
   * Shards, owned or on standby, whose state may be kept: they were so in the generation directly before this one as well, or have come
   * from standby to be owned. All others start afresh.
   */
  readonly retained: ReadonlySet<number>
}

/** Where a topic of a shard stands. */
export interface PartitionOffsets {
  readonly topic: string
  readonly partition: number
  /** The stored offset, the next to read; -1 where there is none or it has expired. */
  readonly committed: number
  /** First offset still there. */
  readonly low: number
  /** The offset the next record will get. */
  readonly high: number
}

/** What a handler may do to its group. What is an effect asks the broker; everything else is synchronous. */
export interface GroupControl {
  /**
   * Read on from this offset (below 0: from the beginning). Takes effect before the next fetch; nothing happens where the
   * partition is not owned. A position that is no longer in the log becomes the first that is.
   */
  readonly seek: (at: Position) => void
  readonly pause: (topic: string, partition: number) => void
  readonly resume: (topic: string, partition: number) => void
  readonly owns: (shard: number) => boolean
  /** Asks for the shards on standby: everybody rejoins, and they are this member's. Nothing happens where there are none. */
  readonly takeOver: () => void
  /**
   * True while this member can be sure that nobody else owns its shards: not rebalancing, and the last
   * heartbeat that the broker answered is younger than session timeout minus margin, by the monotonic clock.
   * To be checked in the same tick as the act that must not happen twice.
   */
  readonly hasLease: () => boolean
  /** Stores offsets (the next to read). Positions of shards no longer owned are left out; without a lease it is refused. */
  readonly commit: (positions: ReadonlyArray<Position>) => Effect.Effect<void, KafkaUnavailable>
  /** Where every topic of these shards stands. Quick: asked over the connection that the member reads by. */
  readonly offsets: (
    shards: ReadonlyArray<number>,
  ) => Effect.Effect<ReadonlyArray<PartitionOffsets>, KafkaUnavailable>
  /** First offset still there, and the offset the next record will get. */
  readonly offsetRanges: (
    topic: string,
  ) => Effect.Effect<
    ReadonlyArray<{ readonly partition: number; readonly low: number; readonly high: number }>,
    KafkaUnavailable
  >
}

/** A consumer of whole shards. */
export interface GroupHandler {
  /**
   * Runs synchronously between the join and the first fetch, so that a new shard can be paused before it is
   * read. Every owned partition must be given its position here (`seek`) or be paused until it has one:
   * after a join the position is the committed offset (the beginning where there is none), not where reading stopped.
   * Shards in `assignment.retained` are the exception: they read on where they were, paused as they were.
   */
  readonly onAssigned: (assignment: Assignment, control: GroupControl) => void
  /** Before every (re)join: finish what is in flight. Bounded by the adapter (2.5 s). Nothing is delivered meanwhile. */
  readonly onRevoking: Effect.Effect<void>
  /**
   * Records of one partition, in order, none below the position, no gap. A failure makes the same records
   * come again after a pause. While it runs no further batch of that partition comes. A record that a newer version of the
   * hub has written (`newerSchemaOf`) does not come, and nothing behind it: the partition waits for that version's reader.
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
  /** Keeps the member id over restarts, so that a restarted process can end its own old session. */
  readonly memberFile?: string
  /** Batches of so many partitions may be in `onBatch` at once. Default 1. */
  readonly concurrency?: number
  /**
   * A member that comes to others gets its share in two steps: first on standby, to read ahead of this topic while its owners go on working,
   * then, when it asks, for good. So nobody waits for a process that has just begun to read itself in. Absent: its share at once.
   */
  readonly standbyTopic?: string
  /** Milliseconds. Defaults: session 6000 (the broker's floor), heartbeat 300, lease margin 1500. */
  readonly sessionTimeoutMs?: number
  /** So much is fetched of a partition at a time. Default 512 KiB; of all of them together never more than 8 MiB. */
  readonly maxBytesPerPartition?: number
  readonly heartbeatMs?: number
}

export class ConsumerGroups extends Context.Service<
  ConsumerGroups,
  {
    /**
     * Joins and consumes until the scope closes (which leaves the group). A consumer that makes no progress
     * while there is something to read, or whose heartbeats stop, is thrown away and built anew; the handler
     * then sees `onRevoking` and a fresh assignment. Ends when the first assignment is there; fails when the first
     * attempt does, so that whoever starts can tell and try again.
     */
    readonly join: (
      options: GroupOptions,
      handler: GroupHandler,
    ) => Effect.Effect<{ readonly isHealthy: Effect.Effect<boolean> }, KafkaUnavailable, Scope.Scope>
  }
>()('@hub/kafka/ConsumerGroups') {}
