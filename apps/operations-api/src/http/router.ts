/**
 * Maps requests to endpoints, sign-in pages and the files of the console. Each request gets an id, an
 * answer with the security headers, a metric and, if it fails, a line in the log.
 */
import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import * as NodeHttpServerRequest from '@effect/platform-node/NodeHttpServerRequest'
import { page } from '@hub/contract'
import { allowOf, exactPaths, framingFault, serve, Serving, splitUrl } from '@hub/http-server'
import { NEW_ID_RANDOM_BYTES, newId } from '@hub/domain'
import type { StorageError } from '@hub/store'
import { memoizeLabels } from '@hub/telemetry'
import { Cause, Context, Effect, Layer, type Redacted } from 'effect'
import { HttpRouter, HttpServerRequest, type HttpServerResponse } from 'effect/http'
import { makeAuthenticate } from '../access/authenticate.ts'
import { makeCookies } from '../access/cookies.ts'
import { makeLoginRoutes } from '../access/login-routes.ts'
import { Sessions } from '../access/sessions.ts'
import { readConsoleFiles } from '../console/files.ts'
import { descriptionText } from '../description/describe.ts'
import type { Endpoint } from '../endpoints/endpoint.ts'
import { endpoints } from '../endpoints/index.ts'
import { makeOverviewStreams, OVERVIEW_STREAM_PATH } from '../overview/stream.ts'
import { answers, type AnswerKind, requestSeconds } from '../metrics.ts'
import type { OperationServices } from '../layers.ts'
import {
  type Answer,
  failureAnswer,
  htmlAnswer,
  isStreamed,
  type StreamedAnswer,
  toResponse,
  toStreamedResponse,
} from './answer.ts'
import { receiveBody } from './body.ts'
import { ApiFailure, apiFailure, ERRORS, failureOf } from './failures.ts'
import { makeExportLimits } from './streams.ts'
import { makeWorkLimits, type WorkLimits } from './work.ts'

export const ERROR_PAGE_PATH = '/docs/errors'

export interface RouterOptions {
  /** The address of the console. */
  readonly operationsUrl: string
  /** The folder of the console's files. */
  readonly consoleDir: string
  readonly localSecret: Redacted.Redacted<string> | null
}

type Outcome = Answer | StreamedAnswer

interface Route {
  readonly method: string
  readonly path: string
  readonly run: (
    request: IncomingMessage,
    at: { readonly params: Readonly<Record<string, string | undefined>>; readonly query: URLSearchParams },
  ) => Effect.Effect<Outcome, unknown, OperationServices | Serving>
}

const labelled = memoizeLabels()
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
const NO_ROUTE = 'none'

const newRequestId = (): string => newId('req', Date.now(), randomBytes(NEW_ID_RANDOM_BYTES))

const errorPage = (): Answer => {
  const sections = Object.entries(ERRORS).map(
    ([code, { message, status }]) =>
      `<section id="${code}">\n<h2><a href="#${code}">${code}</a></h2>\n<p>${message}</p>\n<dl><dt>Status</dt><dd>${status}</dd></dl>\n</section>`,
  )
  return htmlAnswer(
    200,
    page(
      'Errors of the operations API',
      `<h1>Errors of the operations API</h1>
<p>A failed request has a status of 400 or above and a body <code>{"error": {…}}</code>. An operation can also refuse with a
code of its own, which <code>/v1/openapi.json</code> lists: 404 if something does not exist, 422 if one input is wrong (see
<code>param</code>), 409 if the state of the hub does not permit it (see <code>details</code>).</p>
${sections.join('\n')}`,
    ),
  )
}

const makeRoutes = Effect.fnUntraced(function* (options: RouterOptions, { counted, ofCaller }: WorkLimits) {
  const { localSecret, operationsUrl } = options
  const sessions = yield* Sessions
  const cookies = makeCookies({ operationsUrl, hasLoginLinks: localSecret !== null })
  const authenticate = yield* makeAuthenticate(new URL(operationsUrl).origin, cookies)
  const openStream = makeOverviewStreams(sessions)
  const limitExport = makeExportLimits(sessions)
  const loginRoutes = yield* makeLoginRoutes(options, cookies, authenticate)

  const ofEndpoint = ({ handle, method, path }: Endpoint): Route => ({
    method,
    path,
    run: Effect.fnUntraced(function* (request, at) {
      const received = method === 'GET' ? null : yield* receiveBody(request)
      return yield* counted(
        Effect.flatMap(authenticate({ method, headers: request.headers, isUse: true }), (caller) =>
          ofCaller(
            caller,
            Effect.gen(function* () {
              const body = received === null ? null : yield* Effect.fromResult(received)
              const answer = yield* handle(caller, { ...at, body })
              return isStreamed(answer) ? yield* limitExport(caller, answer) : answer
            }),
          ),
        ),
      )
    }),
  })

  const ofLogin = ({ method, path, run }: (typeof loginRoutes)[number]): Route => ({
    method,
    path,
    run: (request, { query }): Effect.Effect<Answer, ApiFailure | StorageError> =>
      counted(run(request, query)),
  })

  /** A page that stays open does not keep its session alive. */
  const overviewStream: Route = {
    method: 'GET',
    path: OVERVIEW_STREAM_PATH,
    run: ({ headers }) =>
      counted(
        Effect.gen(function* () {
          const caller = yield* authenticate({ method: 'GET', headers, isUse: false })
          return yield* openStream(caller)
        }),
      ),
  }

  const description: Route = {
    method: 'GET',
    path: '/v1/openapi.json',
    run: () =>
      Effect.sync(() => ({
        status: 200,
        body: descriptionText(),
        headers: { 'content-type': 'application/json' },
      })),
  }
  const errors: Route = { method: 'GET', path: ERROR_PAGE_PATH, run: () => Effect.sync(errorPage) }

  return [...endpoints.map(ofEndpoint), ...loginRoutes.map(ofLogin), overviewStream, description, errors]
})

