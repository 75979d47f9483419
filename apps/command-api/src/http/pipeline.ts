/**
 * The request pipeline: the order of the checks. The first one that fails determines the answer.
 * Source: HTTP-25 to HTTP-27.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import * as NodeHttpServerRequest from '@effect/platform-node/NodeHttpServerRequest'
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
import type { RateVerdict } from '@hub/counters'
import type { StorageError } from '@hub/store'
import { Cause, Clock, Duration, Effect, Result } from 'effect'
import type { HttpServerRequest, HttpServerResponse } from 'effect/http'
import type { Access, Credentials } from '../access/access.ts'
import type { Caller } from '../accounts/account.ts'
import { freshId } from '../ids/ids.ts'
import { type AdmissionControl, type Ticket, withTicket } from '../accept/admission/admission-control.ts'
import { RECORD_UNKNOWN } from '../accept/errors.ts'
import { admittedOf } from './admitted.ts'
import { type Answer, errorAnswer, toResponse } from './answer.ts'
import { type BodyBudget, declaredBody, withBody } from './body.ts'
import { type SendKind, unreadWork, workOf } from './demand.ts'
import type { HttpEdge } from './edge.ts'
import type { IdempotencyContext, Idempotency } from './idempotency.ts'
import { logResponse } from './response-log.ts'
import { observe, type ObservedRequest, type Trace } from './observe.ts'

/**
 * The deadlines of operations. Each covers all waits of an operation, and leaves time for the answer.
 * Source: AVL-4; docs/architecture.md, "What must stay true".
 */
const ANSWER_WITHIN = {
  /** The contract promises an answer within 3 s after the request has arrived. */
  default: Duration.millis(2800),
  /** The contract promises an answer within 10 s. */
  batch: Duration.millis(9700),
  /** A test delivery waits for the client's receiver, which has 10 s. */
  receiver: Duration.seconds(19),
} as const
export type AnswerDeadline = keyof typeof ANSWER_WITHIN
/** The longest time until the answer, after the body has arrived. */
export const LONGEST_ANSWER: Duration.Duration = Object.values(ANSWER_WITHIN).reduce(Duration.max)
/** `retry_after` in seconds when PostgreSQL does not answer. */
const RETRY_AFTER = 2

const DEADLINE_REASON = 'the request was not finished at its deadline'

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
}) => Effect.Effect<Answer>

export const credentialsOf = ({
  headers,
  socket,
}: ReturnType<typeof NodeHttpServerRequest.toIncomingMessage>): Credentials => ({
  authorization: headers.authorization,
  forwardedFor: headers['x-forwarded-for'] as string | undefined,
  socketAddress: socket.remoteAddress,
})

/**
 * The rate headers of the hub, and those of the IETF draft (draft-ietf-httpapi-ratelimit-headers).
 * Source: LIM-2, LIM-4.
 */
const rateHeaders = (rate: RateVerdict): Readonly<Record<string, string>> => ({
  'x-ratelimit-limit': String(rate.limit),
  'x-ratelimit-remaining': String(rate.remaining),
  'x-ratelimit-reset': String(rate.resetSeconds),
  // The bucket of a key holds the requests of one second.
  'ratelimit-policy': `"key";q=${rate.limit};w=1`,
  ratelimit: `"key";r=${rate.remaining};t=${Math.ceil(rate.resetSeconds)}`,
})

/** Takes a token of the key's rate. Without Redis, requests pass and have no rate headers. */
const checkRate = Effect.fnUntraced(function* (
  access: AuthServices['access'],
  caller: Caller,
  { headers }: Exchange,
) {
  const rate = yield* access.take(caller)
  if (rate === null) return
  Object.assign(headers, rateHeaders(rate))
  if (!rate.allowed) yield* apiError('rate_limited', { retryAfter: rate.retryAfterSeconds })
})

/** `remains`: whether the work may have left anything behind when the time is over. */
const withTimeout =
  (milliseconds: number, remains: () => boolean) =>
  <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E | ApiError, R> =>
    Effect.timeoutOrElse(work, {
      duration: Duration.millis(milliseconds),
      orElse: () =>
        Effect.suspend(() =>
          Effect.fail(
            remains()
              ? RECORD_UNKNOWN
              : apiError('internal_error', { retryAfter: RETRY_AFTER, reason: DEADLINE_REASON }),
          ),
        ),
    })

/** The services that authenticate and admit a request, limit its body and recognize a repeated one. */
export interface AuthServices {
  readonly access: Pick<Access['Service'], 'addressOf' | 'login' | 'take'>
  readonly admission: Pick<AdmissionControl['Service'], 'admit' | 'refusalUnread'>
  readonly bodies: BodyBudget
  readonly idempotency: Idempotency['Service']
}

