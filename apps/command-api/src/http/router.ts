/** Maps the routes of the contract to operations. Another method is 405, an unknown path 404. */
import { allowOf, exactPaths, serve, splitUrl } from '@hub/http-server'
import type { IncomingMessage } from 'node:http'
import * as NodeHttpServerRequest from '@effect/platform-node/NodeHttpServerRequest'
import {
  type ApiError,
  apiError,
  deprecationHeaders,
  prepareKnownParameters,
  type Route,
} from '@hub/contract'
import { Effect, Layer } from 'effect'
import { HttpRouter, HttpServerRequest, type HttpServerResponse } from 'effect/http'
import { Access } from '../access/access.ts'
import { AdmissionControl } from '../accept/admission/admission-control.ts'
import { slices } from '../accept/admission/slices.ts'
import { makeBodyBudget, readOpenBody } from './body.ts'
import { SENDS } from './demand.ts'
import { HttpEdge } from './edge.ts'
import { requestFault } from './framing.ts'
import { Idempotency } from './idempotency.ts'
import type { ObservedRequest } from './observe.ts'
import { openOperations, openPaths } from './open-operations.ts'
import { makeOperations, type OperationsOptions, ANSWER_DEADLINES } from './operations.ts'
import { exchange, type OpenOperation, type PipelineServices, type Routed, runChecked } from './pipeline.ts'

interface Target {
  readonly method: string
  readonly path: HttpRouter.PathInput
  readonly run:
    | ({ readonly kind: 'keyed' } & Pick<Routed, 'name' | 'operation' | 'answerDeadline' | 'scope' | 'sends'>)
    | { readonly kind: 'open'; readonly operation: OpenOperation }
  /** Of every answer: those of a deprecated operation. */
  readonly headers: Readonly<Record<string, string>>
}

const targetsOf = (
  routes: ReadonlyArray<Route>,
  operations: Readonly<Record<string, Routed['operation']>>,
): ReadonlyArray<Target> => [
  ...routes.map(({ deprecation, method, operation, path, scope }): Target => {
    const keyed = operations[operation]
    const open = openOperations[operation]
    const headers = deprecation === null ? {} : deprecationHeaders(deprecation)
    const at = { method, path: path as HttpRouter.PathInput, headers }
    if (scope !== null && keyed !== undefined) {
      const answerDeadline = ANSWER_DEADLINES[operation] ?? 'default'
      const sends = SENDS[operation] ?? null
      return {
        ...at,
        run: { kind: 'keyed', name: operation, operation: keyed, answerDeadline, scope, sends },
      }
    }
    if (scope === null && open !== undefined) return { ...at, run: { kind: 'open', operation: open } }
    throw new Error(`the operation ${operation} of the contract has no handler: add it to operations.ts`)
  }),
  ...Object.entries(openPaths).flatMap(([path, { methods, operation }]) =>
    methods.map((method): Target => ({
      method,
      path: path as HttpRouter.PathInput,
      run: { kind: 'open', operation },
      headers: {},
    })),
  ),
]

/** Shared by all requests without a query: operations never change it. */
const EMPTY_QUERY = new URLSearchParams()

/** What metrics and traces record of a request. `route` is `null` for an unknown path. */
const observedOf = (request: HttpServerRequest.HttpServerRequest, route: string | null): ObservedRequest => ({
  method: request.method,
  route,
  traceparent: request.headers['traceparent'],
  tracestate: request.headers['tracestate'],
})

/** Answers with an error. `route` is `null` for an unknown path. */
const refuse = (
  edge: HttpEdge['Service'],
  request: HttpServerRequest.HttpServerRequest,
  error: ApiError,
  route: string | null = null,
  extra?: Parameters<typeof exchange>[3],
) => exchange(edge, observedOf(request, route), () => Effect.fail(error), extra)

/** Answers all methods of one path. */
const respond = (
  edge: HttpEdge['Service'],
  services: PipelineServices,
  targets: ReadonlyArray<Target>,
): Effect.Effect<
  HttpServerResponse.HttpServerResponse,
  never,
  HttpServerRequest.HttpServerRequest | HttpRouter.RouteContext
> =>
  Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    const { params } = yield* HttpRouter.RouteContext
    const method = request.method === 'HEAD' ? 'GET' : request.method
    const target = targets.find((one) => one.method === method)
    if (target === undefined) {
      const headers = { allow: allowOf(targets.map((one) => one.method)) }
      return yield* refuse(edge, request, apiError('method_not_allowed'), targets[0]?.path, { headers })
    }
    const { path, query } = splitUrl(request.url)
    const { headers, run } = target
    return yield* exchange(edge, observedOf(request, target.path), (current) => {
      Object.assign(current.headers, headers)
      return run.kind === 'open'
        ? run.operation({
            method,
            path,
            query,
            headers: NodeHttpServerRequest.toIncomingMessage(request).headers,
            body: readOpenBody(NodeHttpServerRequest.toIncomingMessage(request) as IncomingMessage),
          })
        : runChecked(
            services,
            request,
            { ...run, params, query: query === '' ? EMPTY_QUERY : new URLSearchParams(query) },
            current,
          )
    })
  })

interface ApiOptions extends OperationsOptions {
  /** Those of the contract. */
  readonly routes: ReadonlyArray<Route>
}

/** The whole API as one effect. It never fails: every outcome is an answer. */
const makeApp = Effect.fnUntraced(function* ({ routes, ...options }: ApiOptions) {
  const edge = yield* HttpEdge
  // Reads the API description now: it takes 0.2 s, in which no request would be answered.
  prepareKnownParameters()
  const services: PipelineServices = {
    access: yield* Access,
    admission: yield* AdmissionControl,
    bodies: makeBodyBudget(),
    slices,
    idempotency: yield* Idempotency,
  }
  const targets = targetsOf(routes, yield* makeOperations(options))
  const router = HttpRouter.use(
    Effect.fnUntraced(function* ({ add }) {
      for (const [path, ofPath] of Map.groupBy(targets, (target) => target.path)) {
        yield* add('*', path, respond(edge, services, ofPath))
      }
    }),
  )
  const app = yield* HttpRouter.toHttpEffect(router)
  // The only possible failure is the router's: it does not know the path.
  const answer = (request: HttpServerRequest.HttpServerRequest) =>
    Effect.catch(app, () => refuse(edge, request, apiError('not_found')))
  return Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
    const fault = requestFault(NodeHttpServerRequest.toIncomingMessage(request) as IncomingMessage)
    if (fault === null) return answer(request)
    const { error, status } = fault
    return refuse(edge, request, error, null, status === undefined ? {} : { status })
  })
})

/** Serves the API until the scope closes. Then `draining` answers the requests in progress. */
export const apiLayer = (options: ApiOptions) =>
  Layer.effectDiscard(Effect.flatMap(makeApp(options), serve)).pipe(Layer.provide(exactPaths))
