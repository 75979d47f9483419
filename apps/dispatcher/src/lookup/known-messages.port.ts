/** The port to the read model: what the dispatcher has forgotten, or never had, and has to ask about. */
import type { StorageError } from '@hub/store'
import { Context, type Effect } from 'effect'
import type { KnownMessage } from '../shard/message.ts'

/** Was this message handed over or finished before? */
export interface HandedOverQuestion {
  /** `msg_…` */
  readonly id: string
  readonly shard: number
  /** 0 is `otp`, 1 is `service`. */
  readonly lane: number
  /** The projector must have applied this record of the lane … */
  readonly laneOffset: number
  /** … and everything of the log before this offset, or its answer does not count. */
  readonly logOffset: number
}

/** Whose report is this? */
export interface ReportQuestion {
  readonly operator: string
  readonly operatorId: string
  readonly reference: string | null
  /** Recipient hash, where it is known; then a message of somebody else is not meant. */
  readonly recipient: string | null
}

/** Whose report is this, among all that was in the log when it was read? */
export interface ReportedOnQuestion extends ReportQuestion {
  readonly shard: number
  /** The projector must have applied everything of the log before this offset, or its answer does not count. */
  readonly logOffset: number
}

export class KnownMessages extends Context.Service<
  KnownMessages,
  {
    /** For each question: `true` or `false`, or `null` while the projector has not come that far. */
    readonly handedOver: (
      questions: ReadonlyArray<HandedOverQuestion>,
    ) => Effect.Effect<ReadonlyArray<boolean | null>, StorageError>
    /** For each question: the message, or `nobody` when there is none, or `null` while the projector has not come that far. */
    readonly reportedOn: (
      questions: ReadonlyArray<ReportedOnQuestion>,
    ) => Effect.Effect<ReadonlyArray<KnownMessage | 'nobody' | null>, StorageError>
    /** For each question: the recipient hash, or `null` when the hub has never had such a message. */
    readonly recipients: (
      questions: ReadonlyArray<ReportQuestion>,
    ) => Effect.Effect<ReadonlyArray<string | null>, StorageError>
  }
>()('@hub/dispatcher/KnownMessages') {}
