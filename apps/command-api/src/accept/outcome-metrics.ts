/** Counts the outcomes of sends. On-call looks at this metric first. */
import type { MessageClass } from '@hub/domain'
import { Result } from 'effect'
import { acceptedSends } from '../metrics.ts'
import type { SendOutcome } from './send.ts'

const nameOf = (outcome: SendOutcome): string =>
  Result.isFailure(outcome) ? outcome.failure.code : outcome.success.duplicate ? 'duplicate' : 'accepted'

export const countOutcome = (messageClass: MessageClass, outcome: SendOutcome): void =>
  acceptedSends.add({ class: messageClass, outcome: nameOf(outcome) })
