/** What the SMPP operator counts. Labels are bounded: roles, results and reasons only. */
import { memoizeLabel } from '@hub/telemetry'
import { type Context, Metric } from 'effect'
import type { Role, SessionEnd } from './session.ts'

const bindsUp = Metric.gauge('hub_smpp_binds_up', { description: 'Binds that stand, by role.' })
const sessionsEnded = Metric.counter('hub_smpp_sessions_ended_total', {
  description: 'Connections that ended, or were not made, by reason.',
  incremental: true,
})
const submits = Metric.counter('hub_smpp_submitted_parts_total', {
  description: 'Parts handed over, by what became of them.',
  incremental: true,
})
const windowUsed = Metric.gauge('hub_smpp_window_used_parts', {
  description: 'Parts that await the answer of the centre.',
})
const windowSize = Metric.gauge('hub_smpp_window_parts', {
  description: 'Parts that may await an answer at once, over the binds that stand.',
})
const waiting = Metric.gauge('hub_smpp_waiting_messages', {
  description: 'Messages in the adapter that wait for a bind, a pause or the window.',
})
const pause = Metric.gauge('hub_smpp_pause_seconds', {
  description: 'Length of the last pause that the centre asked for by throttling.',
})
const deliveries = Metric.counter('hub_smpp_deliveries_total', {
  description: 'What the centre delivered, by kind.',
  incremental: true,
})

/** What became of one submit_sm. */
export type SubmitResult = 'accepted' | 'throttled' | 'retry' | 'rejected' | 'lost'
/** What a deliver_sm was, and `not_taken` for what was given back because it was not written down. */
export type DeliveryKind = 'receipt' | 'intermediate' | 'inbound' | 'unreadable' | 'not_taken'

export interface SmppMetrics {
  readonly gauges: (now: {
    readonly binds: Readonly<Record<Role, number>>
    readonly windowUsed: number
    readonly window: number
    readonly waiting: number
    readonly pauseMs: number
  }) => void
  readonly submitted: (result: SubmitResult) => void
  readonly delivered: (kind: DeliveryKind, count?: number) => void
  readonly ended: (why: SessionEnd) => void
}

/** The metrics, bound to the context of the process: updating one is a function call. */
export const makeSmppMetrics = (context: Context.Context<never>): SmppMetrics => {
  const labelled = memoizeLabel()
  return {
    gauges: (now) => {
      for (const [role, count] of Object.entries(now.binds)) {
        labelled(bindsUp, 'role', role).updateUnsafe(count, context)
      }
      windowUsed.updateUnsafe(now.windowUsed, context)
      windowSize.updateUnsafe(now.window, context)
      waiting.updateUnsafe(now.waiting, context)
      pause.updateUnsafe(now.pauseMs / 1000, context)
    },
    submitted: (result) => labelled(submits, 'result', result).updateUnsafe(1, context),
    delivered: (kind, count = 1) => labelled(deliveries, 'kind', kind).updateUnsafe(count, context),
    ended: (why) => labelled(sessionsEnded, 'why', why).updateUnsafe(1, context),
  }
}
