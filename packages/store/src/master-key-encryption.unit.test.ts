import { createSecretKey, hkdfSync, randomBytes } from 'node:crypto'
import { describe, expect, it } from '@effect/vitest'
import { ConfigProvider, Effect, Exit, Layer } from 'effect'
import { encryptWithKey } from './aes-gcm.ts'
import { MasterKeyEncryption } from './master-key-encryption.ts'

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
const decrypted = (masterKey: MasterKeyEncryption['Service'], ciphertext: Uint8Array, aad = 'we_1') =>
  Effect.map(Effect.exit(masterKey.decrypt('webhook-secret', aad, ciphertext)), (exit) =>
    Exit.isSuccess(exit) ? exit.value.toString() : null,
  )

describe('a ciphertext', () => {
  it.effect('names its master key, and can be decrypted for its owner and purpose only', () =>
    Effect.gen(function* () {
      const masterKey = yield* masterKeyOf(first)
      const ciphertext = masterKey.encrypt('webhook-secret', 'we_1', plain)
      expect(ciphertext.subarray(0, 5)).toEqual(yield* masterKey.currentPrefix)
      expect(ciphertext.includes(plain)).toBe(false)
      expect(yield* decrypted(masterKey, ciphertext)).toBe('whsec_secret')
      expect(yield* decrypted(masterKey, ciphertext, 'we_2')).toBeNull()
      expect(yield* Effect.exit(masterKey.decrypt('personal-data', 'we_1', ciphertext))).toMatchObject({
        _tag: 'Failure',
      })
      for (let at = 0; at < ciphertext.length; at++) {
        const damaged = Buffer.from(ciphertext)
        damaged[at]! ^= 1
        expect(yield* decrypted(masterKey, damaged), String(at)).toBeNull()
      }
      expect(yield* decrypted(masterKey, Buffer.alloc(0))).toBeNull()
      expect(yield* decrypted(masterKey, ciphertext.subarray(0, 7))).toBeNull()
    }),
  )

  it.effect('can be decrypted under a previous master key; a new one is under the current key', () =>
    Effect.gen(function* () {
      const old = yield* masterKeyOf(first)
      const ciphertext = old.encrypt('webhook-secret', 'we_1', plain)
      expect(yield* decrypted(yield* masterKeyOf(second), ciphertext)).toBeNull()
      const masterKey = yield* masterKeyOf(second, `${third}, ${first}`)
      expect(yield* decrypted(masterKey, ciphertext)).toBe('whsec_secret')
      expect([old.olderCiphertexts, masterKey.olderCiphertexts]).toEqual(['never', 'now'])
      const fresh = masterKey.encrypt('webhook-secret', 'we_1', plain)
      expect(fresh.subarray(0, 5)).not.toEqual(ciphertext.subarray(0, 5))
      expect(yield* decrypted(yield* masterKeyOf(second), fresh)).toBe('whsec_secret')
      // Before the exchange, processes with the new key among the previous keys can decrypt it.
      expect(yield* decrypted(yield* masterKeyOf(first, second), fresh)).toBe('whsec_secret')
    }),
  )

  it.effect('without a key id can be decrypted under any configured key', () =>
    Effect.gen(function* () {
      const derived = hkdfSync(
        'sha256',
        Buffer.from(first, 'base64'),
        Buffer.alloc(0),
        'sms-delivery-hub/webhook-secret',
        32,
      )
      const ciphertext = encryptWithKey(createSecretKey(new Uint8Array(derived)), 'we_1', plain)
      expect(yield* decrypted(yield* masterKeyOf(first), ciphertext)).toBe('whsec_secret')
      expect(yield* decrypted(yield* masterKeyOf(second, first), ciphertext)).toBe('whsec_secret')
      expect(yield* decrypted(yield* masterKeyOf(second), ciphertext)).toBeNull()
    }),
  )
})

describe('a master key', () => {
  it.effect('of the wrong size is refused with its name, and never with its value', () =>
    Effect.gen(function* () {
      const short = randomBytes(16).toString('base64')
      for (const [current, previous, name] of [
        [short, undefined, 'HUB_MASTER_KEY'],
        [first, `${second},${short}`, 'HUB_PREVIOUS_MASTER_KEYS'],
      ] as const) {
        const exit = yield* Effect.exit(masterKeyOf(current, previous))
        const message = JSON.stringify(exit) + String(exit)
        expect(Exit.isFailure(exit)).toBe(true)
        expect(message).toContain(name)
        expect(message).not.toContain(short)
      }
    }),
  )
})
