import { it } from '@effect/vitest'
import { Effect, Layer } from 'effect'
import { HttpClient, type HttpClientRequest, HttpClientResponse } from 'effect/http'
import { HttpApiClient, HttpApiMiddleware } from 'effect/http-api'
import { describe, expect } from 'vitest'
import { ApiKey, HubApi, ROUTES } from './api.ts'
import { apiError, errorHeaders, httpStatusOf, toErrorBody } from './errors.ts'
import type { Json } from './validate.ts'
import { AcceptedMessage, EventList } from './wire.ts'

const exampleOf = (schema: typeof AcceptedMessage): Json =>
  JSON.parse(JSON.stringify(schema.ast.annotations?.['examples']))[0] as Json

/** A client of the API whose requests are answered here; `seen` is where they went. */
const clientOf = (
  answer: (request: HttpClientRequest.HttpClientRequest) => Response,
  seen: Array<string>,
) => {
  const http = HttpClient.make((request, url) => {
    seen.push(`${request.method} ${url.pathname}${url.search} ${request.headers['authorization'] ?? ''}`)
    return Effect.succeed(HttpClientResponse.fromWeb(request, answer(request)))
  })
  const key = HttpApiMiddleware.layerClient(ApiKey, ({ next, request }) =>
    next({
      ...request,
      headers: { ...request.headers, authorization: 'Bearer hub_test_x' },
    } as typeof request),
  )
  return HttpApiClient.make(HubApi, { baseUrl: 'https://hub.example' }).pipe(
    Effect.provide(Layer.merge(Layer.succeed(HttpClient.HttpClient, http), key)),
  )
}

const json = (status: number, body: unknown, headers: Readonly<Record<string, string>> = {}) =>
  new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json', ...headers } })

const SEND = { to: '+79000000001', class: 'otp', template: 'otp_code', variables: { code: '4821' } } as const

describe('a typed client of the definition', () => {
  it.effect('sends a message and understands the answer, fields it does not know included', () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const example = exampleOf(AcceptedMessage)
      const client = yield* clientOf(
        () => json(202, { ...(example as object), later: 'a field to come' }),
        seen,
      )
      const message = yield* client.messages.send({ payload: SEND, headers: { 'idempotency-key': 'k' } })
      expect(message).toEqual(example)
      expect(seen).toEqual(['POST /v1/messages Bearer hub_test_x'])
    }),
  )

  it.effect('gets every declared failure as the error body, typed', () =>
    Effect.gen(function* () {
      const errors = [
        apiError('invalid_api_key'),
        apiError('idempotency_conflict'),
        apiError('recipient_invalid'),
        apiError('rate_limited', { retryAfter: 7 }),
        apiError('provider_unavailable'),
        apiError('internal_error'),
      ]
      for (const error of errors) {
        const body = toErrorBody(error, 'req_1', 'https://hub.example/docs/errors')
        const client = yield* clientOf(() => json(httpStatusOf(error), body, errorHeaders(error)), [])
        const failed = yield* Effect.flip(client.messages.send({ payload: SEND, headers: {} }))
        expect(failed).toEqual(body)
      }
    }),
  )

  it.effect('writes the query of a list the way the checks read it', () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const page: typeof EventList.Type = { object: 'list', data: [], has_more: false, next_cursor: 'evt_1' }
      const client = yield* clientOf(() => json(200, page), seen)
      const query = { limit: 500, starting_after: 'evt_1', type: ['message.sent', 'message.seen'] } as const
      expect(yield* client.events.list({ query })).toEqual(page)
      expect(seen).toEqual([
        'GET /v1/events?limit=500&starting_after=evt_1&type=message.sent&type=message.seen Bearer hub_test_x',
      ])
    }),
  )
})

describe('the routes', () => {
  it.effect('are the operations of the definition, with and without a key', () =>
    Effect.sync(() => {
      expect(ROUTES.map((route) => `${route.method} ${route.path}${route.key ? ' key' : ''}`)).toEqual([
        'POST /v1/messages key',
        'GET /v1/messages key',
        'POST /v1/messages/batch key',
        'POST /v1/messages/estimate key',
        'GET /v1/messages/:id key',
        'GET /v1/batches/:id key',
        'POST /v1/templates key',
        'GET /v1/templates key',
        'GET /v1/templates/:id key',
        'POST /v1/templates/:id/render key',
        'POST /v1/senders key',
        'GET /v1/senders key',
        'GET /v1/senders/:id key',
        'POST /v1/webhook_endpoints key',
        'GET /v1/webhook_endpoints key',
        'GET /v1/webhook_endpoints/:id key',
        'GET /v1/events key',
        'GET /v1/account key',
        'GET /v1/stats key',
        'GET /v1/openapi.json',
      ])
    }),
  )
})
