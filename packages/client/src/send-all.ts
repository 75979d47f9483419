/** Sends any number of messages in batches, and yields a result for each of them, in order. */
import type { components } from './contract.ts'
import { type Call, checkCount, LONGEST_WAIT_MS, type Wait, waitAfter, waitBefore } from './http.ts'
import { makeTurns } from './turns.ts'

export type BatchMessage = components['schemas']['BatchMessage']
/** `accepted`, `duplicate` or `rejected`. `index` is the place of the message among all of them. */
export type SendResult = components['schemas']['BatchResult']
type Rejection = Extract<SendResult, { readonly result: 'rejected' }>
type AcceptedBatch = components['schemas']['AcceptedBatch']

export interface SendAllOptions {
  /** Messages of a batch. Default: `limits.batch_max` of the account. */
  readonly batchSize?: number
  /**
   * The most batches in progress at the same time. Default 4. It begins with two. After the hub refused a
   * batch, there is one fewer, and later one more.
   */
  readonly concurrency?: number
  /** Maximum number of retries of a batch, or of its rejected messages that may be repeated. Default 8. */
  readonly maxRetries?: number
  readonly signal?: AbortSignal
}

/** The hub reads a body of 4 MiB. The rest is for the frame of the batch. */
const MAX_BATCH_BYTES = 4 * 1024 * 1024 - 4096

const DEFAULT_CONCURRENCY = 4
/** With the waits of `waitBefore`: about a minute, as long as a restart of the hub can take. */
const DEFAULT_RETRIES = 8

/** Codes of rejected messages that the hub accepts later, without a change of the message. */
const REPEATABLE: ReadonlySet<string> = new Set(['overloaded', 'provider_unavailable', 'internal_error'])

/**
 * A slow batch must not stop the others: their results wait for it, up to this multiple of the batches in
 * progress. A refused one waits for up to 10 s, and a hub does about three batches of 1,000 in a second. The
 * results of such a batch need less than a megabyte.
 */
const WINDOW = 8

interface OpenBatch {
  readonly results: Promise<ReadonlyArray<SendResult>>
  /** Resolves when the results are known, also if they are an error. */
  readonly settled: Promise<void>
  isSettled: boolean
}

const openBatch = (results: Promise<ReadonlyArray<SendResult>>, onSettled: () => void): OpenBatch => {
  const settle = (): void => {
    batch.isSettled = true
    onSettled()
  }
  const batch: OpenBatch = { results, settled: results.then(settle, settle), isSettled: false }
  return batch
}

/** Something that happens repeatedly. `next` resolves at the next `notify`. */
const makeNotifier = () => {
  let notify = (): void => {}
  return {
    notify: (): void => notify(),
    next: (): Promise<void> => new Promise((resolve) => (notify = resolve)),
  }
}

interface Element {
  readonly index: number
  readonly message: BatchMessage
}

const encoder = new TextEncoder()

/** Splits the messages by number and by size of the body. */
const inBatches = async function* (
  messages: Iterable<BatchMessage> | AsyncIterable<BatchMessage>,
  batchSize: number,
): AsyncGenerator<ReadonlyArray<Element>, void, undefined> {
  let batch: Array<Element> = []
  let bytes = 0
  let index = 0
  for await (const message of messages) {
    // With the comma.
    const size = encoder.encode(JSON.stringify(message)).length + 1
    if (batch.length === batchSize || (batch.length > 0 && bytes + size > MAX_BATCH_BYTES)) {
      yield batch
      batch = []
      bytes = 0
    }
    batch.push({ index, message })
    bytes += size
    index += 1
  }
  if (batch.length > 0) yield batch
}

/** Whether the hub could not check how many messages the recipient was sent. */
const isUnchecked = ({ code, window }: Rejection['error']): boolean =>
  code === 'recipient_flood_limited' && window === undefined

const isRepeatable = (result: SendResult): boolean =>
  result.result === 'rejected' &&
  (REPEATABLE.has(result.error.code) || isUnchecked(result.error)) &&
  (result.error.retry_after ?? 0) * 1000 <= LONGEST_WAIT_MS

