/** Sends messages as clients do, and records each request with its answer. */
import { setTimeout as delay } from 'node:timers/promises'
import { type Random, seededRandom } from '../support/seeded-random.ts'
import type { RunAccount } from './accounts.ts'
import type { Answer, Api } from './api.ts'
import type { BatchResult, MessageClass } from './checker/history.ts'
import type { Recorder } from './recorder.ts'
import { refOf } from './refs.ts'

/** A client gives up later than the contract lets the hub answer (3 s and 10 s). */
const SINGLE_WITHIN_MS = 6000
const BATCH_WITHIN_MS = 15_000
/** Sends in flight: those of this time. Above it, due sends are left out. */
const MAX_IN_FLIGHT_SECONDS = 6
const TICK_MS = 20
/** The rate rises during this time, because new processes still compile their code. */
const RAMP_MS = 10_000
const FIRST_SHARE = 0.1
/** A refused send is repeated at most so often. */
const MAX_ATTEMPTS = 6
const MAX_RETRY_AFTER_MS = 10_000
/** One in this many clients never repeats, so that a refusal is the last word. */
const GIVES_UP = 6

/** The sizes of batches. Half of the messages in batches are in large ones, which cost the hub less. */
const SMALL_BATCH = 50
/**
 * A process that accepts 150 sends per second, as on two cores, refuses batches of 500, because they would
 * take too long. At low rates, a large batch has the messages of one second.
 */
const LARGE_BATCH = 200
/** The shares of single sends among all sends, in thousandths. The rest is in batches. */
const SINGLE_OTP = 120
const SINGLE_SERVICE = 80
/** Thousandths of the sends to the recipients and the account with limits. */
const LIMITED = 10
/**
 * The most single sends per second. A single send costs the hub about ten times as much as an element of a
 * batch, so more of them would decide the rate. These are enough to notice that a class is unavailable.
 */
const MOST_OTP = 24
const MOST_SERVICE = 16
const MOST_LIMITED = 4
/** The recipients that get messages until a flood window refuses. */
const FLOODED = 20

interface Wanted {
  readonly account: RunAccount
  readonly class: MessageClass
  readonly ref: string
  readonly number: string
  readonly hasClientRef: boolean
  readonly key: string | null
  readonly givesUp: boolean
  readonly variables: Readonly<Record<string, string>>
}

export interface LoadStatistics {
  /** Sends that were due. */
  readonly due: number
  /** Due sends that were left out because too many were in flight. */
  readonly leftOut: number
}

export interface Load {
  readonly statistics: () => LoadStatistics
  /** The ids of accepted messages that the clients know. */
  readonly accepted: ReadonlyMap<string, string>
  /** The recipient of the message with a reference, if clients wanted to send only this message to it. */
  readonly onlyMessageTo: (ref: string) => string | null
  /** The ids of batches that the clients know. */
  readonly batches: ReadonlySet<string>
  /** Sends one message and repeats it as clients do. */
  readonly sendOne: (what: {
    readonly account: RunAccount
    readonly class: MessageClass
    readonly number: string
  }) => Promise<string | null>
  /** Waits until no request is in flight. */
  readonly stop: () => Promise<void>
  /** Sends nothing new, and waits for nothing. */
  readonly abandon: () => Promise<void>
}

const bodyOf = ({ class: messageClass, hasClientRef, number, ref, variables }: Wanted) => ({
  to: number,
  class: messageClass,
  template: messageClass === 'otp' ? 'otp_code' : 'order_ready',
  variables,
  ...(hasClientRef ? { client_ref: ref } : {}),
})

const retryAfterMs = (answer: Answer): number =>
  Math.min(MAX_RETRY_AFTER_MS, 1000 * Number(answer.body?.error?.retry_after ?? 1))

/** The hub could not check the flood windows. A repeat needs a new key. */
const isUnchecked = ({ body }: Answer): boolean =>
  body?.error?.code === 'recipient_flood_limited' && body.error.window === undefined

/** Whether a client repeats the request. */
const isTemporary = (answer: Answer): boolean => {
  const { status } = answer
  return status === null || status >= 500 || status === 429 || status === 409 || isUnchecked(answer)
}

const timesOf = (answer: Answer) => ({
  began: answer.began,
  ended: answer.ended,
  status: answer.status,
  code: (answer.body?.error?.code ?? null) as string | null,
  unknown: answer.body?.error?.outcome === 'unknown' || answer.body?.outcome === 'unknown',
})

interface LoadOptions {
  readonly api: Api
  readonly recorder: Recorder
  readonly accounts: ReadonlyArray<RunAccount>
  readonly seed: number
  readonly rate: number
}

