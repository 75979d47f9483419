/** The metrics of the SMPP operator. Labels have few values: roles, results and reasons. */
import { memoizeLabel } from '@hub/telemetry'
import { type Context, Metric } from 'effect'
import type { Role, SessionEnd } from './session.ts'

const bindsUp = Metric.gauge('hub_smpp_binds_up', { description: 'Established binds, by role.' })
const sessionsEnded = Metric.counter('hub_smpp_sessions_ended_total', {
  description: 'Sessions that ended or could not be bound, by reason.',
  incremental: true,
})
const submits = Metric.counter('hub_smpp_submitted_parts_total', {
  description: 'Submitted parts, by result.',
  incremental: true,
})
const windowUsed = Metric.gauge('hub_smpp_window_used_parts', {
  description: 'Parts in flight: submitted to the SMSC and not answered.',
})
const windowSize = Metric.gauge('hub_smpp_window_parts', {
  description: 'The most parts that can be in flight, over all established binds.',
})
const waiting = Metric.gauge('hub_smpp_waiting_messages', {
  description: 'Messages in the adapter that wait for a bind, the end of a pause, or the window.',
})
const pause = Metric.gauge('hub_smpp_pause_seconds', {
  description: 'Length of the last pause after a throttled answer.',
})
const deliveries = Metric.counter('hub_smpp_deliveries_total', {
  description: 'Deliveries of the SMSC, by kind.',
  incremental: true,
})

/** The result of one `submit_sm`. */
type SubmitResult = 'accepted' | 'throttled' | 'retry' | 'rejected' | 'lost'
/** The kind of a delivery. `not_taken`: it could not be stored and got a temporary error. */
type DeliveryKind = 'receipt' | 'intermediate' | 'inbound' | 'unreadable' | 'not_taken'

export type SmppMetrics = ReturnType<typeof makeSmppMetrics>

/** Binds the metrics to the context of the process, so that an update is a plain function call. */
export const makeSmppMetrics = (context: Context.Context<never>) => {
  const labelled = memoizeLabel()
  return {
    gauges: (now: {
      readonly binds: Readonly<Record<Role, number>>
      readonly windowUsed: number
      readonly window: number
      readonly waiting: number
      readonly pauseMs: number
    }) => {
      for (const [role, count] of Object.entries(now.binds)) {
        labelled(bindsUp, 'role', role).updateUnsafe(count, context)
      }
      windowUsed.updateUnsafe(now.windowUsed, context)
      windowSize.updateUnsafe(now.window, context)
      waiting.updateUnsafe(now.waiting, context)
      pause.updateUnsafe(now.pauseMs / 1000, context)
    },
    submitted: (result: SubmitResult) => labelled(submits, 'result', result).updateUnsafe(1, context),
    delivered: (kind: DeliveryKind, count = 1) =>
      labelled(deliveries, 'kind', kind).updateUnsafe(count, context),
    ended: (why: SessionEnd) => labelled(sessionsEnded, 'why', why).updateUnsafe(1, context),
  }
}
