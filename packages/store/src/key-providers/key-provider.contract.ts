/** The contract suite of the port of the master key. Every provider passes it, through the service that chooses it. */
import { randomBytes } from 'node:crypto'
import { assert, describe, it } from '@effect/vitest'
import { Effect, Exit, Layer, Result } from 'effect'
import { MasterKeyEncryption } from '../master-key-encryption.ts'
import type { KeyPurpose } from './key-provider.port.ts'

type Layers = Layer.Layer<MasterKeyEncryption, unknown>

export interface ProviderUnderTest {
  /** A process with the key. It is built anew for each process of a test. */
  readonly own: Layers
  /** A process of the same kind with another key. */
  readonly other: Layers
}

/** A busy server can miss the deadline of a request several times. The limit of the test ends a loop. */
export const patiently = <A, E extends { readonly _tag: string }>(effect: Effect.Effect<A, E>) =>
  Effect.retry(effect, {
    while: (error) => error._tag === 'StorageUnavailable' && 'reason' in error && error.reason === 'timeout',
  })

/** The keys of a process, on a machine of any speed. */
export const patientKeys = (keys: MasterKeyEncryption['Service']): MasterKeyEncryption['Service'] => ({
  ...keys,
  decrypt: (...of) => patiently(keys.decrypt(...of)),
  wrap: (...of) => patiently(keys.wrap(...of)),
  unwrap: (...of) => patiently(keys.unwrap(...of)),
  reencrypt: (...of) => patiently(keys.reencrypt(...of)),
  renewCheckKey: (of) => patiently(keys.renewCheckKey(of)),
  currentPrefix: patiently(keys.currentPrefix),
  identify: (recorded) => patiently(keys.identify(recorded)),
  ready: patiently(keys.ready),
})

const plain = Buffer.from('whsec_secret')
const PURPOSES = ['sealing-key', 'payload-key'] as const satisfies ReadonlyArray<KeyPurpose>

