/**
 * The port to the fan-out's tables. Adapters: `postgres-store.ts`, and `testing/memory-store.ts`
 * for simulated time. Their suite is `postgres-store.int.test.ts`.
 *
 * Every change for a partition carries the epoch of its owner. A process that has lost the
 * partition without knowing it (a zombie) changes nothing. Source: docs/architecture.md, Webhooks.
 */
import type { Mode } from '@hub/domain'
import type { StorageError } from '@hub/store'
import type { TraceHeaders } from '@hub/telemetry'
import type { Delivery, DeliveryResult } from '@hub/webhooks'
import { Context, Data, type Effect } from 'effect'
import type { Outcome } from '../subscriptions/outcome.ts'
import type { BatchCursor, PendingBatch } from '../subscriptions/pending-batch.ts'
import type { RecordedHealth, SubscriptionRecord } from '../subscriptions/subscription.ts'

/** Another process owns the partition. Nothing was changed; a retry fails again. */
export class PartitionLost extends Data.TaggedError('PartitionLost')<{ readonly partition: number }> {}

/** A partition and the epoch under which this process owns it. */
export interface Ownership {
  readonly partition: number
  readonly epoch: number
}

/** An account (`acc_…`) and mode: they select an event journal. */
export interface EventSource {
  readonly account: string
  readonly mode: Mode
}

export interface JournalEvent {
  /** `evt_…` */
  readonly id: string
  readonly sequence: number
  readonly eventType: string
  /** JSON text, as `/v1/events` serves it. */
  readonly body: string
}

export interface RecordedOutcomes {
  /** By UUID of the subscription; a deleted subscription is missing. */
  readonly health: ReadonlyMap<string, RecordedHealth>
  /** When each remaining batch (UUID) is due, unless its outcome was recorded before. */
  readonly nextDue: ReadonlyMap<string, number>
}

/** Events that become one batch, without those that the subscription already has in a batch. */
export interface NewWebhookBatch {
  readonly subscription: Pick<SubscriptionRecord, 'uuid' | 'id'>
  /** Never empty. `trace`: W3C trace context, if the event is traced. */
  readonly events: ReadonlyArray<Omit<JournalEvent, 'eventType'> & { readonly trace?: TraceHeaders }>
}

export interface StoredBatch {
  /** UUID of the subscription. */
  readonly subscriptionId: string
  readonly batch: PendingBatch
  /** The number of its events. */
  readonly events: number
}

/** A redelivery whose events are not all stored in batches yet. */
export interface OpenRedelivery extends EventSource {
  /** UUID. */
  readonly id: string
  /** UUID of the subscription. */
  readonly subscriptionId: string
  /** The only event of it (`evt_…`); `null`: all events of a period. */
  readonly event: string | null
  /** Journal sequence of the last event that is stored in a batch. */
  readonly afterSequence: number
  /** It contains events created before this, milliseconds since the epoch. */
  readonly createdBefore: number
  /** Its batches that are not delivered yet. */
  readonly pending: number
}

/** The progress of a redelivery with the batches that the same transaction stores. */
export interface RedeliveryProgress extends Pick<OpenRedelivery, 'id' | 'afterSequence'> {
  readonly finished: boolean
}

export interface FoundBatches {
  readonly batches: ReadonlyArray<PendingBatch>
  /** When the next batch is due, ms since the epoch; `null`: unknown, or none. */
  readonly nextDueAt: number | null
  /** Of the last batch found; `null` if there are no further due batches. */
  readonly cursor: BatchCursor | null
}

export interface DueRequest {
  /** UUID of the subscription. */
  readonly subscriptionId: string
  /** Batches scheduled before this (ms since the epoch) are due at once. */
  readonly releasedAt: number | null
  /** The batch (UUID) that goes out before the rest of a released backlog. */
  readonly probe: string | null
  /**
   * The scan continues behind this batch. It then skips the index entries of delivered batches, of
   * which a long backlog leaves many. `null`: the scan starts at the beginning.
   */
  readonly cursor: BatchCursor | null
  /** Batches (UUIDs) to leave out. */
  readonly without: ReadonlySet<string>
  readonly limit: number
  readonly withBodies: boolean
}

export type ExpiredRequest = Pick<DueRequest, 'subscriptionId' | 'without' | 'limit'>

