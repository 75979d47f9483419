/** Idempotency keys on a test double whose calls fail in each of their ways. */
import { assert, describe, it } from '@effect/vitest'
import { type ApiError, apiError } from '@hub/contract'
import { StorageUnavailable } from '@hub/store'
import { Deferred, Effect, Exit, Fiber, Layer, Logger } from 'effect'
import { TestClock } from 'effect/testing'
import { owner } from '../testing/doubles.ts'
import { retryAfterOf } from '../idempotency/idempotency-keys.ts'
import {
  fingerprintOf,
  IdempotencyKeys,
  type IdempotencyLock,
  type LockResult,
  type StoredResponse,
} from '../idempotency/idempotency-keys.port.ts'
import { type Answer, errorAnswer, jsonAnswer } from './answer.ts'
import { Idempotency, type IdempotencyContext } from './idempotency.ts'

/**
 * How a call behaves. `lost reply`: it succeeds, and is reported as timed out. `late`: it succeeds
 * long after its timeout.
 */
type Behavior = 'ok' | 'unavailable' | 'lost reply' | 'late'

/** Keys in memory. A test decides when a lock expires. */
const makeKeys = () => {
  const rows = new Map<
    string,
    { fingerprint: string; token: string | null; messageId: string; response: StoredResponse | null }
  >()
  const state = {
    acquire: 'ok' as Behavior,
    store: 'ok' as Behavior,
    release: 'ok' as Behavior,
    /** Runs the late call. */
    late: () => {},
    /** The reply to an acquisition waits for it. */
    acquireReply: Effect.void as Effect.Effect<void>,
  }
  const away = new StorageUnavailable({ reason: 'timeout', detail: 'test' })
  const call = <A>(behavior: () => Behavior, work: () => A) =>
    Effect.suspend(() => {
      if (behavior() === 'late') state.late = work
      if (behavior() === 'unavailable' || behavior() === 'late') return Effect.fail(away)
      const done = work()
      return behavior() === 'lost reply' ? Effect.fail(away) : Effect.succeed(done)
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
      ).pipe(Effect.tap(() => state.acquireReply)),
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

const caller = { ...owner, key: 'key_1', scopes: null }
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
            errorAnswer(error._tag === 'ApiError' ? error : apiError('internal_error'), 'req_1', 'docs'),
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

describe('a response', () => {
  // Rules: IDEM-5
  test('is replayed to a repeat, and the request runs once', ({ ran, run }) =>
    Effect.gen(function* () {
      const first = yield* run(accepted)
      const second = yield* run(accepted)
      assert.deepStrictEqual([isReplayed(first), isReplayed(second), ran()], [false, true, 1])
      assert.deepStrictEqual([second.status, second.body], [first.status, first.body])
    }))

  for (const [what, work, stored] of [
    ['a refusal', () => Effect.fail(apiError('template_not_found')), true],
    ['a missing resource', () => Effect.fail(apiError('not_found')), true],
    ['a limit', () => Effect.fail(apiError('hub_daily_limit_reached')), false],
    ['a code that could not be queued', () => Effect.fail(apiError('provider_unavailable')), false],
    ['a failure of ours', () => Effect.fail(apiError('internal_error')), false],
    ['a conflict', () => Effect.fail(apiError('idempotency_conflict')), false],
    [
      'a used flood window',
      () => Effect.fail(apiError('recipient_flood_limited', { window: 'day', retryAfter: 60 })),
      true,
    ],
    ['an unchecked flood window', () => Effect.fail(apiError('recipient_flood_limited')), true],
    [
      'a batch of which a repeat can accept more',
      () => Effect.succeed({ ...jsonAnswer(202, {}), repeatable: true as const }),
      false,
    ],
  ] as const) {
    // Rules: IDEM-6, IDEM-7, IDEM-15
    test(`${what} is ${stored ? 'stored' : 'not stored, and the key is free at once'}`, ({ ran, run }) =>
      Effect.gen(function* () {
        yield* run(work)
        const second = yield* run(accepted)
        assert.deepStrictEqual([isReplayed(second), ran()], [stored, stored ? 1 : 2])
      }))
  }

  test('that the operation has stored is not stored again', ({ rows, run, state }) =>
    Effect.gen(function* () {
      state.store = 'unavailable'
      yield* run((context) => {
        context.responseStored = true
        return accepted()
      })
      yield* TestClock.adjust('10 seconds')
      // The transaction of the operation would have written it. Nobody else tries to.
      assert.isNull(rows.get('k')?.response)
    }))
})

describe('a key', () => {
  // Rules: IDEM-4
  test('identifies method, path and body', ({ run }) =>
    Effect.gen(function* () {
      yield* run(accepted)
      for (const over of [{ body: Buffer.from('{}') }, { url: '/v1/messages?x' }]) {
        const exit = yield* Effect.exit(run(accepted, over))
        assert.isTrue(Exit.isFailure(exit))
      }
      assert.notDeepEqual(fingerprintOf('POST', '/a', BODY), fingerprintOf('PUT', '/a', BODY))
    }))

  // Rules: IDEM-12
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

  // Rules: IDEM-16
  test('remembers the message id only for a repeat of the same request', ({ run }) =>
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

  // Rules: IDEM-15
  test('is free after a defect', ({ run }) =>
    Effect.gen(function* () {
      yield* Effect.exit(run(() => Effect.die(new Error('defect'))))
      assert.isFalse(isReplayed(yield* run(() => Effect.fail(apiError('internal_error')))))
      assert.isFalse(isReplayed(yield* run(accepted)))
    }))

  // Rules: IDEM-13
  test('stays locked after a disconnect of the client until its request ends, and has its response', ({
    ran,
    run,
  }) =>
    Effect.gen(function* () {
      const gate = yield* Deferred.make<void>()
      const gone = yield* Effect.forkChild(run(() => Effect.andThen(Deferred.await(gate), accepted())))
      yield* Effect.yieldNow
      yield* Fiber.interrupt(gone)
      const running = yield* Effect.flip(run(accepted))
      assert.isTrue(running._tag === 'ApiError' && running.code === 'idempotency_conflict')
      yield* Deferred.succeed(gate, undefined)
      yield* Effect.yieldNow
      assert.isTrue(isReplayed(yield* run(accepted)))
      assert.strictEqual(ran(), 1)
    }))

  // Rules: IDEM-13
  test('is free after a disconnect of the client while the lock was acquired', ({ rows, run, state }) =>
    Effect.gen(function* () {
      const gate = yield* Deferred.make<void>()
      state.acquireReply = Deferred.await(gate)
      const gone = yield* Effect.forkChild(run(() => Effect.fail(apiError('internal_error'))))
      yield* Effect.yieldNow
      yield* Fiber.interrupt(gone)
      state.acquireReply = Effect.void
      yield* Deferred.succeed(gate, undefined)
      yield* TestClock.adjust('1 second')
      assert.strictEqual(rows.get('k')?.token, null)
    }))

  it.effect('is free after the end of the process that ran its request', () =>
    Effect.gen(function* () {
      const { layer, rows, run } = world()
      yield* Effect.gen(function* () {
        const started = yield* Deferred.make<void>()
        yield* Effect.forkChild(run(() => Effect.andThen(Deferred.succeed(started, undefined), Effect.never)))
        yield* Deferred.await(started)
      }).pipe(Effect.provide(layer))
      assert.strictEqual(rows.get('k')?.token, null)
    }),
  )

  // Rules: IDEM-12
  test('has a retry_after of 1 s, or the time until the lock of a crashed request expires', () =>
    Effect.sync(() => {
      assert.deepStrictEqual([59, 41, 39.2, 0.1, 0].map(retryAfterOf), [1, 1, 40, 1, 1])
    }))
})

describe('while PostgreSQL is unavailable', () => {
  test('an acquisition that was reported as failed is released', ({ rows, run, state }) =>
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

  test('an acquisition that succeeds long after its timeout is released', ({ rows, run, state }) =>
    Effect.gen(function* () {
      state.acquire = 'late'
      assert.strictEqual((yield* Effect.flip(run(accepted)))._tag, 'StorageUnavailable')
      yield* TestClock.adjust('1 second')
      // The first release found no lock.
      state.late()
      assert.isNotNull(rows.get('k')?.token)
      state.acquire = 'ok'
      yield* TestClock.adjust('20 seconds')
      assert.strictEqual((yield* run(accepted)).status, 202)
    }))

  for (const behavior of ['unavailable', 'lost reply'] as const) {
    test(`(${behavior}) the client gets the response, which is stored in the background`, ({
      ran,
      run,
      state,
    }) =>
      Effect.gen(function* () {
        state.store = behavior
        const first = yield* Effect.forkChild(run(accepted))
        yield* TestClock.adjust('300 millis')
        assert.strictEqual((yield* Fiber.join(first)).status, 202)
        state.store = 'ok'
        yield* TestClock.adjust('2 seconds')
        assert.isTrue(isReplayed(yield* run(accepted)))
        assert.strictEqual(ran(), 1)
      }))

    test(`(${behavior}) the client gets the refusal, and its key is released in the background`, ({
      ran,
      run,
      state,
    }) =>
      Effect.gen(function* () {
        state.release = behavior
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
