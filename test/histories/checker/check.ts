/** Judges a recorded history. */
import { judgeAnswers, judgeIdempotency } from './answers.ts'
import { type FaultAvailability, judgeAvailability, measureAvailability } from './availability.ts'
import { judgeJournal, judgeWebhooks } from './events.ts'
import type { Finding } from './finding.ts'
import type { BatchEntry, SendEntry } from './history.ts'
import { isUnknownOutcome, judgeCharges, judgeFloodWindows, judgeOptOuts } from './limits.ts'
import { finalsByRef, judgeSends, judgeStatuses, submitsByRef } from './messages.ts'
import type { History } from './read-history.ts'

export interface Counts {
  /** What clients wanted to send. */
  readonly wanted: number
  readonly requests: number
  readonly accepted: number
  /** Refused in every attempt. */
  readonly refused: number
  /** Accepted or not: no attempt was answered. */
  readonly unanswered: number
  readonly submits: number
  readonly events: number
  readonly webhooks: number
  readonly reads: number
  /** Charged, and without a delivery report at the deadline: the operator may have them or not. */
  readonly unknownOutcomes: number
  /** Charged, and the operator never accepted them. They are a part of the unknown outcomes. */
  readonly chargedUnsubmitted: number
  /** Never submitted within their lifetime. */
  readonly expiredUnsubmitted: number
  /** The operator accepted only some of their parts. */
  readonly incomplete: number
  /** Answers after the time that the contract allows: 3 s, or 10 s for a batch. */
  readonly lateAnswers: number
  readonly answers: Readonly<Record<string, number>>
}

export interface Verdict {
  readonly findings: ReadonlyArray<Finding>
  readonly counts: Counts
  readonly availability: ReadonlyArray<FaultAvailability>
}

const SINGLE_WITHIN_MS = 3000
const BATCH_WITHIN_MS = 10_000

const nameOf = ({ code, status, unknown }: SendEntry | BatchEntry): string =>
  status === null
    ? 'no answer'
    : `${status}${code === null ? '' : ` ${code}`}${unknown ? ' (outcome unknown)' : ''}`

const count = (history: History): Counts => {
  const submits = submitsByRef(history)
  const finals = [...finalsByRef(history)]
  const wanted = [...history.wanted.values()]
  const requests = [...history.sends, ...history.batches]
  const answers: Record<string, number> = {}
  for (const request of requests) {
    const name = nameOf(request)
    answers[name] = (answers[name] ?? 0) + 1
  }
  const withOnly = (...outcomes: ReadonlyArray<string>): number =>
    wanted.filter(({ attempts }) => attempts.every(({ outcome }) => outcomes.includes(outcome))).length
  const refused = withOnly('refused')
  const unanswered = withOnly('refused', 'unknown') - refused
  return {
    wanted: wanted.length,
    requests: requests.length,
    accepted: wanted.length - refused - unanswered,
    refused,
    unanswered,
    submits: history.submits.length,
    events: [...history.journals.values()].reduce((sum, journal) => sum + journal.length, 0),
    webhooks: history.webhooks.length,
    reads: history.reads.length,
    unknownOutcomes: finals.filter(([, message]) => isUnknownOutcome(message)).length,
    chargedUnsubmitted: finals.filter(([ref, { price }]) => price > 0 && !submits.has(ref)).length,
    expiredUnsubmitted: finals.filter(([, { reason }]) => reason === 'ttl_expired_before_submit').length,
    incomplete: history.incomplete.length,
    lateAnswers: requests.filter(
      ({ began, ended, kind, status }) =>
        status !== null && ended - began > (kind === 'send' ? SINGLE_WITHIN_MS : BATCH_WITHIN_MS),
    ).length,
    answers,
  }
}

export const checkHistory = (history: History): Verdict => {
  const availability = measureAvailability(history)
  const incomplete: ReadonlyArray<Finding> =
    history.end === null ? [{ guarantee: 'unexplained', detail: 'the history has no end' }] : []
  return {
    findings: [
      ...incomplete,
      ...judgeSends(history),
      ...judgeStatuses(history),
      ...judgeIdempotency(history),
      ...judgeAnswers(history),
      ...judgeJournal(history),
      ...judgeWebhooks(history),
      ...judgeCharges(history),
      ...judgeFloodWindows(history),
      ...judgeOptOuts(history),
      ...judgeAvailability(availability),
    ],
    counts: count(history),
    availability,
  }
}