/** Runs the suite. `under` is called inside of the tests. */
export const keyProviderContract = (name: string, under: () => ProviderUnderTest): void => {
  const processOf = (layer: Layers) =>
    Effect.gen(function* () {
      const process = patientKeys(
        yield* Effect.provide(Effect.service(MasterKeyEncryption), yield* Layer.build(layer)),
      )
      yield* process.ready
      return process
    })
  const own = Effect.suspend(() => processOf(Layer.fresh(under().own)))
  const other = Effect.suspend(() => processOf(Layer.fresh(under().other)))
  const decrypted = (
    process: MasterKeyEncryption['Service'],
    ciphertext: Uint8Array,
    aad = 'we_1',
    purpose: 'webhook-secret' | 'id-token' = 'webhook-secret',
  ) =>
    Effect.map(Effect.exit(process.decrypt(purpose, aad, ciphertext)), (exit) =>
      Exit.isSuccess(exit) ? exit.value.toString() : null,
    )

  describe(`key provider: ${name}`, () => {
    it.live('encrypts a value for its owner, its purpose and every process with the key', () =>
      Effect.gen(function* () {
        const process = yield* own
        const ciphertext = process.encrypt('webhook-secret', 'we_1', plain)
        assert.isFalse(ciphertext.includes(plain))
        assert.isFalse(ciphertext.equals(process.encrypt('webhook-secret', 'we_1', plain)))
        assert.deepStrictEqual(ciphertext.subarray(0, 5), yield* process.currentPrefix)
        for (const one of [process, yield* own]) {
          assert.strictEqual(yield* decrypted(one, ciphertext), 'whsec_secret')
          assert.isNull(yield* decrypted(one, ciphertext, 'we_2'))
          assert.isNull(yield* decrypted(one, ciphertext, 'we_1', 'id-token'))
        }
        assert.isNull(yield* decrypted(yield* other, ciphertext))
      }).pipe(Effect.scoped),
    )

    it.live('refuses a value that was changed or cut', () =>
      Effect.gen(function* () {
        const process = yield* own
        const ciphertext = process.encrypt('webhook-secret', 'we_1', plain)
        for (let at = 0; at < ciphertext.length; at++) {
          const damaged = Buffer.from(ciphertext)
          damaged[at]! ^= 1
          assert.isNull(yield* decrypted(process, damaged), `byte ${at}`)
        }
        for (const length of [0, 1, 5, 6, 7, 8, 40, ciphertext.length - 1]) {
          assert.isNull(yield* decrypted(process, ciphertext.subarray(0, length)), `${length} bytes`)
        }
      }).pipe(Effect.scoped),
    )

    it.live('encrypts a value of any length', () =>
      Effect.gen(function* () {
        const process = yield* own
        for (const length of [0, 1, 1_000_000]) {
          const value = randomBytes(length)
          const ciphertext = process.encrypt('id-token', 'x', value)
          assert.isTrue(value.equals(yield* process.decrypt('id-token', 'x', ciphertext)), String(length))
        }
      }).pipe(Effect.scoped),
    )

    it.live('wraps keys, in order, for their owner and purpose', () =>
      Effect.gen(function* () {
        const process = yield* own
        // More than a provider puts into one request.
        const keys = Array.from({ length: 600 }, (_, i) => ({ aad: `key-${i}`, bytes: randomBytes(32) }))
        for (const purpose of PURPOSES) {
          assert.deepStrictEqual(yield* process.wrap(purpose, []), [])
          assert.deepStrictEqual(yield* process.unwrap(purpose, []), [])
          const wrapped = (yield* process.wrap(purpose, keys)).map((bytes, i) => ({
            aad: keys[i]!.aad,
            bytes,
          }))
          const prefix = yield* process.currentPrefix
          for (const [i, { bytes }] of wrapped.entries()) {
            assert.isTrue(bytes.subarray(0, prefix.length).equals(prefix))
            assert.isFalse(bytes.includes(keys[i]!.bytes))
          }
          const unwrapped = yield* (yield* own).unwrap(purpose, wrapped)
          assert.deepStrictEqual(
            unwrapped.map((result) => (Result.isSuccess(result) ? result.success.toString('hex') : null)),
            keys.map(({ bytes }) => bytes.toString('hex')),
          )
        }
      }).pipe(Effect.scoped),
    )

    it.live('says for each key why it cannot be unwrapped', () =>
      Effect.gen(function* () {
        const process = yield* own
        const key = { aad: 'key-1', bytes: randomBytes(32) }
        const [wrapped] = yield* process.wrap('payload-key', [key])
        const problem = (result: Result.Result<Buffer, string> | undefined) =>
          result !== undefined && Result.isFailure(result) ? result.failure : null
        const cut = wrapped!.subarray(0, -1)
        const changed = Buffer.from(wrapped!)
        changed[changed.length - 1]! ^= 1
        const results = yield* process.unwrap('payload-key', [
          { aad: 'key-1', bytes: wrapped! },
          { aad: 'key-2', bytes: wrapped! },
          { aad: 'key-1', bytes: cut },
          { aad: 'key-1', bytes: changed },
          { aad: 'key-1', bytes: Buffer.alloc(0) },
          { aad: 'key-1', bytes: wrapped! },
        ])
        assert.deepStrictEqual(results.map(problem), [
          null,
          'damaged',
          'damaged',
          'damaged',
          'unknown_master_key',
          null,
        ])
        const [purpose] = yield* process.unwrap('sealing-key', [{ aad: 'key-1', bytes: wrapped! }])
        assert.strictEqual(problem(purpose), 'damaged')
        const [foreign] = yield* (yield* other).unwrap('payload-key', [{ aad: 'key-1', bytes: wrapped! }])
        assert.isNotNull(problem(foreign))
      }).pipe(Effect.scoped),
    )

    it.live('proves that two processes have the same key', () =>
      Effect.gen(function* () {
        const [first] = yield* (yield* own).identify([])
        const [stranger] = yield* (yield* other).identify([])
        const recorded = [stranger!, first!].map(({ checkValue, wrappedCheckKey }) => ({
          checkValue,
          wrappedCheckKey,
        }))
        const [again] = yield* (yield* own).identify(recorded)
        assert.strictEqual(again?.checkValue, first?.checkValue)
        const [strangerAgain] = yield* (yield* other).identify(recorded)
        assert.strictEqual(strangerAgain?.checkValue, stranger?.checkValue)
        assert.notStrictEqual(first?.checkValue, stranger?.checkValue)
        const process = yield* own
        assert.isTrue(again?.made(process.encrypt('id-token', 'x', plain)))
      }).pipe(Effect.scoped),
    )

    it.live('puts what it has encrypted under the current key again', () =>
      Effect.gen(function* () {
        const process = yield* own
        const [wrapped] = yield* process.wrap('sealing-key', [{ aad: 'a', bytes: Buffer.alloc(32, 7) }])
        const value = process.encrypt('webhook-secret', 'we_1', plain)
        const [key, broken] = yield* process.reencrypt('sealing-key', [
          { aad: 'a', bytes: wrapped! },
          { aad: 'a', bytes: wrapped!.subarray(0, 20) },
        ])
        const [secret] = yield* process.reencrypt('webhook-secret', [{ aad: 'we_1', bytes: value }])
        assert.isNull(broken)
        const [result] = yield* process.unwrap('sealing-key', [{ aad: 'a', bytes: key! }])
        assert.isTrue(
          result !== undefined && Result.isSuccess(result) && result.success.every((b) => b === 7),
        )
        assert.strictEqual(yield* decrypted(process, secret!), 'whsec_secret')
      }).pipe(Effect.scoped),
    )
  })
}
