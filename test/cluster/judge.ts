/**
 * Compares, message by message, what clients were told, what the operator received, and what can be read. Pure,
 * except for `readMessages`.
 */
import { Agent, fetch } from 'undici'
import type { Sent } from './load.ts'

/** What the hub answers for a message. */
export interface ReadMessage {
  readonly id: string
  readonly clientRef: string
  readonly status: string
  /** Submits to the operator. */
  readonly attempts: number
  /** From the acceptance to the answer of the operator, in milliseconds. */
  readonly submitMs: number | null
}

interface Observed {
  readonly sent: ReadonlyArray<Sent>
  readonly messages: ReadonlyArray<ReadMessage>
  /** How many messages the operator received, and how many of them more than once. */
  readonly operator: { readonly received: number; readonly repeated: number }
}

export interface Figures {
  readonly messages: number
  readonly accepted: number
  readonly delivered: number
  /** Requests that were repeated, by status and code. */
  readonly refusals: Readonly<Record<string, number>>
  /** Answers 5xx, and broken connections, that are not from the hub. */
  readonly ingressErrors: number
  /** From the first request of a code that was refused until it is accepted, at most. In milliseconds. */
  readonly codesRefusedMs: number
  /**
   * From the acceptance to the answer of the operator, in milliseconds: the 99th percentile and the longest. While
   * a partition moves, its messages wait.
   */
  readonly submitMs: { readonly p99: number; readonly max: number }
}

export interface Verdict {
  readonly figures: Figures
  /** What must not happen. Empty: the trial has passed. */
  readonly faults: ReadonlyArray<string>
}

export interface Tolerance {
  /** Answers that are not from the hub. Default: 0. */
  readonly ingressErrors?: number
  /** Default: 3000. */
  readonly codesRefusedMs?: number
  /** Messages with an unknown outcome: a dispatcher was killed between its submit and the answer. Default: 0. */
  readonly unknown?: number
}

const quantile = (sorted: ReadonlyArray<number>, part: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0

const some = (values: ReadonlyArray<string>): string =>
  values.slice(0, 5).join(', ') + (values.length > 5 ? `, and ${values.length - 5} more` : '')

export const judge = ({ messages, operator, sent }: Observed, tolerance: Tolerance = {}): Verdict => {
  const byId = new Map(messages.map((message) => [message.id, message]))
  const byRef = Map.groupBy(messages, ({ clientRef }) => clientRef)
  const accepted = sent.flatMap((one) => (one.accepted === null ? [] : [{ ...one, id: one.accepted.id }]))
  const refusals: Record<string, number> = {}
  let ingressErrors = 0
  for (const { answers } of sent) {
    for (const { code, isForeign, status } of answers) {
      if (status === 202 || status === 200) continue
      const name = `${status} ${code}`.trim()
      refusals[name] = (refusals[name] ?? 0) + 1
      if (isForeign) ingressErrors += 1
    }
  }
  const refusedMs = sent.flatMap((one) =>
    one.class === 'otp' && one.answers.length > 1 ? [(one.accepted?.at ?? Infinity) - one.at] : [],
  )
  const codesRefusedMs = Math.max(0, ...refusedMs)
  const submitMs = messages.flatMap((message) => message.submitMs ?? []).toSorted((a, b) => a - b)
  const isUnknown = ({ attempts, status }: ReadMessage) => status !== 'delivered' && attempts <= 1
  const unknown = messages.filter(isUnknown)
  const allowedUnknown = tolerance.unknown ?? 0
  const faults: Array<string> = []
  const fault = (what: string, found: ReadonlyArray<string>): void => {
    if (found.length > 0) faults.push(`${what}: ${some(found)}`)
  }
  fault(
    'a client was never told that its message is accepted',
    sent.filter((one) => one.accepted === null).map(({ ref }) => ref),
  )
  fault(
    'accepted, and cannot be read',
    accepted.filter(({ id }) => !byId.has(id)).map(({ id }) => id),
  )
  fault(
    'one send, several messages',
    [...byRef].filter(([, of]) => of.length > 1).map(([ref]) => ref),
  )
  fault(
    'not delivered',
    messages
      .filter(
        (message) =>
          message.status !== 'delivered' && !(unknown.length <= allowedUnknown && isUnknown(message)),
      )
      .map(({ id, status }) => `${id} (${status})`),
  )
  if (operator.repeated > 0) faults.push(`the operator received ${operator.repeated} messages more than once`)
  if (Math.abs(operator.received - messages.length) > allowedUnknown)
    faults.push(`the operator received ${operator.received} messages of ${messages.length}`)
  if (ingressErrors > (tolerance.ingressErrors ?? 0))
    faults.push(`${ingressErrors} requests got no answer of the hub`)
  if (codesRefusedMs > (tolerance.codesRefusedMs ?? 3000))
    faults.push(`a code was refused for ${codesRefusedMs} ms`)
  return {
    figures: {
      messages: sent.length,
      accepted: accepted.length,
      delivered: messages.filter(({ status }) => status === 'delivered').length,
      refusals,
      ingressErrors,
      codesRefusedMs,
      submitMs: { p99: quantile(submitMs, 0.99), max: submitMs.at(-1) ?? 0 },
    },
    faults,
  }
}

const READ_WITHIN_MS = 30_000
const TRIES = 20

/** Reads all messages since a time whose `client_ref` begins with the name of a load. */
export const readMessages = async (
  url: string,
  key: string,
  name: string,
  since: Date,
): Promise<ReadonlyArray<ReadMessage>> => {
  const agent = new Agent({ connections: 4 })
  const read = async (path: string): Promise<any> => {
    for (let attempt = 1; ; attempt++) {
      const response = await fetch(`${url}${path}`, {
        headers: { authorization: `Bearer ${key}` },
        dispatcher: agent,
        signal: AbortSignal.timeout(READ_WITHIN_MS),
      })
      const text = await response.text()
      if (response.status === 200) return JSON.parse(text)
      if (attempt === TRIES) throw new Error(`GET ${path} is answered with ${response.status}`)
      await new Promise((resolve) => setTimeout(resolve, 500))
    }
  }
  const found: Array<ReadMessage> = []
  try {
    for (let cursor: string | null = null; ;) {
      const after = cursor === null ? '' : `&starting_after=${cursor}`
      const page = await read(`/v1/messages?limit=100&created_after=${since.toISOString()}${after}`)
      for (const { attempts, client_ref: clientRef, history, id, status } of page.data) {
        if (clientRef?.startsWith(`${name}-`) !== true) continue
        const at = (wanted: string) => history.find((entry: any) => entry.status === wanted)?.at
        const [accepted, sent] = [at('accepted'), at('sent')]
        const submitMs = sent === undefined ? null : Date.parse(sent) - Date.parse(accepted)
        found.push({ id, clientRef, status, attempts, submitMs })
      }
      cursor = page.next_cursor
      if (page.has_more !== true) return found
    }
  } finally {
    await agent.close()
  }
}