export const startLoad = ({ accounts, api, rate, recorder, seed }: LoadOptions): Load => {
  const random: Random = seededRandom(seed ^ 0x5eed)
  const accepted = new Map<string, string>()
  const numbers = new Map<string, string>()
  const messagesTo = new Map<string, number>()
  const batches = new Set<string>()
  const [main, other, limited] = accounts as readonly [RunAccount, RunAccount, RunAccount]
  const inFlight = new Set<Promise<unknown>>()
  let sending = 0
  let refs = 0
  let due = 0
  let leftOut = 0
  let stopping = false
  let failure: unknown = null

  const track = (work: Promise<unknown>): void => {
    const tracked = work
      .catch((error: unknown) => {
        failure ??= error
      })
      .finally(() => inFlight.delete(tracked))
    inFlight.add(tracked)
  }

  const want = (
    account: RunAccount,
    messageClass: MessageClass,
    number: string | null,
    isBatch: boolean,
  ): Wanted => {
    const index = (refs += 1)
    const ref = refOf(index)
    const hasClientRef = isBatch || random.below(8) > 0
    const recipient = number ?? `+7911${String(index).padStart(7, '0')}`
    numbers.set(ref, recipient)
    messagesTo.set(recipient, (messagesTo.get(recipient) ?? 0) + 1)
    // Some texts have two parts.
    const order = random.below(16) === 0 ? `${ref} ${'x'.repeat(60)}` : ref
    return {
      account,
      class: messageClass,
      ref,
      number: recipient,
      hasClientRef,
      key: !isBatch && (!hasClientRef || random.below(2) === 0) ? `k-${ref}` : null,
      givesUp: random.below(GIVES_UP) === 0,
      variables: messageClass === 'otp' ? { code: ref } : { order },
    }
  }

  const read = async (wanted: Wanted, id: string): Promise<void> => {
    for (const pause of [0, 1500, 6000]) {
      await delay(pause)
      const answer = await api.get(wanted.account.key, `/v1/messages/${id}`)
      recorder.record({
        kind: 'read',
        began: answer.began,
        ended: answer.ended,
        account: wanted.account.name,
        id,
        status: answer.status,
        state: answer.body?.status ?? null,
      })
      if (stopping) return
    }
  }

  const attempt = async (wanted: Wanted, key: string | null): Promise<Answer> => {
    const answer = await api.post(wanted.account.key, '/v1/messages', bodyOf(wanted), {
      withinMs: SINGLE_WITHIN_MS,
      idempotencyKey: key,
    })
    const id: string | null = answer.status === 202 ? answer.body.id : null
    recorder.record({
      kind: 'send',
      ...timesOf(answer),
      account: wanted.account.name,
      class: wanted.class,
      ref: wanted.ref,
      hasClientRef: wanted.hasClientRef,
      number: wanted.number,
      key,
      id,
      duplicate: answer.body?.duplicate === true,
      window: answer.body?.error?.window ?? null,
      replayed: answer.replayed,
      digest: answer.digest,
      retryAfter: answer.body?.error?.retry_after !== undefined,
    })
    if (id !== null) accepted.set(id, wanted.ref)
    return answer
  }

  const send = async (wanted: Wanted): Promise<string | null> => {
    let { key } = wanted
    for (let tries = 1; ; tries += 1) {
      const answer = await attempt(wanted, key)
      if (answer.status === 202) {
        // Some clients repeat a send that was accepted, and some read the message.
        if (random.below(20) === 0) await attempt(wanted, key)
        if (random.below(40) === 0) track(read(wanted, answer.body.id))
        return answer.body.id
      }
      if (!isTemporary(answer) || wanted.givesUp || tries >= MAX_ATTEMPTS) return null
      if (key !== null && isUnchecked(answer)) key = `${wanted.key} ${tries}`
      await delay(retryAfterMs(answer))
    }
  }

  const sendBatch = async (
    account: RunAccount,
    all: ReadonlyArray<Wanted>,
    key: string | null,
  ): Promise<void> => {
    let left = all
    let isRepeated = random.below(15) === 0
    for (let tries = 1; left.length > 0 && tries <= MAX_ATTEMPTS; tries += 1) {
      const isFirst = left === all
      const answer = await api.post(
        account.key,
        '/v1/messages/batch',
        { messages: left.map(bodyOf) },
        { withinMs: BATCH_WITHIN_MS, idempotencyKey: isFirst ? key : null },
      )
      const results: ReadonlyArray<any> = answer.status === 202 ? answer.body.results : []
      const batch: string | null = answer.status === 202 ? answer.body.id : null
      if (batch !== null) batches.add(batch)
      recorder.record({
        kind: 'batch',
        ...timesOf(answer),
        account: account.name,
        key: isFirst ? key : null,
        replayed: answer.replayed,
        digest: answer.digest,
        batch,
        items: left.map(({ class: messageClass, number, ref }, i) => {
          const one = results[i]
          const id: string | null = one?.message?.id ?? one?.message_id ?? null
          if (id !== null) accepted.set(id, ref)
          return [
            ref,
            messageClass,
            number,
            (one?.result ?? null) as BatchResult | null,
            id,
            one?.error?.code ?? null,
            one?.error?.outcome === 'unknown',
          ]
        }),
      })
      if (answer.status !== 202) {
        if (!isTemporary(answer)) return
      } else if (isRepeated) {
        isRepeated = false
        continue
      } else {
        left = left.filter(
          ({ givesUp }, i) =>
            !givesUp &&
            results[i].result === 'rejected' &&
            isTemporary({
              ...answer,
              status: results[i].error.code === 'recipient_flood_limited' ? 422 : 503,
              body: results[i],
            }),
        )
      }
      if (left.length > 0) await delay(retryAfterMs(answer))
    }
  }

  const limitedSend = (): Promise<unknown> => {
    const messageClass = random.below(3) === 0 ? 'otp' : 'service'
    const number = random.below(2) === 0 ? `+7922${String(random.below(FLOODED)).padStart(7, '0')}` : null
    return send(want(limited, messageClass, number, false))
  }

  const begin = (work: () => Promise<unknown>, messages: number): void => {
    due += messages
    if (sending + messages > rate * MAX_IN_FLIGHT_SECONDS + SMALL_BATCH) {
      leftOut += messages
      return
    }
    sending += messages
    track(work().finally(() => (sending -= messages)))
  }

  const batchClass = (): MessageClass => (random.below(3) === 0 ? 'otp' : 'service')
  const batchOf = (size: number) => (): Promise<unknown> => {
    const account = random.below(2) === 0 ? main : other
    const messages = Array.from({ length: size }, () => want(account, batchClass(), null, true))
    return sendBatch(account, messages, random.below(2) === 0 ? `b-${messages[0]!.ref}` : null)
  }
  const singleOf = (messageClass: MessageClass) => (): Promise<unknown> =>
    send(want(random.below(2) === 0 ? main : other, messageClass, null, false))
  const otpRate = Math.min(MOST_OTP, (rate * SINGLE_OTP) / 1000)
  const serviceRate = Math.min(MOST_SERVICE, (rate * SINGLE_SERVICE) / 1000)
  const limitedRate = Math.min(MOST_LIMITED, (rate * LIMITED) / 1000)
  const inBatches = rate - otpRate - serviceRate - limitedRate
  const largeBatch = Math.min(LARGE_BATCH, rate)
  /** A stream of work: how often it begins per second, and the work. */
  const streams: ReadonlyArray<{
    readonly perSecond: number
    readonly messages: number
    readonly work: () => Promise<unknown>
  }> = [
    { perSecond: otpRate, messages: 1, work: singleOf('otp') },
    { perSecond: serviceRate, messages: 1, work: singleOf('service') },
    { perSecond: limitedRate, messages: 1, work: limitedSend },
    { perSecond: inBatches / 2 / SMALL_BATCH, messages: SMALL_BATCH, work: batchOf(SMALL_BATCH) },
    { perSecond: inBatches / 2 / largeBatch, messages: largeBatch, work: batchOf(largeBatch) },
  ]

  const running = streams.map(async ({ messages, perSecond, work }) => {
    const began = performance.now()
    const intervalMs = (): number =>
      1000 / perSecond / Math.min(1, Math.max(FIRST_SHARE, (performance.now() - began) / RAMP_MS))
    let next = began
    while (!stopping) {
      for (; next <= performance.now() && !stopping; next += intervalMs()) begin(work, messages)
      await delay(TICK_MS)
    }
  })
  return {
    statistics: () => ({ due, leftOut }),
    accepted,
    onlyMessageTo: (ref) => {
      const number = numbers.get(ref)
      return number !== undefined && messagesTo.get(number) === 1 ? number : null
    },
    batches,
    sendOne: ({ account, class: messageClass, number }) =>
      send({ ...want(account, messageClass, number, false), hasClientRef: true, givesUp: false }),
    abandon: async () => {
      stopping = true
    },
    stop: async () => {
      stopping = true
      await Promise.all(running)
      while (inFlight.size > 0) await Promise.all(inFlight)
      if (failure !== null) throw failure
    },
  }
}
