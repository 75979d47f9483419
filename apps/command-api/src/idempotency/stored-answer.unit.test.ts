import { randomBytes } from 'node:crypto'
import { describe, expect, it } from '@effect/vitest'
import { MasterKeyEncryption } from '@hub/store'
import { ConfigProvider, Effect, Layer } from 'effect'
import { decryptAnswer, encryptAnswer } from './stored-answer.ts'

const layer = MasterKeyEncryption.layer.pipe(
  Layer.provide(
    ConfigProvider.layer(ConfigProvider.fromUnknown({ HUB_MASTER_KEY: randomBytes(32).toString('base64') })),
  ),
)

const owner = { accountUuid: '00000000-0000-7000-8000-000000000001', mode: 'live', key: 'a key' } as const
const other = { ...owner, key: 'another key' }

/** An answer to a batch of this many messages. */
const answerOf = (messages: number): string =>
  JSON.stringify(
    Array.from({ length: messages }, (_, index) => ({
      index,
      result: 'accepted',
      message: { id: `msg_${randomBytes(13).toString('hex')}`, status: 'accepted', template: 'order_ready' },
    })),
  )

describe('a stored answer', () => {
  it.effect.each<readonly [string, number]>([
    ['short', 1],
    ['long', 1000],
  ])('that is %s is decrypted to the same bytes, under its own key only', ([, messages]) =>
    Effect.gen(function* () {
      const encryption = yield* MasterKeyEncryption
      const text = answerOf(messages)
      for (const body of [text, Buffer.from(text)]) {
        const stored = encryptAnswer(encryption, owner, body)
        expect(stored.includes('msg_')).toBe(false)
        expect((yield* decryptAnswer(encryption, owner, stored)).toString()).toBe(text)
        expect((yield* Effect.flip(decryptAnswer(encryption, other, stored)))._tag).toBe('DecryptionFailed')
      }
    }).pipe(Effect.provide(layer)),
  )

  it.effect('is compressed if it is long, and a program without compression cannot read it', () =>
    Effect.gen(function* () {
      const encryption = yield* MasterKeyEncryption
      const text = answerOf(1000)
      const stored = encryptAnswer(encryption, owner, text)
      expect(stored.length).toBeLessThan(text.length / 3)
      const withoutCompression = encryption.decrypt(
        'idempotent-answer',
        `${owner.accountUuid} ${owner.mode} ${owner.key}`,
        stored,
      )
      expect((yield* Effect.flip(withoutCompression))._tag).toBe('DecryptionFailed')
    }).pipe(Effect.provide(layer)),
  )

  it.effect('of a program without compression is still read', () =>
    Effect.gen(function* () {
      const encryption = yield* MasterKeyEncryption
      const aad = `${owner.accountUuid} ${owner.mode} ${owner.key}`
      const text = answerOf(1000)
      const stored = encryption.encrypt('idempotent-answer', aad, Buffer.from(text))
      expect((yield* decryptAnswer(encryption, owner, stored)).toString()).toBe(text)
    }).pipe(Effect.provide(layer)),
  )
})
