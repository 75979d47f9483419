/** Counts the outcomes of sends. On-call looks at this metric first. */
import type { MessageClass } from '@hub/domain'
import { memoizeLabels } from '@hub/telemetry'
import { Context, Result } from 'effect'
import { acceptedSends } from '../metrics.ts'
import type { SendOutcome } from './pending-send.ts'

const bound = memoizeLabels()
const context = Context.empty()

const nameOf = (outcome: SendOutcome): string =>
  Result.isFailure(outcome) ? outcome.failure.code : outcome.success.duplicate ? 'duplicate' : 'accepted'

export const countOutcome = (messageClass: MessageClass, outcome: SendOutcome): void =>
  bound(acceptedSends, { class: messageClass, outcome: nameOf(outcome) }).updateUnsafe(1, context)

// Without a sample of 0, a query for the increase of a counter misses its first event.
for (const messageClass of ['otp', 'service'] as const) {
  for (const outcome of ['accepted', 'duplicate', 'internal_error', 'provider_unavailable']) {
    bound(acceptedSends, { class: messageClass, outcome }).updateUnsafe(0, context)
  }
}
