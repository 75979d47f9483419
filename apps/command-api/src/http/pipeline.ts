/**
 * The request pipeline: the order of the checks. The first one that fails determines the answer.
 * Source: contract, General (order of checks).
 */
import type { IncomingHttpHeaders } from 'node:http'
import * as NodeHttpServerRequest from '@effect/platform-node/NodeHttpServerRequest'
import { type ApiError, apiError, decodeIdempotencyKey, type ErrorObject, toErrorBody } from '@hub/contract'
import type { RateVerdict } from '@hub/counters'
import type { StorageError } from '@hub/store'
import { Cause, Clock, Duration, Effect } from 'effect'
import type { HttpServerRequest, HttpServerResponse } from 'effect/http'
import type { Access, Credentials } from '../access/access.ts'
import type { Caller } from '../accounts/account.ts'
import type { IdempotencyContext, Idempotency } from '../idempotency/idempotency.ts'
import { freshId } from '../ids/ids.ts'
import { type Answer, errorAnswer, toResponse } from './answer.ts'
import { withBody } from './body.ts'
import type { HttpEdge } from './edge.ts'
import { observe, type ObservedRequest, type Trace } from './observe.ts'

/**
 * The contract promises an answer within 3 s after the request has arrived. This deadline covers
 * all waits of an operation. The rest of the 3 s is for the release of an idempotency lock and the
 * answer. `server.ts` limits the time in which a request arrives; both together stay below 20 s.
 * Source: contract, Unavailability; architecture, "What must stay true", 4.
 */
const ANSWER_WITHIN = Duration.millis(2700)
/** For an operation that waits for the client's receiver of a test delivery, which has 10 s. */
const RECEIVER_ANSWER_WITHIN = Duration.seconds(19)
/** `retry_after` in seconds when PostgreSQL does not answer. */
const RETRY_AFTER = 2

/** What belongs to one request and its answer, from the first check on. */
export interface Exchange {
  /** `req_…` */
  readonly requestId: string
  /** An error as part of an answer, such as the error of a batch element. */
  readonly errorObject: (error: ApiError) => ErrorObject
  /** An error as a whole answer. */
  readonly toAnswer: (error: ApiError) => Answer
  /** Headers of the answer, whether it is a success or an error. */
  readonly headers: Record<string, string>
  /** `null` if the request is not sampled. */
  readonly trace: Trace | null
}

/** The input of an operation. */
export interface Call extends Pick<Exchange, 'requestId' | 'errorObject' | 'trace'> {
  readonly caller: Caller
  /** Path parameters: `id`. */
  readonly params: Readonly<Record<string, string | undefined>>
  readonly query: URLSearchParams
  readonly body: Uint8Array
  /** The idempotency lock of the request; `null` without an `Idempotency-Key`. */
  readonly idempotency: IdempotencyContext | null
}

/**
 * An operation with an authenticated caller. It first looks up the resource of the path (404), then
 * checks JSON and shape, then makes the further checks of the contract.
 */
export type Operation = (call: Call) => Effect.Effect<Answer, ApiError | StorageError>

/** An operation without an API key, such as reading the API description. */
export type OpenOperation = (request: {
  readonly path: string
  readonly headers: IncomingHttpHeaders
}) => Effect.Effect<Answer>

const credentialsOf = (request: HttpServerRequest.HttpServerRequest): Credentials => {
  const { headers, socket } = NodeHttpServerRequest.toIncomingMessage(request)
  return {
    authorization: headers.authorization,
    forwardedFor: headers['x-forwarded-for'] as string | undefined,
    socketAddress: socket.remoteAddress,
  }
}

/** Source: specification, Request rate; contract, General (rate headers). */
const rateHeaders = (rate: RateVerdict): Readonly<Record<string, string>> => ({
  'x-ratelimit-limit': String(rate.limit),
  'x-ratelimit-remaining': String(rate.remaining),
  'x-ratelimit-reset': String(rate.resetSeconds),
})

/** Takes a token of the key's rate. Without Redis, requests pass and have no rate headers. */
const checkRate = Effect.fnUntraced(function* (
  access: Access['Service'],
  caller: Caller,
  { headers }: Exchange,
) {
  const rate = yield* access.take(caller)
  if (rate === null) return
  Object.assign(headers, rateHeaders(rate))
  if (!rate.allowed) yield* apiError('rate_limited', { retryAfter: rate.retryAfterSeconds })
})

const withTimeout =
  (duration: Duration.Duration) =>
  <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E | ApiError, R> =>
    Effect.timeoutOrElse(work, {
      duration,
      orElse: () => Effect.fail(apiError('internal_error', { retryAfter: RETRY_AFTER })),
    })

