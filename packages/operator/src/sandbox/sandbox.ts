/**
 * The sandbox: the operator of test keys, in process. Nothing reaches a real recipient.
 *
 * It keeps no state. An operator id says what will be reported of it, and is a function of the reference and the part,
 * so that a repeated hand-over gets the same ids and makes the same reports; and after a restart the reports of
 * open messages are scheduled again from their ids and the time of their hand-over. Source: contract, Sandbox numbers.
 */
import { createHash } from 'node:crypto'
import { SANDBOX_SCENARIOS, sandboxScenario, type SandboxScenario } from '@hub/domain'
import { Clock, Effect, FiberSet, Schedule, type Scope } from 'effect'
import { type Operator, type OperatorReport, ReportSink, type SubmitOutcome } from '../port.ts'

export const SANDBOX = 'sandbox'

export interface SandboxOptions {
  /** From the hand-over to its report, ms. */
  readonly reportDelayMs: number
  /** From the hand-over to the late report of the number that is silent at first, ms. */
  readonly lateReportMs: number
  /** Messages at once. */
  readonly window: number
}

/**
 * A third of a second is long enough to see `sent` and short enough not to wait for `delivered`. The late report comes
 * ten seconds after the sandbox's deadline of ten. The window is that of a brisk operator.
 */
export const SANDBOX_DEFAULTS: SandboxOptions = { reportDelayMs: 300, lateReportMs: 20_000, window: 1000 }

/** How long the number that is never handed over is told to wait: about its whole lifetime, so that it is asked once or twice. */
const NEVER_MS = 8000

type Told = Pick<OperatorReport, 'outcome' | 'reason'>

const reportsOf = (
  scenario: SandboxScenario,
  { lateReportMs, reportDelayMs }: SandboxOptions,
): ReadonlyArray<Told & { readonly after: number }> => {
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
    case 'rejected_at_handover':
    case 'never_handed_over':
      return []
    case 'silent_then_delivered':
      return [{ outcome: 'delivered', reason: null, after: lateReportMs }]
    // What makes these numbers special happens at acceptance.
    case 'anti_flood':
    case 'opted_out':
    case 'delivered':
      return once('delivered')
  }
}

/** `sbx-<scenario>-<reference, shortened>-<part>`. */
const operatorIdOf = (scenario: SandboxScenario, reference: string, part: number): string =>
  `sbx-${SANDBOX_SCENARIOS.indexOf(scenario)}-${createHash('sha256').update(reference).digest('hex').slice(0, 24)}-${part}`

const scenarioOfId = (operatorId: string): SandboxScenario | null => {
  const found = /^sbx-(\d{1,2})-[0-9a-f]{24}-\d{1,3}$/u.exec(operatorId)
  return found === null ? null : (SANDBOX_SCENARIOS[Number(found[1])] ?? null)
}

/** Makes the sandbox; reports still to come are forgotten with the scope, and scheduled again by `resume`. */
export const makeSandbox = (
  options: SandboxOptions,
): Effect.Effect<Operator, never, ReportSink | Scope.Scope> =>
  Effect.gen(function* () {
    const sink = yield* ReportSink
    const run = yield* FiberSet.makeRuntime<never>()

    /** Tells reports at their time; tries again for as long as the log of reports does not take them. */
    const tellLater = (
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
            // The retry has no end but the scope's.
            Effect.ignore,
          ),
        )
      }
    }

    const dueFor = (
      scenario: SandboxScenario,
      operatorId: string,
      reference: string,
      recipient: string,
      sentAt: number,
    ) =>
      reportsOf(scenario, options).map(({ after, outcome, reason }) => ({
        at: sentAt + after,
        // Nobody else said it, so there are no words of its own to keep.
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
            if (scenario === 'rejected_at_handover')
              return { type: 'rejected', reason: 'spam_filter_content' }
            if (scenario === 'never_handed_over')
              return { type: 'refused', retryAfterMs: NEVER_MS, affectsOnlyThis: true }
            const operatorIds = Array.from({ length: parts }, (_, part) =>
              operatorIdOf(scenario, reference, part + 1),
            )
            for (const id of operatorIds) due.push(...dueFor(scenario, id, reference, recipient, now))
            return { type: 'accepted', operatorIds }
          })
          tellLater(due, now)
          return outcomes
        }),
      resume: (open) =>
        Effect.gen(function* () {
          const now = yield* Clock.currentTimeMillis
          tellLater(
            open.flatMap(({ operatorIds, recipient, reference, sentAt }) =>
              operatorIds.flatMap((id) => {
                const scenario = scenarioOfId(id)
                return scenario === null ? [] : dueFor(scenario, id, reference, recipient, sentAt)
              }),
            ),
            now,
          )
        }),
    }
  })
