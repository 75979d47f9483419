import { assert, describe, it } from '@effect/vitest'
import { type ApiError, apiError, httpStatusOf } from '@hub/contract'
import { StorageUnavailable } from '@hub/store'
import { Deferred, Effect, Exit, Fiber, Layer, Logger } from 'effect'
import { TestClock } from 'effect/testing'
import type { Answer } from '../http/answer.ts'
import { jsonAnswer } from '../http/answer.ts'
import { owner } from '../testing/doubles.ts'
import { Idempotency, type IdempotencyContext } from './idempotency.ts'
import { retryAfterOf } from './idempotency-keys.ts'
import {
  fingerprintOf,
  IdempotencyKeys,
  type IdempotencyLock,
  type LockResult,
  type StoredResponse,
} from './idempotency-keys.port.ts'

/** How a call goes; `lost reply`: it happened, and is reported as timed out; `late`: it will happen, long after that. */
type Fate = 'ok' | 'unavailable' | 'lost reply' | 'late'

/** Keys in memory. Leases end when a test says so. */
const makeKeys = () => {
  const rows = new Map<
    string,
    { fingerprint: string; token: string | null; messageId: string; response: StoredResponse | null }
  >()
  const state = {
    acquire: 'ok' as Fate,
    store: 'ok' as Fate,
    release: 'ok' as Fate,
    /** What a claim that hung will have written when it gets through. */
    late: () => {},
  }
  const away = new StorageUnavailable({ reason: 'timeout', detail: 'test' })
  const call = <A>(fate: () => Fate, work: () => A) =>
    Effect.suspend(() => {
      if (fate() === 'late') state.late = work
      if (fate() === 'unavailable' || fate() === 'late') return Effect.fail(away)
      const done = work()
      return fate() === 'lost reply' ? Effect.fail(away) : Effect.succeed(done)
    })
  const keys: IdempotencyKeys['Service'] = {
    acquire: ({ fingerprint, key, messageId }, token) =>
      call(
        () => state.acquire,
        (): LockResult => {
          const row = rows.get(key)
          const same = row?.fingerprint === fingerprint.toString('hex')
          if (row !== undefined && (row.token !== null || row.response !== null)) {
            if (!same) return { type: 'reused' }
            return row.response === null
              ? { type: 'running', retryAfterSeconds: 1 }
              : { type: 'replay', response: row.response }
          }
          const remembered = row !== undefined && same ? row.messageId : messageId
          rows.set(key, {
            fingerprint: fingerprint.toString('hex'),
            token,
            messageId: remembered,
            response: null,
          })
          const lock: IdempotencyLock = { accountUuid: owner.accountUuid, mode: owner.mode, key, token }
          return { type: 'first', lock, messageId: remembered }
        },
      ),
    store: ({ key, token }, response) =>
      call(
        () => state.store,
        () => {
          const row = rows.get(key)
          if (row?.token === token) rows.set(key, { ...row, token: null, response })
        },
      ),
    release: ({ key, token }) =>
      call(
        () => state.release,
        () => {
          const row = rows.get(key)
          const held = row?.token === token && row.response === null
          if (held) rows.set(key, { ...row, token: null })
          return held
        },
      ),
  }
  return { keys, rows, state }
}

const caller = { ...owner, key: 'key_1' }
const BODY = Buffer.from('{"to":"x"}')

const world = () => {
  const { keys, rows, state } = makeKeys()
  const layer = Idempotency.layer.pipe(Layer.provide(Layer.succeed(IdempotencyKeys)(keys)))
  let ran = 0
  const run = (
    work: (context: IdempotencyContext) => Effect.Effect<Answer, ApiError>,
    over: { readonly body?: Uint8Array; readonly url?: string } = {},
  ) =>
    Effect.flatMap(Idempotency, (idempotency) =>
      idempotency.run(
        { caller, key: 'k', method: 'POST', url: over.url ?? '/v1/messages', body: over.body ?? BODY },
        (context) =>
          Effect.suspend(() => {
            ran++
            return work(context)
          }),
        (error) =>
          Effect.succeed(
            error._tag === 'ApiError'
              ? jsonAnswer(httpStatusOf(error), { error: error.code })
              : jsonAnswer(503, { error: 'internal_error' }),
          ),
      ),
    )
  return { layer, run, rows, state, ran: () => ran }
}
type World = ReturnType<typeof world>

const test = (name: string, body: (world: World) => Effect.Effect<void, unknown, Idempotency>) =>
  it.effect(name, () => {
    const made = world()
    return body(made).pipe(Effect.provide(made.layer), Effect.provide(Logger.layer([])))
  })

const accepted = () => Effect.succeed(jsonAnswer(202, { id: 'msg_1' }))
const isReplayed = (answer: Answer) => answer.headers?.['idempotent-replayed'] === 'true'