/** The services that authenticate a request and recognize a repeated one. */
export interface AuthServices {
  readonly access: Access['Service']
  readonly idempotency: Idempotency['Service']
}

/**
 * Runs the checks and then the operation:
 *
 *  1. route and method: the router, before this function
 *  2. size and encoding of the body
 *  3. the failed-login gate, then the key
 *  4. the request rate
 *  5. the idempotency key of a POST
 *  6. the operation: resource, JSON and shape, used `client_ref`, template, sender, opt-out
 */
export const runChecked = (
  { access, idempotency }: AuthServices,
  request: HttpServerRequest.HttpServerRequest,
  {
    params,
    query,
    awaitsReceiver = false,
  }: Pick<Call, 'params' | 'query'> & { readonly awaitsReceiver?: boolean },
  operation: Operation,
  current: Exchange,
): Effect.Effect<Answer, ApiError | StorageError> => {
  const credentials = credentialsOf(request)
  const { errorObject, requestId, trace } = current
  return withBody(
    request,
    Effect.fnUntraced(
      function* (body) {
        const caller = yield* access.login(credentials)
        yield* checkRate(access, caller, current)
        const run = (idempotency: IdempotencyContext | null) =>
          operation({ params, query, requestId, errorObject, trace, caller, body, idempotency })
        const { method, url } = request
        if (method !== 'POST') return yield* run(null)
        const key = yield* Effect.fromResult(decodeIdempotencyKey(request.headers['idempotency-key']))
        if (key === null) return yield* run(null)
        return yield* idempotency.run({ caller, key, method, url, body }, run, (error) =>
          Effect.map(toApiError(error), current.toAnswer),
        )
      },
      withTimeout(awaitsReceiver ? RECEIVER_ANSWER_WITHIN : ANSWER_WITHIN),
    ),
  )
}

/** Maps every failure to an error of the catalogue. */
const toApiError = (error: ApiError | StorageError): Effect.Effect<ApiError> => {
  switch (error._tag) {
    case 'ApiError':
      return Effect.succeed(error)
    case 'StorageUnavailable':
      return Effect.logWarning('http: PostgreSQL did not answer; answering 503').pipe(
        Effect.annotateLogs({ reason: error.reason, detail: error.detail }),
        Effect.as(apiError('internal_error', { retryAfter: RETRY_AFTER })),
      )
    case 'StorageRejected':
      // PostgreSQL refuses a value that our validation accepted. The client's input caused it.
      return Effect.logError('http: PostgreSQL refused the input of a request; answering 422').pipe(
        Effect.annotateLogs({ code: error.code }),
        Effect.as(apiError('invalid_parameter')),
      )
  }
}

/**
 * Handles one request: gives it an id, and turns every outcome into an answer. A defect is answered
 * with 500 `internal_error`; its cause is only in the log. An error answer also gets the status and
 * headers of `extra`.
 */
export const exchange = (
  edge: HttpEdge['Service'],
  observed: ObservedRequest,
  work: (exchange: Exchange) => Effect.Effect<Answer, ApiError | StorageError>,
  extra: { readonly status?: number; readonly headers?: Readonly<Record<string, string>> } = {},
): Effect.Effect<HttpServerResponse.HttpServerResponse> =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => {
    const requestId = freshId('req', now)
    const { annotations, ended, trace } = observe(edge.tracing, observed, requestId)
    const fail = (error: ApiError): Answer => errorAnswer(error, requestId, edge.docBase, extra)
    const errorObject = (error: ApiError): ErrorObject => toErrorBody(error, requestId, edge.docBase).error
    const headers: Record<string, string> = {}
    return Effect.suspend(() => work({ requestId, errorObject, toAnswer: fail, headers, trace })).pipe(
      Effect.catch((error) => Effect.map(toApiError(error), fail)),
      Effect.catchCause((cause) =>
        Cause.hasInterruptsOnly(cause)
          ? Effect.failCause(cause as Cause.Cause<never>)
          : Effect.as(
              Effect.logError('http: a defect ended a request; answering 500', cause),
              fail(apiError('internal_error')),
            ),
      ),
      Effect.map((answer) => {
        ended(answer.status)
        return toResponse(
          {
            ...answer,
            headers: {
              ...headers,
              ...answer.headers,
              ...(edge.state() === 'draining' ? { connection: 'close' } : undefined),
            },
          },
          requestId,
        )
      }),
      (effect) => Effect.annotateLogs(effect, annotations),
    )
  })
