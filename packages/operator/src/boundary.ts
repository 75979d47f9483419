/**
 * The boundary of the port. It guards every adapter, so that nothing that an operator sends can
 * end the process or reach topics and tables against the rules of `foreign.ts`.
 */
import { Effect } from 'effect'
import { cleanAddress, isOperatorId } from './foreign.ts'
import type { Operator, OperatorReport, ReportSink, Submission, SubmitOutcome } from './port.ts'
import { makeUnusable } from './unusable.ts'

const UNKNOWN: SubmitOutcome = { type: 'unknown' }

/** A message has at most 255 parts. Source: 3GPP TS 23.040, 9.2.3.24.1. */
const MAX_IDS = 255

/** The ids of an accepted message: one for each part, or one for all. */
const areUsable = (ids: ReadonlyArray<string>): boolean =>
  ids.length > 0 && ids.length <= MAX_IDS && ids.every(isOperatorId)

/**
 * Guards an adapter. A message that was accepted without a usable id has an unknown outcome, as
 * have all messages of a batch if the adapter throws: the operator may have them.
 */
export const guardOperator = (operator: Operator): Effect.Effect<Operator> =>
  Effect.map(makeUnusable, ({ defect, skipped }) => {
    const { name } = operator
    const check = (batch: ReadonlyArray<Submission>, outcomes: ReadonlyArray<SubmitOutcome>) => {
      let unusable = 0
      const checked = batch.map((_, i) => {
        const outcome = outcomes[i] ?? UNKNOWN
        if (outcome.type !== 'accepted' || areUsable(outcome.operatorIds)) return outcome
        unusable++
        return UNKNOWN
      })
      return unusable === 0
        ? Effect.succeed(checked)
        : Effect.as(skipped(name, 'answer', 'operator_ids', unusable), checked)
    }
    return {
      ...operator,
      submit: (batch, mayWrite, onThrottled) =>
        Effect.suspend(() => operator.submit(batch, mayWrite, onThrottled)).pipe(
          Effect.flatMap((outcomes) => check(batch, outcomes)),
          Effect.catchDefect((thrown) =>
            Effect.as(
              defect(name, thrown),
              batch.map(() => UNKNOWN),
            ),
          ),
        ),
      resume: (open) =>
        Effect.suspend(() => operator.resume(open)).pipe(
          Effect.catchDefect((thrown) => defect(name, thrown)),
        ),
    }
  })

/** The first field of a report that breaks the rules, or `null`. */
const wrongField = ({ operatorId, reference }: OperatorReport): string | null => {
  if (!isOperatorId(operatorId)) return 'operator_id'
  return reference !== null && !isOperatorId(reference) ? 'reference' : null
}

/**
 * Guards the sink of the adapters. A report or an inbound message with an unusable id is skipped;
 * the others are stored. An opt-out must not be lost because of a strange address.
 */
export const guardSink = (sink: ReportSink['Service']): Effect.Effect<ReportSink['Service']> =>
  Effect.map(makeUnusable, ({ skipped }) => ({
    ...sink,
    store: (reports) => {
      const wrong = reports.filter((report) => wrongField(report) !== null)
      if (wrong.length === 0) return sink.store(reports)
      return Effect.andThen(
        Effect.forEach(wrong, (report) => skipped(report.operator, 'report', wrongField(report) ?? '')),
        sink.store(reports.filter((report) => !wrong.includes(report))),
      )
    },
    storeInbound: (messages) => {
      const wrong = messages.filter(({ operatorId }) => !isOperatorId(operatorId))
      const usable = messages
        .filter((message) => !wrong.includes(message))
        .map((message) => ({
          ...message,
          serviceAddress: cleanAddress(message.serviceAddress),
          text: message.text.toWellFormed(),
        }))
      return Effect.andThen(
        Effect.forEach(wrong, ({ operator }) => skipped(operator, 'inbound', 'operator_id')),
        usable.length === 0 ? Effect.void : sink.storeInbound(usable),
      )
    },
  }))
