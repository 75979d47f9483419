import { assert, describe, it } from '@effect/vitest'
import { apiError } from '@hub/contract'
import { StorageRejected, StorageUnavailable } from '@hub/store'
import { Effect, Fiber, Layer, Logger } from 'effect'
import { HttpServerResponse } from 'effect/http'
import { TestClock } from 'effect/testing'
import type { Caller } from '../accounts/account.ts'
import { jsonAnswer } from './answer.ts'
import { HttpEdge } from './edge.ts'
import { checked, type Doors, exchange, type Exchange } from './pipeline.ts'

const caller: Caller = {
  account: 'acc_00000000000000000000000001',
  accountUuid: '00000000-0000-0000-0000-000000000001',
  mode: 'live',
  key: 'key_00000000000000000000000001',
}

/** As much of a request as the checks look at. */
const requestOf = (method: string, headers: Readonly<Record<string, string>>) =>
  ({ method, url: '/v1/x', headers, source: { headers, socket: {} } }) as unknown as Parameters<
    typeof checked
  >[1]

/** What a client gets of an exchange. */
const answered = (work: (within: Exchange) => ReturnType<Parameters<typeof exchange>[2]>) =>
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
const layer = Layer.mergeAll(HttpEdge.layer('https://hub.example.com/'), Logger.layer([]))

describe('an exchange', () => {
  it.effect('has an id, and what goes with whatever is answered', () =>
    Effect.gen(function* () {
      for (const work of [
        (within: Exchange) =>
          Effect.sync(() => {
            within.headers['x-test'] = within.requestId
            return jsonAnswer(200, {})
          }),
        (within: Exchange) =>
          Effect.suspend(() => {
            within.headers['x-test'] = within.requestId
            return apiError('not_found')
          }),
      ]) {
        const { headers } = yield* answered(work)
        assert.match(headers.get('request-id') ?? '', /^req_[0-9a-z]{26}$/u)
        assert.strictEqual(headers.get('x-test'), headers.get('request-id'))
      }
    }).pipe(Effect.provide(layer)),
  )

  it.effect('tells nothing of a fault of ours', () =>
    Effect.gen(function* () {
      for (const work of [
        () => Effect.die(new Error('private')),
        (): never => {
          throw new Error('private')
        },
      ]) {
        const { error, status, text } = yield* answered(work)
        assert.deepStrictEqual([status, error?.code], [500, 'internal_error'])
        assert.notInclude(text, 'private')
        assert.notInclude(text, '.ts')
      }
    }).pipe(Effect.provide(layer)),
  )

  it.effect('tells storage that is away from storage that refuses', () =>
    Effect.gen(function* () {
      const away = yield* answered(() => new StorageUnavailable({ reason: 'timeout', detail: 'deadline' }))
      assert.deepStrictEqual([away.status, away.error?.code], [503, 'internal_error'])
      assert.isAtLeast(away.error?.retry_after ?? 0, 1)
      const refused = yield* answered(() => new StorageRejected({ code: '22021', constraint: null }))
      assert.deepStrictEqual([refused.status, refused.error?.code], [422, 'invalid_parameter'])
    }).pipe(Effect.provide(layer)),
  )

  it.effect('asks for another connection while the process is closing', () =>
    Effect.gen(function* () {
      const edge = yield* HttpEdge
      edge.enter('serving')
      const work = () => Effect.succeed(jsonAnswer(200, {}))
      assert.isNull((yield* answered(work)).headers.get('connection'))
      edge.enter('draining')
      assert.strictEqual((yield* answered(work)).headers.get('connection'), 'close')
    }).pipe(Effect.provide(layer)),
  )
})

describe('the checks', () => {
  it.effect(
    'and the operation are answered within three seconds, though each wait of theirs may take one',
    () =>
      Effect.gen(function* () {
        const slow = <A>(value: A) => Effect.delay(Effect.succeed(value), '1 second')
        const doors: Doors = {
          access: { login: () => slow(caller), take: () => slow(null) },
          idempotency: {
            run: (_request, work) => {
              const lock = { accountUuid: caller.accountUuid, mode: caller.mode, key: 'k', token: 't' }
              const idempotency = { lock, messageId: 'msg_00000000000000000000000001', stored: false }
              return Effect.andThen(slow(null), work(idempotency))
            },
          },
        }
        for (const [method, headers] of [
          ['GET', {}],
          ['POST', {}],
          ['POST', { 'idempotency-key': 'k' }],
        ] as const) {
          const waiting = yield* Effect.forkChild(
            answered((within) =>
              checked(
                doors,
                requestOf(method, headers),
                { params: {}, query: new URLSearchParams() },
                () => slow(jsonAnswer(201, {})),
                within,
              ),
            ),
          )
          yield* TestClock.adjust('3 seconds')
          const { error, headers: told, status } = yield* Fiber.join(waiting)
          assert.deepStrictEqual([status, error?.code], [503, 'internal_error'])
          assert.strictEqual(told.get('retry-after'), String(error?.retry_after))
        }
        // Another one waits for somebody who is not the hub.
        const trial = yield* Effect.forkChild(
          answered((within) =>
            checked(
              doors,
              requestOf('POST', {}),
              { params: {}, query: new URLSearchParams(), waitsOutside: true },
              () => Effect.delay(Effect.succeed(jsonAnswer(200, {})), '12 seconds'),
              within,
            ),
          ),
        )
        yield* TestClock.adjust('14 seconds')
        assert.strictEqual((yield* Fiber.join(trial)).status, 200)
      }).pipe(Effect.provide(layer)),
  )
})
