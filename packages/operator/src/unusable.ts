/**
 * Records what an operator sent and the hub cannot use: counted, and logged without its content,
 * which may be personal data.
 */
import { counter, labelSets } from '@hub/telemetry'
import { Clock, Effect } from 'effect'
import { makeLogLimiter } from './log-limiter.ts'

/** The names of the adapters. The values are labels of a metric. */
const OPERATORS = ['sandbox', 'smpp', 'http'] as const

/**
 * `answer`: an element of an answer to a submit. `report`: a delivery report. `inbound`: an inbound
 * message. `defect`: an adapter has thrown.
 */
const UNUSABLE = ['answer', 'report', 'inbound', 'defect'] as const
type Unusable = (typeof UNUSABLE)[number]

const unusableTotal = counter(
  'hub_operator_unusable_total',
  'What an operator sent and the hub could not use, by operator and kind.',
  labelSets({ operator: OPERATORS, what: UNUSABLE }),
)

/** The name of an error and the places in the source. Its text may quote what the operator sent. */
const describeDefect = (defect: unknown): string =>
  defect instanceof Error
    ? [defect.name, ...(defect.stack ?? '').split('\n').filter((line) => /^\s+at /u.test(line))]
        .slice(0, 6)
        .map((line) => line.trim())
        .join(' ')
    : typeof defect

/** Records elements that are skipped. `field` names what is wrong with them; it has few values. */
export type RecordUnusable = (
  operator: string,
  what: Exclude<Unusable, 'defect'>,
  field: string,
  count?: number,
) => Effect.Effect<void>

/** Makes functions that limit their log lines together. */
export const makeUnusable = Effect.map(Effect.clockWith(Effect.succeed), (clock: Clock.Clock) => {
  const check = makeLogLimiter(() => clock.currentTimeMillisUnsafe())
  const log = (kind: string, line: Effect.Effect<void>, annotations: Record<string, unknown>) =>
    Effect.suspend(() => {
      const suppressed = check(kind)
      return suppressed === null ? Effect.void : Effect.annotateLogs(line, { ...annotations, suppressed })
    })
  const skipped: RecordUnusable = (operator, what, field, count = 1) =>
    Effect.suspend(() => {
      unusableTotal.add({ operator: operator as (typeof OPERATORS)[number], what }, count)
      return log(
        `${operator} ${what} ${field}`,
        Effect.logError('an operator sent an element that cannot be used: it is skipped'),
        { operator, what, field, count },
      )
    })
  const defect = (operator: string, thrown: unknown): Effect.Effect<void> =>
    Effect.suspend(() => {
      unusableTotal.add({ operator: operator as (typeof OPERATORS)[number], what: 'defect' })
      const where = describeDefect(thrown)
      return log(
        `${operator} ${where}`,
        Effect.logError('an operator adapter has thrown: this is a fault of the hub'),
        { operator, defect: where },
      )
    })
  return { skipped, defect }
})