/** A delivery that a client or hub staff has requested, and that this process has taken. */
export interface DeliveryOnDemand {
  readonly kind:
    | {
        readonly name: 'test'
        /** `evt_…` */
        readonly event: string
      }
    | {
        readonly name: 'resend'
        /** The attempt (UUID) whose batch is sent again, and its number. */
        readonly of: string
        readonly attempt: number
      }
  /** UUID of the attempt that it becomes. */
  readonly id: string
  /** UUID of the subscription. */
  readonly subscriptionId: string
  readonly delivery: Delivery
  /** When this process took it, milliseconds since the epoch. */
  readonly startedAt: number
}

export type OnDemandResult = Pick<DeliveryResult, 'responseCode' | 'durationMs' | 'reason'>

export interface FanoutStoreShape {
  /** Takes a partition over and raises its epoch. `position`: next offset, -1 for none. */
  readonly acquire: (
    partition: number,
  ) => Effect.Effect<{ readonly epoch: number; readonly position: number }, StorageError>
  /** Accounts and modes that have subscriptions. */
  readonly sources: Effect.Effect<ReadonlyArray<EventSource>, StorageError>
  readonly subscriptionsOf: (
    sources: ReadonlyArray<EventSource>,
  ) => Effect.Effect<ReadonlyArray<SubscriptionRecord>, StorageError>
  /** One subscription (UUID), or `null` if it is deleted. */
  readonly subscription: (uuid: string) => Effect.Effect<SubscriptionRecord | null, StorageError>
  /** Events after a sequence and created up to a time (ms since the epoch), oldest first. */
  readonly journal: (
    source: EventSource,
    range: { readonly afterSequence: number; readonly createdUntil: number; readonly limit: number },
  ) => Effect.Effect<ReadonlyArray<JournalEvent>, StorageError>
  /**
   * Stores batches and moves the position, in one transaction. An event that the subscription
   * already has in a batch is left out. Returns the new batches with their bodies, in the given
   * order. The batches of a redelivery are separate from the others.
   */
  readonly storeBatches: (
    owner: Ownership,
    position: number,
    batches: ReadonlyArray<NewWebhookBatch>,
    redelivery?: RedeliveryProgress | null,
  ) => Effect.Effect<ReadonlyArray<StoredBatch>, StorageError | PartitionLost>
  /**
   * Due batches of an enabled subscription, at most `limit`: in the order of their due times or, of
   * a released backlog, in the order of their events, with the probe first.
   */
  readonly due: (request: DueRequest) => Effect.Effect<FoundBatches, StorageError>
  /** Batches of a disabled subscription whose retry window has ended. */
  readonly expired: (request: ExpiredRequest) => Effect.Effect<FoundBatches, StorageError>
  /** The body of a pending batch (UUID), or `null` if the batch is gone. */
  readonly body: (batch: string) => Effect.Effect<Uint8Array | null, StorageError>
  /**
   * Records outcomes in the order in which the attempts ended, in one transaction: delivery log,
   * next attempts and endpoint health. Repeating a call records nothing twice: an outcome counts
   * only for the attempt that it belongs to.
   */
  readonly record: (
    owner: Ownership,
    outcomes: ReadonlyArray<Outcome>,
  ) => Effect.Effect<RecordedOutcomes, StorageError | PartitionLost>
  /** Redeliveries with events that are not in batches yet, oldest first, at most 100. */
  readonly redeliveries: Effect.Effect<ReadonlyArray<OpenRedelivery>, StorageError>
  /**
   * Takes requested test deliveries and resends, in the turns of their accounts, without those that
   * cannot be signed or whose events are no longer stored.
   */
  readonly takeOnDemand: (limit: number) => Effect.Effect<ReadonlyArray<DeliveryOnDemand>, StorageError>
  /** Writes a delivery to the delivery log, unless its subscription was deleted meanwhile. */
  readonly recordOnDemand: (
    taken: DeliveryOnDemand,
    result: OnDemandResult,
  ) => Effect.Effect<void, StorageError>
  /** Releases a delivery that could not be made, so that it is taken again. */
  readonly releaseOnDemand: (taken: DeliveryOnDemand) => Effect.Effect<void, StorageError>
  /** Deletes some rows of deleted subscriptions. Returns how many; 0: none are left. */
  readonly purgeDeleted: Effect.Effect<number, StorageError>
  /** Batches that wait for their delivery, counted up to 100,000. */
  readonly waiting: Effect.Effect<number, StorageError>
  /** Enabled subscriptions whose client certificate has expired or expires before a moment, ms since the epoch. */
  readonly endingCertificates: (before: number) => Effect.Effect<number, StorageError>
  readonly answers: Effect.Effect<boolean>
}

export class FanoutStore extends Context.Service<FanoutStore, FanoutStoreShape>()(
  '@hub/webhook-fanout/FanoutStore',
) {}