export const makeSendAll = (call: Call, wait: Wait) =>
  /**
   * Sends all messages. Each message needs a `client_ref` of its own, so a repeat after a failure
   * creates nothing twice: a message that the hub had accepted is a `duplicate` then. If a batch fails after
   * all retries, the error is thrown after the results of the earlier batches.
   */
  async function* (
    messages: Iterable<BatchMessage> | AsyncIterable<BatchMessage>,
    options: SendAllOptions = {},
  ): AsyncGenerator<SendResult, void, undefined> {
    const concurrency = checkCount('concurrency', options.concurrency ?? DEFAULT_CONCURRENCY)
    const maxRetries = checkCount('maxRetries', options.maxRetries ?? DEFAULT_RETRIES, 0)
    const ended = new AbortController()
    const signal =
      options.signal === undefined ? ended.signal : AbortSignal.any([options.signal, ended.signal])
    const account =
      options.batchSize === undefined
        ? ((await call('get', '/v1/account', { signal })) as components['schemas']['Account'])
        : null
    const batchSize = checkCount('batchSize', options.batchSize ?? account?.limits.batch_max ?? 1)

    const changed = makeNotifier()
    const turns = makeTurns(concurrency, signal, changed.notify)

    /** Sends the elements as one request. Adds their results, and returns those that must be repeated. */
    const request = async (
      elements: ReadonlyArray<Element>,
      results: Map<number, SendResult>,
    ): Promise<{ readonly repeated: ReadonlyArray<Element>; readonly retryAfter: number | null }> => {
      const answer = (await call('post', '/v1/messages/batch', {
        body: { messages: elements.map(({ message }) => message) },
        // Each `client_ref` protects its message for longer, and the hub stores no answer of half a megabyte.
        idempotencyKey: null,
        signal,
        // A batch that waits for its repeat gives its turn to another one.
        maxRetries: 0,
      })) as AcceptedBatch
      const repeated: Array<Element> = []
      let retryAfter: number | null = null
      for (const [place, element] of elements.entries()) {
        const result = answer.results[place]
        if (result === undefined) throw new Error('The hub answered fewer results than messages.')
        results.set(element.index, { ...result, index: element.index })
        if (result.result !== 'rejected' || !isRepeatable(result)) continue
        repeated.push(element)
        retryAfter = Math.max(retryAfter ?? 0, result.error.retry_after ?? 0) || null
      }
      return { repeated, retryAfter }
    }

    const sendBatch = async (batch: ReadonlyArray<Element>): Promise<ReadonlyArray<SendResult>> => {
      const results = new Map<number, SendResult>()
      let elements = batch
      for (let tries = 0; ; tries++) {
        const turn = await turns.take(tries > 0)
        let waitMs: number | null
        try {
          const { repeated, retryAfter } = await request(elements, results)
          if (repeated.length === 0 || tries >= maxRetries) {
            turn.accepted()
            return batch.map(({ index }) => results.get(index)!)
          }
          waitMs = waitBefore(tries, retryAfter)
          elements = repeated
        } catch (error) {
          waitMs = waitAfter('post', error, tries, maxRetries)
          if (waitMs === null) {
            turn.failed()
            throw error
          }
        }
        turn.refused()
        await wait(waitMs, signal)
      }
    }

    const batches = inBatches(messages, batchSize)
    /** Batches whose results were not yielded yet, in order. */
    const open: Array<OpenBatch> = []
    try {
      for (let isAtEnd = false; ;) {
        while (!isAtEnd && open.length < concurrency * WINDOW && turns.isEmpty()) {
          const next = await batches.next()
          if (next.done === true) isAtEnd = true
          else open.push(openBatch(sendBatch(next.value), changed.notify))
        }
        const [first] = open
        if (first === undefined) return
        if (first.isSettled) {
          open.shift()
          yield* await first.results
        } else await changed.next()
      }
    } finally {
      ended.abort()
      await batches.return()
      await Promise.all(open.map(({ settled }) => settled))
    }
  }
