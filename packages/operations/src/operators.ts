/** The SMS operators, as all dispatchers together see them: the binds, and the pace. */
import { type DispatcherStatus, type OperatorStatus, readOperatorStatus, SharedTexts } from '@hub/counters'
import { toTimestamp } from '@hub/domain'
import { Effect, Schema } from 'effect'
import { Count, Timestamp } from './fields.ts'

const PartsPerSecond = Schema.Number.annotate({ description: 'Parts per second.' })

const Binds = {
  role: Schema.String,
  established: Count,
  wanted: Count.annotate({ description: 'As many as are configured.' }),
}

export const OperatorState = Schema.Struct({
  operator: Schema.String,
  dispatchers: Count.annotate({ description: 'The dispatchers that have reported lately.' }),
  binds: Schema.Array(Schema.Struct(Binds)).annotate({
    description: 'The binds of all dispatchers by role. Empty: the operator has none.',
  }),
  incomplete: Schema.Array(Schema.Struct({ dispatcher: Schema.String, ...Binds, since: Timestamp })).annotate(
    { description: 'The dispatchers with fewer binds than are configured.' },
  ),
  rate: Schema.NullOr(PartsPerSecond).annotate({
    description: 'The parts per second that the hub may submit. `null`: the operator has not throttled yet.',
  }),
  configured_rate: Schema.NullOr(PartsPerSecond),
  passed_per_second: PartsPerSecond.annotate({ description: 'Parts that the operator has answered lately.' }),
  throttled_per_second: PartsPerSecond.annotate({
    description: 'Parts that the operator has refused lately because of the rate.',
  }),
}).annotate({ identifier: 'OperatorState' })
export type OperatorState = typeof OperatorState.Type

type Reported = OperatorStatus & Pick<DispatcherStatus, 'host' | 'at'>

const oneDigit = (value: number): number => Math.round(value * 10) / 10

/** Sums up what the dispatchers have reported about one operator. */
const stateOf = (operator: string, reports: ReadonlyArray<Reported>): OperatorState => {
  const binds = reports.flatMap((report) => report.binds.map((one) => ({ ...one, dispatcher: report.host })))
  const sum = (values: ReadonlyArray<number>): number => values.reduce((total, value) => total + value, 0)
  const newest = reports.toSorted((a, b) => b.at - a.at)[0]
  return {
    operator,
    dispatchers: reports.length,
    binds: [...Map.groupBy(binds, ({ role }) => role)].map(([role, own]) => ({
      role,
      established: sum(own.map(({ established }) => established)),
      wanted: sum(own.map(({ wanted }) => wanted)),
    })),
    incomplete: binds
      .filter(({ established, wanted }) => established < wanted)
      .map(({ since, ...one }) => ({ ...one, since: toTimestamp(since) })),
    // The rate is one for the whole hub.
    rate: newest?.rate == null ? null : oneDigit(newest.rate),
    configured_rate: newest?.configured ?? null,
    passed_per_second: oneDigit(sum(reports.map(({ passed }) => passed))),
    throttled_per_second: oneDigit(sum(reports.map(({ throttled }) => throttled))),
  }
}

export const statesOf = (dispatchers: ReadonlyArray<DispatcherStatus>): ReadonlyArray<OperatorState> => {
  const reports = dispatchers.flatMap(({ at, host, operators }) =>
    operators.map((one): Reported => ({ ...one, host, at })),
  )
  return [...Map.groupBy(reports, ({ operator }) => operator)]
    .map(([operator, own]) => stateOf(operator, own))
    .toSorted((a, b) => (a.operator < b.operator ? -1 : 1))
}

/** The operators of the dispatchers that have reported lately. */
export const readOperators = Effect.gen(function* () {
  const shared = yield* SharedTexts
  // A call has a short deadline, which a busy machine can miss once.
  return statesOf(yield* Effect.retry(readOperatorStatus(shared), { times: 1 }))
})
