/** Measures how long no send of a class was accepted, and how soon `otp` was available after a fault. */
import type { Finding } from './finding.ts'
import type { MessageClass } from './history.ts'
import type { Attempt, History } from './read-history.ts'

/** The goal for `otp` after the end of a fault. */
const AVAILABLE_WITHIN_MS = 10_000
/** A fault may take effect, or be recovered from, a little later. */
const EFFECT_MS = 15_000

interface Period {
  readonly from: number
  readonly to: number
}

export interface FaultAvailability {
  readonly name: string
  readonly target: string
  readonly began: number
  readonly ended: number
  /** The longest time without an accepted send, in ms. */
  readonly longest: Readonly<Record<MessageClass, number>>
  /** From the end of the fault to the first `otp` that was sent after it and accepted, in ms. */
  readonly otpAfter: number | null
  /** From the end of the fault to the last `otp` that was sent after it and failed, in ms. */
  readonly otpFailedFor: number
}

const isAccepted = ({ outcome }: Attempt): boolean => outcome === 'accepted' || outcome === 'duplicate'

/** Whether the hub could not serve the request. Refusals by a limit show that it was available. */
const isUnavailable = ({ code, outcome }: Attempt): boolean =>
  outcome === 'unknown' ||
  (outcome === 'refused' &&
    (code === null || ['internal_error', 'provider_unavailable', 'overloaded'].includes(code)))

const singleSends = (history: History, messageClass: MessageClass): ReadonlyArray<Attempt> =>
  [...history.wanted.values()]
    .filter((wanted) => wanted.class === messageClass)
    .flatMap(({ attempts }) => attempts.filter(({ isSingle }) => isSingle))
    .toSorted((a, b) => a.began - b.began)

/** From the begin of a send that failed to the answer to the next one that was accepted, or to the last one. */
const periodsOf = (attempts: ReadonlyArray<Attempt>): ReadonlyArray<Period> => {
  const periods: Array<Period> = []
  let from: number | null = null
  for (const attempt of attempts) {
    if (isUnavailable(attempt)) from ??= attempt.began
    else if (isAccepted(attempt) && from !== null) {
      periods.push({ from, to: attempt.ended })
      from = null
    }
  }
  if (from !== null) periods.push({ from, to: attempts.at(-1)!.ended })
  return periods
}

export const measureAvailability = (history: History): ReadonlyArray<FaultAvailability> => {
  const attempts = { otp: singleSends(history, 'otp'), service: singleSends(history, 'service') }
  const periods = { otp: periodsOf(attempts.otp), service: periodsOf(attempts.service) }
  return history.faults.map(({ began, ended, name, target }) => {
    const longest = (messageClass: MessageClass): number =>
      periods[messageClass]
        .filter(({ from, to }) => to >= began && from <= ended + EFFECT_MS)
        .reduce((most, { from, to }) => Math.max(most, to - from), 0)
    const after = attempts.otp.find((attempt) => attempt.began >= ended && isAccepted(attempt))
    const failed = attempts.otp.findLast((attempt) => attempt.began >= ended && isUnavailable(attempt))
    return {
      name,
      target,
      began,
      ended,
      longest: { otp: longest('otp'), service: longest('service') },
      otpAfter: after === undefined ? null : after.ended - ended,
      otpFailedFor: failed === undefined ? 0 : failed.ended - ended,
    }
  })
}

export const judgeAvailability = (faults: ReadonlyArray<FaultAvailability>): ReadonlyArray<Finding> =>
  faults.flatMap(({ ended, name, otpAfter, otpFailedFor, target }): ReadonlyArray<Finding> => {
    // Without an accepted code, the clients may have stopped before.
    const after = otpAfter ?? otpFailedFor
    return after <= AVAILABLE_WITHIN_MS
      ? []
      : [
          {
            guarantee: 'unavailable',
            detail: `${otpAfter === null ? 'still ' : ''}${after} ms after the end of ${name} of ${target} at ${ended}`,
          },
        ]
  })
