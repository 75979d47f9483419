/**
 * Why a command was refused. Each of these says that the caller holds a wrong picture of the message: nothing was
 * decided, and the same command on the same state fails again. What merely comes twice or too late is no
 * error: it decides nothing (`[]`).
 */
import { Data } from 'effect'
import type { MessageCommand } from './command.ts'

/** There is no such message in memory. For a report: look it up in the read model. */
export class MessageUnknown extends Data.TaggedError('MessageUnknown')<{
  readonly command: MessageCommand['type']
}> {}

/** Only facts of the log have been read so far; class and lifetime come with `MessageAccepted`. */
export class AcceptanceUnknown extends Data.TaggedError('AcceptanceUnknown')<{
  readonly messageId: string
}> {}

/** An answer or report about a hand-over that was never claimed. */
export class NotHandedOver extends Data.TaggedError('NotHandedOver')<{
  readonly messageId: string
  readonly command: MessageCommand['type']
}> {}

/** A claim on a message that has left the queue: it is with the operator already, or final. */
export class AlreadyHandedOver extends Data.TaggedError('AlreadyHandedOver')<{
  readonly messageId: string
}> {}

/**
 * The last claim has no answer, and the operator would not recognise a second hand-over as the same message. Once the
 * answer is known to be lost: `AssumeSent`.
 */
export class OutcomeUnknown extends Data.TaggedError('OutcomeUnknown')<{
  readonly messageId: string
}> {}

/** The lifetime has ended: `PassDeadline` while queued, `AssumeSent` after a claim without an answer. */
export class LifetimeExpired extends Data.TaggedError('LifetimeExpired')<{
  readonly messageId: string
  readonly expiresAt: number
}> {}

/** A refused hand-over waits until `retryAt` (milliseconds since the epoch). */
export class RetryNotDue extends Data.TaggedError('RetryNotDue')<{
  readonly messageId: string
  readonly retryAt: number
}> {}

export type MessageError =
  | MessageUnknown
  | AcceptanceUnknown
  | NotHandedOver
  | AlreadyHandedOver
  | OutcomeUnknown
  | LifetimeExpired
  | RetryNotDue
