/**
 * Encryption at rest under the master key, which lives outside PostgreSQL and Kafka (`HUB_MASTER_KEY`).
 *
 * A box is `version (1) | nonce (12) | tag (16) | ciphertext`, AES-256-GCM. Each purpose has a key of its own,
 * derived from the master key by HKDF, and each box is bound to what it belongs to by additional data, so that a
 * box moved to another row does not open. What the vault makes has in front of it which master key it is under:
 * `2 | key id (4) | box`.
 *
 * To change the master key: name the new one in `HUB_PREVIOUS_MASTER_KEYS` of every process, so that all of them can open what
 * the first one writes; then exchange the two; then wait until the log says that nothing is left under the old one (`resealBoxes`).
 */
import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from 'node:crypto'
import { settings } from '@hub/config'
import { type Config, Context, Data, Effect, Layer, Redacted } from 'effect'

/** What a key is for. */
export type Purpose = 'webhook-secret' | 'personal-data' | 'sealing-key' | 'idempotent-answer'

/** The box was made under another key, for something else, or is damaged. */
export class BoxUnreadable extends Data.TaggedError('BoxUnreadable')<{ readonly purpose: string }> {}

const VERSION = 1
/** In front of a box of the vault. */
const UNDER_KEY = 2
const KEY_ID = 4
const PREFIX = 1 + KEY_ID
const NONCE = 12
const TAG = 16
const HEADER = 1 + NONCE + TAG

/** Nonces are drawn so many at a time: each draw of its own costs as much as the cipher. None is used twice. */
const NONCES_DRAWN = 256
let drawn = Buffer.alloc(0)
const freshNonce = (): Buffer => {
  if (drawn.length === 0) drawn = randomBytes(NONCES_DRAWN * NONCE)
  const nonce = drawn.subarray(0, NONCE)
  drawn = drawn.subarray(NONCE)
  return nonce
}

/**
 * AES-256-GCM with a random nonce; 2^32 boxes a key are safe, and no key here comes near. The key is an object of
 * Node's: with bare bytes every box costs three times as much.
 */
export const sealBox = (key: KeyObject, aad: string, plain: Uint8Array): Buffer => {
  const nonce = freshNonce()
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

/** A master key, and the keys derived from it. */
class Keyring {
  /** What boxes under it begin with. */
  readonly prefix: Buffer
  readonly #master: Buffer
  readonly #keys = new Map<Purpose, KeyObject>()

  constructor(master: Buffer) {
    this.#master = master
    // A key of its own, cut short: it names the master key and says nothing about it.
    this.prefix = Buffer.concat([Buffer.of(UNDER_KEY), this.#derive('key-id').subarray(0, KEY_ID)])
  }

  keyOf(purpose: Purpose): KeyObject {
    let key = this.#keys.get(purpose)
    if (key === undefined) {
      key = createSecretKey(this.#derive(purpose))
      this.#keys.set(purpose, key)
    }
    return key
  }

  #derive(purpose: string): Uint8Array {
    return new Uint8Array(
      hkdfSync('sha256', this.#master, Buffer.alloc(0), `sms-delivery-hub/${purpose}`, 32),
    )
  }
}

export class Vault extends Context.Service<
  Vault,
  {
    /** `aad`: the public id of what the box belongs to. */
    readonly seal: (purpose: Purpose, aad: string, plain: Uint8Array) => Buffer
    readonly open: (purpose: Purpose, aad: string, box: Uint8Array) => Effect.Effect<Buffer, BoxUnreadable>
    /** What every box under the current master key begins with. */
    readonly prefix: Uint8Array
    /** There are previous master keys, so there may be boxes under them. */
    readonly hasPrevious: boolean
  }
>()('@hub/store/Vault') {
  /** Settings: `masterKey`, `previousMasterKeys`. */
  static readonly layer: Layer.Layer<Vault, Config.ConfigError> = Layer.effect(
    Vault,
    Effect.gen(function* () {
      const current = new Keyring(Redacted.value(yield* settings.masterKey.config))
      const others = yield* settings.previousMasterKeys.config
      const previous = (others === null ? [] : Redacted.value(others)).map((master) => new Keyring(master))
      const keyrings = [current, ...previous]

      const openUnder = (purpose: Purpose, aad: string, box: Uint8Array): Buffer | null => {
        if (box[0] === UNDER_KEY) {
          const keyring = keyrings.find(({ prefix }) => prefix.equals(box.subarray(0, PREFIX)))
          return keyring === undefined ? null : openBox(keyring.keyOf(purpose), aad, box.subarray(PREFIX))
        }
        // Made before boxes said which key they are under.
        for (const keyring of keyrings) {
          const plain = openBox(keyring.keyOf(purpose), aad, box)
          if (plain !== null) return plain
        }
        return null
      }

      return {
        seal: (purpose, aad, plain) =>
          Buffer.concat([current.prefix, sealBox(current.keyOf(purpose), aad, plain)]),
        open: (purpose, aad, box) => {
          const plain = openUnder(purpose, aad, box)
          return plain === null ? Effect.fail(new BoxUnreadable({ purpose })) : Effect.succeed(plain)
        },
        prefix: current.prefix,
        hasPrevious: previous.length > 0,
      }
    }),
  )
}
