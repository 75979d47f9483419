/** Judges messages: what clients were told, what the operator got, and which status they have. */
import type { Finding } from './finding.ts'
import type { FinalEntry, SubmitEntry } from './history.ts'
import type { History, Wanted } from './read-history.ts'

const RANK: Readonly<Record<string, number>> = {
  accepted: 0,
  sent: 1,
  delivered: 2,
  undelivered: 2,
  rejected: 2,
  expired: 2,
}

const isFinal = (state: string): boolean => RANK[state] === 2

/**
 * Whether a status may follow another one. Only a late report changes a final status. A read during
 * the run does not show the reason of `expired`.
 */
const mayFollow = (before: string, after: string, reason: string | null = 'dlr_timeout_local'): boolean => {
  const [from, to] = [RANK[before], RANK[after]]
  if (from === undefined || to === undefined) return false
  if (before === after || to > from) return true
  return (
    before === 'expired' &&
    reason === 'dlr_timeout_local' &&
    (after === 'delivered' || after === 'undelivered')
  )
}

export const submitsByRef = ({ submits }: History): ReadonlyMap<string, ReadonlyArray<SubmitEntry>> => {
  const byRef = new Map<string, Array<SubmitEntry>>()
  for (const submit of submits) {
    if (submit.ref === null) continue
    const known = byRef.get(submit.ref)
    if (known === undefined) byRef.set(submit.ref, [submit])
    else known.push(submit)
  }
  return byRef
}

/** How many messages clients wanted to send to each number. */
export const recipientCounts = ({ wanted }: History): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>()
  for (const { number } of wanted.values()) counts.set(number, (counts.get(number) ?? 0) + 1)
  return counts
}

/** The message ids that clients were told for what they wanted to send once. */
const idsOf = ({ attempts }: Wanted): ReadonlySet<string> =>
  new Set(attempts.flatMap(({ id, outcome }) => (outcome !== 'refused' && id !== null ? [id] : [])))

/** The messages at the end by the reference of the client, also those that the client knows by id only. */
export const finalsByRef = (history: History): ReadonlyMap<string, FinalEntry> => {
  const byRef = new Map<string, FinalEntry>()
  for (const message of history.finals.values()) {
    if (message.clientRef !== null) byRef.set(message.clientRef, message)
  }
  for (const wanted of history.wanted.values()) {
    for (const id of idsOf(wanted)) {
      const message = history.finals.get(id)
      if (message !== undefined) byRef.set(wanted.ref, message)
    }
  }
  return byRef
}

/** The clocks of two processes may differ by the skew of a run when a lifetime ends. */
const CLOCK_TOLERANCE_MS = 5000

/** How long a message waited before it expired. Null if the history does not tell. */
const waitedMs = ({ history }: FinalEntry): number | null => {
  const from = history[0]?.[2]
  const to = history.at(-1)?.[2]
  return from === undefined || to === undefined ? null : to - from
}

/** A repeat under an `Idempotency-Key` alone runs again if the first process ended. */
const mayBeTwice = ({ attempts, hasClientRef }: Wanted): number =>
  hasClientRef ? 0 : attempts.filter(({ outcome }) => outcome === 'unknown').length

/** Judges what the hub did with each send. */
export const judgeSends = (history: History): ReadonlyArray<Finding> => {
  const findings: Array<Finding> = []
  const submits = submitsByRef(history)
  const finals = finalsByRef(history)
  const owner = new Map<string, string>()
  for (const wanted of history.wanted.values()) {
    const { attempts, ref } = wanted
    const ids = idsOf(wanted)
    const submitted = submits.get(ref) ?? []
    const times = `${attempts.map(({ began, code, outcome }) => `${outcome}${code === null ? '' : ` (${code})`} at ${began}`).join(', ')}`
    if (submitted.length > 1 + mayBeTwice(wanted)) {
      findings.push({
        guarantee: 'duplicate-submit',
        detail: `${ref} was submitted at ${submitted.map(({ at }) => at).join(' and ')}; ${times}`,
      })
    }
    if (ids.size > 1 + mayBeTwice(wanted)) {
      findings.push({
        guarantee: 'client-ref',
        detail: `${ref} has the messages ${[...ids].join(' and ')}; ${times}`,
      })
    }
    for (const id of ids) {
      const other = owner.get(id)
      if (other === undefined) owner.set(id, ref)
      else findings.push({ guarantee: 'client-ref', detail: `${id} was the answer to ${other} and ${ref}` })
      if (!history.finals.has(id)) {
        findings.push({ guarantee: 'lost', detail: `${ref} (${id}) does not exist at the end; ${times}` })
      }
      const clientRef = history.finals.get(id)?.clientRef
      if (wanted.hasClientRef && clientRef !== undefined && clientRef !== ref) {
        findings.push({
          guarantee: 'client-ref',
          detail: `${id} was the answer to ${ref}, and has the client_ref ${clientRef ?? 'null'}`,
        })
      }
    }
    if (submitted.length > 0 && attempts.every(({ outcome }) => outcome === 'refused')) {
      findings.push({
        guarantee: 'refused-but-sent',
        detail: `${ref} was submitted at ${submitted[0]!.at}; ${times}`,
      })
    }
    const message = finals.get(ref)
    if (message !== undefined && ids.size === 0 && attempts.every(({ outcome }) => outcome === 'refused')) {
      // A refused code keeps its id, and may show as a message that never was handed over.
      if (message.state !== 'expired' || message.reason !== 'ttl_expired_before_submit') {
        findings.push({
          guarantee: 'refused-but-sent',
          detail: `${ref} (${message.id}) is ${message.state}; ${times}`,
        })
      }
    }
    if (message === undefined) continue
    const claimsSubmit = ['sent', 'delivered', 'undelivered'].includes(message.state)
    if (submitted.length === 0 && claimsSubmit) {
      findings.push({
        guarantee: 'lost',
        detail: `${ref} (${message.id}) is ${message.state}, and the operator never accepted it; ${times}`,
      })
    }
    if (submitted.length > 0 && message.reason === 'ttl_expired_before_submit') {
      findings.push({
        guarantee: 'unexplained',
        detail: `${ref} (${message.id}) is ttl_expired_before_submit, and was submitted at ${submitted[0]!.at}`,
      })
    }
    const waited = message.reason === 'ttl_expired_before_submit' ? waitedMs(message) : null
    const lifetime = history.run.lifetimeMs[message.class]
    if (waited !== null && waited + CLOCK_TOLERANCE_MS < lifetime) {
      findings.push({
        guarantee: 'lost',
        detail: `${ref} (${message.id}) expired after ${waited} ms, before the end of its lifetime of ${lifetime} ms`,
      })
    }
    if (message.reason === 'ttl_expired_before_submit' && history.faults.length === 0) {
      findings.push({
        guarantee: 'lost',
        detail: `${ref} (${message.id}) was never submitted, without any fault`,
      })
    }
  }
  for (const ref of submits.keys()) {
    if (!history.wanted.has(ref))
      findings.push({ guarantee: 'unexplained', detail: `nobody sent ${ref}, which was submitted` })
  }
  for (const { at, number, ref } of history.submits) {
    if (ref === null)
      findings.push({ guarantee: 'unexplained', detail: `a text without reference for ${number} at ${at}` })
    else if (history.wanted.has(ref) && history.wanted.get(ref)!.number !== number) {
      findings.push({
        guarantee: 'unexplained',
        detail: `${ref} was submitted for ${number}, not for its recipient`,
      })
    }
  }
  return findings
}