/** The whole application as one effect. It never fails: every outcome is an answer. */
const makeApp = Effect.fnUntraced(function* (options: RouterOptions) {
  const files = yield* readConsoleFiles(options.consoleDir)
  if (!files.isBuilt) yield* Effect.logInfo('http: the console is not built')
  // Browsers remember it, so nobody signs in over plain HTTP, also not after a mistyped address.
  const transport: Readonly<Record<string, string>> = options.operationsUrl.startsWith('https:')
    ? { 'strict-transport-security': 'max-age=31536000' }
    : {}
  const docBase = new URL(ERROR_PAGE_PATH, options.operationsUrl).toString()
  const services = yield* Effect.context<OperationServices | Serving>()

  const exchange = (
    request: HttpServerRequest.HttpServerRequest,
    route: string | null,
    run: Effect.Effect<Outcome, unknown, OperationServices | Serving>,
    more: Readonly<Record<string, string>> = {},
  ): Effect.Effect<HttpServerResponse.HttpServerResponse> =>
    Effect.suspend(() => {
      const requestId = newRequestId()
      const startedAt = performance.now()
      const method = METHODS.has(request.method) ? request.method : '_OTHER'
      const annotate = Effect.annotateLogs({ request_id: requestId, method, route: route ?? NO_ROUTE })

      const failed = (cause: Cause.Cause<unknown>): Effect.Effect<Answer> => {
        const failure = Cause.hasDies(cause) ? null : failureOf(Cause.squash(cause))
        if (failure !== null) {
          const log = failure.status >= 500 ? Effect.logWarning : Effect.logInfo
          return log('http: a request was refused').pipe(
            Effect.annotateLogs({ status: failure.status, code: failure.code }),
            Effect.as(failureAnswer(failure, requestId, docBase)),
          )
        }
        return Effect.logError('http: a request failed because of a defect', cause).pipe(
          Effect.as(failureAnswer(apiFailure('internal_error'), requestId, docBase)),
        )
      }

      return run.pipe(
        Effect.provideContext(services),
        Effect.catchCause(failed),
        Effect.map((outcome) => {
          const headers = { ...outcome.headers, ...transport, ...more }
          const response = isStreamed(outcome)
            ? toStreamedResponse({ ...outcome, headers }, requestId)
            : toResponse({ ...outcome, headers }, requestId)
          answers.add({ status: `${Math.trunc(response.status / 100)}xx` as AnswerKind })
          labelled(requestSeconds, {
            method,
            route: route ?? NO_ROUTE,
            status: String(response.status),
          }).updateUnsafe((performance.now() - startedAt) / 1000, Context.empty())
          return response
        }),
        annotate,
      )
    })

  const routes = yield* makeRoutes(options, makeWorkLimits())
  const byPath = Map.groupBy(routes, ({ path }) => path)

  const respond = (ofPath: ReadonlyArray<Route>) =>
    Effect.gen(function* () {
      const request = yield* HttpServerRequest.HttpServerRequest
      const { params } = yield* HttpRouter.RouteContext
      const incoming = NodeHttpServerRequest.toIncomingMessage(request) as IncomingMessage
      const method = request.method === 'HEAD' ? 'GET' : request.method
      const route = ofPath.find((one) => one.method === method)
      const query = new URLSearchParams(splitUrl(incoming.url ?? '/').query)
      if (route !== undefined)
        return yield* exchange(request, route.path, route.run(incoming, { params, query }))
      const allow = allowOf(ofPath.map((one) => one.method))
      const failure = Effect.fail(apiFailure('method_not_allowed'))
      return yield* exchange(request, ofPath[0]?.path ?? null, failure, { allow })
    })

  /** A file or a page of the console. Paths of the API that do not exist are no pages. */
  const other = (request: HttpServerRequest.HttpServerRequest) => {
    const { headers, url = '/' } = NodeHttpServerRequest.toIncomingMessage(request) as IncomingMessage
    const { path } = splitUrl(url)
    const isPage = (request.method === 'GET' || request.method === 'HEAD') && !path.startsWith('/v1/')
    const file = isPage
      ? files.answer({
          path,
          acceptEncoding: headers['accept-encoding'] as string | undefined,
          ifNoneMatch: headers['if-none-match'],
        })
      : null
    return exchange(
      request,
      file === null ? null : '/',
      file === null ? Effect.fail(apiFailure('not_found')) : Effect.succeed(file),
    )
  }

  const known = yield* HttpRouter.toHttpEffect(
    HttpRouter.use(
      Effect.fnUntraced(function* (router) {
        for (const [path, ofPath] of byPath) {
          yield* router.add('*', path as HttpRouter.PathInput, respond(ofPath))
        }
      }),
    ),
  )
  return Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
    const fault = framingFault(NodeHttpServerRequest.toIncomingMessage(request) as IncomingMessage)
    if (fault !== null) {
      return exchange(request, null, Effect.fail(new ApiFailure({ ...fault, code: 'invalid_parameter' })))
    }
    // The only possible failure is the router's: it does not know the path.
    return Effect.catch(known, () => other(request))
  })
})

/** Serves requests until the scope closes. Then `draining` answers the requests in progress. */
export const routerLayer = (options: RouterOptions) =>
  Layer.effectDiscard(Effect.flatMap(makeApp(options), serve)).pipe(Layer.provide(exactPaths))
