/**
 * Requests whose sends wait for an outcome, and the registry of all of them in this process.
 *
 * It is synchronous, so all fibers agree on whether a send has its outcome. The first one counts.
 *
 * A deadline ends a request in two steps (docs/decisions/0040). From the first on, no send begins to
 * be recorded; repeats still get their answers. At the second, all sends are refused. If the ledger
 * or Kafka may contain one of these, its outcome is unknown.
 */
import { type ApiError, apiError } from '@hub/contract'
import type { Span } from '@hub/telemetry'
import { Deferred, Effect, Result } from 'effect'
import type { Owner } from '../accounts/account.ts'
import type { IdempotencyLock, StoredResponse } from '../idempotency/idempotency-keys.port.ts'
import type { MessageView } from '../messages/message.ts'
import type { Ticket } from './admission-control.ts'
import type { CheckedSend } from './checked-send.ts'
import type { Slices } from './slices.ts'

/** The message that was accepted or repeated, or the error that the client gets. */
export type SendOutcome = Result.Result<{ readonly view: MessageView; readonly duplicate: boolean }, ApiError>

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
  readonly trace?: { readonly span: Span; readonly traceparent: string } | null
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

/**
 * What may have happened to a send. `waiting`: nothing. `recording`: its commit is in progress, or
 * has an unknown result. `recorded`: the ledger contains it; a code is not in Kafka. `appending`:
 * Kafka may contain it, or it joined a code that Kafka may contain.
 */
export type SendStage = 'waiting' | 'recording' | 'recorded' | 'appending'

/** One send that waits for its outcome. */
export interface PendingSend {
  readonly checked: CheckedSend
  readonly request: PendingRequest
  outcome: SendOutcome | null
  stage: SendStage
  /** True after a commit with an unknown result: the ledger may contain its message id. */
  mayBeRecorded: boolean
  /** The time of acceptance in that commit, milliseconds since the epoch. */
  recordedAt: number | null
  /** The id for a new message. Retries in later acceptance batches use the same id. */
  messageId: string | null
  /** True while the send holds an unconfirmed reservation in the flood windows. */
  reserved: boolean
  /** When its last acceptance batch began, milliseconds since the epoch; `null`: it has had none. */
  begunAt: number | null
}

/** The pending sends of one request. */
export interface PendingRequest {
  readonly sends: Array<PendingSend>
  readonly context: RequestContext
  /** Milliseconds since the epoch, by the clock of this process. */
  readonly arrivedAt: number
  /** From this time on, no send of the request may begin to be recorded. Same clock. */
  readonly recordBefore: number
  /** At this time, each send of the request gets an outcome. Same clock. */
  readonly answerAt: number
  readonly done: Deferred.Deferred<void>
  /** Seconds until the hub's daily limit allows the request; `null`: now. Read once per request. */
  dailyLimit: Effect.Effect<ApiError | null> | null
  unanswered: number
  /** Sends that may still change the ledger: without outcome, or being recorded or appended. */
  unsettled: number
  /** Time of the first acceptance batch with a send of the request, ms since the epoch. */
  createdAt: number | null
  /** True if an outcome may differ from the ledger. The sweeper then seals the batch. */
  outcomeUncertain: boolean
  /** True if the ledger contains at least one send of the request. */
  recorded: boolean
  /** True if the ledger contains the outcome of the batch and its `BatchSealed` record. */
  sealed: boolean
  /** True if the ledger contains the response. */
  responseStored: boolean
}

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
/** Seconds. By then the hub has tried to reach PostgreSQL or Kafka again. */
const RETRY_AFTER_SECONDS = 2

// Created once: errors capture a stack trace, and an outage produces thousands of them.
export const STORAGE_DOWN = apiError('internal_error', {
  retryAfter: RETRY_AFTER_SECONDS,
  reason: 'PostgreSQL did not record the acceptance batch in time',
})
export const NOT_QUEUED = apiError('provider_unavailable', {
  reason: 'Kafka did not acknowledge the code in time',
})
const UNKNOWN = {
  outcome: 'unknown',
  retryAfter: RETRY_AFTER_SECONDS,
  message:
    'The hub does not know yet whether it accepted the message. Repeat the request with the same client_ref or Idempotency-Key.',
} as const
/** The ledger may contain the message. */
export const RECORD_UNKNOWN = apiError('internal_error', {
  ...UNKNOWN,
  reason: 'the result of a commit in PostgreSQL is unknown',
})
/** Kafka may contain the code. */
export const APPEND_UNKNOWN = apiError('provider_unavailable', {
  ...UNKNOWN,
  reason: 'the result of an append to Kafka is unknown',
})

