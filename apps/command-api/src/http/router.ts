/**
 * Paths to operations. The contract's own list of routes decides what there is; a path that exists under other methods only is
 * 405 with `Allow`, anything else 404.
 */
import * as NodeHttpServerRequest from '@effect/platform-node/NodeHttpServerRequest'
import { apiError, ROUTES } from '@hub/contract'
import { Effect, Layer } from 'effect'
import { HttpRouter, HttpServer, HttpServerRequest, type HttpServerResponse } from 'effect/http'
import { Access } from '../access/access.ts'
import { Idempotency } from '../idempotency/idempotency.ts'
import {
  makeOperations,
  openOperations,
  openPaths,
  type OperationsOptions,
  waitingOutside,
} from './operations.ts'
import { HttpEdge } from './edge.ts'
import type { Observed } from './observe.ts'
import { checked, type Doors, exchange, type OpenOperation, type Operation } from './pipeline.ts'

interface Target {
  readonly method: string
  readonly path: HttpRouter.PathInput
  readonly run:
    | { readonly kind: 'keyed'; readonly operation: Operation; readonly waitsOutside: boolean }
    | { readonly kind: 'open'; readonly operation: OpenOperation }
}

const targetsOf = (operations: Readonly<Record<string, Operation>>): ReadonlyArray<Target> => [
  ...ROUTES.map(({ key, method, operation, path }): Target => {
    const keyed = operations[operation]
    const open = openOperations[operation]
    const at = { method, path: path as HttpRouter.PathInput }
    if (key && keyed !== undefined) {
      return { ...at, run: { kind: 'keyed', operation: keyed, waitsOutside: waitingOutside.has(operation) } }
    }
    if (!key && open !== undefined) return { ...at, run: { kind: 'open', operation: open } }
    throw new Error(`nothing answers ${operation}`)
  }),
  ...Object.entries(openPaths).map(([path, operation]): Target => ({
    method: 'GET',
    path: path as HttpRouter.PathInput,
    run: { kind: 'open', operation },
  })),
]

/** `HEAD` is answered wherever `GET` is. */
const allowed = (targets: ReadonlyArray<Target>): string =>
  targets.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method])).join(', ')

/** Of most requests. Operations only read. */
const NO_QUERY = new URLSearchParams()

const splitUrl = (url: string): { readonly path: string; readonly query: string } => {
  const mark = url.indexOf('?')
  return mark < 0 ? { path: url, query: '' } : { path: url.slice(0, mark), query: url.slice(mark + 1) }
}

/** What is told of a request: `route` is `null` where there is no such path. */
const observedOf = (request: HttpServerRequest.HttpServerRequest, route: string | null): Observed => ({
  method: request.method,
  route,
  traceparent: request.headers['traceparent'],
})

/** Answers one path, whatever the method. */
const respond = (
  edge: HttpEdge['Service'],
  doors: Doors,
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
      return yield* exchange(
        edge,
        observedOf(request, targets[0]?.path ?? null),
        () => Effect.fail(apiError('method_not_allowed')),
        {
          headers: { allow: allowed(targets) },
        },
      )
    }
    const { path, query } = splitUrl(request.url)
    const { run } = target
    return yield* exchange(edge, observedOf(request, target.path), (within) =>
      run.kind === 'open'
        ? run.operation({ path, headers: NodeHttpServerRequest.toIncomingMessage(request).headers })
        : checked(
            doors,
            request,
            {
              params,
              query: query === '' ? NO_QUERY : new URLSearchParams(query),
              waitsOutside: run.waitsOutside,
            },
            run.operation,
            within,
          ),
    )
  })

/** Paths are taken literally: another case, a second slash or one at the end is another path. */
const routerConfig = Layer.succeed(HttpRouter.RouterConfig)({
  caseSensitive: true,
  ignoreDuplicateSlashes: false,
  ignoreTrailingSlash: false,
})

const NO_HOST = 'A request needs one Host header.'

/** HTTP/1.1 wants it. Node would refuse by itself, without our envelope. */
const namesHost = (request: HttpServerRequest.HttpServerRequest): boolean => {
  const { headers, httpVersion } = NodeHttpServerRequest.toIncomingMessage(request)
  return headers.host !== undefined || httpVersion === '1.0'
}

/** The whole API as one effect. Fails never: whatever happens is an answer. */
const makeApp = Effect.fnUntraced(function* (options: OperationsOptions) {
  const edge = yield* HttpEdge
  const doors: Doors = { access: yield* Access, idempotency: yield* Idempotency }
  const targets = targetsOf(yield* makeOperations(options))
  const routes = HttpRouter.use(
    Effect.fnUntraced(function* (router) {
      for (const [path, here] of Map.groupBy(targets, (target) => target.path)) {
        yield* router.add('*', path, respond(edge, doors, here))
      }
    }),
  )
  const app = yield* HttpRouter.toHttpEffect(routes)
  // All that is left to fail is the router itself: there is no such path.
  const answered = (request: HttpServerRequest.HttpServerRequest) =>
    Effect.catch(app, () =>
      exchange(edge, observedOf(request, null), () => Effect.fail(apiError('not_found'))),
    )
  return Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
    namesHost(request)
      ? answered(request)
      : exchange(
          edge,
          observedOf(request, null),
          () => Effect.fail(apiError('invalid_parameter', { message: NO_HOST })),
          {
            status: 400,
          },
        ),
  )
})

/** Serves the API until the scope closes; then says so, takes no new connection, and answers what is in flight. */
export const apiLayer = (options: OperationsOptions) =>
  Layer.effectDiscard(
    Effect.gen(function* () {
      const edge = yield* HttpEdge
      yield* HttpServer.serveEffect(yield* makeApp(options))
      edge.enter('serving')
      yield* Effect.logInfo('accepting requests')
      // Added last, so it runs first.
      yield* Effect.addFinalizer(() => Effect.sync(() => edge.enter('draining')))
    }),
  ).pipe(Layer.provide(routerConfig))
