import { it } from '@effect/vitest'
import { Effect, Layer, type Schema } from 'effect'
import { HttpClient, type HttpClientRequest, HttpClientResponse } from 'effect/http'
import { HttpApiClient, HttpApiMiddleware } from 'effect/http-api'
import { describe, expect } from 'vitest'
import { HubApi, ROUTES } from './hub-api.ts'
import { ApiKey, post } from './operation.ts'
import { apiError, errorHeaders, httpStatusOf, toErrorBody } from '../errors.ts'
import type { Json } from '../json.ts'
import { REQUEST_ID } from '../schemas/fields.ts'
import {
  AcceptedBatch,
  AcceptedMessage,
  Batch,
  BatchRequest,
  Estimate,
  EstimateBatch,
  EventList,
  Message,
  type MessageList,
  RenderedText,
  Sender,
  SenderCreate,
  Stats,
  Template,
  TemplateCreate,
} from '../index.ts'

const exampleOf = (schema: Schema.Top): Json =>
  JSON.parse(JSON.stringify(schema.ast.annotations?.['examples']))[0] as Json

/** A typed client with a fake server; `seen` contains its requests. */
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
  it.effect('sends a message, and accepts unknown fields in the answer', () =>
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

  it.effect('decodes each declared failure as a typed error body', () =>
    Effect.gen(function* () {
      const errors = [
        apiError('invalid_api_key'),
        apiError('idempotency_conflict'),
        apiError('recipient_invalid'),
        apiError('rate_limited', { retryAfter: 7 }),
        apiError('overloaded'),
        apiError('provider_unavailable'),
        apiError('internal_error'),
      ]
      for (const error of errors) {
        const body = toErrorBody(error, REQUEST_ID, 'https://hub.example/docs/errors')
        const client = yield* clientOf(() => json(httpStatusOf(error), body, errorHeaders(error)), [])
        const failed = yield* Effect.flip(client.messages.send({ payload: SEND, headers: {} }))
        expect(failed).toEqual(body)
      }
    }),
  )

  it.effect('sends a batch and distinguishes its results', () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const client = yield* clientOf(() => json(202, exampleOf(AcceptedBatch)), seen)
      const payload = exampleOf(BatchRequest) as unknown as typeof BatchRequest.Type
      const { counts, results } = yield* client.messages.sendBatch({ payload, headers: {} })
      expect(seen).toEqual(['POST /v1/messages/batch Bearer hub_test_x'])
      expect(counts.total).toBe(results.length)
      const told = results.map((one) => {
        switch (one.result) {
          case 'accepted':
            return one.message.status
          case 'duplicate':
            return one.message_url
          case 'rejected':
            return one.error.code
        }
      })
      expect(told).toEqual(['accepted', expect.stringMatching(/^\/v1\/messages\/msg_/u), 'recipient_invalid'])
    }),
  )

  it.effect('does not send a batch with an element without client_ref', () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const client = yield* clientOf(() => json(202, exampleOf(AcceptedBatch)), seen)
      const payload = { messages: [SEND] } as unknown as typeof BatchRequest.Type
      const failed = yield* Effect.flip(client.messages.sendBatch({ payload, headers: {} }))
      expect(failed).toMatchObject({ _tag: 'SchemaError' })
      expect(seen).toEqual([])
    }),
  )

  it.effect('estimates one and several sends, and distinguishes the answers', () =>
    Effect.gen(function* () {
      const one = yield* clientOf(() => json(200, exampleOf(Estimate)), [])
      expect(yield* one.messages.estimate({ payload: SEND, headers: {} })).toEqual(exampleOf(Estimate))
      const many = yield* clientOf(() => json(200, exampleOf(EstimateBatch)), [])
      const answer = yield* many.messages.estimate({ payload: { messages: [SEND, SEND] }, headers: {} })
      expect(answer).toEqual(exampleOf(EstimateBatch))
      expect(
        'data' in answer ? answer.data.map((row) => ('error' in row ? row.error.code : row.parts)) : [],
      ).toEqual([1, 'template_variable_missing'])
    }),
  )

  it.effect('reads a batch and its messages', () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const page = { object: 'list', data: [exampleOf(Message)], has_more: true, next_cursor: 'msg_1' }
      const client = yield* clientOf(
        (request) => json(200, request.url.includes('/v1/batches/') ? exampleOf(Batch) : page),
        seen,
      )
      expect(yield* client.batches.read({ params: { id: 'bat_1' } })).toEqual(exampleOf(Batch))
      const listed: typeof MessageList.Type = yield* client.messages.list({
        query: { batch: 'bat_1', limit: 1 },
      })
      expect(listed).toEqual(page)
      expect(seen).toEqual([
        'GET /v1/batches/bat_1 Bearer hub_test_x',
        'GET /v1/messages?batch=bat_1&limit=1 Bearer hub_test_x',
      ])
    }),
  )

  it.effect('creates, reads, lists and previews templates and senders', () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const answers = [
        json(201, exampleOf(Sender)),
        json(200, exampleOf(Sender)),
        json(200, { object: 'list', data: [exampleOf(Sender)], has_more: false, next_cursor: 'snd_1' }),
        json(201, exampleOf(Template)),
        json(200, exampleOf(Template)),
        json(200, { object: 'list', data: [exampleOf(Template)], has_more: false, next_cursor: 'tpl_1' }),
        json(200, exampleOf(RenderedText)),
      ]
      const client = yield* clientOf(() => answers.shift() ?? json(500, {}), seen)
      const sender = exampleOf(SenderCreate) as unknown as typeof SenderCreate.Type
      const template = exampleOf(TemplateCreate) as unknown as typeof TemplateCreate.Type
      expect(yield* client.senders.create({ payload: sender, headers: {} })).toEqual(exampleOf(Sender))
      expect(yield* client.senders.read({ params: { id: 'snd_1' } })).toEqual(exampleOf(Sender))
      expect((yield* client.senders.list({ query: {} })).data).toEqual([exampleOf(Sender)])
      expect(yield* client.templates.create({ payload: template, headers: {} })).toEqual(exampleOf(Template))
      expect(yield* client.templates.read({ params: { id: 'tpl_1' } })).toEqual(exampleOf(Template))
      expect((yield* client.templates.list({ query: { limit: 5 } })).data).toEqual([exampleOf(Template)])
      expect(
        yield* client.templates.render({
          params: { id: 'tpl_1' },
          payload: { variables: { order: '1001' } },
          headers: { 'idempotency-key': 'k' },
        }),
      ).toEqual(exampleOf(RenderedText))
      expect(seen.map((line) => line.replace(' Bearer hub_test_x', ''))).toEqual([
        'POST /v1/senders',
        'GET /v1/senders/snd_1',
        'GET /v1/senders',
        'POST /v1/templates',
        'GET /v1/templates/tpl_1',
        'GET /v1/templates?limit=5',
        'POST /v1/templates/tpl_1/render',
      ])
    }),
  )

  it.effect('reads a summary', () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const client = yield* clientOf(() => json(200, exampleOf(Stats)), seen)
      const query = { from: '2026-11-01', to: '2026-11-21', group_by: 'class' } as const
      expect(yield* client.stats.read({ query })).toEqual(exampleOf(Stats))
      expect(seen).toEqual(['GET /v1/stats?from=2026-11-01&to=2026-11-21&group_by=class Bearer hub_test_x'])
    }),
  )

  it.effect('encodes the query of a list as the checks decode it', () =>
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
  // Rules: AUTH-17
  it.effect('contain all operations of the definition with the scope that a key needs', () =>
    Effect.sync(() => {
      expect(ROUTES.map(({ method, path, scope }) => `${method} ${path} ${scope ?? 'no key'}`)).toEqual([
        'POST /v1/messages send',
        'GET /v1/messages read',
        'POST /v1/messages/batch send',
        'POST /v1/messages/estimate send',
        'GET /v1/messages/:id read',
        'GET /v1/batches/:id read',
        'POST /v1/templates manage',
        'GET /v1/templates read',
        'GET /v1/templates/:id read',
        'DELETE /v1/templates/:id manage',
        'POST /v1/templates/:id/render manage',
        'POST /v1/senders manage',
        'GET /v1/senders read',
        'GET /v1/senders/:id read',
        'DELETE /v1/senders/:id manage',
        'POST /v1/webhook_endpoints manage',
        'GET /v1/webhook_endpoints read',
        'GET /v1/webhook_endpoints/:id read',
        'PATCH /v1/webhook_endpoints/:id manage',
        'DELETE /v1/webhook_endpoints/:id manage',
        'POST /v1/webhook_endpoints/:id/rotate_secret manage',
        'POST /v1/webhook_endpoints/:id/test manage',
        'POST /v1/webhook_endpoints/:id/enable manage',
        'GET /v1/webhook_endpoints/:id/deliveries read',
        'POST /v1/webhook_endpoints/:id/deliveries/:delivery/resend manage',
        'GET /v1/events read',
        'GET /v1/account read',
        'GET /v1/stats read',
        'GET /v1/openapi.json no key',
      ])
    }),
  )

  // Rules: AUTH-17
  it('need a scope, except the description of the API', () => {
    const open = ROUTES.filter(({ scope }) => scope === null).map(({ operation }) => operation)
    expect(open).toEqual(['description.openapi'])
  })

  // Rules: AUTH-17
  it('of a POST state their scope: the compiler refuses a definition without one', () => {
    const texts = { summary: 'More', description: 'More.', answer: 'More.', success: Estimate }
    const refused = () => [
      // @ts-expect-error A POST may send or change something, so its method does not decide the scope.
      post('more', '/v1/more', texts),
      // @ts-expect-error No POST only reads.
      post('more', '/v1/more', { ...texts, scope: 'read' }),
    ]
    expect(refused).toBeTypeOf('function')
  })
})
