/** A webhook subscription in memory: its stored record, and its next batches. */
import {
  type DisabledPeriods,
  type EarlierSecret,
  type Mode,
  signingSecrets,
  type SubscriptionStatus,
} from '@hub/domain'
import type { Delivery } from '@hub/webhooks'
import type { Redacted } from 'effect'
import type { BatchCursor, PendingBatch } from './pending-batch.ts'

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
  /** `null`: it cannot be decrypted, so no attempt can be signed. */
  readonly secret: Redacted.Redacted<string> | null
  /** Replaced secrets that sign as well until the end of their transition, the newest one first. */
  readonly earlierSecrets: ReadonlyArray<EarlierSecret<Redacted.Redacted<string>>>
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

/** The valid secrets, the current one first; `null`: it cannot be decrypted. */
export const secretsAt = (
  { earlierSecrets, secret }: Pick<SubscriptionRecord, 'secret' | 'earlierSecrets'>,
  now: number,
): Delivery['secrets'] | null => {
  if (secret === null) return null
  // Nearly always there is only one, and this runs for each attempt.
  return earlierSecrets.length === 0
    ? [secret]
    : signingSecrets({ current: secret, earlier: earlierSecrets }, now)
}

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

/** The actor of one subscription. Its partition and the deliverer change it synchronously. */
export class Subscription {
  record: SubscriptionRecord
  readonly partition: number
  /** The batches that are attempted next, in order. */
  readonly readyQueue: Array<PendingBatch> = []
  /** Attempted and not recorded, in no order. Not a `Map`: docs/decisions/webhook-throughput.md#memory. */
  readonly inFlight: Array<PendingBatch> = []
  failing: boolean
  /** The batch (UUID) before the rest of a released backlog; `null` after its read. */
  probe: string | null
  /** There may be due batches that are not in memory. */
  hasUnreadDue = false
  /** Where the next read of due batches continues; `null`: at the beginning. */
  scan: Scan | null = null
  /** A read of due batches is in progress. */
  reading = false
  /** When to read due batches again. */
  wakeAt = Number.POSITIVE_INFINITY
  /** It was deleted, or another process owns its partition. */
  closed = false

  constructor(record: SubscriptionRecord, partition: number) {
    this.record = record
    this.partition = partition
    this.failing = record.consecutiveFailures > 0
    this.probe = record.disabledByBatch
  }

  /** The batches in memory (UUIDs). A read of due batches leaves them out. */
  heldBatches(): Set<string> {
    const held = new Set<string>()
    for (const { uuid } of this.inFlight) held.add(uuid)
    for (const { uuid } of this.readyQueue) held.add(uuid)
    return held
  }

  get account(): string {
    return this.record.account
  }

  get enabled(): boolean {
    return this.record.status === 'enabled'
  }

  get hasWork(): boolean {
    return this.readyQueue.length > 0 && this.enabled && !this.closed
  }

  removeInFlight(batch: PendingBatch): void {
    const index = this.inFlight.indexOf(batch)
    const last = this.inFlight.at(-1)
    if (index < 0 || last === undefined) return
    this.inFlight[index] = last
    this.inFlight.pop()
  }

  /** Whether the event is for it, by event type and position in the event journal. */
  wants(event: EventToMatch): boolean {
    return event.sequence > this.record.afterSequence && this.wantsType(event)
  }

  /** The same by event type only. */
  wantsType(event: EventToMatch): boolean {
    const { eventTypes } = this.record
    return (
      (eventTypes.size === 0 || eventTypes.has(event.eventType)) &&
      !(event.eventType === 'webhook.endpoint_disabled' && this.#isAboutItself(event.body))
    )
  }

  /** Its own disabling is an event for the others. Source: DEL-20. */
  #isAboutItself(body: string): boolean {
    const { data } = JSON.parse(body) as { readonly data: { readonly object: { readonly id?: unknown } } }
    return data.object.id === this.record.id
  }
}
