/**
 * The port of the live projection: what it reads and writes in PostgreSQL. Adapters:
 * `postgres-store.ts`, and `testing/memory-store.ts` for simulated time. Their suite is
 * `projection-store.contract.ts`. Rebuilds do not use it.
 *
 * A transaction calls back for what depends on rows that it has locked. These functions must be
 * pure: after a conflict the transaction runs again.
 */
import type { BatchProgress, Mode } from '@hub/domain'
import type { BatchSealed, MessageOutcome, OutgoingRecord } from '@hub/kafka'
import type { CommandSpendPeriods, ReadEvents, StorageError } from '@hub/store'
import { Context, type Effect } from 'effect'
import type { Changes, JournalEntry } from '../messages/fold.ts'
import type { EncryptedPersonalData } from '../messages/personal-data.ts'
import type { MessageRow } from '../messages/row.ts'

/** A partition. The topic has no deployment prefix, which may change. */
export interface TopicPartition {
  readonly topic: string
  readonly partition: number
}

/** The key of a partition in a map: `topic/partition`. */
export const partitionKey = ({ partition, topic }: TopicPartition): string => `${topic}/${partition}`

export interface Checkpoint extends TopicPartition {
  /** The next offset to apply. */
  readonly position: number
  /** Rises with each new owner, so that transactions of earlier owners change nothing. */
  readonly epoch: number
  /** The highest epoch of a fence (`ShardOpened`) before `position`; 0 without one. */
  readonly fence: number
}

export interface JournalKey {
  /** `acc_…` */
  readonly account: string
  readonly mode: Mode
}

export interface JournalHead extends JournalKey {
  /** The sequence number of the last event; 0 for an empty journal. */
  readonly sequence: number
  /** The time of recording for the next events: never earlier than that of the last event. */
  readonly recordedAt: number
  /** Whether the account has a subscription in this mode, which gets the next events. */
  readonly subscribed: boolean
}

/** A batch (`bat_…`) that may close now. */
export interface ClosingCandidate extends JournalKey {
  readonly batch: string
}

/** A batch that a transaction has closed. */
export interface ClosedBatch extends BatchProgress, JournalKey {}

/** An account and a month in which messages were charged. */
export interface ChargedPeriod {
  /** `acc_…` */
  readonly account: string
  /** First day of the period, `2026-11-01`. */
  readonly period: string
  readonly currency: string
}

/** What the last step of a transaction knows, under the locks of the journal heads. */
export interface LockedJournals {
  readonly heads: ReadonlyArray<JournalHead>
  /** Those of the event ids that are recorded already. */
  readonly recorded: ReadonlySet<string>
  /** Those of the candidates that this transaction has closed. */
  readonly closed: ReadonlyArray<ClosedBatch>
  /** The soft thresholds that were crossed. */
  readonly crossed: ReadonlyArray<CommandSpendPeriods.CrossedThreshold>
}

/** The events that a transaction writes, with public ids. */
export interface JournalWrites {
  readonly events: ReadonlyArray<ReadEvents.JournalEvent>
  readonly heads: ReadonlyArray<JournalHead>
  /** The records of the outbox row: the events of journals with a subscription. */
  readonly records: ReadonlyArray<OutgoingRecord>
}

/** The last step of a transaction: records events. */
export interface EventRecording {
  /** The journal heads to lock. */
  readonly journals: ReadonlyArray<JournalKey>
  /** The ids (`evt_…`) of all events that may be recorded. */
  readonly eventIds: ReadonlyArray<string>
  /** None of these events was recorded before this; ms since the epoch. */
  readonly since: number
  readonly write: (locked: LockedJournals) => JournalWrites
}

/** The stored state before a transaction batch: locked checkpoints, and the rows of its messages. */
export interface StoredState {
  readonly checkpoints: ReadonlyArray<Checkpoint>
  /** By message id. */
  readonly rows: ReadonlyMap<string, MessageRow>
}

/** What a transaction batch writes. */
export interface BatchWrites {
  readonly checkpoints: ReadonlyArray<Omit<Checkpoint, 'epoch'>>
  readonly changes: Changes
  readonly seals: ReadonlyArray<BatchSealed>
  /** By message id, for the messages that are accepted in this transaction. */
  readonly personalData: ReadonlyMap<string, EncryptedPersonalData>
  readonly candidates: ReadonlyArray<ClosingCandidate>
  /** The periods that may have reached their soft threshold. */
  readonly periods: ReadonlyArray<ChargedPeriod>
  /** The messages whose outcomes are to be written to their topic; empty while that is off. */
  readonly outcomesDue: ReadonlyArray<string>
  /** `null`: the batch causes no event, so no journal head is locked. */
  readonly recording: EventRecording | null
}

/**
 * Why a transaction changes nothing. `applied_before`: an earlier attempt with an unknown outcome
 * was committed, and the outbox contains its events. `superseded`: another member owns a partition
 * or moved its checkpoint.
 */
export type NotApplied = 'applied_before' | 'superseded'

export interface BatchTransaction {
  readonly partitions: ReadonlyArray<TopicPartition>
  readonly messageIds: ReadonlyArray<string>
  readonly decide: (stored: StoredState) => BatchWrites | NotApplied
}

/** The events of a transaction for webhooks. Its outbox row contains them until they are published. */
export interface Publication {
  readonly outboxRow: number
  readonly records: ReadonlyArray<OutgoingRecord>
}

/** What a transaction recorded. */
export interface Recorded {
  /** The number of new events in the journals. */
  readonly events: number
  /** `null`: none of their journals has a subscription. */
  readonly publication: Publication | null
}

export type TransactionOutcome =
  | ({ readonly kind: 'applied' } & Recorded)
  | { readonly kind: 'applied_before' }
  | { readonly kind: 'superseded' }

/** Tables with events that do not come from a message fact. The names are for the log. */
export const EVENT_SOURCES = ['event inbox', 'opt-out events', 'spend thresholds'] as const
export type EventSourceName = (typeof EVENT_SOURCES)[number]

/** What a transaction takes from a source. */
export interface TakenEntries {
  readonly entries: ReadonlyArray<JournalEntry>
  /** The source may contain more, so the next transaction follows at once. */
  readonly isFull: boolean
}

/** What it recorded. */
export type TakenEvents = Recorded & Pick<TakenEntries, 'isFull'>

export interface ProjectionStoreShape {
  /**
   * Raises the epochs of partitions and returns their positions. Waits for a transaction of the
   * previous owner.
   */
  readonly acquire: (
    partitions: ReadonlyArray<TopicPartition>,
  ) => Effect.Effect<ReadonlyArray<Checkpoint>, StorageError>
  /** All or nothing. After `StorageUnavailable` the transaction may still have been committed. */
  readonly apply: (transaction: BatchTransaction) => Effect.Effect<TransactionOutcome, StorageError>
  /** Takes the next events of a source and records them. Concurrent callers get different ones. */
  readonly takeEvents: (
    source: EventSourceName,
    recordingOf: (entries: ReadonlyArray<JournalEntry>) => EventRecording,
  ) => Effect.Effect<TakenEvents, StorageError>
  /**
   * Reads the next outcomes that are due, publishes them, and removes them from those that are due if
   * `publish` succeeds. Returns 0 if none are due, or if another process publishes.
   */
  readonly publishOutcomes: <E>(
    publish: (outcomes: ReadonlyArray<MessageOutcome>) => Effect.Effect<void, E>,
  ) => Effect.Effect<number, StorageError | E>
}

export class ProjectionStore extends Context.Service<ProjectionStore, ProjectionStoreShape>()(
  '@hub/projector/ProjectionStore',
) {}