/** The refusal of a send at the deadline of its request. */
const refusalAtDeadline = ({ checked, stage }: PendingSend): ApiError => {
  if (stage === 'appending') return APPEND_UNKNOWN
  // A code is published only after its commit has succeeded, and not after its refusal.
  if (checked.class === 'otp') return NOT_QUEUED
  return stage === 'waiting' ? STORAGE_DOWN : RECORD_UNKNOWN
}

export const isOnlyCodes = ({ sends }: PendingRequest): boolean =>
  sends.every(({ checked }) => checked.class === 'otp')

interface PendingSendsOptions {
  /** Called when all sends of a request have an outcome. */
  readonly onRequestDone: () => void
  /**
   * Called when no send of a request may change the ledger any more, if an outcome may differ from
   * the ledger.
   */
  readonly onUncertainSettled: (request: PendingRequest) => void
  readonly slices: Slices
}

/** Creates the registry. */
export const makePendingSends = ({ onRequestDone, onUncertainSettled, slices }: PendingSendsOptions) => {
  const open = new Set<PendingRequest>()
  let count = 0

  const settle = ({ request }: PendingSend): void => {
    if (--request.unsettled === 0 && request.outcomeUncertain) onUncertainSettled(request)
  }
  const mayChangeLedger = ({ stage }: PendingSend): boolean => stage === 'recording' || stage === 'appending'

  const complete = (send: PendingSend, outcome: SendOutcome): void => {
    if (send.outcome !== null) return
    send.outcome = outcome
    count--
    const { request } = send
    const begunAt = Result.isSuccess(outcome) && !outcome.success.duplicate ? send.begunAt : null
    if (!mayChangeLedger(send)) settle(send)
    if (--request.unanswered > 0) {
      request.context.ticket?.finish(begunAt)
      return
    }
    open.delete(request)
    onRequestDone()
    slices.add(isOnlyCodes(request), () => {
      // Until now the send counts as work in progress: an answer that waits for its slice is work too.
      request.context.ticket?.finish(begunAt)
      // The fiber of the request writes its answer at once.
      Deferred.doneUnsafe(request.done, Effect.void)
    })
  }
  const refuse = (send: PendingSend, error: ApiError): void => complete(send, Result.fail(error))
  /** Moves a send to a stage. After the deadline of its request, this can settle the request. */
  const moveTo = (send: PendingSend, stage: SendStage): void => {
    const mightChange = mayChangeLedger(send)
    send.stage = stage
    if (send.outcome !== null && mightChange && !mayChangeLedger(send)) settle(send)
  }

  return {
    count: () => count,
    hasRoomFor: (sends: number) => count + sends <= MAX_PENDING_SENDS,
    /** Registers the sends of a request. A request without sends is done at once. */
    open: (
      checkedSends: ReadonlyArray<CheckedSend>,
      context: RequestContext,
      arrivedAt: number,
    ): PendingRequest => {
      const { answer, record } = context.batch === undefined ? SEND_DEADLINES : BATCH_DEADLINES
      const startedAt = context.startedAt ?? arrivedAt
      const request: PendingRequest = {
        sends: [],
        context,
        arrivedAt,
        recordBefore: startedAt + record,
        answerAt: startedAt + answer,
        done: Deferred.makeUnsafe<void>(),
        dailyLimit: null,
        unanswered: checkedSends.length,
        unsettled: checkedSends.length,
        createdAt: null,
        outcomeUncertain: false,
        recorded: false,
        sealed: false,
        responseStored: false,
      }
      for (const checked of checkedSends) {
        request.sends.push({
          checked,
          request,
          outcome: null,
          stage: 'waiting',
          mayBeRecorded: false,
          recordedAt: null,
          messageId: null,
          reserved: false,
          begunAt: null,
        })
      }
      context.ticket?.handOver(checkedSends.length, context.weight ?? 1)
      if (checkedSends.length === 0) Deferred.doneUnsafe(request.done, Effect.void)
      else {
        count += checkedSends.length
        open.add(request)
      }
      return request
    },
    complete,
    refuse,
    /** Completes a send, and ends its recording or its append. */
    finish: (send: PendingSend, outcome: SendOutcome): void => {
      complete(send, outcome)
      moveTo(send, 'recorded')
    },
    moveTo,
    /** Refuses the sends of requests that have reached their deadline. */
    expire: (now: number): void => {
      for (const request of open) {
        if (now < request.answerAt) continue
        request.outcomeUncertain = true
        for (const send of request.sends) refuse(send, refusalAtDeadline(send))
      }
    },
  }
}
export type PendingSends = ReturnType<typeof makePendingSends>
