/**
 * The reasons why `decide` refuses a command. Each error means that the command does not fit the
 * state of the message. A repetition with the same state fails again. A repeated or late command is
 * not an error: it gives no facts.
 */
import { Data } from 'effect'
import type { MessageCommand } from './command.ts'

/** The message is not in memory. The caller can look up a reported message in the read model. */
export class MessageUnknown extends Data.TaggedError('MessageUnknown')<{
  readonly command: MessageCommand['type']
}> {}

/** `MessageAccepted` has not been read yet, so class and lifetime are unknown. */
export class AcceptanceUnknown extends Data.TaggedError('AcceptanceUnknown')<{
  readonly messageId: string
}> {}

/** The command is an answer or a report, but the message has no handover claim. */
export class NotClaimed extends Data.TaggedError('NotClaimed')<{
  readonly messageId: string
  readonly command: MessageCommand['type']
}> {}

/** The message cannot be claimed, because it was already submitted or is final. */
export class AlreadySubmitted extends Data.TaggedError('AlreadySubmitted')<{
  readonly messageId: string
}> {}

/**
 * The last claim has no answer, and the operator would not recognize a second submit as a
 * duplicate. When the caller knows that the answer is lost, it uses `AssumeSent`.
 */
export class OutcomeUnknown extends Data.TaggedError('OutcomeUnknown')<{
  readonly messageId: string
}> {}

/** The lifetime has ended. Next: `PassDeadline`, or `AssumeSent` after a claim. */
export class LifetimeExpired extends Data.TaggedError('LifetimeExpired')<{
  readonly messageId: string
  readonly expiresAt: number
}> {}

/** The next submit is due at `retryAt` (milliseconds since the epoch). */
export class RetryNotDue extends Data.TaggedError('RetryNotDue')<{
  readonly messageId: string
  readonly retryAt: number
}> {}

export type MessageError =
  | MessageUnknown
  | AcceptanceUnknown
  | NotClaimed
  | AlreadySubmitted
  | OutcomeUnknown
  | LifetimeExpired
  | RetryNotDue
