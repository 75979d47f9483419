import { Readable } from 'node:stream'
import { assert, describe, it } from '@effect/vitest'
import { apiError } from '@hub/contract'
import { StorageRejected, StorageUnavailable } from '@hub/store'
import { Effect, Fiber, Layer, Logger, Result } from 'effect'
import { HttpServerResponse } from 'effect/http'
import { TestClock } from 'effect/testing'
import type { Caller } from '../accounts/account.ts'
import { jsonAnswer } from './answer.ts'
import { makeSlices } from '../accept/admission/slices.ts'
import { makeBodyBudget } from './body.ts'
import { HttpEdge } from './edge.ts'
import { exchange, type Exchange, type PipelineServices, type Routed, runChecked } from './pipeline.ts'

const caller: Caller = {
  account: 'acc_00000000000000000000000001',
  accountUuid: '00000000-0000-0000-0000-000000000001',
  mode: 'live',
  key: 'key_00000000000000000000000001',
  scopes: null,
}

/** A request with only the parts that the checks read. */
const requestOf = (method: string, headers: Readonly<Record<string, string>>) =>
  ({ method, url: '/v1/x', headers, source: { headers, socket: {} } }) as unknown as Parameters<
    typeof runChecked
  >[1]

/** The answer that a client receives. */
const answerOf = (work: (current: Exchange) => ReturnType<Parameters<typeof exchange>[2]>) =>
  Effect.gen(function* () {
    const response = HttpServerResponse.toWeb(
      yield* exchange(yield* HttpEdge, { method: 'GET', route: '/v1/x', traceparent: undefined }, work),
    )
    const text = yield* Effect.promise(() => response.text())
    const body = JSON.parse(text) as {
      readonly error?: { readonly code: string; readonly request_id: string; readonly retry_after?: number }
    }
    return { status: response.status, headers: response.headers, text, error: body.error }
  })
const layer = Layer.mergeAll(HttpEdge.layer({ baseUrl: 'https://hub.example.com/' }), Logger.layer([]))

describe('an exchange', () => {
  // Rules: HTTP-22
  it.effect('adds the request id and the collected headers to every answer', () =>
    Effect.gen(function* () {
      for (const work of [
        (current: Exchange) =>
          Effect.sync(() => {
            current.headers['x-test'] = current.requestId
            return jsonAnswer(200, {})
          }),
        (current: Exchange) =>
          Effect.suspend(() => {
            current.headers['x-test'] = current.requestId
            return apiError('not_found')
          }),
      ]) {
        const { headers } = yield* answerOf(work)
        assert.match(headers.get('request-id') ?? '', /^req_[0-9a-z]{26}$/u)
        assert.strictEqual(headers.get('x-test'), headers.get('request-id'))
      }
    }).pipe(Effect.provide(layer)),
  )

  // Rules: ERR-6
  it.effect('reveals nothing about a defect', () =>
    Effect.gen(function* () {
      for (const work of [
        () => Effect.die(new Error('private')),
        (): never => {
          throw new Error('private')
        },
      ]) {
        const { error, status, text } = yield* answerOf(work)
        assert.deepStrictEqual([status, error?.code], [500, 'internal_error'])
        assert.notInclude(text, 'private')
        assert.notInclude(text, '.ts')
      }
    }).pipe(Effect.provide(layer)),
  )

  // Rules: AVL-16
  it.effect('answers 503 for unavailable storage and 422 for input that storage refuses', () =>
    Effect.gen(function* () {
      const unavailable = yield* answerOf(
        () => new StorageUnavailable({ reason: 'timeout', detail: 'deadline' }),
      )
      assert.deepStrictEqual([unavailable.status, unavailable.error?.code], [503, 'internal_error'])
      assert.isAtLeast(unavailable.error?.retry_after ?? 0, 1)
      const refused = yield* answerOf(() => new StorageRejected({ code: '22021', constraint: null }))
      assert.deepStrictEqual([refused.status, refused.error?.code], [422, 'invalid_parameter'])
    }).pipe(Effect.provide(layer)),
  )
})

