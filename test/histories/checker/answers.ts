/** Judges the answers to requests: idempotency, and whether the contract explains them. */
import type { Finding } from './finding.ts'
import type { RequestTimes } from './history.ts'
import { recipientCounts } from './messages.ts'
import type { Attempt, History } from './read-history.ts'

/** The answers that a hub gives to correct sends. */
const EXPLAINED: ReadonlySet<string> = new Set([
  '202 ',
  '409 idempotency_conflict',
  '422 recipient_flood_limited',
  '422 recipient_opted_out',
  '422 spend_limit_reached',
  '429 rate_limited',
  '503 internal_error',
  '503 overloaded',
  '503 provider_unavailable',
])

/** The codes with which a correct element of a batch is rejected. */
const EXPLAINED_REJECTIONS: ReadonlySet<string> = new Set([
  'internal_error',
  'overloaded',
  'provider_unavailable',
  'recipient_flood_limited',
  'recipient_opted_out',
  'spend_limit_reached',
])

/** The codes of a batch element that the hub did not decide for good. */
const UNDECIDED: ReadonlySet<string> = new Set(['internal_error', 'provider_unavailable'])

interface KeyedAnswer extends RequestTimes {
  readonly digest: string | null
  readonly replayed: boolean
  /** Whether the hub keeps the answer for repeats. */
  readonly isStored: boolean
}

const isStored = (status: number | null): boolean => status === 202 || status === 422

const judgeKey = (key: string, answers: ReadonlyArray<KeyedAnswer>): ReadonlyArray<Finding> => {
  const stored = answers.filter((answer) => answer.isStored)
  const first = stored[0]
  if (first === undefined) return []
  return stored.slice(1).flatMap((answer): ReadonlyArray<Finding> => {
    const isSame = answer.status === first.status && answer.digest === first.digest
    // A repeat that began before the first answer may have been the first one for the hub.
    if (isSame && (answer.replayed || answer.began < first.ended)) return []
    return [
      {
        guarantee: 'idempotent-answer',
        detail: `the key ${key} got ${first.status} ${first.digest} at ${first.ended} and ${answer.status} ${answer.digest}${answer.replayed ? '' : ', not as a repeat,'} at ${answer.ended}`,
      },
    ]
  })
}

export const judgeIdempotency = ({ batches, sends }: History): ReadonlyArray<Finding> => {
  const byKey = new Map<string, Array<KeyedAnswer>>()
  const add = (account: string, key: string | null, answer: KeyedAnswer): void => {
    if (key === null) return
    const name = `${account} ${key}`
    const known = byKey.get(name)
    if (known === undefined) byKey.set(name, [answer])
    else known.push(answer)
  }
  for (const send of sends) add(send.account, send.key, { ...send, isStored: isStored(send.status) })
  for (const batch of batches) {
    const isDecided = !batch.items.some(([, , , , , code]) => code !== null && UNDECIDED.has(code))
    add(batch.account, batch.key, { ...batch, isStored: isStored(batch.status) && isDecided })
  }
  return [...byKey].flatMap(([key, answers]) =>
    judgeKey(
      key,
      answers.toSorted((a, b) => a.ended - b.ended),
    ),
  )
}

/** A refusal that neither this message nor another one to its recipient explains. */
const isUnexplained = (
  history: History,
  numbers: ReadonlyMap<string, number>,
  number: string,
  earlier: ReadonlyArray<Attempt>,
  attempt: Attempt,
): boolean => {
  switch (attempt.code) {
    case 'recipient_flood_limited':
      // Without a window, the counters were unavailable.
      return (
        attempt.window !== null &&
        numbers.get(number) === 1 &&
        earlier.every(({ outcome }) => outcome === 'refused')
      )
    case 'recipient_opted_out':
      return !history.optOuts.some((optOut) => optOut.number === number)
    default:
      return false
  }
}

export const judgeAnswers = (history: History): ReadonlyArray<Finding> => {
  const findings: Array<Finding> = []
  for (const answer of [...history.sends, ...history.batches]) {
    if (answer.status === null) continue
    const name = `${answer.status} ${answer.code ?? ''}`
    if (!EXPLAINED.has(name))
      findings.push({ guarantee: 'unexplained', detail: `the answer ${name} at ${answer.ended}` })
    const needsRetryAfter = answer.status === 503 || answer.status === 409 || answer.status === 429
    if (answer.kind === 'send' && needsRetryAfter && !answer.retryAfter) {
      findings.push({
        guarantee: 'unexplained',
        detail: `the answer ${name} at ${answer.ended} has no retry_after`,
      })
    }
    if (answer.kind === 'send') continue
    for (const [ref, , , , , code] of answer.items) {
      if (code !== null && !EXPLAINED_REJECTIONS.has(code))
        findings.push({
          guarantee: 'unexplained',
          detail: `${ref} was rejected with ${code} at ${answer.ended}`,
        })
    }
  }
  const numbers = recipientCounts(history)
  for (const { attempts, number, ref } of history.wanted.values()) {
    attempts.forEach((attempt, i) => {
      if (
        attempt.outcome === 'refused' &&
        isUnexplained(history, numbers, number, attempts.slice(0, i), attempt)
      ) {
        findings.push({
          guarantee: 'unexplained',
          detail: `${ref} was refused with ${attempt.code} ${attempt.window ?? ''} at ${attempt.began}`,
        })
      }
    })
  }
  return findings
}
