/** The port to the records of inbound messages, which hub staff read. */
import type { StorageError } from '@hub/store'
import { Context, type Effect } from 'effect'

/** An inbound message without its content, and the content encrypted. */
export interface InboundRecord {
  /** The id of the record in Kafka, a UUID. */
  readonly id: string
  /** Recipient hash. */
  readonly recipient: string
  readonly operator: string
  readonly serviceAddress: string
  readonly receivedAt: number
  /** `null` for a message that is a year old. */
  readonly content: { readonly keyId: string; readonly sealed: Uint8Array } | null
}

export class InboundMessages extends Context.Service<
  InboundMessages,
  {
    /** Stores messages. A repetition is safe. The content of an erased recipient is not stored. */
    readonly store: (messages: ReadonlyArray<InboundRecord>) => Effect.Effect<void, StorageError>
  }
>()('@hub/dispatcher/InboundMessages') {}
