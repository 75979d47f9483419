/**
 * The request pipeline: the order of the checks. The first one that fails determines the answer.
 * Source: HTTP-25 to HTTP-27.
 */
import type { IncomingHttpHeaders } from 'node:http'
import {
  type ApiError,
  apiError,
  decodeIdempotencyKey,
  type ErrorObject,
  parseBody,
  refuseForeignPaging,
  requestWarnings,
  toErrorBody,
} from '@hub/contract'
import type { Scope } from '@hub/domain'
import type { StorageError } from '@hub/store'
import { Cause, Clock, Effect, Result } from 'effect'
import type { HttpServerRequest, HttpServerResponse } from 'effect/http'
import type { Ticket } from '../accept/admission/admission-control.ts'
import type { Caller } from '../accounts/account.ts'
import { freshId } from '../ids/ids.ts'
import { type Admitted, admitRequest, type AdmitServices } from './admit.ts'
import { type Answer, errorAnswer, RETRY_AFTER, toResponse } from './answer.ts'
import { type Deadline, makeDeadline, type AnswerDeadline } from './deadline.ts'
import type { SendKind } from './demand.ts'
import type { HttpEdge } from './edge.ts'
import type { IdempotencyContext, Idempotency } from './idempotency.ts'
import { observe, type ObservedRequest, type Trace } from './observe.ts'

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
  /** Values of `Hub-Warning`, one header line each. */
  warnings: ReadonlyArray<string>
  /** The authenticated caller, for the log. */
  caller: Caller | null
  /** `null` if the request is not sampled. */
  readonly trace: Trace | null
}

/** The input of an operation. */
export interface Call extends Pick<Exchange, 'requestId' | 'errorObject' | 'trace'> {
  readonly caller: Caller
  /** Path parameters: `id`. */
  readonly params: Readonly<Record<string, string | undefined>>
  readonly query: URLSearchParams
  /** The `Accept` header. */
  readonly accept: string | undefined
  readonly body: Uint8Array
  /** The idempotency lock of the request; `null` without an `Idempotency-Key`. */
  readonly idempotency: IdempotencyContext | null
  /** When the checks of the request began, milliseconds since the epoch. */
  readonly startedAt: number
  /** The operation calls this before it does anything that a failure may leave behind. */
  readonly mayRemain: () => void
  /** The admission of a send or a batch; `null` for other operations. */
  readonly ticket: Ticket | null
}

/**
 * An operation with an authenticated caller. It first looks up the resource of the path (404), then
 * checks JSON and shape, then makes the further checks of the contract.
 */
export type Operation = (call: Call) => Effect.Effect<Answer, ApiError | StorageError>

/** An operation without an API key, such as reading the API description. */
export type OpenOperation = (request: {
  readonly method: string
  readonly path: string
  /** The text behind `?`. */
  readonly query: string
  readonly headers: IncomingHttpHeaders
  /** Reads the text of the body, which is small: it counts against no budget. */
  readonly body: Effect.Effect<string, ApiError>
}) => Effect.Effect<Answer, ApiError>

/** What the router knows about a request of an operation. */
export interface Routed extends Pick<Call, 'params' | 'query'> {
  /** The operation in the API description, such as `messages.send`. */
  readonly name: string
  readonly answerDeadline: AnswerDeadline
  /** The scope that the key must have. */
  readonly scope: Scope
  /** What the operation sends; `null`: nothing. */
  readonly sends: SendKind | null
  readonly operation: Operation
}

/** The services that admit a request and recognize a repeated one. */
export interface PipelineServices extends AdmitServices {
  readonly idempotency: Idempotency['Service']
}

/** Runs the operation, under the idempotency key of a POST. */
const runOperation = (
  idempotency: Idempotency['Service'],
  request: HttpServerRequest.HttpServerRequest,
  { name, operation, params, query }: Routed,
  { body, caller, ticket }: Admitted,
  deadline: Deadline,
  current: Exchange,
): Effect.Effect<Answer, ApiError | StorageError> =>
  Effect.suspend(() => {
    if (caller.mode === 'test') {
      const parsed = body.length === 0 ? null : Result.getOrNull(parseBody(body))
      current.warnings = requestWarnings(name, query, parsed)
    }
    const { errorObject, requestId, trace } = current
    const call = {
      params,
      query,
      accept: request.headers['accept'],
      requestId,
      errorObject,
      trace,
      caller,
      body,
      startedAt: deadline.startedAt(),
      mayRemain: deadline.mayRemain,
      ticket,
    }
    const run = (context: IdempotencyContext | null) =>
      Effect.andThen(Effect.fromResult(refuseForeignPaging(query)), () =>
        operation({ ...call, idempotency: context }),
      )
    const { method, url } = request
    if (method !== 'POST') return run(null)
    return Effect.flatMap(
      Effect.fromResult(decodeIdempotencyKey(request.headers['idempotency-key'])),
      (key) =>
        key === null
          ? run(null)
          : idempotency.run(
              { caller, key, method, url, body },
              // It goes on after its client has disconnected, so it has a deadline of its own.
              (context) => deadline.bounded(run(context)),
              (error) => Effect.map(toApiError(error), current.toAnswer),
            ),
    )
  })

/**
 * Runs the checks and then the operation:
 *
 *  1. route and method: the router, before this function
 *  2. body by its headers, key, scope, overload, body, request rate: `admit.ts`
 *  3. the idempotency key of a POST
 *  4. the operation: resource, JSON and shape, used `client_ref`, template, sender, opt-out
 */
export const runChecked = (
  services: PipelineServices,
  request: HttpServerRequest.HttpServerRequest,
  routed: Routed,
  current: Exchange,
): Effect.Effect<Answer, ApiError | StorageError> =>
  Effect.flatMap(makeDeadline(routed.answerDeadline), (deadline) =>
    admitRequest(services, request, routed, deadline, current, (admitted) =>
      runOperation(services.idempotency, request, routed, admitted, deadline, current),
    ),
  )

/** Maps every failure to an error of the catalogue. */
const toApiError = (error: ApiError | StorageError): Effect.Effect<ApiError> => {
  switch (error._tag) {
    case 'ApiError':
      return Effect.succeed(error)
    case 'StorageUnavailable':
      return Effect.succeed(
        apiError('internal_error', {
          retryAfter: RETRY_AFTER,
          reason: `PostgreSQL: ${error.reason}, ${error.detail}`,
        }),
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
    const current: Exchange = {
      requestId,
      errorObject,
      toAnswer: fail,
      headers,
      warnings: [],
      caller: null,
      trace,
    }
    return Effect.suspend(() => work(current)).pipe(
      Effect.catch((error) => Effect.map(toApiError(error), fail)),
      Effect.catchCause((cause) =>
        Cause.hasInterruptsOnly(cause)
          ? Effect.failCause(cause as Cause.Cause<never>)
          : Effect.as(
              Effect.logError('http: a defect ended a request; answering 500', cause),
              fail(apiError('internal_error')),
            ),
      ),
      Effect.flatMap((answer) => {
        const { method, route } = observed
        const seconds = ended(answer.status)
        const response = toResponse(
          {
            ...answer,
            headers: { ...headers, ...answer.headers },
          },
          requestId,
          current.warnings,
        )
        const logged = edge.log({ method, route, answer, caller: current.caller, seconds })
        return Effect.as(logged, response)
      }),
      (effect) => Effect.annotateLogs(effect, annotations),
    )
  })
