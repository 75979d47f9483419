/** What became of sends, counted: the first thing that on-call looks at. */
import type { MessageClass } from '@hub/domain'
import { memoizeLabels } from '@hub/telemetry'
import { Context, Metric, Result } from 'effect'
import type { SendOutcome } from './pending-send.ts'

const outcomes = Metric.counter('hub_accept_sends_total', {
  description:
    'Sends that had a form, by class and outcome: accepted, duplicate, or the code of the error they were answered with.',
  incremental: true,
})

const bound = memoizeLabels()
const context = Context.empty()

const nameOf = (outcome: SendOutcome): string =>
  Result.isFailure(outcome) ? outcome.failure.code : outcome.success.duplicate ? 'duplicate' : 'accepted'

/** A send has its outcome. */
export const countOutcome = (messageClass: MessageClass, outcome: SendOutcome): void =>
  bound(outcomes, { class: messageClass, outcome: nameOf(outcome) }).updateUnsafe(1, context)

// A counter that begins with its first event shows no increase for it.
for (const messageClass of ['otp', 'service'] as const) {
  for (const outcome of ['accepted', 'duplicate', 'internal_error', 'provider_unavailable']) {
    bound(outcomes, { class: messageClass, outcome }).updateUnsafe(0, context)
  }
}
