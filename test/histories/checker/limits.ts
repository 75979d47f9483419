/** Judges charges, spend limits, flood windows and opt-outs. */
import type { Finding } from './finding.ts'
import type { FinalEntry } from './history.ts'
import { finalsByRef, submitsByRef } from './messages.ts'
import type { History, Wanted } from './read-history.ts'

const isFree = ({ reason, state }: FinalEntry): boolean =>
  state === 'rejected' || reason === 'ttl_expired_before_submit'

/** A message that is charged although the operator may never have accepted it. */
export const isUnknownOutcome = ({ reason }: FinalEntry): boolean => reason === 'dlr_timeout_local'

export const judgeCharges = (history: History): ReadonlyArray<Finding> => {
  const findings: Array<Finding> = []
  const submits = submitsByRef(history)
  const byName = new Map(history.run.accounts.map((account) => [account.name, account]))
  for (const [ref, message] of finalsByRef(history)) {
    const { id, parts, price, state } = message
    const say = (detail: string): void =>
      void findings.push({ guarantee: 'charge', detail: `${ref} (${id}): ${detail}` })
    const expected = isFree(message) ? 0 : parts * (byName.get(message.account)?.prices[message.class] ?? 0)
    if (price !== expected)
      say(`the price of ${parts} parts is ${price}, not ${expected}, in status ${state}`)
    const submitted = submits.get(ref)
    if (submitted !== undefined && submitted.some((submit) => submit.parts !== parts)) {
      say(
        `the operator accepted ${submitted.map((submit) => submit.parts).join(' and ')} parts, not ${parts}`,
      )
    }
    if (submitted === undefined && price > 0 && message.final && !isUnknownOutcome(message)) {
      say(`it is charged in status ${state}, and the operator never accepted it`)
    }
  }
  for (const { account, spent } of history.accounts) {
    const limits = byName.get(account)
    const sum = [...history.finals.values()]
      .filter((message) => message.account === account)
      .reduce((total, { price }) => total + price, 0)
    if (spent !== sum)
      findings.push({
        guarantee: 'charge',
        detail: `${account} has spent ${spent}, and its messages cost ${sum}`,
      })
    if (limits !== undefined && spent > limits.spendLimit) {
      findings.push({
        guarantee: 'spend-limit',
        detail: `${account} has spent ${spent} of ${limits.spendLimit}`,
      })
    }
  }
  return findings
}

/** A reservation of a process that ended stays in force for as long after the fault. */
const AFTER_FAULT_MS = 60_000

const faultsBetween = (history: History, from: number, to: number): number =>
  history.faults.filter(({ began, ended }) => began <= to && ended + AFTER_FAULT_MS >= from).length

/** Codes pass without a count so long before and after a refusal that shows the loss of the counters. */
const COUNTERS_LOST_MS = 10_000

/**
 * The times of refusals because the counters were unavailable: they name no window. Batches record no
 * windows, and no two of their messages are for the same recipient.
 */
const lossesOfCounters = ({ wanted }: History): ReadonlyArray<number> =>
  [...wanted.values()].flatMap(({ attempts }) =>
    attempts.flatMap(({ code, ended, window }) =>
      code === 'recipient_flood_limited' && window === null ? [ended] : [],
    ),
  )

/** The first acceptance of each message to a recipient, without codes that may have passed uncounted. */
const acceptancesOf = (
  wanted: ReadonlyArray<Wanted>,
  losses: ReadonlyArray<number>,
): ReadonlyArray<{ readonly began: number; readonly ended: number }> =>
  wanted
    .flatMap(({ attempts, class: messageClass }) => {
      const accepted = attempts.find(({ outcome }) => outcome === 'accepted')
      if (accepted === undefined) return []
      const { began, ended } = accepted
      const isUncounted =
        messageClass === 'otp' &&
        losses.some((at) => at >= began - COUNTERS_LOST_MS && at <= ended + COUNTERS_LOST_MS)
      return isUncounted ? [] : [accepted]
    })
    .toSorted((a, b) => a.ended - b.ended)

export const judgeFloodWindows = (history: History): ReadonlyArray<Finding> => {
  const byName = new Map(history.run.accounts.map((account) => [account.name, account]))
  const losses = lossesOfCounters(history)
  const groups = Map.groupBy(history.wanted.values(), ({ account, number }) => `${account} ${number}`)
  return [...groups.values()].flatMap((wanted): ReadonlyArray<Finding> => {
    const { account, number } = wanted[0]!
    const limits = byName.get(account)
    if (limits === undefined || wanted.length < 2) return []
    const accepted = acceptancesOf(wanted, losses)
    if (accepted.length < 2) return []
    const findings: Array<Finding> = []
    const span = faultsBetween(history, accepted[0]!.began, accepted.at(-1)!.ended)
    // A run is shorter than an hour.
    if (accepted.length > limits.perHour + span) {
      findings.push({
        guarantee: 'flood-window',
        detail: `${number} got ${accepted.length} messages of ${account} in an hour, ${limits.perHour} are allowed, with ${span} faults`,
      })
    }
    const early = accepted.flatMap((second, i) => {
      const first = accepted[i - 1]
      return first !== undefined && second.ended - first.began < limits.pauseSeconds * 1000
        ? [{ from: first.began, to: second.ended }]
        : []
    })
    const wrong = early.find(({ from, to }) => faultsBetween(history, from, to) === 0) ?? early[0]
    if (wrong !== undefined && (early.length > span || faultsBetween(history, wrong.from, wrong.to) === 0)) {
      findings.push({
        guarantee: 'flood-window',
        detail: `${number} got ${early.length} messages of ${account} within the pause, with ${span} faults; one at ${wrong.to}`,
      })
    }
    return findings
  })
}

export const judgeOptOuts = (history: History): ReadonlyArray<Finding> => {
  const from = new Map(history.optOuts.map(({ appliedBy, number }) => [number, appliedBy]))
  for (const { attempts, number } of history.wanted.values()) {
    const refused = attempts.find(({ code }) => code === 'recipient_opted_out')
    if (refused !== undefined) from.set(number, Math.min(refused.ended, from.get(number) ?? refused.ended))
  }
  return [...history.wanted.values()].flatMap(
    ({ attempts, class: messageClass, number, ref }): ReadonlyArray<Finding> => {
      const applied = from.get(number)
      if (applied === undefined) return []
      const wrong = attempts.find(({ began, outcome }) =>
        messageClass === 'service' ? outcome === 'accepted' && began > applied : false,
      )
      return wrong === undefined
        ? []
        : [
            {
              guarantee: 'opt-out',
              detail: `${ref} was accepted at ${wrong.began}, and ${number} had opted out by ${applied}`,
            },
          ]
    },
  )
}
