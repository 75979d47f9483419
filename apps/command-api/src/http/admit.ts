/**
 * Admits a request: the only place that decides about overload. The first check that fails determines the
 * answer:
 *
 *  1. size and encoding of the body, by the headers
 *  2. the failed-login gate, then the key
 *  3. a key without the scope of the operation: the request rate, then the refusal
 *  4. a send or a batch: overload, if it is refused whatever its body says; others: the request rate
 *  5. the body. It is not read before the key, so that nobody without a key uses memory.
 *  6. a send or a batch: overload. It counts as work from here on: a client that sends a body slowly must not
 *     take the place of others. Then its turn, and the request rate. So a refusal leaves nothing behind.
 *
 * Source: HTTP-25, HTTP-26, AUTH-18, AVL-7 to AVL-12; docs/decisions/overload.md.
 */
import type { IncomingMessage } from 'node:http'
import * as NodeHttpServerRequest from '@effect/platform-node/NodeHttpServerRequest'
import { type ApiError, apiError, insufficientScope } from '@hub/contract'
import type { RateVerdict } from '@hub/counters'
import { hasScope, type Scope } from '@hub/domain'
import { declaredBody } from '@hub/http-server'
import type { StorageError } from '@hub/store'
import { Clock, Effect } from 'effect'
import type { HttpServerRequest } from 'effect/http'
import type { AdmissionControl, Ticket } from '../accept/admission/admission-control.ts'
import type { Slices } from '../accept/admission/slices.ts'
import type { Access, Credentials } from '../access/access.ts'
import type { Caller } from '../accounts/account.ts'
import { BODY_RULES, type BodyBudget, withBody } from './body.ts'
import type { Deadline } from './deadline.ts'
import { type SendKind, unreadWork, workOf } from './demand.ts'

/** A request that may be worked on. */
export interface Admitted {
  readonly caller: Caller
  readonly body: Uint8Array
  /** The work of a send or a batch; `null` for other operations. */
  readonly ticket: Ticket | null
}

/** What admission notes for the answer. */
interface Notes {
  readonly headers: Record<string, string>
  /** For the log. */
  caller: Caller | null
}

/** The services that authenticate a request, limit its body and admit its work. */
export interface AdmitServices {
  readonly access: Pick<Access['Service'], 'addressOf' | 'login' | 'take'>
  readonly admission: Pick<AdmissionControl['Service'], 'admit' | 'mayRefuse' | 'refusal'>
  readonly bodies: BodyBudget
  readonly slices: Slices
}

const credentialsOf = ({ headers, socket }: IncomingMessage): Credentials => ({
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
  access: AdmitServices['access'],
  caller: Caller,
  { headers }: Notes,
) {
  const rate = yield* access.take(caller)
  if (rate === null) return
  Object.assign(headers, rateHeaders(rate))
  if (!rate.allowed) yield* apiError('rate_limited', { retryAfter: rate.retryAfterSeconds })
})

/** Waits for a slice of the event loop. */
const turnIn = (slices: Slices, isUrgent: boolean): Effect.Effect<void> =>
  Effect.callback((resume) => slices.add(isUrgent, () => resume(Effect.void)))

/** What the operation of a request needs. */
interface Needs {
  /** The scope that its key must have. */
  readonly scope: Scope
  /** What it sends; `null`: nothing. */
  readonly sends: SendKind | null
}

/** Runs `work` with an admitted request, within its deadline. */
export const admitRequest = Effect.fnUntraced(function* <A, E, R>(
  { access, admission, bodies, slices }: AdmitServices,
  request: HttpServerRequest.HttpServerRequest,
  { scope, sends }: Needs,
  deadline: Deadline,
  notes: Notes,
  work: (admitted: Admitted) => Effect.Effect<A, E, R>,
): Effect.fn.Return<A, E | ApiError | StorageError, R> {
  const incoming = NodeHttpServerRequest.toIncomingMessage(request) as IncomingMessage
  const declared = declaredBody(incoming.headers, BODY_RULES)
  if (declared.kind === 'refused') return yield* apiError(declared.code)
  const credentials = credentialsOf(incoming)
  const caller = yield* deadline.bounded(access.login(credentials))
  notes.caller = caller
  const rate = checkRate(access, caller, notes)
  if (!hasScope(caller.scopes, scope)) {
    yield* deadline.bounded(rate)
    return yield* insufficientScope(scope)
  }
  if (sends === null) yield* deadline.bounded(rate)
  else {
    const error = admission.refusal(unreadWork(sends, caller, declared))
    if (error !== null) return yield* error
  }
  const admit = (body: Uint8Array): Effect.Effect<A, E | ApiError | StorageError, R> => {
    if (sends === null) return deadline.bounded(work({ caller, body, ticket: null }))
    const wanted = workOf(sends, caller, body)
    const turn = admission.mayRefuse(1) ? turnIn(slices, wanted.kind === 'otp') : Effect.void
    return Effect.acquireUseRelease(
      Effect.suspend(() => Effect.fromResult(admission.admit(wanted))),
      (ticket) =>
        Effect.andThen(turn, deadline.bounded(Effect.andThen(rate, work({ caller, body, ticket })))),
      (ticket) => Effect.sync(ticket.end),
    )
  }
  const owner = { key: caller.key, address: access.addressOf(credentials) }
  const before = yield* Clock.currentTimeMillis
  return yield* withBody(bodies, owner, incoming, declared, (body) =>
    Effect.andThen(deadline.skipSince(before), () => admit(body)),
  )
})
