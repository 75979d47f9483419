/** A message that waits in the submitter, and the state of its parts. */
import type { Submission, SubmitOutcome } from '../port.ts'
import type { Session } from './session.ts'
import type { Segment } from './text.ts'

export type Part =
  | { readonly type: 'waiting' }
  | { readonly type: 'written' }
  | { readonly type: 'accepted'; readonly id: string }
  /** The answer was lost, so the SMSC may have the part. */
  | { readonly type: 'lost' }
  | { readonly type: 'rejected'; readonly outcome: SubmitOutcome }

export interface PendingMessage {
  readonly submission: Submission
  readonly segments: ReadonlyArray<Segment>
  readonly parts: Array<Part>
  readonly mayWrite: () => boolean
  readonly queuedAt: number
  readonly lifetimeEnd: number
  readonly onOutcome: (outcome: SubmitOutcome) => void
  readonly onThrottled: () => void
  /** The number of written parts without an answer. */
  unanswered: number
  /** How many submits of its parts were throttled. */
  throttledParts: number
  /** Set after a temporary refusal. The other parts must be answered before the next write. */
  retryInMs: number | null
  session: Session | null
  isFinished: boolean
}

export const hasWaitingParts = ({ parts }: PendingMessage): boolean =>
  parts.some(({ type }) => type === 'waiting')

/** Returns true if the SMSC has accepted a part, or may have accepted it. */
export const mayBeAccepted = ({ parts }: PendingMessage): boolean =>
  parts.some(({ type }) => type === 'accepted' || type === 'lost')

/** Returns true if a part has left the process. */
export const isStarted = (message: PendingMessage): boolean =>
  message.unanswered > 0 || mayBeAccepted(message)

export const replaceWaitingParts = (message: PendingMessage, replacement: Part): void => {
  for (const [i, { type }] of message.parts.entries()) {
    if (type === 'waiting') message.parts[i] = replacement
  }
}
