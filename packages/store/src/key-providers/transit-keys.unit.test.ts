/** What the provider does over time and at the same time. `test/operating/transit.int.test.ts` has a real server. */
import { assert, describe, it } from '@effect/vitest'
import { Effect, Exit, Fiber, References, Result } from 'effect'
import { TestClock } from 'effect/testing'
import { StorageUnavailable } from '../sql.ts'
import type { Owned } from './key-provider.port.ts'
import type { TransitClient } from './transit-client.ts'
import { makeTransitKeys } from './transit-keys.ts'

/** An engine that answers after a second. Its ciphertexts are the plain bytes. */
const engine = () => {
  const state = { version: 1, isAway: false, decryptions: 0 }
  const answer = <A>(result: () => A) =>
    Effect.andThen(
      Effect.sleep('1 second'),
      Effect.suspend(() =>
        state.isAway
          ? Effect.fail(new StorageUnavailable({ reason: 'unreachable', detail: 'TRANSIT_UNREACHABLE' }))
          : Effect.sync(result),
      ),
    )
  const client: TransitClient = {
    encrypt: (plain) => answer(() => plain.map((bytes) => ({ version: state.version, bytes }))),
    decrypt: (ciphertexts) =>
      answer(() => {
        state.decryptions++
        return ciphertexts.map(({ bytes }) => Result.succeed(Buffer.from(bytes)))
      }),
    rewrap: () => Effect.die('not used'),
    lookUpToken: Effect.die('not used'),
    renewToken: Effect.die('not used'),
  }
  return { state, client }
}

const started = Effect.gen(function* () {
  const { client, state } = engine()
  const keys = yield* makeTransitKeys(client)
  const ready = yield* Effect.forkChild(keys.ready)
  yield* TestClock.adjust('1 second')
  yield* Fiber.join(ready)
  return { client, keys, state }
})
const wrappedKeys = Effect.fnUntraced(function* (
  { wrap }: Effect.Success<typeof started>['keys'],
  count: number,
): Effect.fn.Return<ReadonlyArray<Owned>, StorageUnavailable> {
  const plain = Array.from({ length: count }, (_, i) => ({ aad: `key-${i}`, bytes: Buffer.alloc(32, i) }))
  const wrapping = yield* Effect.forkChild(wrap('payload-key', plain))
  yield* TestClock.adjust('1 second')
  const wrapped = yield* Fiber.join(wrapping)
  return plain.map(({ aad }, i) => ({ aad, bytes: wrapped[i]! }))
})
/** All fibers go on until they wait for something else. */
const settle = Effect.repeat(Effect.yieldNow, { times: 200 })
/** The key in the result of one; `null` if it has not arrived within the deadline of a request. */
const within = (fiber: Fiber.Fiber<ReadonlyArray<Result.Result<Buffer, string>>, StorageUnavailable>) =>
  Effect.gen(function* () {
    yield* settle
    yield* TestClock.adjust('3 seconds')
    yield* settle
    const exit = fiber.pollUnsafe()
    if (exit === undefined || Exit.isFailure(exit)) return null
    const [result] = exit.value
    return result !== undefined && Result.isSuccess(result) ? result.success[0]! : null
  })

describe('keys in a transit engine', () => {
  it.effect('are asked for once by callers that want the same one at the same time', () =>
    Effect.gen(function* () {
      const { keys, state } = yield* started
      const [first, second] = yield* wrappedKeys(keys, 2)
      const wanted = [first!, second!, first!, first!, second!]
      const callers = yield* Effect.forEach(wanted, (key) =>
        Effect.forkChild(keys.unwrap('payload-key', [key])),
      )
      yield* TestClock.adjust('1 second')
      assert.deepStrictEqual(yield* Effect.forEach(callers, within), [0, 1, 0, 0, 1])
      assert.strictEqual(state.decryptions, 2)
    }).pipe(Effect.scoped),
  )

  it.effect('arrive after a caller that was interrupted at any step', () =>
    Effect.gen(function* () {
      const { keys } = yield* started
      const all = yield* wrappedKeys(keys, 20)
      const read: Array<number | null> = []
      for (const [operations, key] of all.entries()) {
        const unwrap = keys.unwrap('payload-key', [key])
        // It begins, and lets others run after so many operations. The scheduler needs two for itself.
        const caller = yield* Effect.forkChild(
          Effect.provideService(unwrap, References.MaxOpsBeforeYield, operations + 2),
        )
        yield* Effect.yieldNow
        yield* Fiber.interrupt(caller)
        read.push(yield* within(yield* Effect.forkChild(unwrap)))
      }
      assert.deepStrictEqual(
        read,
        all.map((_, i) => i),
      )
    }).pipe(Effect.scoped),
  )
})

describe('the data key', () => {
  const header = (value: Uint8Array): string => Buffer.from(value.subarray(0, 40)).toString('hex')

  it.effect('is another one after a day, and the last one while the engine is away', () =>
    Effect.gen(function* () {
      const { keys, state } = yield* started
      const encrypted = () => keys.encrypt('id-token', 'a', Buffer.from('text'))
      const first = encrypted()
      yield* TestClock.adjust('23 hours')
      assert.strictEqual(header(encrypted()), header(first))
      state.isAway = true
      yield* TestClock.adjust('10 hours')
      assert.strictEqual(header(encrypted()), header(first))
      state.isAway = false
      yield* TestClock.adjust('2 hours')
      const second = encrypted()
      assert.notStrictEqual(header(second), header(first))
      // Both are in memory.
      for (const value of [first, second]) {
        assert.strictEqual(String(yield* keys.decrypt('id-token', 'a', value)), 'text')
      }
      assert.strictEqual(state.decryptions, 0)
    }).pipe(Effect.scoped),
  )

  it.effect('is under a new version of the transit key within two hours', () =>
    Effect.gen(function* () {
      const { keys, state } = yield* started
      const versionOf = (value: Uint8Array) => Buffer.from(value).readUInt32BE(1)
      assert.strictEqual(versionOf(keys.encrypt('id-token', 'a', Buffer.from('text'))), 1)
      state.version = 2
      yield* TestClock.adjust('2 hours')
      assert.strictEqual(versionOf(keys.encrypt('id-token', 'a', Buffer.from('text'))), 2)
    }).pipe(Effect.scoped),
  )
})
