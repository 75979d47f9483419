/**
 * Encryption at rest under the master key (`HUB_MASTER_KEY`), which no database stores.
 *
 * A ciphertext is `version (1) | nonce (12) | tag (16) | encrypted bytes`, AES-256-GCM. Under the
 * master key, `2 | key id (4)` precedes it. HKDF derives one key for each purpose. The additional
 * data (`aad`) binds a ciphertext to its row, so that it cannot be decrypted in another row.
 *
 * To change the master key: add the new key to `HUB_PREVIOUS_MASTER_KEYS` of every process. Then
 * exchange the two settings. Then wait until the log says that the previous key is no longer needed
 * (`reencryptColumn`).
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

/** What a derived key encrypts. These texts are part of the key derivation and must not change. */
export type EncryptionPurpose =
  | 'webhook-secret'
  | 'webhook-headers'
  | 'webhook-client-certificate'
  | 'personal-data'
  // A key in `command.sealing_keys`, and one in the topics of the payload keys.
  | 'sealing-key'
  | 'payload-key'
  | 'idempotent-answer'
  // A sign-in of hub staff in progress, and the id token of their session.
  | 'pending-login'
  | 'id-token'

/**
 * The ciphertext cannot be decrypted in this process. That does not prove that it is unreadable for
 * ever: another process may have its master key. Only a key that retention has destroyed proves it;
 * `PayloadEncryption.decrypt` returns `null` for that.
 */
export class DecryptionFailed extends Data.TaggedError('DecryptionFailed')<{
  readonly purpose: string
  /**
   * `unknown_master_key`: this process does not have its master key. `damaged`: the key is right, and the
   * bytes, the purpose or the row are not, so every process fails in the same way.
   */
  readonly reason: 'unknown_master_key' | 'damaged'
}> {}

/** Why a payload key cannot be used. `not_found`: it should exist, but nobody has it. */
export const PAYLOAD_KEY_PROBLEMS = ['unknown_master_key', 'damaged', 'not_found'] as const
export type PayloadKeyProblem = (typeof PAYLOAD_KEY_PROBLEMS)[number]

/** A payload key that was not destroyed cannot be used now. A later attempt may succeed. */
export class PayloadKeyUnusable extends Data.TaggedError('PayloadKeyUnusable')<{
  readonly keyId: string
  readonly reason: PayloadKeyProblem
}> {}

const VERSION = 1
/** The first byte of a ciphertext under a master key; the key id follows it. */
const WITH_KEY_ID = 2
const KEY_ID = 4
const PREFIX = 1 + KEY_ID
const NONCE = 12
const TAG = 16
const HEADER = 1 + NONCE + TAG

/** Nonces of one call, because a call costs as much as the cipher. Each is used once. */
const NONCES_PER_CALL = 256
let unusedNonces = Buffer.alloc(0)
const nextNonce = (): Buffer => {
  if (unusedNonces.length === 0) unusedNonces = randomBytes(NONCES_PER_CALL * NONCE)
  const nonce = unusedNonces.subarray(0, NONCE)
  unusedNonces = unusedNonces.subarray(NONCE)
  return nonce
}

/**
 * Encrypts with AES-256-GCM and a random nonce. 2^32 ciphertexts for one key are safe; no key here
 * comes close. A `KeyObject` is three times as fast as plain bytes.
 */
export const encryptWithKey = (key: KeyObject, aad: string, plain: Uint8Array): Buffer => {
  const nonce = nextNonce()
  const cipher = createCipheriv('aes-256-gcm', key, nonce)
  cipher.setAAD(Buffer.from(aad))
  const body = cipher.update(plain)
  const rest = cipher.final()
  return Buffer.concat([Buffer.of(VERSION), nonce, cipher.getAuthTag(), body, rest])
}