describe('the checks', () => {
  // Rules: AVL-4, ERR-4
  it.effect(
    'and the operation are answered within three seconds even if each of their waits takes one second',
    () =>
      Effect.gen(function* () {
        const slow = <A>(value: A) => Effect.delay(Effect.succeed(value), '1 second')
        const services: PipelineServices = {
          access: { login: () => slow(caller), take: () => slow(null), addressOf: () => '192.0.2.1' },
          admission: {
            mayRefuse: () => false,
            refusal: () => null,
            admit: () => Result.succeed({ transfer: () => {}, finish: () => {}, end: () => {} }),
          },
          bodies: makeBodyBudget(),
          slices: makeSlices(),
          idempotency: {
            run: (_request, work) => {
              const lock = { accountUuid: caller.accountUuid, mode: caller.mode, key: 'k', token: 't' }
              const idempotency = { lock, messageId: 'msg_00000000000000000000000001', responseStored: false }
              return Effect.andThen(slow(null), work(idempotency))
            },
          },
        }
        const routed = (
          answerDeadline: Routed['answerDeadline'],
          operation: Routed['operation'],
        ): Routed => ({
          name: 'messages.send',
          params: {},
          query: new URLSearchParams(),
          answerDeadline,
          scope: 'read',
          sends: null,
          operation,
        })
        for (const [method, headers] of [
          ['GET', {}],
          ['POST', {}],
          ['POST', { 'idempotency-key': 'k' }],
        ] as const) {
          const waiting = yield* Effect.forkChild(
            answerOf((current) =>
              runChecked(
                services,
                requestOf(method, headers),
                routed('default', () => slow(jsonAnswer(201, {}))),
                current,
              ),
            ),
          )
          yield* TestClock.adjust('3 seconds')
          const { error, headers: responseHeaders, status } = yield* Fiber.join(waiting)
          assert.deepStrictEqual([status, error?.code], [503, 'internal_error'])
          assert.strictEqual(responseHeaders.get('retry-after'), String(error?.retry_after))
        }
        // A batch has 10 seconds.
        const batch = yield* Effect.forkChild(
          answerOf((current) =>
            runChecked(
              services,
              requestOf('POST', {}),
              routed('batch', () => Effect.never),
              current,
            ),
          ),
        )
        yield* TestClock.adjust('10 seconds')
        const { error, status } = yield* Fiber.join(batch)
        assert.deepStrictEqual([status, error?.code], [503, 'internal_error'])
        // A test delivery may take longer: it waits for the receiver of the client.
        const testDelivery = yield* Effect.forkChild(
          answerOf((current) =>
            runChecked(
              services,
              requestOf('POST', {}),
              routed('receiver', () => Effect.delay(Effect.succeed(jsonAnswer(200, {})), '12 seconds')),
              current,
            ),
          ),
        )
        yield* TestClock.adjust('14 seconds')
        assert.strictEqual((yield* Fiber.join(testDelivery)).status, 200)
      }).pipe(Effect.provide(layer)),
  )
})

describe('the first check of a send that fails', () => {
  // Rules: HTTP-25, HTTP-26, HTTP-27, AVL-7, AVL-8, IDEM-2
  it.effect('determines the answer', () =>
    Effect.gen(function* () {
      /** The checks in their order, and the answers of those that fail. */
      const order = [
        ['size', 'payload_too_large'],
        ['type', 'unsupported_media_type'],
        ['key', 'invalid_api_key'],
        ['overload, whatever the body says', 'overloaded 1'],
        ['overload', 'overloaded 2'],
        ['rate', 'rate_limited'],
        ['idempotency key', 'idempotency_key_reused'],
        ['operation', 'not_found'],
      ] as const
      for (const [first, expected] of order) {
        const failing = new Set(
          order.map(([check]) => check).slice(order.findIndex(([one]) => one === first)),
        )
        let open = 0
        const overloaded = (retryAfter: number) => apiError('overloaded', { retryAfter })
        const services: PipelineServices = {
          access: {
            login: () =>
              failing.has('key') ? Effect.fail(apiError('invalid_api_key')) : Effect.succeed(caller),
            take: () =>
              Effect.succeed({
                allowed: !failing.has('rate'),
                limit: 1,
                remaining: 0,
                resetSeconds: 1,
                retryAfterSeconds: 1,
              }),
            addressOf: () => '192.0.2.1',
          },
          admission: {
            mayRefuse: () => true,
            refusal: () => (failing.has('overload, whatever the body says') ? overloaded(1) : null),
            admit: () => {
              if (failing.has('overload')) return Result.fail(overloaded(2))
              open++
              return Result.succeed({ transfer: () => {}, finish: () => {}, end: () => open-- })
            },
          },
          bodies: makeBodyBudget(),
          slices: makeSlices(),
          idempotency: { run: () => Effect.die('the request has no valid key') },
        }
        const headers: Readonly<Record<string, string>> = {
          'content-length': failing.has('size') ? String(5 * 1024 * 1024) : '2',
          'content-type': failing.has('type') ? 'text/plain' : 'application/json',
          ...(failing.has('idempotency key') ? { 'idempotency-key': 'x'.repeat(300) } : undefined),
        }
        const source = Object.assign(Readable.from([Buffer.from('{}')]), { headers, socket: {} })
        const request = { method: 'POST', url: '/v1/x', headers, source } as unknown as Parameters<
          typeof runChecked
        >[1]
        const { error } = yield* answerOf((current) =>
          runChecked(
            services,
            request,
            {
              name: 'messages.send',
              params: {},
              query: new URLSearchParams(),
              answerDeadline: 'default',
              scope: 'send',
              sends: 'single',
              operation: () => Effect.fail(apiError('not_found')),
            },
            current,
          ),
        )
        const retryAfter = error?.code === 'overloaded' ? ` ${error.retry_after}` : ''
        assert.strictEqual(`${error?.code}${retryAfter}`, expected, first)
        assert.strictEqual(open, 0, 'the work of a refused request has ended')
      }
    }).pipe(Effect.provide(layer)),
  )
})