describe('an answer', () => {
  test('is given again as it was, and the request runs once', ({ ran, run }) =>
    Effect.gen(function* () {
      const first = yield* run(accepted)
      const second = yield* run(accepted)
      assert.deepStrictEqual([isReplayed(first), isReplayed(second), ran()], [false, true, 1])
      assert.deepStrictEqual([second.status, second.body], [first.status, first.body])
    }))

  for (const [what, work, kept] of [
    ['a refusal', () => Effect.fail(apiError('template_not_found')), true],
    ['a missing resource', () => Effect.fail(apiError('not_found')), true],
    ['a limit', () => Effect.fail(apiError('hub_daily_limit_reached')), false],
    ['a code that could not be queued', () => Effect.fail(apiError('provider_unavailable')), false],
    ['a failure of ours', () => Effect.fail(apiError('internal_error')), false],
    ['a conflict', () => Effect.fail(apiError('idempotency_conflict')), false],
    [
      'a batch of which a repeat accepts more',
      () => Effect.succeed({ ...jsonAnswer(202, {}), repeatable: true as const }),
      false,
    ],
  ] as const) {
    test(`${what} is ${kept ? 'kept' : 'not kept, and the key is free at once'}`, ({ ran, run }) =>
      Effect.gen(function* () {
        yield* run(work)
        const second = yield* run(accepted)
        assert.deepStrictEqual([isReplayed(second), ran()], [kept, kept ? 1 : 2])
      }))
  }

  test('that the operation has stored itself is not stored again', ({ rows, run, state }) =>
    Effect.gen(function* () {
      state.store = 'unavailable'
      yield* run((context) => {
        context.responseStored = true
        return accepted()
      })
      yield* TestClock.adjust('10 seconds')
      // Its own transaction would have written it: here nobody did, and nobody else tries to.
      assert.isNull(rows.get('k')?.response)
    }))
})

describe('a key', () => {
  test('belongs to method, path and body', ({ run }) =>
    Effect.gen(function* () {
      yield* run(accepted)
      for (const over of [{ body: Buffer.from('{}') }, { url: '/v1/messages?x' }]) {
        const exit = yield* Effect.exit(run(accepted, over))
        assert.isTrue(Exit.isFailure(exit))
      }
      assert.notDeepEqual(fingerprintOf('POST', '/a', BODY), fingerprintOf('PUT', '/a', BODY))
    }))

  test('is in conflict while its first request runs', ({ ran, run }) =>
    Effect.gen(function* () {
      const gate = yield* Deferred.make<void>()
      const first = yield* Effect.forkChild(run(() => Effect.andThen(Deferred.await(gate), accepted())))
      yield* Effect.yieldNow
      const second = yield* Effect.flip(run(accepted))
      assert.isTrue(second._tag === 'ApiError' && second.code === 'idempotency_conflict')
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(first)
      assert.isTrue(isReplayed(yield* run(accepted)))
      assert.strictEqual(ran(), 1)
    }))

  test('remembers the message id for the repeat of the same request only', ({ run }) =>
    Effect.gen(function* () {
      const ids: Array<string> = []
      const unqueued = (context: IdempotencyContext) => {
        ids.push(context.messageId)
        return Effect.fail(apiError('provider_unavailable'))
      }
      yield* run(unqueued)
      yield* run(unqueued)
      yield* run(unqueued, { body: Buffer.from('{}') })
      assert.strictEqual(ids[0], ids[1])
      assert.notStrictEqual(ids[1], ids[2])
    }))

  test('is free after a request that broke or whose client has gone', ({ run }) =>
    Effect.gen(function* () {
      yield* Effect.exit(run(() => Effect.die(new Error('unthought of'))))
      assert.isFalse(isReplayed(yield* run(() => Effect.fail(apiError('internal_error')))))
      const gone = yield* Effect.forkChild(run(() => Effect.never))
      yield* Effect.yieldNow
      yield* Fiber.interrupt(gone)
      assert.isFalse(isReplayed(yield* run(accepted)))
    }))

  test('tells a repeat to come back at once, or when the lock of a dead request ends', () =>
    Effect.sync(() => {
      assert.deepStrictEqual([59, 41, 39.2, 0.1, 0].map(retryAfterOf), [1, 1, 40, 1, 1])
    }))
})

describe('while PostgreSQL is away', () => {
  test('a claim that happened although it was reported as failed is given back', ({ rows, run, state }) =>
    Effect.gen(function* () {
      state.acquire = 'lost reply'
      state.release = 'unavailable'
      assert.strictEqual((yield* Effect.flip(run(accepted)))._tag, 'StorageUnavailable')
      assert.isNotNull(rows.get('k')?.token)
      state.acquire = 'ok'
      state.release = 'ok'
      yield* TestClock.adjust('2 seconds')
      assert.strictEqual((yield* run(accepted)).status, 202)
    }))

  test('a claim that is carried out long after it was given up is given back', ({ rows, run, state }) =>
    Effect.gen(function* () {
      state.acquire = 'late'
      assert.strictEqual((yield* Effect.flip(run(accepted)))._tag, 'StorageUnavailable')
      yield* TestClock.adjust('1 second')
      // By now it was released once, in vain.
      state.late()
      assert.isNotNull(rows.get('k')?.token)
      state.acquire = 'ok'
      yield* TestClock.adjust('20 seconds')
      assert.strictEqual((yield* run(accepted)).status, 202)
    }))

  for (const fate of ['unavailable', 'lost reply'] as const) {
    test(`(${fate}) an answer is given, and stored behind it`, ({ ran, run, state }) =>
      Effect.gen(function* () {
        state.store = fate
        const first = yield* Effect.forkChild(run(accepted))
        yield* TestClock.adjust('300 millis')
        assert.strictEqual((yield* Fiber.join(first)).status, 202)
        state.store = 'ok'
        yield* TestClock.adjust('2 seconds')
        assert.isTrue(isReplayed(yield* run(accepted)))
        assert.strictEqual(ran(), 1)
      }))

    test(`(${fate}) a refusal is given, and its key freed behind it`, ({ ran, run, state }) =>
      Effect.gen(function* () {
        state.release = fate
        const first = yield* Effect.forkChild(run(() => Effect.fail(apiError('internal_error'))))
        yield* TestClock.adjust('300 millis')
        assert.strictEqual((yield* Fiber.join(first)).status, 500)
        state.release = 'ok'
        yield* TestClock.adjust('2 seconds')
        assert.strictEqual((yield* run(accepted)).status, 202)
        assert.strictEqual(ran(), 2)
      }))
  }
})
