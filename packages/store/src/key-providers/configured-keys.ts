/**
 * The provider with master keys of the environment or of files: `HUB_MASTER_KEY` and `HUB_PREVIOUS_MASTER_KEYS`.
 *
 * A ciphertext is `2 | key id (4) | AES-256-GCM`. Those of the first version have no prefix.
 */
import { Effect, Result } from 'effect'
import { decryptWithKey, encryptWithKey } from '../aes-gcm.ts'
import { DerivedKeys } from './derived-keys.ts'
import {
  DecryptionFailed,
  type DecryptionProblem,
  type EncryptionPurpose,
  type KeyProvider,
  PREFIX_BYTES,
  type UsableKey,
} from './key-provider.port.ts'

/** The first byte of a ciphertext; the key id follows it. */
const WITH_KEY_ID = 2
/** The first byte of a ciphertext without a key id. */
const WITHOUT_KEY_ID = 1

/** A master key. */
class MasterKey implements UsableKey {
  readonly keys: DerivedKeys
  readonly prefix: Buffer
  readonly checkValue: string
  readonly wrappedCheckKey = null

  constructor(master: Uint8Array) {
    this.keys = new DerivedKeys(master)
    // The key id is a truncated derived key, which reveals nothing about the master key.
    const keyId = this.keys.derive('key-id').subarray(0, PREFIX_BYTES - 1)
    this.prefix = Buffer.concat([Buffer.of(WITH_KEY_ID), keyId])
    this.checkValue = this.keys.checkValue
  }

  made = (prefix: Uint8Array): boolean => this.prefix.equals(prefix.subarray(0, PREFIX_BYTES))
}

/** `masters`: 32 bytes each. The first one encrypts; if there is none, nothing can be encrypted. */
export const makeConfiguredKeys = (masters: ReadonlyArray<Uint8Array>): KeyProvider => {
  const all = masters.map((master) => new MasterKey(master))
  const [current] = all

  const encrypt = (purpose: EncryptionPurpose, aad: string, plain: Uint8Array): Buffer => {
    if (current === undefined) throw new Error('There is no master key in the environment')
    return Buffer.concat([current.prefix, encryptWithKey(current.keys.keyOf(purpose), aad, plain)])
  }

  const decrypt = (
    purpose: EncryptionPurpose,
    aad: string,
    ciphertext: Uint8Array,
  ): Result.Result<Buffer, DecryptionProblem> => {
    if (ciphertext[0] === WITH_KEY_ID) {
      const master = all.find(({ made }) => made(ciphertext))
      if (master === undefined) return Result.fail('unknown_master_key')
      const plain = decryptWithKey(master.keys.keyOf(purpose), aad, ciphertext.subarray(PREFIX_BYTES))
      return plain === null ? Result.fail('damaged') : Result.succeed(plain)
    }
    // Ciphertexts of the first version have no key id: try every key.
    for (const { keys } of all) {
      const plain = decryptWithKey(keys.keyOf(purpose), aad, ciphertext)
      if (plain !== null) return Result.succeed(plain)
    }
    return Result.fail('unknown_master_key')
  }

  return {
    made: ([first]) => first === WITH_KEY_ID || first === WITHOUT_KEY_ID,
    ready: Effect.void,
    encrypt,
    decrypt: (purpose, aad, ciphertext) =>
      Effect.mapError(
        Effect.fromResult(decrypt(purpose, aad, ciphertext)),
        (reason) => new DecryptionFailed({ purpose, reason }),
      ),
    wrap: (purpose, keys) => Effect.sync(() => keys.map(({ aad, bytes }) => encrypt(purpose, aad, bytes))),
    unwrap: (purpose, wrapped) =>
      Effect.sync(() => wrapped.map(({ aad, bytes }) => decrypt(purpose, aad, bytes))),
    currentPrefix: Effect.sync(() => current?.prefix ?? Buffer.alloc(0)),
    identify: () => Effect.succeed(all),
  }
}
