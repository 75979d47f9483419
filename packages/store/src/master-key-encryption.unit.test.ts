import { createSecretKey, hkdfSync, randomBytes } from 'node:crypto'
import { describe, expect, it } from '@effect/vitest'
import { ConfigProvider, Effect, Exit, Layer } from 'effect'
import { encryptWithKey, MasterKeyEncryption } from './master-key-encryption.ts'

const [first, second, third] = [1, 2, 3].map((byte) => Buffer.alloc(32, byte).toString('base64')) as [
  string,
  string,
  string,
]
const masterKeyOf = (
  current: string,
  previous?: string,
): Effect.Effect<MasterKeyEncryption['Service'], unknown> =>
  Effect.provide(
    Effect.flatMap(MasterKeyEncryption, (masterKey) => Effect.succeed(masterKey)),
    MasterKeyEncryption.layer.pipe(
      Layer.provide(
        ConfigProvider.layer(
          ConfigProvider.fromUnknown({
            HUB_MASTER_KEY: current,
            ...(previous === undefined ? {} : { HUB_PREVIOUS_MASTER_KEYS: previous }),
          }),
        ),
      ),
    ),
  )
const plain = Buffer.from('whsec_secret')
const opens = (masterKey: MasterKeyEncryption['Service'], box: Uint8Array, aad = 'we_1') =>
  Effect.map(Effect.exit(masterKey.decrypt('webhook-secret', aad, box)), (exit) =>
    Exit.isSuccess(exit) ? exit.value.toString() : null,
  )

describe('a box', () => {
  it.effect('says which master key it is under, and opens for what it belongs to only', () =>
    Effect.gen(function* () {
      const masterKey = yield* masterKeyOf(first)
      const box = masterKey.encrypt('webhook-secret', 'we_1', plain)
      expect(box.subarray(0, 5)).toEqual(Buffer.from(masterKey.keyPrefix))
      expect(box.includes(plain)).toBe(false)
      expect(yield* opens(masterKey, box)).toBe('whsec_secret')
      expect(yield* opens(masterKey, box, 'we_2')).toBeNull()
      expect(yield* Effect.exit(masterKey.decrypt('personal-data', 'we_1', box))).toMatchObject({
        _tag: 'Failure',
      })
      for (let at = 0; at < box.length; at++) {
        const damaged = Buffer.from(box)
        damaged[at]! ^= 1
        expect(yield* opens(masterKey, damaged), String(at)).toBeNull()
      }
      expect(yield* opens(masterKey, Buffer.alloc(0))).toBeNull()
      expect(yield* opens(masterKey, box.subarray(0, 7))).toBeNull()
    }),
  )

  it.effect('under a previous master key opens; a new one is under the current key', () =>
    Effect.gen(function* () {
      const old = yield* masterKeyOf(first)
      const box = old.encrypt('webhook-secret', 'we_1', plain)
      expect(yield* opens(yield* masterKeyOf(second), box)).toBeNull()
      const masterKey = yield* masterKeyOf(second, `${third}, ${first}`)
      expect(yield* opens(masterKey, box)).toBe('whsec_secret')
      expect([old.hasPreviousKeys, masterKey.hasPreviousKeys]).toEqual([false, true])
      const fresh = masterKey.encrypt('webhook-secret', 'we_1', plain)
      expect(fresh.subarray(0, 5)).not.toEqual(box.subarray(0, 5))
      expect(yield* opens(yield* masterKeyOf(second), fresh)).toBe('whsec_secret')
      // Before the exchange, the processes that have the new key among the others open what the
      // first one writes.
      expect(yield* opens(yield* masterKeyOf(first, second), fresh)).toBe('whsec_secret')
    }),
  )

  it.effect('from before boxes named their key opens, under any of the keys', () =>
    Effect.gen(function* () {
      const derived = hkdfSync(
        'sha256',
        Buffer.from(first, 'base64'),
        Buffer.alloc(0),
        'sms-delivery-hub/webhook-secret',
        32,
      )
      const box = encryptWithKey(createSecretKey(new Uint8Array(derived)), 'we_1', plain)
      expect(yield* opens(yield* masterKeyOf(first), box)).toBe('whsec_secret')
      expect(yield* opens(yield* masterKeyOf(second, first), box)).toBe('whsec_secret')
      expect(yield* opens(yield* masterKeyOf(second), box)).toBeNull()
    }),
  )
})

describe('a master key', () => {
  it.effect('of the wrong size is refused by name, never by value', () =>
    Effect.gen(function* () {
      const short = randomBytes(16).toString('base64')
      for (const [current, previous, name] of [
        [short, undefined, 'HUB_MASTER_KEY'],
        [first, `${second},${short}`, 'HUB_PREVIOUS_MASTER_KEYS'],
      ] as const) {
        const exit = yield* Effect.exit(masterKeyOf(current, previous))
        const told = JSON.stringify(exit) + String(exit)
        expect(Exit.isFailure(exit)).toBe(true)
        expect(told).toContain(name)
        expect(told).not.toContain(short)
      }
    }),
  )
})
