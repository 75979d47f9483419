/** An open connection to a Redis server, its measured latency, and whether it is silent. */
import type { Redis } from 'ioredis'
import { type Command, PING, type RunScript } from './command.ts'
import { now } from './deadline.ts'
import { isReply } from './failures.ts'
import { afterAnswer, deadlineOf, type DeadlineLimits, expectedOf, type Latency } from './latency.ts'
import { forgetLatency, showLatency } from './metrics.ts'
import { CountersUnavailable } from './port.ts'

/** What waits for a call. */
export type CallKind = 'quick' | 'verdict' | 'background'

/** The limits of the deadlines, milliseconds. */
export const LIMITS: Readonly<Record<CallKind, DeadlineLimits>> = {
  /**
   * A request that can continue without an answer: request rate, failed logins, daily limit. A code
   * waits for at most three of them, and for none while Redis is known to be slower.
   */
  quick: { least: 250, most: 250 },
  /** Flood windows. Without an answer, a service message is refused. A send has 3 s altogether. */
  verdict: { least: 500, most: 1000 },
  /** Nobody waits. */
  background: { least: 5000, most: 5000 },
}

/** A connection is silent when it has received nothing for this time, although an answer is due. */
const SILENCE: DeadlineLimits = { least: 1000, most: 3000 }

/** How often a connection with calls in progress is checked. */
const CHECK_EVERY_MS = 100

/** While Redis is slow, pings find out when it no longer is. */
const PING_EVERY_MS = 250

/** Calls without an answer. With more of them, a further one would only time out. */
const MAX_IN_FLIGHT = 5_000

const slow = new CountersUnavailable({ reason: 'timeout', detail: 'slow' })
const busy = new CountersUnavailable({ reason: 'busy', detail: 'in flight' })

interface ConnectionEvents {
  readonly onSilent: () => void
  /** It has received an answer after it was silent. */
  readonly onAnswering: () => void
}

/** An open connection, and what its answers tell about Redis. */
export class Connection {
  readonly redis: Redis
  /** The URL of the server. */
  readonly url: string
  readonly #run: RunScript
  readonly #events: ConnectionEvents
  #latency: Latency
  /** Calls without an answer, also after their deadline. */
  #unanswered = 0
  /** While answers are due: when the last one arrived, or when the first call was made. */
  #dueSince = 0
  /** How long nothing had arrived at the last check. */
  #dueMs = 0
  #isSilent = false
  #pingedAt = 0
  #timer: NodeJS.Timeout | null = null
  #isCorked = false
  #isClosed = false

  /** `measured`: how long Redis took for an answer while the connection was opened. */
  constructor(
    redis: Redis,
    url: string,
    digests: ReadonlyMap<string, string>,
    measured: number,
    events: ConnectionEvents,
  ) {
    this.redis = redis
    this.url = url
    this.#latency = afterAnswer(null, measured)
    this.#run = (name, keys, args) => redis.evalsha(digests.get(name) ?? '', keys.length, ...keys, ...args)
    this.#events = events
  }

  isSilent(): boolean {
    return this.#isSilent
  }

  deadline(limits: DeadlineLimits): number {
    return deadlineOf(this.#latency, limits)
  }

  /** Why a call would not get its answer in time; `null`: it is worth a try. */
  refusal(deadlineMs: number): CountersUnavailable | null {
    if (this.#unanswered >= MAX_IN_FLIGHT) return busy
    return Math.max(expectedOf(this.#latency), this.#dueMs) >= deadlineMs ? slow : null
  }

  /** Sends all commands at once. The answers are in their order. */
  send(commands: ReadonlyArray<Command>): Promise<ReadonlyArray<unknown>> {
    this.#cork()
    const sentAt = now()
    if (this.#unanswered++ === 0) this.#dueSince = sentAt
    this.#timer ??= setInterval(() => setImmediate(() => this.check()), CHECK_EVERY_MS)
    const answers = Promise.all(commands.map(({ send }) => send(this.#run, this.redis)))
    answers.then(
      () => this.#onEnd(sentAt, true),
      (error: unknown) => this.#onEnd(sentAt, isReply(error)),
    )
    return answers
  }

  close(): void {
    this.#isClosed = true
    this.#stopChecks()
    this.redis.disconnect()
  }

  #stopChecks(): void {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
    forgetLatency(this)
  }

  /** One write for the commands of a turn of the event loop: one write each costs more than the rest of a call. */
  #cork(): void {
    if (this.#isCorked) return
    this.#isCorked = true
    const { stream } = this.redis
    stream.cork()
    setImmediate(() => {
      this.#isCorked = false
      stream.uncork()
    })
  }

  #onEnd(sentAt: number, isAnswer: boolean): void {
    this.#unanswered--
    if (!isAnswer) return
    const at = now()
    this.#dueSince = at
    this.#dueMs = 0
    this.#latency = afterAnswer(this.#latency, at - sentAt)
    if (!this.#isSilent) return
    this.#isSilent = false
    this.#events.onAnswering()
  }

  /**
   * Looks for silence. It must run after the sockets were read, so that a busy process does not take
   * its own delay for silence.
   */
  check(): void {
    if (this.#isClosed) return
    const at = now()
    this.#dueMs = this.#unanswered === 0 ? 0 : at - this.#dueSince
    showLatency(this, Math.max(this.#latency.smoothed, this.#dueMs))
    const isSlow = expectedOf(this.#latency) >= LIMITS.quick.most
    if (!this.#isSilent && this.#dueMs >= this.deadline(SILENCE)) {
      this.#isSilent = true
      this.#events.onSilent()
    } else if (isSlow && !this.#isSilent && at - this.#pingedAt >= PING_EVERY_MS) {
      this.#pingedAt = at
      this.send([PING]).catch(() => {})
    } else if (!isSlow && this.#unanswered === 0) {
      this.#stopChecks()
    }
  }
}
