/**
 * Refuses sends in front of the HTTP framework while the process is overloaded.
 *
 * The pipeline makes the same decision, but an answer through it costs 150 µs of processor time, half
 * of what an accepted send costs. At four times the capacity, three of four requests are refused, and
 * nothing would be left for the others. Here a refusal costs 30 µs.
 *
 * The gate only refuses. It passes each request on that it would have to check further: one that would
 * be admitted, has an unknown key, or is unusual in its form. The pipeline then does all checks.
 *
 * Source: AVL-7 to AVL-11; docs/decisions/overload.md.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type ApiError, ROUTES } from '@hub/contract'
import type { Gate } from '@hub/http-server'
import { Effect, Result } from 'effect'
import type { Access } from '../access/access.ts'
import type { Work } from '../accept/admission/admission.ts'
import type { AdmissionControl } from '../accept/admission/admission-control.ts'
import { slices } from '../accept/admission/slices.ts'
import type { Caller } from '../accounts/account.ts'
import { freshId } from '../ids/ids.ts'
import { setAdmitted } from './admitted.ts'
import { errorAnswer, headersOf } from './answer.ts'
import { declaredBody, readSmallBody, SMALL_BODY_BYTES } from './body.ts'
import { type SendKind, SENDS, unreadWork, workOf } from './demand.ts'
import type { HttpEdge } from './edge.ts'
import { requestFault } from './framing.ts'
import { observe } from './observe.ts'
import { credentialsOf } from './pipeline.ts'
import { logResponse } from './response-log.ts'

/** The kinds of sends by their path. A query makes a request unusual. */
const KINDS: ReadonlyMap<string, SendKind> = new Map(
  ROUTES.flatMap(({ operation, path }) => {
    const kind = SENDS[operation]
    return kind === undefined ? [] : [[path, kind] as const]
  }),
)

/** Log lines per second about single refusals. Another line has the number of all refusals. */
const LOGGED_PER_SECOND = 10

interface GateServices {
  readonly access: Pick<Access['Service'], 'cachedCaller'>
  readonly admission: Pick<AdmissionControl['Service'], 'admit' | 'mayRefuse' | 'refusalUnread'>
  readonly edge: HttpEdge['Service']
  readonly fork: (work: Effect.Effect<void>) => void
}

const makeRefuse = ({ edge, fork }: GateServices) => {
  let second = 0
  let logged = 0
  const mayLog = (now: number): boolean => {
    const current = Math.floor(now / 1000)
    if (current !== second) logged = 0
    second = current
    return ++logged <= LOGGED_PER_SECOND
  }

  return (request: IncomingMessage, response: ServerResponse, caller: Caller, error: ApiError): void => {
    const { headers, method = '', url: route = '' } = request
    const now = Date.now()
    const requestId = freshId('req', now)
    const traceparent = headers['traceparent'] as string | undefined
    const { annotations, ended } = observe(edge.tracing, { method, route, traceparent }, requestId)
    const answer = errorAnswer(error, requestId, edge.docBase)
    response.writeHead(answer.status, {
      ...headersOf(answer, requestId),
      'content-type': answer.contentType,
      'content-length': Buffer.byteLength(answer.body),
    })
    // Node discards the rest of a body that has not arrived yet. Its declared length bounds it.
    response.end(answer.body)
    const seconds = ended(answer.status)
    if (!mayLog(now)) return
    const line = logResponse({ method, route, answer, caller, seconds }, edge.loggedShare)
    fork(Effect.annotateLogs(line, annotations))
  }
}

/** Decides on a request. `pass` passes it on. */
export const makeOverloadGate = (services: GateServices): Gate => {
  const { access, admission } = services
  const refuse = makeRefuse(services)

  return (request, response, pass) => {
    const kind = request.method === 'POST' ? KINDS.get(request.url ?? '') : undefined
    if (kind === undefined) return pass()
    const declared = declaredBody(request.headers)
    if (declared.kind !== 'body' || declared.bytes === null) return pass()
    if (!admission.mayRefuse(1)) return pass()
    if (requestFault(request) !== null) return pass()
    const caller = Effect.runSync(access.cachedCaller(credentialsOf(request)))
    if (caller === null) return pass()

    /** Refuses the work, or admits it and passes the request on in a slice. */
    const decide = (work: Work, body: Uint8Array): void => {
      const admitted = admission.admit(work)
      if (Result.isFailure(admitted)) return refuse(request, response, caller, admitted.failure)
      const ticket = admitted.success
      setAdmitted(request, { ticket, body })
      response.once('close', ticket.end)
      slices.add(work.kind === 'otp', () => {
        // A client that has disconnected waits for no answer.
        if (!response.closed) pass()
      })
    }
    const unread = admission.refusalUnread(unreadWork(kind, caller, declared))
    if (unread !== null) return refuse(request, response, caller, unread)
    // A request is no work before its body has arrived. The pipeline reads large bodies.
    if (declared.bytes > SMALL_BODY_BYTES) return pass()
    readSmallBody(request, (body) => decide(workOf(kind, caller, body), body))
  }
}
