/**
 * Requests whose sends wait for an outcome, and the registry of all of them in this process.
 *
 * A deadline ends a request in two steps (docs/decisions/repeats.md#unknown-outcomes). From the first on, no
 * send begins to be recorded; repeats still get their answers. At the second, all sends are refused. If the
 * ledger or Kafka may contain one of these, its outcome is unknown.
 */
import type { ApiError } from '@hub/contract'
import type { Span, TraceHeaders } from '@hub/telemetry'
import { Deferred, Effect, Result } from 'effect'
import type { Owner } from '../accounts/account.ts'
import type { IdempotencyLock, StoredResponse } from '../idempotency/idempotency-keys.port.ts'
import type { Ticket } from './admission/admission-control.ts'
import type { CheckedSend } from './check/checked-send.ts'
import { refusalAtDeadline, Send, type SendOutcome } from './send.ts'
import type { Slices } from './admission/slices.ts'

/** A batch that the hub creates if it accepts any element, or refuses all elements. */
export interface NewBatch {
  /** `bat_…` */
  readonly id: string
  readonly owner: Owner
  /** Number of elements of the request, including malformed ones. */
  readonly total: number
  /** Number of elements that could not be decoded. They never become a `CheckedSend`. */
  readonly malformed: number
}

/** What the sends of one request have in common. */
export interface RequestContext {
  readonly batch?: NewBatch
  /** When the request began, milliseconds since the epoch, by the clock of this process. */
  readonly startedAt?: number
  readonly trace?: { readonly span: Span; readonly headers: TraceHeaders } | null
  /** The request id (`req_…`) and the id of its API key (`key_…`). The facts contain both. */
  readonly origin?: { readonly request: string; readonly apiKey: string }
  /** The admission of the request. */
  readonly ticket?: Ticket | null
  /** The weight of the account among those whose sends wait. Default 1. */
  readonly weight?: number
  /** The lock on the idempotency key. The transaction that records the sends checks it. */
  readonly lock?: IdempotencyLock
  /**
   * Builds the response from all outcomes, in the order of the sends. The transaction that records
   * the sends stores it, if it makes the last outcome known. `createdAt`: creation time of the
   * batch. `null`: the response must not be stored.
   */
  readonly response?: (outcomes: ReadonlyArray<SendOutcome>, createdAt: number) => StoredResponse | null
}

/** A send that waits for its outcome. */
export type PendingSend = Send<PendingRequest>

/** Bounds the memory of requests. Admission control refuses work long before this, by its wait. */
const MAX_PENDING_SENDS = 20_000
/** The deadlines of a request, milliseconds after it began. */
interface Deadlines {
  readonly record: number
  readonly answer: number
}
/**
 * The contract allows 3 s for a send. The rest is for the release of an idempotency lock and the
 * response. A commit that begins at the last moment has 700 ms, so an overloaded hub knows its result.
 */
const SEND_DEADLINES: Deadlines = { record: 1700, answer: 2400 }
/** The contract allows 10 s for a batch. The rest is also for its seal. */
const BATCH_DEADLINES: Deadlines = { record: 5500, answer: 8500 }

/** What a request reports to the registry. */
interface RequestObserver {
  /** All sends have an outcome. */
  readonly onAnswered: (request: PendingRequest) => void
  /** No send may change the ledger any more, and an outcome may differ from the ledger. */
  readonly onUncertainSettled: (request: PendingRequest) => void
  readonly onSendAnswered: () => void
  readonly slices: Slices
}

/**
 * What the ledger contains of a request: nothing, at least one of its sends, or also the outcome of
 * its batch with the record `BatchSealed`.
 */
type InLedger = 'nothing' | 'sends' | 'sealed batch'

/** A request and its sends. Other files read it and call its transitions. */
export class PendingRequest {
  readonly sends: ReadonlyArray<PendingSend>
  readonly context: RequestContext
  /** Milliseconds since the epoch, by the clock of this process. */
  readonly arrivedAt: number
  /** From this time on, no send of the request may begin to be recorded. Same clock. */
  readonly recordBefore: number
  /** At this time, each send of the request gets an outcome. Same clock. */
  readonly answerAt: number
  readonly done = Deferred.makeUnsafe<void>()
  readonly #observer: RequestObserver
  #unanswered: number
  #unsettled: number
  #createdAt: number | null = null
  #dailyLimit: Effect.Effect<ApiError | null> | null = null
  #inLedger: InLedger = 'nothing'
  #isUncertain = false
  #isResponseStored = false

