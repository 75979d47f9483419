/**
 * The port of the dispatcher to PostgreSQL. Adapters: `postgres-store.ts`, and
 * `testing/memory-store.ts` for simulated time. Their suite is `store.contract.ts`.
 */
import type { Mode, OptOutDecision, ReceivedWord } from '@hub/domain'
import type { StorageError } from '@hub/store'
import { Context, type Effect } from 'effect'
import type { ReadModelMessage } from '../shard/message.ts'

/** Was this message sent or finished before? The answer counts from these offsets on. */
interface SentOrFinalQuestion {
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

/** A stop or start word of a recipient. */
export interface RecipientWord extends ReceivedWord {
  readonly recipient: string
  /** The case-folded keyword, for the record of the opt-out. */
  readonly keyword: string
}

/** An inbound message without its content, and the content encrypted. Hub staff read it. */
export interface InboundRecord {
  /** The id of the record in Kafka, a UUID. */
  readonly id: string
  /** Recipient hash. */
  readonly recipient: string
  readonly operator: string
  readonly serviceAddress: string
  readonly receivedAt: number
  /** `null` for a message that is a year old. */
  readonly content: { readonly keyId: string; readonly ciphertext: Uint8Array } | null
}

export interface AccountWeight {
  readonly account: string
  readonly mode: Mode
  /** A whole number from 1 to 100. */
  readonly weight: number
}

export interface DispatcherStoreShape {
  /** For each question: the answer, or `null` while the projector has not reached the offsets. */
  readonly sentOrFinal: (
    questions: ReadonlyArray<SentOrFinalQuestion>,
  ) => Effect.Effect<ReadonlyArray<boolean | null>, StorageError>
  /** For each question: the message, or `notFound`, or `null` until the projector is far enough. */
  readonly reportedOn: (
    questions: ReadonlyArray<ReportedOnQuestion>,
  ) => Effect.Effect<ReadonlyArray<ReadModelMessage | 'notFound' | null>, StorageError>
  /** For each question: the recipient hash, or `null` if the hub has never had such a message. */
  readonly recipients: (
    questions: ReadonlyArray<ReportQuestion>,
  ) => Effect.Effect<ReadonlyArray<string | null>, StorageError>
  /** Stores messages. A repetition is safe. The content of an erased recipient is not stored. */
  readonly storeInbound: (messages: ReadonlyArray<InboundRecord>) => Effect.Effect<void, StorageError>
  /**
   * Applies words to the opt-outs in one transaction, in the given order, and returns what each one
   * changed. A repetition is safe, also by two processes at once.
   */
  readonly applyWords: (
    words: ReadonlyArray<RecipientWord>,
  ) => Effect.Effect<ReadonlyArray<OptOutDecision['change']>, StorageError>
  /** The accounts with a weight of their own. All others have `DEFAULT_SETTINGS.weight`. */
  readonly weights: Effect.Effect<ReadonlyArray<AccountWeight>, StorageError>
}

export class DispatcherStore extends Context.Service<DispatcherStore, DispatcherStoreShape>()(
  '@hub/dispatcher/DispatcherStore',
) {}
