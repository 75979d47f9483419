/** The port to an SMS operator. The adapters are in `sandbox`, `http` and `smpp`. */
import type { Encoding, RejectedReason, UndeliveredReason } from '@hub/domain'
import { Context, Data, type Effect } from 'effect'

/** A message to submit. It contains personal data, so it must not be logged. */
export interface Submission {
  /** The message id, `msg_…`. */
  readonly reference: string
  /** Recipient hash, 64 hexadecimal digits. */
  readonly recipient: string
  /** E.164. */
  readonly to: string
  readonly text: string
  readonly sender: string
  readonly parts: number
  readonly encoding: Encoding
  /** The rest of the lifetime in whole seconds, at least 1. */
  readonly validitySeconds: number
  /** True for an `otp`: the adapter must not let it wait behind other messages. */
  readonly urgent?: boolean
  /** The least time between two parts, ms, because the operator limits the rate. Default 0. */
  readonly partGapMs?: number
}

export type SubmitOutcome = Outcome & {
  /**
   * How many submits of parts the operator throttled, perhaps before it accepted them. Absent: none.
   * It is the only sign that the rate is too high.
   */
  readonly throttledParts?: number
}

type Outcome =
  /** Accepted, with one id for each part in order, or one id for all parts. Reports follow. */
  | { readonly type: 'accepted'; readonly operatorIds: ReadonlyArray<string> }
  /** Refused for now, by the operator or by the adapter. The operator does not have the message. */
  | {
      readonly type: 'refused'
      readonly retryAfterMs: number
      /** False if no part of a request was written: a pause, no connection, or a full window. */
      readonly submitted: boolean
      /** The refusal is about this message only, so the rate stays unchanged. */
      readonly affectsOnlyThis?: boolean
    }
  /** Rejected permanently. The operator does not have the message. */
  | { readonly type: 'rejected'; readonly reason: RejectedReason }
  /** The answer was lost. The operator may have the message. */
  | { readonly type: 'unknown' }
  /** `mayWrite` returned false, so nothing was written. */
  | { readonly type: 'notWritten' }

/** A submitted message whose reports are outstanding. */
export interface OpenSubmission {
  readonly reference: string
  readonly recipient: string
  /** The ids without a report. */
  readonly operatorIds: ReadonlyArray<string>
  /** Time of the submit, milliseconds since the epoch. */
  readonly sentAt: number
}

export interface Capabilities {
  /** True if the operator answers a repeated reference in the same way and sends nothing twice. */
  readonly dedupesByReference: boolean
  /** The most messages in flight, over all shards of a process. */
  readonly window: number
  /**
   * True if the operator may throttle. All dispatchers together then learn its rate, and keep to it.
   */
  readonly isPaced?: boolean
  /** The configured rate limit of the whole hub, parts per second. Absent: none is known. */
  readonly maxPartsPerSecond?: number
  /**
   * True if outcomes of one batch can be seconds apart. The dispatcher then submits messages one by
   * one, so that none waits for the slowest. Otherwise a batch costs one request.
   */
  readonly submitsIndividually?: boolean
}

/** The binds of one process and role. */
export interface Binds {
  readonly role: 'transceiver' | 'transmitter' | 'receiver'
  readonly established: number
  /** As many as are configured. */
  readonly wanted: number
}

export interface Operator {
  /** The name in facts, reports and metrics. */
  readonly name: string
  readonly capabilities: Capabilities
  /**
   * Submits messages and returns an outcome for each, in the given order. It never fails, and ends
   * within the adapter's own deadline. The adapter calls `mayWrite` in the same tick in which it
   * writes a message. After the first `false` it writes nothing more of the batch. It calls
   * `onThrottled` for a throttled part of a message whose outcome may still take seconds.
   */
  readonly submit: (
    batch: ReadonlyArray<Submission>,
    mayWrite: () => boolean,
    onThrottled?: () => void,
  ) => Effect.Effect<ReadonlyArray<SubmitOutcome>>
  /**
   * Called with the open messages after a restart, for adapters whose reports do not survive it.
   */
  readonly resume: (open: ReadonlyArray<OpenSubmission>) => Effect.Effect<void>
  /**
   * Whether the operator refuses the settings, such as the password, and has never accepted them. Absent: the
   * adapter learns it only from the answers to messages.
   */
  readonly refusesSettings?: () => boolean
  /** The binds now. Absent: the operator has none. */
  readonly binds?: () => ReadonlyArray<Binds>
}