/**
 * Runs the checks and then the operation:
 *
 *  1. route and method: the router, before this function
 *  2. size and encoding of the body, by the headers
 *  3. the failed-login gate, then the key
 *  4. the admission of a send or a batch, if it is refused whatever its body says
 *  5. the request rate, except of a send or a batch
 *  6. the body, which is not read before the key, so that nobody without a key uses memory
 *  7. the admission of a send or a batch, which counts as work from here on, and then its request rate. A
 *     refusal leaves nothing behind.
 *  8. the idempotency key of a POST
 *  9. the operation: resource, JSON and shape, used `client_ref`, template, sender, opt-out
 *
 * The deadline does not count the time in which the body arrives. Nor does admission: a client that sends a
 * body slowly must not take the place of others.
 */
export const runChecked = (
  { access, admission, bodies, idempotency }: AuthServices,
  request: HttpServerRequest.HttpServerRequest,
  {
    name,
    params,
    query,
    answerDeadline = 'default',
    sends = null,
  }: Pick<Call, 'params' | 'query'> & {
    /** The operation in the API description, such as `messages.send`. */
    readonly name: string
    readonly answerDeadline?: AnswerDeadline
    /** What the operation sends; `null`: nothing. */
    readonly sends?: SendKind | null
  },
  operation: Operation,
  current: Exchange,
): Effect.Effect<Answer, ApiError | StorageError> => {
  const incoming = NodeHttpServerRequest.toIncomingMessage(request)
  const credentials = credentialsOf(incoming)
  const { errorObject, requestId, trace } = current
  const within = ANSWER_WITHIN[answerDeadline]
  let remains = false
  const mayRemain = () => {
    remains = true
  }
  /** When the checks began, milliseconds since the epoch, moved by the time in which the body arrived. */
  let startedAt = 0
  /** Runs `work` within what is left of the deadline. */
  const bounded = <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E | ApiError, R> =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      withTimeout(startedAt + Duration.toMillis(within) - now, () => remains)(work),
    )
  const readBody = <A, E, R>(caller: Caller, use: (body: Uint8Array) => Effect.Effect<A, E, R>) =>
    Effect.flatMap(Clock.currentTimeMillis, (before) =>
      withBody(bodies, { key: caller.key, address: access.addressOf(credentials) }, request, (body) =>
        Effect.flatMap(Clock.currentTimeMillis, (now) => {
          startedAt += now - before
          return use(body)
        }),
      ),
    )
  const answerWith = Effect.fnUntraced(function* (caller: Caller, body: Uint8Array, ticket: Ticket | null) {
    if (caller.mode === 'test') {
      const parsed = body.length === 0 ? null : Result.getOrNull(parseBody(body))
      current.warnings = requestWarnings(name, query, parsed)
    }
    const call = {
      params,
      query,
      accept: request.headers['accept'],
      requestId,
      errorObject,
      trace,
      caller,
      body,
      startedAt,
      mayRemain,
      ticket,
    }
    const run = (idempotency: IdempotencyContext | null) =>
      Effect.andThen(Effect.fromResult(refuseForeignPaging(query)), () => operation({ ...call, idempotency }))
    const { method, url } = request
    if (method !== 'POST') return yield* run(null)
    const key = yield* Effect.fromResult(decodeIdempotencyKey(request.headers['idempotency-key']))
    if (key === null) return yield* run(null)
    // A request under a key goes on after its client has disconnected, so it has a deadline of its own.
    return yield* idempotency.run(
      { caller, key, method, url, body },
      (context) => bounded(run(context)),
      (error) => Effect.map(toApiError(error), current.toAnswer),
    )
  })

  return Effect.gen(function* () {
    const declared = declaredBody(incoming.headers)
    if (declared.kind === 'refused') return yield* declared.error
    startedAt = yield* Clock.currentTimeMillis
    const caller = yield* bounded(access.login(credentials))
    current.caller = caller
    const rate = checkRate(access, caller, current)
    if (sends === null) {
      yield* bounded(rate)
      return yield* readBody(caller, (body) => bounded(answerWith(caller, body, null)))
    }
    const answer = (body: Uint8Array, ticket: Ticket) =>
      withTicket(ticket, bounded(Effect.andThen(rate, answerWith(caller, body, ticket))))
    const admitted = admittedOf(incoming as IncomingMessage)
    if (admitted !== null) return yield* answer(admitted.body, admitted.ticket)
    const error = admission.refusalUnread(unreadWork(sends, caller, declared))
    if (error !== null) return yield* error
    return yield* readBody(caller, (body) =>
      Effect.flatMap(Effect.fromResult(admission.admit(workOf(sends, caller, body))), (ticket) =>
        answer(body, ticket),
      ),
    )
  })
}

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
        const logged = logResponse(
          { method, route, answer, caller: current.caller, seconds },
          edge.loggedShare,
        )
        return Effect.as(logged, response)
      }),
      (effect) => Effect.annotateLogs(effect, annotations),
    )
  })
