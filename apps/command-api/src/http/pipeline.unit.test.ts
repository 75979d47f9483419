import { assert, describe, it } from '@effect/vitest'
import { apiError } from '@hub/contract'
import { StorageRejected, StorageUnavailable } from '@hub/store'
import { Effect, Fiber, Layer, Logger } from 'effect'
import { HttpServerResponse } from 'effect/http'
import { TestClock } from 'effect/testing'
import { jsonAnswer } from './answer.ts'
import { HttpEdge } from './edge.ts'
import { exchange, type Exchange } from './pipeline.ts'

/** What a client gets of an exchange. */
const answered = (work: (within: Exchange) => ReturnType<Parameters<typeof exchange>[1]>) =>
  Effect.gen(function* () {
    const response = HttpServerResponse.toWeb(yield* exchange(yield* HttpEdge, work))
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

  it.effect('ends after 20 seconds, whatever it waits for', () =>
    Effect.gen(function* () {
      const waiting = yield* Effect.forkChild(answered(() => Effect.never))
      yield* TestClock.adjust('20 seconds')
      const { error, headers, status } = yield* Fiber.join(waiting)
      assert.deepStrictEqual([status, error?.code], [503, 'internal_error'])
      assert.strictEqual(headers.get('retry-after'), String(error?.retry_after))
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