/**
 * The retry time of a throttled message, ms. The caller doubles it with each attempt. It is shorter
 * than the second in which operators count.
 */
export const THROTTLED_RETRY_MS = 250

/** Returns a `mayWrite` for all writes of one batch: after the first `false` it asks no more. */
export const stopAtFirstRefusal = (mayWrite: () => boolean): (() => boolean) => {
  let isStopped = false
  return () => {
    isStopped ||= !mayWrite()
    return !isStopped
  }
}

/** A delivery report of an operator on a message or a part. */
export interface OperatorReport {
  readonly operator: string
  readonly operatorId: string
  /** The message id, if the operator returns it. */
  readonly reference: string | null
  /** Recipient hash, if the adapter knows it. */
  readonly recipient: string | null
  /**
   * The recipient's number in E.164, if the report contains it. The sink hashes it and drops it. A
   * report without recipient, number and reference needs a slower lookup.
   */
  readonly to: string | null
  /** `seen` is a read receipt. */
  readonly outcome: 'delivered' | 'undelivered' | 'rejected' | 'expired' | 'seen'
  readonly reason: UndeliveredReason | RejectedReason | null
  /** The time according to the operator, milliseconds since the epoch. */
  readonly at: number
  /** The raw report, or `null`. It may contain a number or a text: encrypt it, and never log it. */
  readonly raw: Uint8Array | null
}

/** An inbound message. It contains personal data, so it must not be logged. */
export interface InboundMessage {
  readonly operator: string
  /** The operator's id of this message. A repetition has the same id. */
  readonly operatorId: string
  /** The number of the sender, E.164. */
  readonly from: string
  /** The short number or sender name of the hub that received the message. */
  readonly serviceAddress: string
  readonly text: string
  /** The time according to the operator, milliseconds since the epoch. */
  readonly at: number
  /** As in `OperatorReport`. */
  readonly raw: Uint8Array | null
}

/** An operator's answer to a submit. It may contain personal data: encrypt it, and never log it. */
export interface OperatorAnswer {
  readonly operator: string
  /** The message id, `msg_…` */
  readonly reference: string
  /** Recipient hash, 64 hexadecimal digits. */
  readonly recipient: string
  readonly raw: Uint8Array
}

/** A report or an inbound message that cannot be understood. It may contain personal data, like an answer. */
export interface UnreadableDelivery {
  readonly operator: string
  readonly reference: null
  /** The number of the person, E.164. The sink hashes it and drops it. */
  readonly to: string
  readonly raw: Uint8Array
}

/** The reports or inbound messages were not stored. The operator must repeat them. */
export class ReportsNotStored extends Data.TaggedError('ReportsNotStored')<{ readonly detail: string }> {
  override readonly message = this.detail
}

/**
 * The destination of reports and inbound messages. After success, Kafka has acknowledged them, and
 * the adapter may acknowledge them to the operator.
 */
export class ReportSink extends Context.Service<
  ReportSink,
  {
    readonly store: (reports: ReadonlyArray<OperatorReport>) => Effect.Effect<void, ReportsNotStored>
    readonly storeInbound: (messages: ReadonlyArray<InboundMessage>) => Effect.Effect<void, ReportsNotStored>
    /**
     * Keeps raw answers, and what cannot be understood, for hub staff. It returns at once and
     * never fails.
     */
    readonly keepAnswers: (answers: ReadonlyArray<OperatorAnswer | UnreadableDelivery>) => void
  }
>()('@hub/operator/ReportSink') {}
