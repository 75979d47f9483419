/** The result of one delivery attempt, or of a batch whose retry window has closed. */
import type { FailureReason } from '@hub/webhooks'
import type { PendingBatch } from './pending-batch.ts'

/** Reasons in the delivery log without an attempt. Source: contract, Webhook subscription. */
type ExpiryReason = 'retry_window_expired' | 'retry_window_expired_while_disabled'

export interface Outcome {
  /** UUID of the subscription. */
  readonly endpoint: string
  readonly batch: PendingBatch
  /** `expiry`: there was no attempt, because the retry window had closed. */
  readonly kind: 'attempt' | 'expiry'
  readonly responseCode: number | null
  readonly durationMs: number
  /** `null`: success. */
  readonly reason: FailureReason | ExpiryReason | null
  /** Milliseconds since the epoch. */
  readonly startedAt: number
  readonly endedAt: number
}