  constructor(
    checkedSends: ReadonlyArray<CheckedSend>,
    context: RequestContext,
    arrivedAt: number,
    observer: RequestObserver,
  ) {
    const { answer, record } = context.batch === undefined ? SEND_DEADLINES : BATCH_DEADLINES
    const startedAt = context.startedAt ?? arrivedAt
    this.context = context
    this.arrivedAt = arrivedAt
    this.recordBefore = startedAt + record
    this.answerAt = startedAt + answer
    this.#observer = observer
    this.#unanswered = checkedSends.length
    this.#unsettled = checkedSends.length
    const ofSend = {
      onAnswered: (begunAt: number | null) => this.#sendAnswered(begunAt),
      onSettled: () => this.#sendSettled(),
    }
    this.sends = checkedSends.map((checked) => new Send<PendingRequest>(checked, this, ofSend))
  }

  /** Time of the first acceptance batch with a send of the request, ms since the epoch. */
  get createdAt(): number | null {
    return this.#createdAt
  }
  get isInLedger(): boolean {
    return this.#inLedger !== 'nothing'
  }
  get isSealed(): boolean {
    return this.#inLedger === 'sealed batch'
  }
  /** True if an outcome may differ from the ledger. The sweeper then seals the batch. */
  get isUncertain(): boolean {
    return this.#isUncertain
  }
  /** True if the ledger contains the response. */
  get isResponseStored(): boolean {
    return this.#isResponseStored
  }
  /** The outcomes, in the order of the sends. `missing`: of a send without one. */
  outcomes(missing: ApiError): ReadonlyArray<SendOutcome> {
    return this.sends.map(({ outcome }) => outcome ?? Result.fail(missing))
  }

  /** The first acceptance batch with a send of it was decided. */
  create(at: number): void {
    this.#createdAt ??= at
  }
  /** The daily limit of the day of its first acceptance batch. It is read once per request. */
  dailyLimit(today: Effect.Effect<ApiError | null>): Effect.Effect<ApiError | null> {
    this.#dailyLimit ??= today
    return this.#dailyLimit
  }
  /** The ledger contains at least one send of it. */
  record(): void {
    if (this.#inLedger === 'nothing') this.#inLedger = 'sends'
  }
  /** The ledger contains the outcome of its batch. */
  seal(): void {
    this.#inLedger = 'sealed batch'
  }
  /** The ledger contains nothing of it any more. */
  discard(): void {
    this.#inLedger = 'nothing'
  }
  storeResponse(): void {
    this.#isResponseStored = true
  }
  /** An outcome may differ from the ledger. */
  doubt(): void {
    this.#isUncertain = true
  }

  #sendSettled(): void {
    if (--this.#unsettled === 0 && this.#isUncertain) this.#observer.onUncertainSettled(this)
  }

  #sendAnswered(begunAt: number | null): void {
    const { ticket } = this.context
    this.#observer.onSendAnswered()
    if (--this.#unanswered > 0) {
      ticket?.finish(begunAt)
      return
    }
    this.#observer.onAnswered(this)
    this.#observer.slices.add(isOnlyCodes(this), () => {
      // Until now the send counts as work in progress: an answer that waits for its slice is work too.
      ticket?.finish(begunAt)
      // The fiber of the request writes its answer at once.
      Deferred.doneUnsafe(this.done, Effect.void)
    })
  }
}

export const isOnlyCodes = ({ sends }: PendingRequest): boolean =>
  sends.every(({ checked }) => checked.class === 'otp')

interface PendingRequestsOptions {
  /** Called when all sends of a request have an outcome. */
  readonly onRequestDone: () => void
  readonly onUncertainSettled: RequestObserver['onUncertainSettled']
  readonly slices: Slices
}

/** Creates the registry. */
export const makePendingRequests = ({
  onRequestDone,
  onUncertainSettled,
  slices,
}: PendingRequestsOptions) => {
  const open = new Set<PendingRequest>()
  let count = 0
  const observer: RequestObserver = {
    onSendAnswered: () => void count--,
    onAnswered: (request) => {
      open.delete(request)
      onRequestDone()
    },
    onUncertainSettled,
    slices,
  }

  return {
    /** The number of sends without an outcome. */
    count: () => count,
    hasRoomFor: (sends: number) => count + sends <= MAX_PENDING_SENDS,
    /** Registers the sends of a request. A request without sends is done at once. */
    open: (
      checkedSends: ReadonlyArray<CheckedSend>,
      context: RequestContext,
      arrivedAt: number,
    ): PendingRequest => {
      const request = new PendingRequest(checkedSends, context, arrivedAt, observer)
      context.ticket?.transfer(checkedSends.length, context.weight ?? 1)
      if (checkedSends.length === 0) Deferred.doneUnsafe(request.done, Effect.void)
      else {
        count += checkedSends.length
        open.add(request)
      }
      return request
    },
    /** Refuses the sends of requests that have reached their deadline. */
    expire: (now: number): void => {
      for (const request of open) {
        if (now < request.answerAt) continue
        request.doubt()
        for (const send of request.sends) send.answer(Result.fail(refusalAtDeadline(send)))
      }
    },
  }
}
export type PendingRequests = ReturnType<typeof makePendingRequests>
