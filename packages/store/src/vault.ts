/**
 * Encryption at rest under the master key, which lives outside PostgreSQL and Kafka (`HUB_MASTER_KEY`).
 *
 * A box is `version (1) | nonce (12) | tag (16) | ciphertext`, AES-256-GCM. Each purpose has a key of its own,
 * derived from the master key by HKDF, and each box is bound to what it belongs to by additional data, so that a
 * box moved to another row does not open.
 */
import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from 'node:crypto'
import { Config, ConfigProvider, Context, Data, Effect, Layer, Redacted } from 'effect'

/** What a key is for. */
export type Purpose = 'webhook-secret' | 'personal-data' | 'sealing-key' | 'idempotent-answer'

/** The box was made under another key, for something else, or is damaged. */
export class BoxUnreadable extends Data.TaggedError('BoxUnreadable')<{ readonly purpose: string }> {}

const VERSION = 1
const NONCE = 12
const TAG = 16
const HEADER = 1 + NONCE + TAG

/**
 * AES-256-GCM with a random nonce; 2^32 boxes a key are safe, and no key here comes near. The key is an object of
 * Node's: with bare bytes every box costs three times as much.
 */
export const sealBox = (key: KeyObject, aad: string, plain: Uint8Array): Buffer => {
  const nonce = randomBytes(NONCE)
  const cipher = createCipheriv('aes-256-gcm', key, nonce)
  cipher.setAAD(Buffer.from(aad))
  const body = cipher.update(plain)
  const rest = cipher.final()
  return Buffer.concat([Buffer.of(VERSION), nonce, cipher.getAuthTag(), body, rest])
}

/** `null` when the box does not open. */
export const openBox = (key: KeyObject, aad: string, box: Uint8Array): Buffer | null => {
  if (box.length < HEADER || box[0] !== VERSION) return null
  const decipher = createDecipheriv('aes-256-gcm', key, box.subarray(1, 1 + NONCE))
  decipher.setAAD(Buffer.from(aad))
  decipher.setAuthTag(box.subarray(1 + NONCE, HEADER))
  try {
    return Buffer.concat([decipher.update(box.subarray(HEADER)), decipher.final()])
  } catch {
    return null
  }
}

export class Vault extends Context.Service<
  Vault,
  {
    /** `aad`: the public id of what the box belongs to. */
    readonly seal: (purpose: Purpose, aad: string, plain: Uint8Array) => Buffer
    readonly open: (purpose: Purpose, aad: string, box: Uint8Array) => Effect.Effect<Buffer, BoxUnreadable>
  }
>()('@hub/store/Vault') {
  /** Configuration: `HUB_MASTER_KEY`, base64 of 32 bytes. */
  static readonly layer: Layer.Layer<Vault, Config.ConfigError> = Layer.effect(
    Vault,
    Effect.gen(function* () {
      const master = yield* Config.Redacted('HUB_MASTER_KEY').pipe(
        Config.mapEffect((value) => {
          const bytes = Buffer.from(Redacted.value(value), 'base64')
          return bytes.length === 32
            ? Effect.succeed(bytes)
            : Effect.fail(
                new Config.ConfigError(
                  new ConfigProvider.SourceError({ message: 'HUB_MASTER_KEY must be base64 of 32 bytes' }),
                ),
              )
        }),
      )
      const keys = new Map<Purpose, KeyObject>()
      const keyOf = (purpose: Purpose): KeyObject => {
        let key = keys.get(purpose)
        if (key === undefined) {
          key = createSecretKey(
            new Uint8Array(hkdfSync('sha256', master, Buffer.alloc(0), `sms-delivery-hub/${purpose}`, 32)),
          )
          keys.set(purpose, key)
        }
        return key
      }
      return {
        seal: (purpose, aad, plain) => sealBox(keyOf(purpose), aad, plain),
        open: (purpose, aad, box) => {
          const plain = openBox(keyOf(purpose), aad, box)
          return plain === null ? Effect.fail(new BoxUnreadable({ purpose })) : Effect.succeed(plain)
        },
      }
    }),
  )
}
