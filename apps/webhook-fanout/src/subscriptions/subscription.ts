/** A subscription as the fan-out knows it: a plain object of the partition that owns it. */
import type { Mode, SubscriptionStatus } from '@hub/domain'
import type { Redacted } from 'effect'
import type { Place } from '../store/due-batches.ts'
import type { SlotHolder } from '../delivery/attempt-slots.ts'

/** What is stored of it, decrypted. */
export interface SubscriptionRecord {
  /** UUID. */
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
  /** `null` when the box does not open: nothing can be signed. */
  readonly secret: Redacted.Redacted<string> | null
  readonly previousSecret: Redacted.Redacted<string> | null
  /** Until when the previous secret signs as well, milliseconds since the epoch. */
  readonly rotationEndsAt: number | null
  readonly consecutiveFailures: number
  /** Batches scheduled before this are due at once. */
  readonly backlogReleasedAt: number | null
  /** The batch (UUID) on which it was disabled last: the first of a backlog that is released by hand. */
  readonly disabledByBatch: string | null
  /** It receives events whose place in the journal is behind this one. */
  readonly afterSequence: number
  /** When the next of its batches is due (or, while it is disabled, expires); `null`: nothing is pending. */
  readonly nextDueAt: number | null
}

/** A batch that is to be attempted. */
export interface PendingBatch {
  readonly uuid: string
  /** `evb_…` */
  readonly id: string
  /** Attempts so far. */
  readonly attempts: number
  readonly queuedAt: number
  /** When its own schedule has it tried, milliseconds since the epoch. */
  readonly nextAttemptAt: number
  /** UUID of the redelivery that it is part of; its attempts do not count for the subscription. */
  readonly redelivery: string | null
  /** Of a batch that was just stored: the traces of its events, where some are traced. */
  readonly traceparents?: ReadonlyArray<string>
  /** `null`: still in PostgreSQL only. */
  body: Uint8Array | null
  /** While it is attempted, and until the outcome is noted or recorded. */
  begun: Begun | null
}

/** An attempt under way, or one whose outcome is neither noted nor recorded yet. */
export interface Begun {
  /** Breaks it off. */
  giveUp: () => void
  /** Its outcome is known. */
  ended: boolean
}

/** Reading that has begun at the start, and goes on behind a place. */
export interface ReadOn {
  readonly behind: Place
  /** What was held at its beginning, and the lead: UUIDs, of which some may lie behind the place. Whatever is held since was read, and lies before it. */
  readonly held: Set<string>
}

interface JournalEvent {
  readonly sequence: number
  readonly eventType: string
  readonly body: string
}

/** The actor of one subscription. Changed by its partition and the deliverer only, always synchronously. */
export class Subscription implements SlotHolder {
  record: SubscriptionRecord
  readonly partition: number
  /** In the order in which they are attempted. */
  readonly linedUp: Array<PendingBatch> = []
  /** Attempted, or about to be noted or recorded, some dozens, in no order. No `Map`: docs/decisions/0027. */
  readonly inFlight: Array<PendingBatch> = []
  failing: boolean
  /** The batch (UUID) that is to go out before the rest of a released backlog; `null` once it was looked for. */
  lead: string | null
  /** There may be batches due that are not lined up. */
  moreDue = false
  /** Where reading them goes on, when nothing has changed before it since. */
  readOn: ReadOn | null = null
  /** A read of due batches is under way. */
  reading = false
  /** When to look for due batches again. */
  wakeAt = Number.POSITIVE_INFINITY
  /** Gone: deleted, or its partition is another process's. */
  closed = false

  constructor(record: SubscriptionRecord, partition: number) {
    this.record = record
    this.partition = partition
    this.failing = record.consecutiveFailures > 0
    this.lead = record.disabledByBatch
  }

  /** Batches that are stored and must not be attempted: they are lined up, under way, or noted. UUIDs. */
  held(): Set<string> {
    const held = new Set<string>()
    for (const { uuid } of this.inFlight) held.add(uuid)
    for (const { uuid } of this.linedUp) held.add(uuid)
    return held
  }

  get enabled(): boolean {
    return this.record.status === 'enabled'
  }

  get hasWork(): boolean {
    return this.linedUp.length > 0 && this.enabled && !this.closed
  }

  /** It is in flight no more. */
  landed(batch: PendingBatch): void {
    const place = this.inFlight.indexOf(batch)
    const last = this.inFlight.at(-1)
    if (place < 0 || last === undefined) return
    this.inFlight[place] = last
    this.inFlight.pop()
  }

  wants(event: JournalEvent): boolean {
    return event.sequence > this.record.afterSequence && this.asksFor(event)
  }

  /** Whether it would get the event wherever that stands in the journal. */
  asksFor(event: JournalEvent): boolean {
    const { eventTypes } = this.record
    return (
      (eventTypes.size === 0 || eventTypes.has(event.eventType)) &&
      !(event.eventType === 'webhook.endpoint_disabled' && this.#isAboutItself(event.body))
    )
  }

  /** That it was disabled is told to the others. Source: specification, Event types. */
  #isAboutItself(body: string): boolean {
    const { data } = JSON.parse(body) as { readonly data: { readonly object: { readonly id?: unknown } } }
    return data.object.id === this.record.id
  }
}
