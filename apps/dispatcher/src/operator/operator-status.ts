/** What this dispatcher reports about its operators, for hub staff: the binds, and the pace. */
import type { OperatorStatus } from '@hub/counters'
import type { Binds } from '@hub/operator'

/** An operator at this moment. */
export interface ObservedOperator {
  readonly name: string
  readonly binds: ReadonlyArray<Binds>
  /** Parts per second of the whole hub; `null`: no limit is known. */
  readonly rate: number | null
  readonly configured: number | null
  /** Answered parts since the start of the process. */
  readonly passedParts: number
  readonly throttledParts: number
}

interface Last {
  readonly at: number
  readonly operators: ReadonlyMap<string, ObservedOperator>
  readonly since: ReadonlyMap<string, number>
}

const perSecond = (parts: number, ms: number): number =>
  ms <= 0 ? 0 : Math.round((parts / ms) * 10_000) / 10

/** Makes the reports. `now`: milliseconds since the epoch. */
export const makeStatusReports = () => {
  let last: Last | null = null
  return (observed: ReadonlyArray<ObservedOperator>, now: number): ReadonlyArray<OperatorStatus> => {
    const since = new Map<string, number>()
    const statuses = observed.map((operator): OperatorStatus => {
      const before = last?.operators.get(operator.name)
      const elapsedMs = last === null ? 0 : now - last.at
      return {
        operator: operator.name,
        binds: operator.binds.map((binds) => {
          const key = `${operator.name} ${binds.role}`
          const earlier = before?.binds.find(({ role }) => role === binds.role)
          const at = earlier?.established === binds.established ? (last?.since.get(key) ?? now) : now
          since.set(key, at)
          return { ...binds, since: at }
        }),
        rate: operator.rate,
        configured: operator.configured,
        passed: perSecond(operator.passedParts - (before?.passedParts ?? 0), elapsedMs),
        throttled: perSecond(operator.throttledParts - (before?.throttledParts ?? 0), elapsedMs),
      }
    })
    last = { at: now, operators: new Map(observed.map((one) => [one.name, one])), since }
    return statuses
  }
}
