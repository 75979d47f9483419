/** A webhook subscription in memory: its stored record, and its next batches. */
import {
  type DisabledPeriods,
  type EarlierSecret,
  type EndpointHealth,
  type EventType,
  type HealthAction,
  type Mode,
  signingSecrets,
  type SubscriptionStatus,
} from '@hub/domain'
import type { Delivery } from '@hub/webhooks'
import type { Redacted } from 'effect'
import type { BatchCursor, PendingBatch } from './pending-batch.ts'

/** The decrypted secrets of a subscription. */
export interface Credentials {
  readonly secret: Redacted.Redacted<string>
  /** Replaced secrets that sign as well until the end of their transition, the newest one first. */
  readonly earlierSecrets: ReadonlyArray<EarlierSecret<Redacted.Redacted<string>>>
  readonly headers: NonNullable<Delivery['headers']> | null
  readonly clientCertificate: NonNullable<Delivery['clientCertificate']> | null
}

/** The stored subscription, with decrypted secrets. */
export interface SubscriptionRecord {
  readonly uuid: string
  /** `we_…` */
  readonly id: string
  /** `acc_…` */
  readonly account: string
  readonly mode: Mode
  readonly url: string
  /** Empty: all types. */
  readonly eventTypes: ReadonlySet<string>
  readonly status: SubscriptionStatus
  /** `null`: those of a request cannot all be decrypted, so no attempt can be made. */
  readonly credentials: Credentials | null
  readonly consecutiveFailures: number
  /** Batches scheduled before this are due at once, milliseconds since the epoch. */
  readonly backlogReleasedAt: number | null
  /** The batch (UUID) whose failure disabled it last: the probe of a released backlog. */
  readonly disabledByBatch: string | null
  /** When it was disabled: they decide why a batch expired. */
  readonly disabledPeriods: DisabledPeriods
  /** It receives events with a higher journal sequence. */
  readonly afterSequence: number
  /** When its next batch is due or, while it is disabled, expires; `null`: no batch is pending. */
  readonly nextDueAt: number | null
}

/** Endpoint health after outcomes were recorded, and the last action that they caused. */
export interface RecordedHealth extends Omit<EndpointHealth, 'firstFailureAt'> {
  /** When it was disabled, milliseconds since the epoch; `null` while it is enabled. */
  readonly disabledAt: number | null
  readonly action: HealthAction
}

/** What an attempt uses of the credentials: `secrets` has the valid ones, the current one first. */
export const credentialsAt = (
  { clientCertificate, earlierSecrets, headers, secret }: Credentials,
  now: number,
): Pick<Delivery, 'secrets' | 'headers' | 'clientCertificate'> => ({
  // Nearly always there is only one, and this runs for each attempt.
  secrets:
    earlierSecrets.length === 0
      ? [secret]
      : signingSecrets({ current: secret, earlier: earlierSecrets }, now),
  headers,
  clientCertificate,
})

/**
 * A scan of due batches that continues behind a cursor.
 *
 * `held` contains the batches (UUIDs) that were in memory when the scan began, and the probe: they
 * may lie behind the cursor. Batches that came into memory since were found by the scan and lie
 * before the cursor.
 */
export interface Scan {
  readonly cursor: BatchCursor
  readonly held: Set<string>
}

interface EventToMatch {
  readonly sequence: number
  readonly eventType: string
  readonly body: string
}

/** Events about one subscription, for the other subscriptions of the account. */
const ABOUT_SUBSCRIPTIONS: ReadonlySet<string> = new Set<EventType>([
  'webhook.endpoint_disabled',
  'webhook.endpoint_enabled',
])

/**
 * The actor of one subscription. Its partition and the deliverer call its transitions synchronously;
 * nothing else changes it.
 */
export class Subscription {
  #record: SubscriptionRecord
  readonly partition: number
  /** The batches that are attempted next, in order. */
  readonly #ready: Array<PendingBatch> = []
  /** Attempted and not recorded, in no order. Not a `Map`: docs/decisions/webhook-throughput.md#memory. */
  readonly #inFlight: Array<PendingBatch> = []
  #failing: boolean
  /** The batch (UUID) before the rest of a released backlog; `null` after its read. */
  #probe: string | null
  /** There may be due batches that are not in memory. */
  #hasUnreadDue = false
  /** Where the next read of due batches continues; `null`: at the beginning. */
  #scan: Scan | null = null
  /** A read of due batches is in progress. */
  #reading = false
  /** When the last read of due batches ended; milliseconds since the epoch. */
  #readEndedAt = Number.NEGATIVE_INFINITY
  /** When to read due batches again. */
  #wakeAt = Number.POSITIVE_INFINITY
  /** It was deleted, or another process owns its partition. */
  #closed = false

  constructor(record: SubscriptionRecord, partition: number) {
    this.#record = record
    this.partition = partition
    this.#failing = record.consecutiveFailures > 0
    this.#probe = record.disabledByBatch
  }

  // ---- its record and its health

  /** Its stored record was changed by others. */
  replaceRecord(record: SubscriptionRecord): void {
    this.#record = record
    this.#failing = record.consecutiveFailures > 0
    this.#probe = record.disabledByBatch
  }

  /** Returns whether the ready batches were read under other conditions, and must be read again. */
  applyHealth(health: RecordedHealth): boolean {
    const { action, backlogReleasedAt, consecutiveFailures, disabledAt, status } = health
    const record = this.#record
    const beginsToFail = consecutiveFailures > 0 && !this.#failing
    this.#failing = consecutiveFailures > 0
    // Rarely true. The check avoids a new object for each delivery.
    if (
      record.status !== status ||
      record.consecutiveFailures !== consecutiveFailures ||
      record.backlogReleasedAt !== backlogReleasedAt
    ) {
      const disabledPeriods = { ...record.disabledPeriods, disabledAt }
      this.#record = { ...record, status, consecutiveFailures, backlogReleasedAt, disabledPeriods }
    }
    return action === 'releaseBacklog' || beginsToFail || !this.enabled
  }

