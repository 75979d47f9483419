/**
 * The operator port: what the hub knows of whoever puts messages on air. Adapters lie beside it (`sandbox`, `http`);
 * `port.contract.ts` is the suite that each of them passes.
 */
import type { Encoding, RejectedReason, UndeliveredReason } from '@hub/domain'
import { Context, Data, type Effect } from 'effect'

/** A message to be handed over. It holds a number and a text: it is never logged, and dropped once it is answered. */
export interface Submission {
  /** Our message id, `msg_…`. */
  readonly reference: string
  /** Recipient hash, 64 hexadecimal digits. */
  readonly recipient: string
  /** E.164. */
  readonly to: string
  readonly text: string
  readonly sender: string
  readonly parts: number
  readonly encoding: Encoding
  /** What is left of the lifetime, whole seconds, at least 1. */
  readonly validitySeconds: number
  /** A code: it should find a free place where others have taken what there is. */
  readonly urgent?: boolean
}

/** What became of one submission. */
export type SubmitOutcome =
  /** Taken; one id for each part, in order. Reports follow. */
  | { readonly type: 'accepted'; readonly operatorIds: ReadonlyArray<string> }
  /** Not now: throttled, queue full, or the operator cannot be reached at all. It does not have the message. */
  | {
      readonly type: 'refused'
      readonly retryAfterMs: number
      /** It is about this message; others may go on. Otherwise the operator gets fewer at a time, down to one a second. */
      readonly affectsOnlyThis?: boolean
    }
  /** Never: it does not have the message and will not take it. */
  | { readonly type: 'rejected'; readonly reason: RejectedReason }
  /** The connection died between submission and answer: it may have the message or not. */
  | { readonly type: 'unknown' }
  /** `mayWrite` said no, and nothing was written. */
  | { readonly type: 'notWritten' }

/** A message that was handed over and may still be reported on. */
export interface OpenSubmission {
  readonly reference: string
  readonly recipient: string
  /** Ids whose reports are still awaited. */
  readonly operatorIds: ReadonlyArray<string>
  /** When it was handed over, milliseconds since the epoch. */
  readonly sentAt: number
}

export interface Capabilities {
  /** A reference that comes twice is recognised: the same answer, and nothing is sent twice. */
  readonly dedupesByReference: boolean
  /** Messages that may be under way to it at once, over all shards of a process. */
  readonly window: number
  /** Where the operator limits the rate. */
  readonly maxPartsPerSecond?: number
  /**
   * It answers for each message in its own time, seconds apart: they are submitted one by one, so that none waits for the
   * slowest to be answered. Otherwise what goes together costs one exchange.
   */
  readonly submitsIndividually?: boolean
}

/** One operator. */
export interface Operator {
  /** As it stands in facts, reports and metrics. */
  readonly name: string
  readonly capabilities: Capabilities
  /**
   * Hands messages over and answers for each of them, in the order given. It never fails: whatever goes wrong is an
   * outcome. Bounded by the adapter's own deadline. `mayWrite` is asked in the same tick in which the message
   * leaves the process; once it has said no, nothing of the batch is written.
   */
  readonly submit: (
    batch: ReadonlyArray<Submission>,
    mayWrite: () => boolean,
  ) => Effect.Effect<ReadonlyArray<SubmitOutcome>>
  /**
   * Messages that are still open after a restart. An operator whose reports do not survive one schedules them again;
   * others ignore it.
   */
  readonly resume: (open: ReadonlyArray<OpenSubmission>) => Effect.Effect<void>
}

/** What an operator says of a message or a part. */
export interface OperatorReport {
  readonly operator: string
  /** The operator's id of the message or part. */
  readonly operatorId: string
  /** Our message id, where the operator repeats it. */
  readonly reference: string | null
  /** Recipient hash, where the adapter knows it. */
  readonly recipient: string | null
  /**
   * The number that the report names, E.164, where it names one: the sink finds the shard by its hash, and the number goes no
   * further. A report with neither recipient, number nor reference is looked up in the read model, which is slower.
   */
  readonly to: string | null
  /** `seen` is a read receipt. */
  readonly outcome: 'delivered' | 'undelivered' | 'rejected' | 'expired' | 'seen'
  readonly reason: UndeliveredReason | RejectedReason | null
  /** When it happened according to the operator, milliseconds since the epoch. */
  readonly at: number
  /**
   * The operator's own words, as they came, for whoever has to look into it later; `null` where there are none. They may
   * hold a number or a text: the sink seals them before they leave the process, and nobody logs them.
   */
  readonly raw: Uint8Array | null
}

/** Somebody wrote to the hub. It holds a number and a text: the sink seals it, and nobody logs it. */
export interface InboundMessage {
  readonly operator: string
  /** The operator's id of this message; one that it tells twice has the same. */
  readonly operatorId: string
  /** The writer's number, E.164. */
  readonly from: string
  /** The hub's own short number or sender name that was written to. */
  readonly serviceAddress: string
  /** The whole text, with its parts put together. */
  readonly text: string
  /** When it was written according to the operator, milliseconds since the epoch. */
  readonly at: number
  /** As in `OperatorReport`. */
  readonly raw: Uint8Array | null
}

/** The reports or inbound messages were not written down; the operator has to tell them again. */
export class ReportsNotStored extends Data.TaggedError('ReportsNotStored')<{ readonly detail: string }> {}

/**
 * Where reports and inbound messages go. Once it has succeeded Kafka has acknowledged them in the log of reports, and
 * the operator may be told so.
 */
export class ReportSink extends Context.Service<
  ReportSink,
  {
    readonly store: (reports: ReadonlyArray<OperatorReport>) => Effect.Effect<void, ReportsNotStored>
    readonly storeInbound: (messages: ReadonlyArray<InboundMessage>) => Effect.Effect<void, ReportsNotStored>
  }
>()('@hub/operator/ReportSink') {}
