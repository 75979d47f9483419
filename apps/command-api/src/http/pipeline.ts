/**
 * The way of a request: the one place that says in which order it is checked. The first check that fails answers.
 *
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
import { freshId } from '../ids.ts'
import { type Answer, errorAnswer, toResponse } from './answer.ts'
import { withBody } from './body.ts'
import type { HttpEdge } from './edge.ts'
import { observe, type Observed, type Trace } from './observe.ts'

/**
 * Whoever has sent its request is answered within 3 s. Each wait of an operation has a bound of its own; this one is for all of them
 * together. What is left is for freeing an idempotency key and writing the answer. How long the request itself may take to arrive
 * is the listener's to say (`server.ts`); both together stay below 20 s. Source: contract, Unavailability; architecture, "What must
 * stay true", 4.
 */
const ANSWER_WITHIN = Duration.millis(2700)
/** An operation that waits for somebody who is not the hub: the receiver of a trial delivery has ten seconds. */
const OUTSIDE_WITHIN = Duration.seconds(19)
/** Seconds until a retry is worth while when PostgreSQL does not answer. */
const RETRY_AFTER = 2

/** A request and its answer, from the first check on. */
export interface Exchange {
  /** `req_…` */
  readonly requestId: string
  /** An error in the form that it has within an answer, such as that of an element of a batch. */
  readonly errorObject: (error: ApiError) => ErrorObject
  /** A refusal or failure as it will be sent. */
  readonly toAnswer: (error: ApiError) => Answer
  /** What goes with the answer, whatever it will be. */
  readonly headers: Record<string, string>
  /** `null` where the request is not sampled. */
  readonly trace: Trace | null
}

/** What an operation is given. */
export interface Call extends Pick<Exchange, 'requestId' | 'errorObject' | 'trace'> {
  readonly caller: Caller
  /** From the path: `id`. */
  readonly params: Readonly<Record<string, string | undefined>>
  readonly query: URLSearchParams
  readonly body: Uint8Array
  /** What it holds on an idempotency key; `null` without one. */
  readonly idempotency: IdempotencyContext | null
}

/**
 * What an operation does once the caller is known: it looks for what its path names (404), then at JSON and shape, then at what the
 * contract lists after them.
 */
export type Operation = (call: Call) => Effect.Effect<Answer, ApiError | StorageError>

/** An operation that anybody may call, such as reading the description. */
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

/** Counts the request against the rate of its key. While nobody counts, it passes and its answer tells no rate. */
const withinRate = Effect.fnUntraced(function* (
  access: Access['Service'],
  caller: Caller,
  { headers }: Exchange,
) {
  const rate = yield* access.take(caller)
  if (rate === null) return
  Object.assign(headers, rateHeaders(rate))
  if (!rate.allowed) yield* apiError('rate_limited', { retryAfter: rate.retryAfterSeconds })
})

const inTime =
  (duration: Duration.Duration) =>
  <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E | ApiError, R> =>
    Effect.timeoutOrElse(work, {
      duration,
      orElse: () => Effect.fail(apiError('internal_error', { retryAfter: RETRY_AFTER })),
    })

/** Who is let in, and what of that was answered before. */
export interface Doors {
  readonly access: Access['Service']
  readonly idempotency: Idempotency['Service']
}

/**
 * The checks, in order:
 *
 *  1. route and method — before this, by the router
 *  2. size and encoding of the body
 *  3. the failed-login gate, then the key
 *  4. the request rate
 *  5. the idempotency key of a POST
 *  6. the operation: resource in the path, JSON and shape, used `client_ref`, template, sender, variables, opt-out
 */
export const checked = (
  { access, idempotency }: Doors,
  request: HttpServerRequest.HttpServerRequest,
  {
    params,
    query,
    waitsOutside = false,
  }: Pick<Call, 'params' | 'query'> & { readonly waitsOutside?: boolean },
  operation: Operation,
  within: Exchange,
): Effect.Effect<Answer, ApiError | StorageError> => {
  const credentials = credentialsOf(request)
  const { errorObject, requestId, trace } = within
  return withBody(
    request,
    Effect.fnUntraced(
      function* (body) {
        const caller = yield* access.login(credentials)
        yield* withinRate(access, caller, within)
        const run = (idempotency: IdempotencyContext | null) =>
          operation({ params, query, requestId, errorObject, trace, caller, body, idempotency })
        const { method, url } = request
        if (method !== 'POST') return yield* run(null)
        const key = yield* Effect.fromResult(decodeIdempotencyKey(request.headers['idempotency-key']))
        if (key === null) return yield* run(null)
        return yield* idempotency.run({ caller, key, method, url, body }, run, (error) =>
          Effect.map(toApiError(error), within.toAnswer),
        )
      },
      inTime(waitsOutside ? OUTSIDE_WITHIN : ANSWER_WITHIN),
    ),
  )
}

/** Whatever went wrong, in the words of the catalogue. */
const toApiError = (error: ApiError | StorageError): Effect.Effect<ApiError> => {
  switch (error._tag) {
    case 'ApiError':
      return Effect.succeed(error)
    case 'StorageUnavailable':
      return Effect.logWarning('PostgreSQL did not answer').pipe(
        Effect.annotateLogs({ reason: error.reason, detail: error.detail }),
        Effect.as(apiError('internal_error', { retryAfter: RETRY_AFTER })),
      )
    case 'StorageRejected':
      // Our own check let something through that PostgreSQL does not take: the client's input all the same.
      return Effect.logError('PostgreSQL refused a request').pipe(
        Effect.annotateLogs({ code: error.code }),
        Effect.as(apiError('invalid_parameter')),
      )
  }
}

/**
 * One exchange: gives the request its id, and turns every ending into an answer. A defect is answered as 500
 * `internal_error` and told in the log only. `extra` goes with a failure.
 */
export const exchange = (
  edge: HttpEdge['Service'],
  observed: Observed,
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
              Effect.logError('a request failed unexpectedly', cause),
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
