/** Sends messages at a constant rate over kept connections, and records each answer. */
import { setTimeout as delay } from 'node:timers/promises'
import { Agent, fetch } from 'undici'
import { send } from '../support/client.ts'

export interface Answer {
  /** Milliseconds since the epoch. */
  readonly at: number
  /** 0: no answer. */
  readonly status: number
  /** The error code of the hub, or the error of the connection. */
  readonly code: string
  /** The answer is not from the hub: its body is no JSON. */
  readonly isForeign: boolean
}

export interface Sent {
  readonly ref: string
  readonly class: 'otp' | 'service'
  /** When it was sent first. */
  readonly at: number
  readonly answers: ReadonlyArray<Answer>
  /** The id that the client was told, and when. */
  readonly accepted: { readonly id: string; readonly at: number } | null
}

interface LoadOptions {
  readonly url: string
  readonly key: string
  /** Messages per second. */
  readonly rate: number
  /** It begins each `client_ref`. */
  readonly name: string
}

export interface Load {
  readonly count: () => number
  /** Stops sending, and waits until each message is accepted or given up. */
  readonly stop: () => Promise<ReadonlyArray<Sent>>
}

const CONNECTIONS = 64
const ANSWER_WITHIN_MS = 30_000
/** A client repeats a send that long. */
const ACCEPTED_WITHIN_MS = 120_000
const PAUSE_MS = 250
const TICK_MS = 10

/** Each message has its own recipient, because a flood limit would refuse the second. */
const numbersFrom = (first: number) => (index: number) =>
  `+7913${String((first + index) % 10_000_000).padStart(7, '0')}`

export const startLoad = ({ key, name, rate, url }: LoadOptions): Load => {
  const agent = new Agent({ connections: CONNECTIONS, keepAliveTimeout: 60_000, keepAliveMaxTimeout: 60_000 })
  const numberOf = numbersFrom(Math.floor(Math.random() * 10_000_000))
  const stopping = new AbortController()
  const all: Array<Promise<Sent>> = []

  const sendOne = async (index: number): Promise<Sent> => {
    const messageClass = index % 2 === 0 ? 'otp' : 'service'
    const ref = `${name}-${index}`
    const body = JSON.stringify(send(messageClass, numberOf(index), ref))
    const at = Date.now()
    const answers: Array<Answer> = []
    for (;;) {
      const began = Date.now()
      try {
        const response = await fetch(`${url}/v1/messages`, {
          method: 'POST',
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
          body,
          dispatcher: agent,
          signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
        })
        const text = await response.text()
        const isForeign = response.headers.get('content-type')?.includes('json') !== true
        const parsed = isForeign ? null : JSON.parse(text)
        answers.push({ at: began, status: response.status, code: parsed?.error?.code ?? '', isForeign })
        if (response.status === 202 || response.status === 200)
          return { ref, class: messageClass, at, answers, accepted: { id: parsed.id, at: Date.now() } }
        // Each message has its own recipient, so its window is not full: the hub could not check it in time.
        const isUnchecked = parsed?.error?.code === 'recipient_flood_limited'
        if (response.status < 500 && response.status !== 429 && !isUnchecked)
          return { ref, class: messageClass, at, answers, accepted: null }
      } catch (error) {
        const { cause, name: kind } = error as Error & { readonly cause?: { readonly code?: string } }
        answers.push({ at: began, status: 0, code: cause?.code ?? kind, isForeign: true })
      }
      if (Date.now() - at > ACCEPTED_WITHIN_MS)
        return { ref, class: messageClass, at, answers, accepted: null }
      await delay(PAUSE_MS)
    }
  }

  const sending = (async () => {
    const began = performance.now()
    for (let index = 0; !stopping.signal.aborted;) {
      const due = Math.floor(((performance.now() - began) * rate) / 1000)
      for (; index <= due; index++) all.push(sendOne(index))
      await delay(TICK_MS)
    }
  })()

  return {
    count: () => all.length,
    stop: async () => {
      stopping.abort()
      await sending
      const sent = await Promise.all(all)
      await agent.close()
      return sent
    },
  }
}
