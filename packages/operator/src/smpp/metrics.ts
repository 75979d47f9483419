/** The metrics of the SMPP operator. Labels have few values: roles, results and reasons. */
import { counter, gauge, labelSets, memoizeLabels } from '@hub/telemetry'
import { type Context } from 'effect'
import { type Role, SESSION_ENDS, type SessionEnd } from './session.ts'

/** The results of one `submit_sm`. */
const SUBMIT_RESULTS = ['accepted', 'throttled', 'retry', 'rejected', 'lost'] as const
type SubmitResult = (typeof SUBMIT_RESULTS)[number]
/** The kinds of deliveries. `not_taken`: it could not be stored and got a temporary error. */
const DELIVERY_KINDS = ['receipt', 'intermediate', 'inbound', 'unreadable', 'not_taken'] as const
type DeliveryKind = (typeof DELIVERY_KINDS)[number]

const bindsUp = gauge('hub_smpp_binds_up', 'Established binds, by role.')
const sessionsEnded = counter(
  'hub_smpp_sessions_ended_total',
  'Sessions that ended or could not be bound, by reason.',
  labelSets({ why: SESSION_ENDS }),
)
const submits = counter(
  'hub_smpp_submitted_parts_total',
  'Submitted parts, by result.',
  labelSets({ result: SUBMIT_RESULTS }),
)
const windowUsed = gauge(
  'hub_smpp_window_used_parts',
  'Parts in flight: submitted to the SMSC and not answered.',
)
const windowSize = gauge(
  'hub_smpp_window_parts',
  'The most parts that can be in flight, over all established binds.',
)
const waiting = gauge(
  'hub_smpp_waiting_messages',
  'Messages in the adapter that wait for a bind, for the window, or for the next part.',
)
const deliveries = counter(
  'hub_smpp_deliveries_total',
  'Deliveries of the SMSC, by kind.',
  labelSets({ kind: DELIVERY_KINDS }),
)

export type SmppMetrics = ReturnType<typeof makeSmppMetrics>

/** Binds the metrics to the context of the process, so that an update is a plain function call. */
export const makeSmppMetrics = (context: Context.Context<never>) => {
  const labelled = memoizeLabels()
  return {
    gauges: (now: {
      readonly binds: Readonly<Record<Role, number>>
      readonly windowUsed: number
      readonly window: number
      readonly waiting: number
    }) => {
      for (const [role, count] of Object.entries(now.binds)) {
        labelled(bindsUp, { role }).updateUnsafe(count, context)
      }
      windowUsed.updateUnsafe(now.windowUsed, context)
      windowSize.updateUnsafe(now.window, context)
      waiting.updateUnsafe(now.waiting, context)
    },
    submitted: (result: SubmitResult) => submits.add({ result }),
    delivered: (kind: DeliveryKind, count = 1) => deliveries.add({ kind }, count),
    ended: (why: SessionEnd) => sessionsEnded.add({ why }),
  }
}
