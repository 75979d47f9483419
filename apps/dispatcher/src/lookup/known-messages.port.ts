/** The port to the read model, for messages that the dispatcher has forgotten or never had. */
import type { StorageError } from '@hub/store'
import { Context, type Effect } from 'effect'
import type { KnownMessage } from '../shard/message.ts'

/** Was this message handed over or finished before? The answer counts from these offsets on. */
interface HandedOverQuestion {
  readonly id: string
  readonly shard: number
  /** 0 for `otp`, 1 for `service`. */
  readonly lane: number
  /** The projector must have applied this lane record. */
  readonly laneOffset: number
  /** The projector must have applied all log records before this offset. */
  readonly logOffset: number
}

export interface ReportQuestion {
  readonly operator: string
  readonly operatorId: string
  readonly reference: string | null
  /** The recipient hash, or `null` if unknown. Messages to other recipients do not match. */
  readonly recipient: string | null
}

/** The same question, for an answer that counts from this log offset on. */
interface ReportedOnQuestion extends ReportQuestion {
  readonly shard: number
  /** The projector must have applied all log records before this offset. */
  readonly logOffset: number
}

export class KnownMessages extends Context.Service<
  KnownMessages,
  {
    /** For each question: the answer, or `null` while the projector has not reached the offsets. */
    readonly handedOver: (
      questions: ReadonlyArray<HandedOverQuestion>,
    ) => Effect.Effect<ReadonlyArray<boolean | null>, StorageError>
    /** For each question: the message, or `notFound`, or `null` until the projector is far enough. */
    readonly reportedOn: (
      questions: ReadonlyArray<ReportedOnQuestion>,
    ) => Effect.Effect<ReadonlyArray<KnownMessage | 'notFound' | null>, StorageError>
    /** For each question: the recipient hash, or `null` if the hub has never had such a message. */
    readonly recipients: (
      questions: ReadonlyArray<ReportQuestion>,
    ) => Effect.Effect<ReadonlyArray<string | null>, StorageError>
  }
>()('@hub/dispatcher/KnownMessages') {}
