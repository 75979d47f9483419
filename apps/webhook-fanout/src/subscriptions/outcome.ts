/** The outcome of a delivery attempt, or of a batch whose retry window has ended. */
import type { DeliveryOutcome, ExpiryReason } from '@hub/domain'
import type { FailureReason } from '@hub/webhooks'
import type { PendingBatch } from './pending-batch.ts'

/** What the rules of the domain need to know, and what the delivery log shows. */
export interface Outcome extends Pick<DeliveryOutcome, 'kind' | 'startedAt' | 'endedAt'> {
  /** UUID of the subscription. */
  readonly subscriptionId: string
  readonly batch: PendingBatch
  readonly responseCode: number | null
  readonly durationMs: number
  /** `null`: success. */
  readonly reason: FailureReason | ExpiryReason | null
}
