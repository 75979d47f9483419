/** Counts the outcomes of sends. On-call looks at this metric first. */
import type { UnavailableReason } from '@hub/counters'
import type { MessageClass } from '@hub/domain'
import { Result } from 'effect'
import { acceptedSends, uncheckedSends } from '../metrics.ts'
import type { SendOutcome } from './pending-send.ts'

const nameOf = (outcome: SendOutcome): string =>
  Result.isFailure(outcome) ? outcome.failure.code : outcome.success.duplicate ? 'duplicate' : 'accepted'

export const countOutcome = (messageClass: MessageClass, outcome: SendOutcome): void =>
  acceptedSends.add({ class: messageClass, outcome: nameOf(outcome) })

/** `reason`: why Redis gave no verdict. */
export const countUnchecked = (messageClass: MessageClass, reason: UnavailableReason): void =>
  uncheckedSends.add({ class: messageClass, reason })