/** Judges the statuses of messages at the end, in reads during the run, and by reports. */
export const judgeStatuses = (history: History): ReadonlyArray<Finding> => {
  const findings: Array<Finding> = []
  const unsentRefs = new Set(
    [...history.wanted.values()].filter(({ hasClientRef }) => !hasClientRef).map(({ account }) => account),
  )
  const known = new Set([...history.wanted.values()].flatMap((wanted) => [...idsOf(wanted)]))
  const idByRef = new Map<string, string>()
  for (const message of history.finals.values()) {
    const { clientRef, id, state } = message
    if (!message.final || !isFinal(state)) {
      findings.push({ guarantee: 'not-final', detail: `${clientRef ?? ''} (${id}) is ${state} at the end` })
    }
    const states = message.history.map(([status]) => status)
    if (
      message.history.some(([status], i) => {
        const before = message.history[i - 1]
        return before !== undefined && !mayFollow(before[0], status, before[1])
      }) ||
      (states.length > 0 && states.at(-1) !== state)
    ) {
      findings.push({
        guarantee: 'status-went-back',
        detail: `${id} is ${state}, and its history is ${states.join(', ')}`,
      })
    }
    const isForeign =
      clientRef === null ? !known.has(id) && !unsentRefs.has(message.account) : !history.wanted.has(clientRef)
    if (isForeign)
      findings.push({ guarantee: 'unexplained', detail: `nobody sent ${clientRef ?? ''} (${id})` })
    if (clientRef === null) continue
    const owner = idByRef.get(`${message.account} ${clientRef}`)
    if (owner !== undefined) {
      findings.push({
        guarantee: 'client-ref',
        detail: `${clientRef} is the client_ref of ${owner} and ${id}`,
      })
    }
    idByRef.set(`${message.account} ${clientRef}`, id)
  }
  const reads = Map.groupBy(history.reads, ({ id }) => id)
  for (const [id, ofMessage] of reads) {
    const atEnd = history.finals.get(id)?.state
    const before = ofMessage.find(
      ({ state }) => state !== null && atEnd !== undefined && !mayFollow(state, atEnd),
    )
    if (before !== undefined) {
      findings.push({
        guarantee: 'status-went-back',
        detail: `${id} was ${before.state} at ${before.ended}, and is ${atEnd} at the end`,
      })
    }
    for (const later of ofMessage) {
      if (later.status === 404) {
        findings.push({ guarantee: 'lost', detail: `${id} was accepted and not found at ${later.began}` })
      }
      const earlier = ofMessage.find(
        ({ ended, state }) =>
          ended <= later.began && state !== null && later.state !== null && !mayFollow(state, later.state),
      )
      if (earlier !== undefined) {
        findings.push({
          guarantee: 'status-went-back',
          detail: `${id} was ${earlier.state} at ${earlier.ended} and ${later.state} at ${later.began}`,
        })
      }
    }
  }
  const reported = new Set(history.reports.map(({ number, status }) => `${number} ${status}`))
  const recipients = recipientCounts(history)
  for (const [ref, { id, parts, reason, state }] of finalsByRef(history)) {
    const number = history.wanted.get(ref)?.number
    // The reports of several parts do not say which part they are about.
    const isReported =
      number !== undefined && reported.has(`${number} delivered`) && recipients.get(number) === 1
    if (reason === 'dlr_timeout_local' && parts === 1 && isReported) {
      findings.push({
        guarantee: 'unexplained',
        detail: `${ref} (${id}) expired without a report, and the hub has acknowledged one`,
      })
    }
    // The operator of a run refuses no message, so a report decides each other final status.
    const isDecidedByHub = reason === 'dlr_timeout_local' || reason === 'ttl_expired_before_submit'
    if (isFinal(state) && !isDecidedByHub && number !== undefined && !reported.has(`${number} ${state}`)) {
      findings.push({
        guarantee: 'unexplained',
        detail: `${ref} (${id}) is ${state}, and no report says so`,
      })
    }
  }
  return findings
}
