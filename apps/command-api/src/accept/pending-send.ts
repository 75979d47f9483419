/**
 * Who waits for what: the sends of a request, from the moment they come until each has its outcome. Synchronous, so that whether
 * a send was answered is one question with one answer, whichever fiber asks.
 */
import { type ApiError, apiError } from '@hub/contract'
import type { Span } from '@hub/telemetry'
import { Deferred, Effect, Result } from 'effect'
import type { Owner } from '../accounts/account.ts'
import type { IdempotencyLock, StoredAnswer } from '../idempotency/idempotency-lock.ts'
import type { MessageView } from '../messages/message.ts'
import type { CheckedSend } from './checked-send.ts'

/** What became of a send. */
export type SendOutcome = Result.Result<{ readonly view: MessageView; readonly duplicate: boolean }, ApiError>

/** A batch that is to be created if anything of it is accepted, or all of it refused. */
export interface NewBatch {
  /** `bat_…` */
  readonly id: string
  readonly owner: Owner
  /** Elements of the request, those included that were refused for their form. */
  readonly total: number
  /** Elements that were refused for their form: they are no checkedSends. */
  readonly malformed: number
}

/** What a request brings along beside its sends. */
export interface RequestContext {
  readonly batch?: NewBatch
  /** Where it is traced. */
  readonly trace?: { readonly span: Span; readonly traceparent: string } | null
  /** Its claim on an idempotency key: the transaction that records its sends checks it. */
  readonly lock?: IdempotencyLock
  /**
   * The request's answer, given all outcomes in order: it is stored with the sends, where they are all that is needed to
   * know it. `createdAt` is the batch's; `null` where the answer must not be stored.
   */
  readonly answer?: (outcomes: ReadonlyArray<SendOutcome>, createdAt: number) => StoredAnswer | null
}

/** A send and its place in the answer. */
export interface PendingSend {
  readonly checked: CheckedSend
  readonly request: PendingRequest
  outcome: SendOutcome | null
  /** The id that it is recorded under if it is new: the same one, however often it is tried. */
  messageId: string | null
  /** It has a place in the flood windows of its recipient, which nobody has made final yet. */
  reserved: boolean
}

/** What one request has put in: one send, or a batch. */
export interface PendingRequest {
  readonly sends: Array<PendingSend>
  readonly context: RequestContext
  readonly arrivedAt: number
  readonly done: Deferred.Deferred<void>
  /** Seconds until the hub's daily limit allows it; asked once, when the first of its sends is about to be accepted. */
  dailyLimit: Effect.Effect<number | null> | null
  unanswered: number
  /** Stamp of the first flush that took sends of it, milliseconds since the epoch. */
  createdAt: number | null
  /** A send was answered before it was known what becomes of it. */
  doubtful: boolean
  /** Some of it is in the ledger. */
  recorded: boolean
  /** Its batch's outcome is in the ledger, with the `BatchSealed` on its way. */
  sealed: boolean
  /** Its answer is in the ledger. */
  stored: boolean
}

/** Sends that wait for an answer in all. About a second of work at full speed: what comes on top would time out anyway. */
const MAX_WAITING = 20_000
/** The contract answers an unavailable hub within 3 s; the rest is for reading the request and writing the answer. */
const ANSWER_WITHIN_MS = 2500
/** Seconds until a retry is worth while: the hub is looking for storage or bus again by then. */
const RETRY_AFTER = 2

/** Made once: an error takes a picture of the stack, and when something is down there are thousands of them. */
export const STORAGE_DOWN = apiError('internal_error', { retryAfter: RETRY_AFTER })
export const OVERLOADED = apiError('internal_error', { retryAfter: 1 })
export const NOT_QUEUED = apiError('provider_unavailable')

/** `onAnswered` is called when a request has all its outcomes. */
export const makeWaiting = (onAnswered: () => void) => {
  const open = new Set<PendingRequest>()
  let waiting = 0

  const settle = (send: PendingSend, outcome: SendOutcome): void => {
    if (send.outcome !== null) return
    send.outcome = outcome
    waiting--
    const { request } = send
    if (--request.unanswered > 0) return
    open.delete(request)
    onAnswered()
    Deferred.doneUnsafe(request.done, Effect.void)
  }
  const refuse = (send: PendingSend, error: ApiError): void => settle(send, Result.fail(error))

  return {
    count: () => waiting,
    hasRoomFor: (sends: number) => waiting + sends <= MAX_WAITING,
    /** Takes the sends of a request. One without any is answered already. */
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
        dailyLimit: null,
        unanswered: checkedSends.length,
        createdAt: null,
        doubtful: false,
        recorded: false,
        sealed: false,
        stored: false,
      }
      for (const checked of checkedSends) {
        request.sends.push({ checked, request, outcome: null, messageId: null, reserved: false })
      }
      if (checkedSends.length === 0) Deferred.doneUnsafe(request.done, Effect.void)
      else {
        waiting += checkedSends.length
        open.add(request)
      }
      return request
    },
    settle,
    refuse,
    answer: (send: PendingSend, view: MessageView, duplicate: boolean): void =>
      settle(send, Result.succeed({ view, duplicate })),
    /** Answers what has waited too long. Requests are in order of arrival. */
    sweep: (now: number): void => {
      for (const request of open) {
        if (now - request.arrivedAt < ANSWER_WITHIN_MS) break
        request.doubtful = true
        for (const send of request.sends) {
          // A code that was not acknowledged is not accepted; anything else is a failure of storage.
          refuse(send, send.checked.class === 'otp' ? NOT_QUEUED : STORAGE_DOWN)
        }
      }
    },
  }
}
export type Waiting = ReturnType<typeof makeWaiting>
