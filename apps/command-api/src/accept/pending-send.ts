/**
 * Requests whose sends wait for an outcome, and the registry of all of them in this process.
 *
 * It is synchronous, so all fibers agree on whether a send has its outcome. The first one counts.
 */
import { type ApiError, apiError } from '@hub/contract'
import type { Span } from '@hub/telemetry'
import { Deferred, Effect, Result } from 'effect'
import type { Owner } from '../accounts/account.ts'
import type { IdempotencyLock, StoredResponse } from '../idempotency/idempotency-keys.port.ts'
import type { MessageView } from '../messages/message.ts'
import type { CheckedSend } from './checked-send.ts'

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
  readonly trace?: { readonly span: Span; readonly traceparent: string } | null
  /** The lock on the idempotency key. The transaction that records the sends checks it. */
  readonly lock?: IdempotencyLock
  /**
   * Builds the response from all outcomes, in the order of the sends. The transaction that records
   * the sends stores it, if it makes the last outcome known. `createdAt`: creation time of the
   * batch. `null`: the response must not be stored.
   */
  readonly response?: (outcomes: ReadonlyArray<SendOutcome>, createdAt: number) => StoredResponse | null
}

/** One send that waits for its outcome. */
export interface PendingSend {
  readonly checked: CheckedSend
  readonly request: PendingRequest
  outcome: SendOutcome | null
  /** The id for a new message. Retries in later acceptance batches use the same id. */
  messageId: string | null
  /** True while the send holds an unconfirmed reservation in the flood windows. */
  reserved: boolean
}

/** The pending sends of one request. */
export interface PendingRequest {
  readonly sends: Array<PendingSend>
  readonly context: RequestContext
  /** Milliseconds since the epoch, by the clock of this process. */
  readonly arrivedAt: number
  readonly done: Deferred.Deferred<void>
  /** Seconds until the hub's daily limit allows the request; `null`: now. Read once per request. */
  dailyLimitRetryAfter: Effect.Effect<number | null> | null
  unanswered: number
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

/** About one second of work at full load. A send that waits longer would time out anyway. */
const MAX_PENDING_SENDS = 20_000
/** The contract allows 3 s; the rest is for reading the request and writing the response. */
const ANSWER_WITHIN_MS = 2500
/** Seconds. By then the hub has tried to reach PostgreSQL or Kafka again. */
const RETRY_AFTER_SECONDS = 2

// Created once: errors capture a stack trace, and an outage produces thousands of them.
export const STORAGE_DOWN = apiError('internal_error', { retryAfter: RETRY_AFTER_SECONDS })
export const OVERLOADED = apiError('internal_error', { retryAfter: 1 })
export const NOT_QUEUED = apiError('provider_unavailable')

/** Creates the registry. `onRequestDone` is called when all sends of a request have an outcome. */
export const makePendingSends = (onRequestDone: () => void) => {
  const open = new Set<PendingRequest>()
  let count = 0

  const complete = (send: PendingSend, outcome: SendOutcome): void => {
    if (send.outcome !== null) return
    send.outcome = outcome
    count--
    const { request } = send
    if (--request.unanswered > 0) return
    open.delete(request)
    onRequestDone()
    Deferred.doneUnsafe(request.done, Effect.void)
  }
  const refuse = (send: PendingSend, error: ApiError): void => complete(send, Result.fail(error))

  return {
    count: () => count,
    hasRoomFor: (sends: number) => count + sends <= MAX_PENDING_SENDS,
    /** Registers the sends of a request. A request without sends is done at once. */
    open: (
      checkedSends: ReadonlyArray<CheckedSend>,
      context: RequestContext,
      arrivedAt: number,
    ): PendingRequest => {
      const request: PendingRequest = {
        sends: [],
        context,
        arrivedAt,
        done: Deferred.makeUnsafe<void>(),
        dailyLimitRetryAfter: null,
        unanswered: checkedSends.length,
        createdAt: null,
        outcomeUncertain: false,
        recorded: false,
        sealed: false,
        responseStored: false,
      }
      for (const checked of checkedSends) {
        request.sends.push({ checked, request, outcome: null, messageId: null, reserved: false })
      }
      if (checkedSends.length === 0) Deferred.doneUnsafe(request.done, Effect.void)
      else {
        count += checkedSends.length
        open.add(request)
      }
      return request
    },
    complete,
    refuse,
    accept: (send: PendingSend, view: MessageView, duplicate: boolean): void =>
      complete(send, Result.succeed({ view, duplicate })),
    /** Refuses sends that have waited for `ANSWER_WITHIN_MS`. Requests are in order of arrival. */
    expire: (now: number): void => {
      for (const request of open) {
        if (now - request.arrivedAt < ANSWER_WITHIN_MS) break
        request.outcomeUncertain = true
        for (const send of request.sends) {
          // Only codes wait for Kafka. Any other send failed in storage.
          refuse(send, send.checked.class === 'otp' ? NOT_QUEUED : STORAGE_DOWN)
        }
      }
    },
  }
}
export type PendingSends = ReturnType<typeof makePendingSends>
