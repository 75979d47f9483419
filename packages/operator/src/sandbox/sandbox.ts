/**
 * The sandbox: the in-process operator of test keys. It keeps no state: an operator id contains the
 * scenario and derives from reference and part. So a repeated submit gets the same ids and reports,
 * and after a restart the ids and the submit time are enough to schedule the reports of open
 * messages. Source: docs/contract/sandbox.md.
 */
import { createHash } from 'node:crypto'
import { SANDBOX_SCENARIOS, sandboxScenario, type SandboxScenario } from '@hub/domain'
import { Clock, Effect, FiberSet, Schedule, type Scope } from 'effect'
import { type Operator, type OperatorReport, ReportSink, type SubmitOutcome } from '../port.ts'

export const SANDBOX = 'sandbox'

export interface SandboxOptions {
  /** From the submit to its report, ms. */
  readonly reportDelayMs: number
  /** From the submit to the late report of the scenario `silent_then_delivered`, ms. */
  readonly lateReportMs: number
  /** The most messages in flight. */
  readonly window: number
}

/**
 * 300 ms are long enough to observe `sent`. The late report comes ten seconds after the sandbox's
 * report deadline of ten seconds. The window is that of a fast operator.
 */
export const SANDBOX_DEFAULTS: SandboxOptions = { reportDelayMs: 300, lateReportMs: 20_000, window: 1000 }

/** The retry time of `always_throttled`, which is most of its lifetime. */
const ALWAYS_THROTTLED_RETRY_MS = 8000

/** After a restart, a shard needs up to a tenth of this to record the deadlines that have passed. */
const LATE_AFTER_RESUME_MS = 1000

type PlannedReport = Pick<OperatorReport, 'outcome' | 'reason'> & { readonly after: number }

const reportsOf = (
  scenario: SandboxScenario,
  { lateReportMs, reportDelayMs }: SandboxOptions,
): ReadonlyArray<PlannedReport> => {
  const once = (outcome: OperatorReport['outcome'], reason: OperatorReport['reason'] = null) => [
    { outcome, reason, after: reportDelayMs },
  ]
  switch (scenario) {
    case 'recipient_unreachable':
    case 'recipient_nonexistent':
    case 'recipient_blocked':
      return once('undelivered', scenario)
    case 'rejected_by_report':
      return once('rejected', 'spam_filter_sender')
    case 'dlr_timeout':
      return once('expired')
    case 'seen':
      return [...once('delivered'), { outcome: 'seen', reason: null, after: 2 * reportDelayMs }]
    case 'silent':
    case 'rejected_at_submit':
    case 'always_throttled':
      return []
    case 'silent_then_delivered':
      return [{ outcome: 'delivered', reason: null, after: lateReportMs }]
    // The special rules of these numbers apply at acceptance.
    case 'anti_flood':
    case 'opted_out':
    case 'delivered':
      return once('delivered')
  }
}

/** `sbx-<scenario>-<hash of the reference>-<part>`. */
const operatorIdOf = (scenario: SandboxScenario, reference: string, part: number): string =>
  `sbx-${SANDBOX_SCENARIOS.indexOf(scenario)}-${createHash('sha256').update(reference).digest('hex').slice(0, 24)}-${part}`

const scenarioOfId = (operatorId: string): SandboxScenario | null => {
  const found = /^sbx-(\d{1,2})-[0-9a-f]{24}-\d{1,3}$/u.exec(operatorId)
  return found === null ? null : (SANDBOX_SCENARIOS[Number(found[1])] ?? null)
}

/** The end of the scope drops scheduled reports. `resume` schedules them again. */
export const makeSandbox = (
  options: SandboxOptions,
): Effect.Effect<Operator, never, ReportSink | Scope.Scope> =>
  Effect.gen(function* () {
    const sink = yield* ReportSink
    const run = yield* FiberSet.makeRuntime<never>()

    /** Stores reports at their time. If the sink fails, it retries until it succeeds. */
    const scheduleReports = (
      due: ReadonlyArray<{ readonly at: number; readonly report: OperatorReport }>,
      now: number,
    ) => {
      const byTime = new Map<number, Array<OperatorReport>>()
      for (const { at, report } of due) {
        const group = byTime.get(at)
        if (group === undefined) byTime.set(at, [report])
        else group.push(report)
      }
      for (const [at, reports] of byTime) {
        run(
          Effect.suspend(() => sink.store(reports)).pipe(
            Effect.retry(Schedule.spaced('500 millis')),
            Effect.delay(Math.max(0, at - now)),
            // Only the end of the scope ends the retries.
            Effect.ignore,
          ),
        )
      }
    }

    const reportsDue = (
      scenario: SandboxScenario,
      operatorId: string,
      reference: string,
      recipient: string,
      sentAt: number,
    ) =>
      reportsOf(scenario, options).map(({ after, outcome, reason }) => ({
        at: sentAt + after,
        // There is no raw report, because no operator sent one.
        report: {
          operator: SANDBOX,
          operatorId,
          reference,
          recipient,
          to: null,
          outcome,
          reason,
          at: sentAt + after,
          raw: null,
        },
      }))

    return {
      name: SANDBOX,
      capabilities: { dedupesByReference: true, window: options.window },
      submit: (batch, mayWrite) =>
        Effect.gen(function* () {
          const now = yield* Clock.currentTimeMillis
          if (!mayWrite()) return batch.map((): SubmitOutcome => ({ type: 'notWritten' }))
          const due: Array<{ readonly at: number; readonly report: OperatorReport }> = []
          const outcomes = batch.map(({ parts, recipient, reference, to }): SubmitOutcome => {
            const scenario = sandboxScenario(to)
            if (scenario === 'rejected_at_submit') return { type: 'rejected', reason: 'spam_filter_content' }
            if (scenario === 'always_throttled')
              return {
                type: 'refused',
                submitted: false,
                retryAfterMs: ALWAYS_THROTTLED_RETRY_MS,
                affectsOnlyThis: true,
              }
            const operatorIds = Array.from({ length: parts }, (_, part) =>
              operatorIdOf(scenario, reference, part + 1),
            )
            for (const id of operatorIds) due.push(...reportsDue(scenario, id, reference, recipient, now))
            return { type: 'accepted', operatorIds }
          })
          scheduleReports(due, now)
          return outcomes
        }),
      resume: (open) =>
        Effect.gen(function* () {
          const now = yield* Clock.currentTimeMillis
          scheduleReports(
            open.flatMap(({ operatorIds, recipient, reference, sentAt }) =>
              operatorIds.flatMap((id) => {
                const scenario = scenarioOfId(id)
                if (scenario === null) return []
                const due = reportsDue(scenario, id, reference, recipient, sentAt)
                // Otherwise the late report could come before the deadline that it is too late for.
                return scenario === 'silent_then_delivered'
                  ? due.map(({ at, report }) => ({ at: Math.max(at, now + LATE_AFTER_RESUME_MS), report }))
                  : due
              }),
            ),
            now,
          )
        }),
    }
  })