  /** Returns the batches of which an attempt is in flight or not recorded. */
  close(): ReadonlyArray<PendingBatch> {
    this.#closed = true
    return this.#inFlight.slice()
  }

  // ---- its batches: ready → in flight → settled

  enqueue(batch: PendingBatch): void {
    this.#ready.push(batch)
  }

  /** Removes all ready batches, and returns them. */
  dropReady(): ReadonlyArray<PendingBatch> {
    return this.#ready.splice(0)
  }

  /** Begins the attempt of the first ready batch. */
  beginNext(): PendingBatch | undefined {
    const batch = this.#ready.shift()
    if (batch !== undefined) this.#inFlight.push(batch)
    return batch
  }

  /** The retry window of a batch that is not in memory has ended. */
  beginExpiry(batch: PendingBatch): void {
    this.#inFlight.push(batch)
  }

  /** The outcome of a batch is recorded, or it has none. */
  settle(batch: PendingBatch): void {
    const index = this.#inFlight.indexOf(batch)
    const last = this.#inFlight.at(-1)
    if (index < 0 || last === undefined) return
    this.#inFlight[index] = last
    this.#inFlight.pop()
  }

  // ---- its due batches

  /** Returns whether it must be woken earlier than before. */
  wakeBy(at: number): boolean {
    if (this.#closed || at >= this.#wakeAt) return false
    this.#wakeAt = at
    return true
  }

  /** The time of `wakeBy` has come. */
  wake(): void {
    this.#wakeAt = Number.POSITIVE_INFINITY
    this.rescan()
  }

  /** Something may be due before the cursor: the next scan starts at the beginning. */
  rescan(): void {
    this.#hasUnreadDue = true
    this.#scan = null
  }

  /** Begins a read if there may be due batches and the queue is at most half full. Returns whether it did. */
  beginRead(readyQueueLength: number): boolean {
    if (!this.#hasUnreadDue || this.#reading || this.#closed || this.#ready.length > readyQueueLength / 2) {
      return false
    }
    this.#reading = true
    this.#hasUnreadDue = false
    return true
  }

  /** Takes the scan that a read continues, or begins one. */
  takeScan(): { readonly cursor: BatchCursor | null; readonly held: Set<string> } {
    const scan = this.#scan
    this.#scan = null
    return scan ?? { cursor: null, held: this.#heldBatches() }
  }

  /** A read went from one cursor to another. `isFull`: it found as many batches as it asked for. */
  scanned(read: {
    readonly held: Set<string>
    readonly from: BatchCursor | null
    readonly to: BatchCursor | null
    readonly isFull: boolean
    readonly ofBacklog: boolean
  }): void {
    const { from, held, isFull, ofBacklog, to } = read
    if (ofBacklog && this.#probe !== null) {
      // The probe went before the others and lies anywhere among them.
      held.add(this.#probe)
      this.#probe = null
    }
    // Other batches may have become due before the start of this scan, or behind its limit.
    const startsAgain = to === null && (from !== null || isFull)
    // If batches became due during the read, the next scan begins at the start instead.
    const continues = to !== null && !this.#hasUnreadDue
    if (!startsAgain && !continues) return
    this.#hasUnreadDue = true
    this.#scan = to === null ? null : { cursor: to, held }
  }

  endRead(now: number): void {
    this.#reading = false
    this.#readEndedAt = now
  }

  /** The batches in memory (UUIDs). A read of due batches leaves them out. */
  #heldBatches(): Set<string> {
    const held = new Set<string>()
    for (const { uuid } of this.#inFlight) held.add(uuid)
    for (const { uuid } of this.#ready) held.add(uuid)
    return held
  }

  // ---- queries

  get record(): SubscriptionRecord {
    return this.#record
  }

  get account(): string {
    return this.#record.account
  }

  get enabled(): boolean {
    return this.#record.status === 'enabled'
  }

  get failing(): boolean {
    return this.#failing
  }

  get closed(): boolean {
    return this.#closed
  }

  get probe(): string | null {
    return this.#probe
  }

  get readyCount(): number {
    return this.#ready.length
  }

  get hasWork(): boolean {
    return this.#ready.length > 0 && this.enabled && !this.#closed
  }

  /**
   * Whether a batch that is being stored since that time must be found by a read: there are due batches before
   * it, or a read has found it already, and what is stored may have changed since.
   */
  mustRead(storingSince: number): boolean {
    return this.#hasUnreadDue || this.#reading || this.#readEndedAt >= storingSince
  }

  /** Whether the event is for it, by event type and position in the event journal. */
  wants(event: EventToMatch): boolean {
    return event.sequence > this.#record.afterSequence && this.wantsType(event)
  }

  /** The same by event type only. */
  wantsType(event: EventToMatch): boolean {
    const { eventTypes } = this.#record
    return (
      (eventTypes.size === 0 || eventTypes.has(event.eventType)) &&
      !(ABOUT_SUBSCRIPTIONS.has(event.eventType) && this.#isAboutItself(event.body))
    )
  }

  /** Its own disabling and enabling are events for the others. Source: DEL-20, DEL-27. */
  #isAboutItself(body: string): boolean {
    const { data } = JSON.parse(body) as { readonly data: { readonly object: { readonly id?: unknown } } }
    return data.object.id === this.#record.id
  }
}