/** Returns `null` when the key, the additional data or the bytes do not match. */
export const decryptWithKey = (key: KeyObject, aad: string, ciphertext: Uint8Array): Buffer | null => {
  if (ciphertext.length < HEADER || ciphertext[0] !== VERSION) return null
  const decipher = createDecipheriv('aes-256-gcm', key, ciphertext.subarray(1, 1 + NONCE))
  decipher.setAAD(Buffer.from(aad))
  decipher.setAuthTag(ciphertext.subarray(1 + NONCE, HEADER))
  try {
    return Buffer.concat([decipher.update(ciphertext.subarray(HEADER)), decipher.final()])
  } catch {
    return null
  }
}

/** A master key and the keys derived from it. */
class Keyring {
  /** The first bytes of every ciphertext under this master key. */
  readonly prefix: Buffer
  /** Proves that two processes have the same key. It is a derived key, which nothing else uses. */
  readonly checkValue: string
  readonly #master: Buffer
  readonly #keys = new Map<EncryptionPurpose, KeyObject>()

  constructor(master: Buffer) {
    this.#master = master
    // The key id is a truncated derived key, which reveals nothing about the master key.
    this.prefix = Buffer.concat([Buffer.of(WITH_KEY_ID), this.#derive('key-id').subarray(0, KEY_ID)])
    this.checkValue = Buffer.from(this.#derive('check-value')).toString('hex')
  }

  keyOf(purpose: EncryptionPurpose): KeyObject {
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

export class MasterKeyEncryption extends Context.Service<
  MasterKeyEncryption,
  {
    /** Encrypts under the current key. `aad`: the public id of the owning object. */
    readonly encrypt: (purpose: EncryptionPurpose, aad: string, plain: Uint8Array) => Buffer
    readonly decrypt: (
      purpose: EncryptionPurpose,
      aad: string,
      ciphertext: Uint8Array,
    ) => Effect.Effect<Buffer, DecryptionFailed>
    /** The first bytes of every ciphertext under the current master key. */
    readonly keyPrefix: Uint8Array
    /** The check values and the first bytes of the ciphertexts of all configured keys, the current one first. */
    readonly keys: ReadonlyArray<{ readonly checkValue: string; readonly prefix: Uint8Array }>
    /** Whether previous master keys are configured, so that ciphertexts under them may exist. */
    readonly hasPreviousKeys: boolean
  }
>()('@hub/store/MasterKeyEncryption') {
  /** Settings: `masterKey`, `previousMasterKeys`. */
  static readonly layer: Layer.Layer<MasterKeyEncryption, Config.ConfigError> = Layer.effect(
    MasterKeyEncryption,
    Effect.gen(function* () {
      const current = new Keyring(Redacted.value(yield* settings.masterKey.config))
      const others = yield* settings.previousMasterKeys.config
      const previous = (others === null ? [] : Redacted.value(others)).map((master) => new Keyring(master))
      const keyrings = [current, ...previous]

      const decrypt = (
        purpose: EncryptionPurpose,
        aad: string,
        ciphertext: Uint8Array,
      ): Buffer | DecryptionFailed['reason'] => {
        if (ciphertext[0] === WITH_KEY_ID) {
          const keyring = keyrings.find(({ prefix }) => prefix.equals(ciphertext.subarray(0, PREFIX)))
          if (keyring === undefined) return 'unknown_master_key'
          return decryptWithKey(keyring.keyOf(purpose), aad, ciphertext.subarray(PREFIX)) ?? 'damaged'
        }
        // Ciphertexts of the first version have no key id: try every key.
        for (const keyring of keyrings) {
          const plain = decryptWithKey(keyring.keyOf(purpose), aad, ciphertext)
          if (plain !== null) return plain
        }
        return 'unknown_master_key'
      }

      return {
        encrypt: (purpose, aad, plain) =>
          Buffer.concat([current.prefix, encryptWithKey(current.keyOf(purpose), aad, plain)]),
        decrypt: (purpose, aad, ciphertext) => {
          const plain = decrypt(purpose, aad, ciphertext)
          return typeof plain === 'string'
            ? Effect.fail(new DecryptionFailed({ purpose, reason: plain }))
            : Effect.succeed(plain)
        },
        keyPrefix: current.prefix,
        keys: keyrings,
        hasPreviousKeys: previous.length > 0,
      }
    }),
  )
}
